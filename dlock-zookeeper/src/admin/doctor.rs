//! Checks servers of ZooKeeper: version, mode, sessions, permissions, the base of fencing tokens, and latency.

#[cfg(test)]
mod tests;

use std::time::Duration;

use dlock_admin::{
    ServerReport,
    doctor::{self, EnsembleMember, Facts, Finding, Judge, LockRules, Topic},
};

/// Judges servers by their reports.
pub(super) struct ZooKeeperJudge;

impl Judge for ZooKeeperJudge {
    fn layout(&self) -> Option<&'static str> {
        Some("ensemble")
    }

    fn is_available(&self, facts: &Facts) -> bool {
        facts.servers.iter().any(|it| member(it).may_decide())
    }

    fn together(&self, facts: &Facts) -> Vec<Finding> {
        let members: Vec<_> = facts.servers.iter().map(member).collect();
        let mut findings = doctor::ensemble(facts, &members);
        // No lease depends on a clock of ZooKeeper.
        findings.extend(doctor::locks(facts, LockRules::default()));
        findings
    }

    fn server(&self, facts: &Facts, server: &ServerReport) -> Vec<Finding> {
        let mut findings = vec![version(server)];
        findings.extend(role(server));
        findings.extend(sessions(server));
        findings.extend(tick(server));
        let reads = server.is("reads_locks", "true");
        findings.extend(doctor::permissions_on(server, "nodes", reads));
        findings.extend(owner(server));
        findings.extend(base(server));
        findings.extend(doctor::latency(facts, server));
        findings
    }
}

fn member(server: &ServerReport) -> EnsembleMember<'_> {
    let mut member = EnsembleMember::of(server);
    member.has_leader = server.field("has_leader").map(|it| it == "true");
    member.id = server.field("member_id");
    member.members = server.field("members");
    member
}

fn version(server: &ServerReport) -> Finding {
    if let Some(version) = server.field("zookeeper_version") {
        let what = format!("ZooKeeper {version}");
        let numbers = numbers(version);
        if numbers < [3, 5, 0] {
            return Finding::broken(Topic::Version, format!("{what} is too old"))
                .advice("use ZooKeeper 3.9.4 or later; dlock needs 3.5");
        }
        let faults = faults(numbers).join(", ");
        if faults.is_empty() {
            return Finding::ok(Topic::Version, what);
        }
        let what =
            format!("{what} can lose confirmed writes, and keep writes that it did not confirm");
        return Finding::risk(Topic::Version, what)
            .why(format!(
                "{faults}: if a leader changes or a server is killed while it writes, another client can acquire a lock \
                 that is held"
            ))
            .advice("update to 3.9.4 or later");
    }
    let least = server.field("version_at_least").unwrap_or("3.5");
    let what = format!("ZooKeeper {least} or later; the exact version and the mode are unknown");
    Finding::note(Topic::Version, what)
        .why("the server does not answer the word `srvr`; what it answers is enough for locks")
        .advice("add `srvr` to `4lw.commands.whitelist` of the server to see them")
}

/// The numbers in `3.9.4`; 0 for one that is missing.
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|it| it.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// The known faults of a version that lose confirmed writes or keep unconfirmed ones, by their numbers at ZooKeeper.
fn faults(version: [u32; 3]) -> Vec<&'static str> {
    let repeats_writes = ([3, 8, 0]..[3, 9, 3]).contains(&version);
    let [major, minor, patch] = version;
    let confirms_early = match (major, minor) {
        (3, 8) => patch < 5,
        (3, 9) => patch < 2,
        _ => version < [3, 8, 0],
    };
    let known = [
        ("ZOOKEEPER-4394", repeats_writes),
        ("ZOOKEEPER-4712", repeats_writes),
        ("ZOOKEEPER-4785", confirms_early),
        ("ZOOKEEPER-4925", version == [3, 9, 3]),
    ];
    let known = known.into_iter().filter(|(_, is_in)| *is_in);
    known.map(|(fault, _)| fault).collect()
}

