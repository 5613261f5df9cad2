//! The copies of leases, and the leases that a failover loses.

use super::super::{
    facts::{Facts, Layout, Replica, ServerFacts},
    finding::{Finding, Topic},
};
use crate::text::counted;

pub(super) fn judge(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    if server.is("role", "slave") {
        return follower(server);
    }
    let replicas: Vec<_> = server.replicas().collect();
    let online = replicas.iter().filter(|it| it.is_online()).count();
    let mut findings = vec![confirmed(facts, server, replicas.len(), online)];
    findings.extend(replicas.iter().filter_map(behind));
    let guards_itself = server.told("min_slaves_good_slaves").is_some();
    if !replicas.is_empty() && !guards_itself && facts.layout != Layout::Quorum {
        findings.push(
            Finding::note(
                Topic::Replicas,
                "a master that is cut off goes on taking writes",
            )
            .why("its clients get leases that the rest, with a new master, knows nothing of")
            .advice(
                "CONFIG SET min-replicas-to-write 1, and min-replicas-max-lag to a few seconds",
            ),
        );
    }
    findings
}

/// The fate of leases in a failover.
fn confirmed(facts: &Facts, server: &ServerFacts, all: usize, online: usize) -> Finding {
    let wanted = usize::try_from(facts.min_replicas).unwrap_or(usize::MAX);
    let what = match (all, all - online) {
        (0, _) => "none".to_owned(),
        (_, 0) => counted(all, "replica"),
        (_, away) => format!("{}, {away} not online", counted(all, "replica")),
    };
    if wanted > online {
        return Finding::broken(
            Topic::Replicas,
            format!("{what}, and min_replicas={wanted}"),
        )
        .why("so many have to confirm a lease: locks are `Unavailable`")
        .advice("bring replicas up, or lower `min_replicas`");
    }
    match (facts.layout, all) {
        (Layout::Quorum | Layout::Single, 0) => Finding::ok(Topic::Replicas, what),
        (Layout::Quorum, _) => Finding::note(Topic::Replicas, what)
            .why("the servers of a quorum stand alone: one that is replaced by its replica may have forgotten leases")
            .advice("let no replica take the place of a server of the quorum by itself"),
        (Layout::Sentinel, 0) => Finding::risk(Topic::Replicas, what)
            .why("when the master dies there is nobody to take its place")
            .advice("add a replica"),
        (Layout::Cluster, 0) => Finding::risk(Topic::Replicas, format!("none of {}", server.server))
            .why("when this master dies the locks in its slots are `Unavailable`")
            .advice("add a replica to each master"),
        (Layout::Single, _) if wanted == 0 => Finding::note(Topic::Replicas, what)
            .why("a `redis://` URL does not follow a fail-over, which may also lose leases that no replica had")
            .advice("use `redis-sentinel://` if Sentinels watch it, and `?min_replicas=1`"),
        (Layout::Cluster, _) => Finding::note(Topic::Replicas, what)
            .why("replication is asynchronous: a fail-over may lose the last leases, and a second holder enters; tokens still grow")
            .advice("let the resource check tokens; where no lease may be lost use a quorum"),
        (_, _) if wanted == 0 => Finding::note(Topic::Replicas, what)
            .why("replication is asynchronous: a fail-over may lose leases that no replica had, and a second holder enters; tokens still grow")
            .advice("add `?min_replicas=1` to the URL, so that a lease counts when a replica has it"),
        (_, _) if wanted < all => Finding::note(Topic::Replicas, format!("{what}, min_replicas={wanted}"))
            .why("a replica that has not confirmed the last leases may become the master")
            .advice(format!("min_replicas={all} closes that, and makes locks unavailable while a replica is down")),
        (_, _) => Finding::ok(Topic::Replicas, format!("{what}, all confirm each lease")),
    }
}

fn behind(replica: &Replica<'_>) -> Option<Finding> {
    let Replica {
        host,
        port,
        state,
        lag,
    } = replica;
    let address = format!("{host}:{port}");
    if !replica.is_online() {
        return Some(
            Finding::risk(Topic::Replicas, format!("{address} is not online: {state}")).why(
                "until it has the master's data it confirms nothing, and cannot take its place",
            ),
        );
    }
    // They report once a second.
    let lag = lag.filter(|&lag| lag > 2)?;
    Some(
        Finding::risk(
            Topic::Replicas,
            format!("{address} was last heard of {lag} s ago"),
        )
        .why("a fail-over to it loses all leases since")
        .advice("check the replica's load and the network to it"),
    )
}

fn follower(server: &ServerFacts) -> Vec<Finding> {
    let link = match server.told("master_link_status") {
        Some("up") => Finding::ok(Topic::Replicas, "in touch with its master"),
        Some(_) => Finding::risk(Topic::Replicas, "not in touch with its master")
            .why("a fail-over to it loses all leases since")
            .advice("check the replica's log and the network"),
        None => Finding::unknown(
            Topic::Replicas,
            "`INFO` does not tell of the link to its master",
        ),
    };
    vec![link]
}
