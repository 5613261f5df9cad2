//! Checks members of etcd: version, leader, alarms, database, permissions and latency.

#[cfg(test)]
mod tests;

use dlock_admin::{
    ServerReport,
    doctor::{self, EnsembleMember, Facts, Finding, Judge, LockRules, Topic},
};

/// The part of the quota from which a database is nearly full.
const NEARLY_FULL: f64 = 0.8;

/// The quota of a member without `--quota-backend-bytes`.
const USUAL_QUOTA: u64 = 2 * 1024 * 1024 * 1024;

/// Judges members by their reports.
pub(super) struct EtcdJudge;

impl Judge for EtcdJudge {
    fn layout(&self) -> Option<&'static str> {
        Some("ensemble")
    }

    fn is_available(&self, facts: &Facts) -> bool {
        facts.servers.iter().any(|it| member(it).may_decide())
    }

    fn together(&self, facts: &Facts) -> Vec<Finding> {
        let members: Vec<_> = facts.servers.iter().map(member).collect();
        let mut findings = doctor::ensemble(facts, &members);
        // No lease depends on a clock of etcd.
        findings.extend(doctor::locks(facts, LockRules::default()));
        findings
    }

    fn server(&self, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
        let mut findings = version(server);
        findings.push(role(server));
        findings.extend(proxy(server));
        findings.extend(alarms(server));
        findings.push(database(server));
        let reads = server.is("reads_locks", "true");
        findings.extend(doctor::permissions_on(server, "keys", reads));
        findings.extend(doctor::latency(facts, server));
        findings
    }
}

fn member(server: &ServerReport) -> EnsembleMember<'_> {
    let mut member = EnsembleMember::of(server);
    member.has_leader = server.field("has_leader").map(|it| it == "true");
    member.id = server.field("member_id");
    member.ensemble = server.field("cluster_id");
    member.members = server.field("members");
    member
}

fn version(server: &ServerReport) -> Vec<Finding> {
    let shown = server.field("etcd_version").unwrap_or("unknown");
    let what = format!("etcd {shown}");
    if server.is("is_too_old", "true") {
        let finding = Finding::broken(Topic::Version, format!("{what} is too old"));
        return vec![finding.advice("use etcd 3.5.13 or later; dlock needs 3.4")];
    }
    let mut findings = Vec::new();
    if let Some(fixed) = server.field("leases_fixed_in") {
        let what = format!("{what} can revoke leases that are alive, and lose events of watches");
        findings.push(
            Finding::risk(Topic::Version, what)
                .why(
                    "after a pause of the leader, another client can acquire a lock that is held; a lost event delays a \
                     waiter by up to 1.25 s",
                )
                .advice(format!("update to {fixed}")),
        );
    }
    if server.is("is_torn_by_kills", "true") {
        let what = format!(
            "a member with {what} that crashes can come back with other data than the rest"
        );
        findings.push(
            Finding::risk(Topic::Persistence, what)
                .why("then the members disagree about who holds a lock")
                .advice("update to 3.5.13 or later"),
        );
    }
    if findings.is_empty() {
        findings.push(Finding::ok(Topic::Version, what));
    }
    findings
}

fn proxy(server: &ServerReport) -> Option<Finding> {
    let what = "this is etcd's gRPC proxy, and not a member";
    server.is("is_proxied", "true").then(|| {
        Finding::risk(Topic::Role, what)
            .why("locks keep their promises through it, and take many times as long")
            .advice("name the members in the URL")
    })
}

fn role(server: &ServerReport) -> Finding {
    if server.is("is_learner", "true") {
        return Finding::broken(Topic::Role, "this is a learner, which accepts no locks")
            .why("a learner has no vote, and refuses the requests of clients")
            .advice("promote it with `etcdctl member promote`, or remove it from the URL");
    }
    if server.is("has_leader", "false") {
        return Finding::broken(Topic::Role, "the member has no leader")
            .why("each lock needs the votes of a majority: locks are `Unavailable`")
            .advice("start the other members, and check the network between them");
    }
    let is_leader = server.is("is_leader", "true");
    Finding::ok(Topic::Role, if is_leader { "leader" } else { "follower" })
}

fn alarms(server: &ServerReport) -> Vec<Finding> {
    let told = server.field("alarms").unwrap_or_default();
    let has = |name: &str| told.split(',').any(|alarm| alarm == name);
    let mut findings = Vec::new();
    if has("NOSPACE") {
        let revision = server.field("revision").unwrap_or("REVISION");
        let advice = format!(
            "etcdctl compact {revision} && etcdctl defrag --cluster && etcdctl alarm disarm; if the data in use is near the \
             quota, raise `--quota-backend-bytes` first"
        );
        findings.push(
            Finding::broken(Topic::Database, "the database is full: alarm NOSPACE")
                .why("new locks are refused, and versions such as 3.5.1 also refuse renewals and releases")
                .advice(advice),
        );
    }
    if has("CORRUPT") {
        findings.push(
            Finding::broken(
                Topic::Persistence,
                "the members disagree about their data: alarm CORRUPT",
            )
            .why("two clients can hold the same lock, each by another member")
            .advice(
                "find the wrong member in the logs, remove it, and add it again without its data",
            ),
        );
    }
    findings
}

fn database(server: &ServerReport) -> Finding {
    let Some(size) = server.number::<u64>("db_size") else {
        return Finding::unknown(
            Topic::Database,
            "the size of the database could not be read",
        );
    };
    let used = server.number::<u64>("db_size_in_use").unwrap_or(size);
    let quota = server.number::<u64>("db_size_quota");
    let of = match quota {
        Some(quota) => format!("of a quota of {}", shown(quota)),
        None => "and the quota could not be read".to_owned(),
    };
    let what = format!("{}, {of}; {} in use", shown(size), shown(used));
    let limit = quota.unwrap_or(USUAL_QUOTA);
    if !is_near(size, limit) {
        return Finding::ok(Topic::Database, what);
    }
    let why = "when it is full, new locks are refused";
    let advice = if is_near(used, limit) {
        "raise `--quota-backend-bytes`, or compact: `--auto-compaction-mode=periodic --auto-compaction-retention=1h`"
    } else {
        "etcdctl defrag --cluster"
    };
    match quota {
        Some(_) => Finding::risk(Topic::Database, what).why(why).advice(advice),
        None => Finding::unknown(Topic::Database, what)
            .why(format!("{why}; the usual quota is {}", shown(USUAL_QUOTA)))
            .advice(format!(
                "compare with `--quota-backend-bytes` of the member; then {advice}"
            )),
    }
}

#[allow(clippy::cast_precision_loss, reason = "it is a rough comparison")]
fn is_near(size: u64, limit: u64) -> bool {
    size as f64 >= limit as f64 * NEARLY_FULL
}

#[allow(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn shown(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}
