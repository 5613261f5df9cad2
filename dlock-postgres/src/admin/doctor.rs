//! Checks a server of PostgreSQL: version, schema, permissions, durability, connections, transactions and tables.

mod load;
#[cfg(test)]
mod tests;

use dlock_admin::{
    Denied, ServerReport,
    doctor::{self, Facts, Finding, Judge, LockRules, Topic},
};

/// The oldest version that has the functions dlock needs.
const OLDEST: u32 = 140_000;

/// Judges a server by its report.
pub(super) struct PostgresJudge;

impl Judge for PostgresJudge {
    fn together(&self, facts: &Facts) -> Vec<Finding> {
        let hides_locks = |it: &ServerReport| it.is("reads_tables", "false");
        let rules = LockRules {
            are_hidden: facts.servers.iter().any(hides_locks),
            ..LockRules::default()
        };
        let mut findings = doctor::clocks(facts);
        findings.extend(doctor::locks(facts, rules));
        findings
    }

    fn server(&self, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
        let mut findings = vec![version(server), role(server)];
        findings.extend(schema(server));
        findings.extend(owner(server));
        findings.extend(permissions(server));
        findings.extend(durability(server));
        // Locks are not acquired at a standby.
        let latency = doctor::latency(facts, server);
        findings.extend(latency.filter(|_| !server.is("in_recovery", "on")));
        findings.push(load::connections(server));
        findings.extend(load::pooler(server));
        findings.extend(load::transactions(facts, server));
        findings.extend(load::tables(server));
        findings
    }
}

fn version(server: &ServerReport) -> Finding {
    let shown = server.field("server_version").unwrap_or("unknown");
    match server.number::<u32>("server_version_num") {
        None => Finding::unknown(Topic::Version, "the version of the server is unknown"),
        Some(number) if number < OLDEST => {
            Finding::broken(Topic::Version, format!("PostgreSQL {shown} is too old"))
                .why("the functions of dlock need PostgreSQL 14")
                .advice("use PostgreSQL 14 or later")
        }
        Some(_) => Finding::ok(Topic::Version, format!("PostgreSQL {shown}")),
    }
}

fn role(server: &ServerReport) -> Finding {
    if server.is("in_recovery", "on") {
        return Finding::broken(Topic::Role, "this is a standby, which accepts no locks")
            .why("every lock is a write, and a standby refuses writes")
            .advice("use the address of the primary server");
    }
    Finding::ok(Topic::Role, "primary")
}

fn schema(server: &ServerReport) -> Option<Finding> {
    let name = server.field("schema").unwrap_or("dlock");
    if server.is("has_schema", "false") {
        let what = format!("the tables of dlock are not in schema `{name}`");
        return Some(Finding::broken(Topic::Schema, what).advice(
            "run `dlock postgres migrate`, or name the right schema with `--namespace` or `?schema=` in the URL",
        ));
    }
    // A user who may not read it has a finding about that.
    let version = server.field("schema_version")?;
    let needed = server.field("needed_version")?;
    let what = format!("schema `{name}` has version {version}");
    if version == needed {
        let behind = server.field("processes_behind").unwrap_or_default();
        if behind.is_empty() {
            return Some(Finding::ok(Topic::Schema, what));
        }
        let what = format!("{what}, and these processes know an earlier one only: {behind}");
        return Some(
            Finding::note(Topic::Schema, what)
                .why("they go on with this version, and perhaps not with the next one")
                .advice("update them before the schema is upgraded again"),
        );
    }
    let number = |text: &str| text.parse::<u32>().unwrap_or_default();
    let what = format!("{what}, and this program needs {needed}");
    let oldest = server.field("oldest_version").map_or(0, number);
    Some(if (oldest..number(needed)).contains(&number(version)) {
        Finding::broken(Topic::Schema, what)
            .why("processes with locks work with both; commands that list locks need this one")
            .advice("run `dlock postgres migrate`, which upgrades it while processes run")
    } else {
        Finding::broken(Topic::Schema, what)
            .advice("use the version of dlock that has created or upgraded it")
    })
}

fn owner(server: &ServerReport) -> Option<Finding> {
    let name = server.field("schema").unwrap_or("dlock");
    if let Some(reason) = server.field("distrust") {
        let what =
            format!("nothing in schema `{name}` may be called: whose it is makes that dangerous");
        return Some(Finding::broken(Topic::Schema, what).advice(reason));
    }
    if !server.is("owner_is_superuser", "true") {
        return None;
    }
    let owner = server.field("owner").unwrap_or("postgres");
    let what = format!("schema `{name}` belongs to a superuser, `{owner}`");
    Some(
        Finding::note(Topic::Schema, what)
            .why("its functions run with the permissions of their owner, and need none but those for its tables")
            .advice("let a role without login own it, as the page about PostgreSQL shows"),
    )
}

