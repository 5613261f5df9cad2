//! Checks the servers together: quorum, Sentinels, cluster.

use std::collections::BTreeMap;

use super::{Layout, RedisJudge, replicas};
use crate::{
    doctor::{Facts, Finding, Topic, counted, host, hosts},
    model::ServerReport,
};

pub(super) fn judge(judge: &RedisJudge, facts: &Facts) -> Vec<Finding> {
    match judge.layout {
        Layout::Quorum => quorum(judge, facts),
        Layout::Sentinel => sentinel(judge, facts),
        Layout::Cluster => cluster(facts),
        _ => Vec::new(),
    }
}

fn quorum(judge: &RedisJudge, facts: &Facts) -> Vec<Finding> {
    let all = facts.servers.len();
    let majority = all / 2 + 1;
    let up = facts.servers.iter().filter(|it| it.answers()).count();
    let mut findings = vec![number(all)];
    let what = format!(
        "{up} of {} answer, {majority} are a majority",
        counted(all, "server")
    );
    findings.push(if up < majority {
        Finding::broken(Topic::Quorum, what)
            .why("leases cannot be acquired or renewed without a majority: locks are `Unavailable`")
            .advice("start the other servers")
    } else if up < all {
        let left = up - majority;
        Finding::risk(Topic::Quorum, what)
            .why(match left {
                0 => "if one more server fails, locks are `Unavailable`".to_owned(),
                _ => format!("if more than {left} further servers fail, locks are `Unavailable`"),
            })
            .advice("start the other servers; wait one maximum TTL before you start a server without its data")
    } else {
        Finding::ok(Topic::Quorum, what)
    });
    findings.extend(same_server(judge, facts));
    findings.extend(hosts(facts, Topic::Quorum));
    findings
}

/// Checks the number of servers. A URL with fewer than three is invalid.
fn number(all: usize) -> Finding {
    let what = counted(all, "server");
    if !all.is_multiple_of(2) {
        return Finding::ok(Topic::Quorum, what);
    }
    Finding::note(Topic::Quorum, what)
        .why(format!(
            "it tolerates no more failures than {} servers",
            all - 1
        ))
        .advice("use an odd number of servers")
}

/// Checks that no server has two votes.
fn same_server(judge: &RedisJudge, facts: &Facts) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for server in &facts.servers {
        if let Some(id) = server.field("run_id") {
            places.entry(id).or_default().push(&server.server);
        }
    }
    let twice = places.into_values().filter(|it| it.len() > 1);
    let mut findings: Vec<_> = twice
        .map(|places| {
            Finding::broken(
                Topic::Quorum,
                format!("{} are one server", places.join(" and ")),
            )
            .why("the server has more than one vote, so two clients can have a majority each")
            .advice("list each server once")
        })
        .collect();
    let silent = facts
        .servers
        .iter()
        .any(|it| it.answers() && it.field("run_id").is_none());
    if findings.is_empty() && silent {
        findings.push(
            Finding::unknown(
                Topic::Quorum,
                "cannot check whether two addresses are the same server",
            )
            .why(
                "such a server would have two votes; only `INFO` contains the `run_id` of a server",
            )
            .advice(format!("ACL SETUSER {} +info", judge.user)),
        );
    }
    findings
}

fn sentinel(judge: &RedisJudge, facts: &Facts) -> Vec<Finding> {
    let what = format!("the URL lists {}", counted(judge.sentinels, "Sentinel"));
    let mut findings = vec![if judge.sentinels < 3 {
        Finding::note(Topic::Sentinel, what)
            .why("a process that starts while all listed Sentinels are down cannot find the master; fewer than three Sentinels cannot outvote an isolated one")
            .advice("run three Sentinels on separate machines, and list all of them")
    } else {
        Finding::ok(Topic::Sentinel, what)
    }];
    findings.extend(with_replicas(facts, Topic::Sentinel));
    findings
}

fn cluster(facts: &Facts) -> Vec<Finding> {
    let told = |server: &&ServerReport| server.is("role", "master");
    let masters = facts.servers.iter().filter(told).count();
    if masters == 0 {
        // The user lacks `+info`; each server has a finding about that.
        return Vec::new();
    }
    let what = counted(masters, "master");
    let mut findings = vec![if masters < 3 {
        Finding::risk(Topic::Cluster, what)
            .why("a failover needs the votes of a majority of the masters; with fewer than three masters there is no majority after one failed")
            .advice("use at least three masters")
    } else {
        Finding::ok(Topic::Cluster, what)
    }];
    findings.extend(hosts(facts, Topic::Cluster));
    findings.extend(with_replicas(facts, Topic::Cluster));
    findings
}

/// Checks that no replica runs on the machine of its master.
fn with_replicas(facts: &Facts, topic: Topic) -> Vec<Finding> {
    let shared = |server: &&ServerReport| {
        let mut replicas = replicas::listed(server);
        let host = host(&server.server);
        replicas.any(|replica| replica.host == host)
    };
    let shared: Vec<_> = facts
        .servers
        .iter()
        .filter(shared)
        .map(|it| it.server.as_str())
        .collect();
    if shared.is_empty() {
        return Vec::new();
    }
    let what = format!("a replica on its master's machine: {}", shared.join(", "));
    vec![
        Finding::risk(topic, what)
            .why("both fail together, and then no replica can replace the master")
            .advice("run replicas on separate machines"),
    ]
}