fn role(server: &ServerReport) -> Option<Finding> {
    let mode = server.field("mode")?;
    Some(match mode {
        "standalone" => Finding::note(Topic::Role, "the server stands alone")
            .why("locks are `Unavailable` while it is down, and lost if its disk is")
            .advice("use an ensemble of three or five servers"),
        _ => Finding::ok(Topic::Role, mode),
    })
}

/// Compares the session of the URL with what the server allows.
fn sessions(server: &ServerReport) -> Option<Finding> {
    let (wanted, granted) = (
        time(server, "session_wanted_ms")?,
        time(server, "session_granted_ms")?,
    );
    if granted >= wanted {
        let what = format!("sessions of {wanted:?} are allowed");
        return Some(Finding::ok(Topic::Sessions, what));
    }
    let what = format!("sessions last for {granted:?} at most, and the URL asks for {wanted:?}");
    Some(
        Finding::broken(Topic::Sessions, what)
            .why("a process that locks refuses such a session, as its leases would outlive it")
            .advice(format!(
                "write `session={}ms` in the URL, or raise `maxSessionTimeout` of the servers",
                granted.as_millis()
            )),
    )
}

/// Compares the `tick` of the URL with the shortest session of the server, which is two ticks unless it is set.
fn tick(server: &ServerReport) -> Option<Finding> {
    let wanted = time(server, "tick_wanted_ms")?;
    let Some(shortest) = time(server, "session_shortest_ms") else {
        let what = "the server's `tickTime` is unknown: a short session could not be made";
        return Some(
            Finding::unknown(Topic::Sessions, what)
                .why("leases may outlive their session if it is more than the option `tick`")
                .advice(format!("compare `tickTime` of the server with {wanted:?}")),
        );
    };
    let tick = shortest / 2;
    if tick <= wanted {
        let what = format!(
            "the shortest session is {shortest:?}, so `tick={}ms` in the URL is enough unless \
             `minSessionTimeout` is set",
            wanted.as_millis()
        );
        return Some(Finding::ok(Topic::Sessions, what));
    }
    let what = format!(
        "the server's `tickTime` may be {tick:?}, more than the {wanted:?} of the option `tick`: it is unknown"
    );
    Some(
        Finding::unknown(Topic::Sessions, what)
            .why(format!(
                "the shortest session is {shortest:?}, which is two ticks unless `minSessionTimeout` is set; leases may \
                 outlive their session if the option is too small"
            ))
            .advice(format!(
                "compare `tickTime` of the server, and write `tick={}ms` in the URL if it is so much",
                tick.as_millis()
            )),
    )
}

fn time(server: &ServerReport, name: &str) -> Option<Duration> {
    server.number(name).map(Duration::from_millis)
}

/// Says whether the nodes belong to a user.
fn owner(server: &ServerReport) -> Option<Finding> {
    let finding = if server.is("is_open", "true") {
        Finding::note(
            Topic::Permissions,
            "every client that reaches the servers can acquire and end locks",
        )
        .why("the nodes of locks belong to no user")
        .advice("write a user and a password in the URL, and begin with a new path")
    } else if server.is("reads_locks", "true") && server.field("is_open").is_none() {
        let what = "the namespace has no nodes yet, or its ACL cannot be read";
        Finding::note(Topic::Permissions, what)
    } else {
        return None;
    };
    Some(finding)
}

fn base(server: &ServerReport) -> Option<Finding> {
    Some(match server.field("fence_base")? {
        "fine" => Finding::ok(Topic::Locks, "the base of fencing tokens is there"),
        "missing" => Finding::note(Topic::Locks, "there is no base of fencing tokens")
            .why("the first lock makes it. If locks were used here before, it was deleted, and the tokens begin with the clock"),
        "hidden" => Finding::unknown(Topic::Locks, "the base of fencing tokens cannot be read")
            .why("the node `fence` belongs to another user"),
        _ => Finding::broken(Topic::Locks, "the base of fencing tokens is not from dlock")
            .why("locks are refused as long as the node `fence` has children that are no numbers")
            .advice("delete the other children of the node `fence`, and leave the numbers"),
    })
}