fn permissions(server: &ServerReport) -> Vec<Finding> {
    let (required, useful): (Vec<_>, Vec<_>) = server.denied.iter().partition(|it| it.is_required);
    let mut findings = Vec::new();
    if !required.is_empty() {
        let why = format!(
            "{}. Users that only inspect locks do not need lock permissions: suppress this with --accept permissions",
            purposes(&required)
        );
        findings.push(
            Finding::broken(
                Topic::Permissions,
                "the user cannot lock without some permissions",
            )
            .why(why)
            .advice(rules(&required)),
        );
    }
    if !useful.is_empty() {
        findings.push(
            Finding::note(
                Topic::Permissions,
                "the user lacks permissions of operators",
            )
            .why(format!(
                "{}. Services do not need them; `dlock postgres migrate --operator-role` grants them",
                purposes(&useful)
            ))
            .advice(rules(&useful)),
        );
    }
    if findings.is_empty() && server.is("has_schema", "true") {
        let what = "the user has all permissions that locks and operators need";
        findings.push(Finding::ok(Topic::Permissions, what));
    }
    findings
}

fn purposes(missing: &[&Denied]) -> String {
    let mut purposes: Vec<_> = missing.iter().map(|it| it.purpose.as_str()).collect();
    purposes.dedup();
    format!("they are needed for: {}", purposes.join(", "))
}

fn rules(missing: &[&Denied]) -> String {
    let rules: Vec<_> = missing.iter().map(|it| it.rule.as_str()).collect();
    rules.join(" ")
}

fn durability(server: &ServerReport) -> Vec<Finding> {
    const LOST: &str = "after a crash of the machine the database can be damaged or lose commits: two clients can then \
                        hold the same key";
    let mut findings = Vec::new();
    for name in ["fsync", "full_page_writes"] {
        if server.is(name, "off") {
            findings.push(
                Finding::risk(Topic::Persistence, format!("`{name}` is off"))
                    .why(LOST)
                    .advice(format!("set `{name} = on` in postgresql.conf")),
            );
        }
    }
    let schema = server.field("schema").unwrap_or("dlock");
    // It waits for transactions that have fenced a lease, and all requests wait behind it.
    let calm = "at a time without open transactions";
    for (table, lost) in [
        (
            "turn",
            "a fencing token can then be smaller than an earlier one",
        ),
        ("holder", "two clients can then hold the same key"),
    ] {
        if server.is(&format!("{table}_unlogged"), "true") {
            findings.push(
                Finding::risk(Topic::Persistence, format!("table `{table}` is unlogged"))
                    .why(format!(
                        "a crash empties it, and no standby has its rows: {lost}"
                    ))
                    .advice(format!(
                        "ALTER TABLE \"{schema}\".{table} SET LOGGED, {calm}"
                    )),
            );
        }
    }
    if server.is("waiter_unlogged", "false") {
        findings.push(
            Finding::risk(Topic::Persistence, "table `waiter` is logged")
                .why("after a failover that loses the last grants, a waiter can get a fencing token that is smaller than theirs")
                .advice(format!("ALTER TABLE \"{schema}\".waiter SET UNLOGGED, {calm}")),
        );
    }
    let has_standbys = server
        .field("synchronous_standby_names")
        .is_some_and(|it| !it.is_empty());
    match server.field("synchronous_commit") {
        Some("off") => findings.push(
            Finding::note(Topic::Persistence, "`synchronous_commit` is off")
                .why("a commit that gives a lease is made durable nevertheless; commits of your own transactions are not"),
        ),
        Some("local") if has_standbys => findings.push(
            Finding::risk(
                Topic::Persistence,
                "`synchronous_commit` is `local`, although there are synchronous standbys",
            )
            .why("a failover can lose the last leases: a second client can then acquire a key that is held")
            .advice("set `synchronous_commit = on`"),
        ),
        _ => {}
    }
    if findings.is_empty() {
        let what = "`fsync`, `full_page_writes` and `synchronous_commit` keep commits";
        findings.push(Finding::ok(Topic::Persistence, what));
    }
    findings
}
