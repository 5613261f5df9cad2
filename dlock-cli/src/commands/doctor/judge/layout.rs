//! Judges if the servers together are as their layout needs.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    facts::{Facts, Layout, ServerFacts},
    finding::{Finding, Topic},
};
use crate::text::counted;

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    match facts.layout {
        Layout::Single => Vec::new(),
        Layout::Quorum => quorum(facts),
        Layout::Sentinel => sentinel(facts),
        Layout::Cluster => cluster(facts),
    }
}

fn quorum(facts: &Facts) -> Vec<Finding> {
    let all = facts.servers.len();
    let majority = all / 2 + 1;
    let up = facts.servers.iter().filter(|it| it.answers()).count();
    let mut findings = vec![number(all)];
    let what = format!(
        "{up} of {} answer, {majority} decide",
        counted(all, "server")
    );
    findings.push(if up < majority {
        Finding::broken(Topic::Quorum, what)
            .why("no lease is granted or renewed without a majority: locks are `Unavailable`")
            .advice("bring servers up")
    } else if up < all {
        let left = up - majority;
        Finding::risk(Topic::Quorum, what)
            .why(match left {
                0 => "when one more fails, locks are `Unavailable`".to_owned(),
                _ => format!("{left} more may fail, then locks are `Unavailable`"),
            })
            .advice("bring the others up, empty ones only after one maximal TTL")
    } else {
        Finding::ok(Topic::Quorum, what)
    });
    findings.extend(same_server(facts));
    findings.extend(hosts(facts, Topic::Quorum));
    findings
}

/// At least three, or the URL would have been refused.
fn number(all: usize) -> Finding {
    let what = counted(all, "server");
    if !all.is_multiple_of(2) {
        return Finding::ok(Topic::Quorum, what);
    }
    Finding::note(Topic::Quorum, what)
        .why(format!(
            "it survives as many failures as {} would, and costs one server more",
            all - 1
        ))
        .advice("name an odd number")
}

/// A server that has two votes.
fn same_server(facts: &Facts) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for server in &facts.servers {
        if let Some(id) = server.told("run_id") {
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
            .why("it has more than one vote, so two holders can have a majority each")
            .advice("name each server once")
        })
        .collect();
    let silent = facts
        .servers
        .iter()
        .any(|it| it.answers() && it.told("run_id").is_none());
    if findings.is_empty() && silent {
        findings.push(
            Finding::unknown(Topic::Quorum, "whether two addresses lead to one server")
                .why("it would have two votes; servers tell their `run_id` by `INFO` only")
                .advice(format!("ACL SETUSER {} +info", facts.user)),
        );
    }
    findings
}

fn sentinel(facts: &Facts) -> Vec<Finding> {
    let what = format!("the URL names {}", counted(facts.sentinels, "Sentinel"));
    let mut findings = vec![if facts.sentinels < 3 {
        Finding::note(Topic::Sentinel, what)
            .why("who is started while those are down finds no master; and fewer than three Sentinels cannot outvote one that is cut off")
            .advice("let there be three on machines of their own, and name all of them")
    } else {
        Finding::ok(Topic::Sentinel, what)
    }];
    findings.extend(with_replicas(facts, Topic::Sentinel));
    findings
}

fn cluster(facts: &Facts) -> Vec<Finding> {
    let told = |server: &&ServerFacts| server.is("role", "master");
    let masters = facts.servers.iter().filter(told).count();
    if masters == 0 {
        // The user has no permission to ask; each server has a finding about that.
        return Vec::new();
    }
    let what = counted(masters, "master");
    let mut findings = vec![if masters < 3 {
        Finding::risk(Topic::Cluster, what)
            .why("a replica takes over by the votes of a majority of the masters, and with fewer than three of them there is none when one dies")
            .advice("let there be three masters at the least")
    } else {
        Finding::ok(Topic::Cluster, what)
    }];
    findings.extend(hosts(facts, Topic::Cluster));
    findings.extend(with_replicas(facts, Topic::Cluster));
    findings
}

/// Masters on the same machine as a replica that should take their place.
fn with_replicas(facts: &Facts, topic: Topic) -> Vec<Finding> {
    let shared = |server: &&ServerFacts| {
        let mut replicas = server.replicas();
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
            .why("both fail together, and nobody takes the master's place")
            .advice("put replicas on machines of their own"),
    ]
}

/// Servers that fail together.
fn hosts(facts: &Facts, topic: Topic) -> Vec<Finding> {
    let hosts: Vec<_> = facts.servers.iter().map(|it| host(&it.server)).collect();
    let different: BTreeSet<_> = hosts.iter().collect();
    if hosts.len() < 2 || different.len() == hosts.len() {
        return Vec::new();
    }
    let what = format!(
        "{} on {}",
        counted(hosts.len(), "server"),
        counted(different.len(), "host")
    );
    vec![
        Finding::risk(topic, what)
            .why("servers of one machine fail together, and the others do not make up for them")
            .advice("put each on a machine of its own"),
    ]
}

/// `host` of `redis://host:6379/0`, however much of that there is.
fn host(server: &str) -> &str {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split(['/', '?', ' ']).next().unwrap_or(rest);
    match rest.rsplit_once(':') {
        Some((host, _)) => host,
        None => rest,
    }
}
