//! Checks the replicas of a server, and which leases a failover can lose.

use crate::admin::doctor::facts::Arrangement;

use super::super::{
    facts::{Facts, Replica, ServerFacts},
    finding::{Finding, Topic},
};
use crate::admin::doctor::text::counted;

pub(super) fn judge(facts: &Facts, server: &ServerFacts) -> Vec<Finding> {
    if server.is("role", "slave") {
        return follower(server);
    }
    let replicas: Vec<_> = server.replicas().collect();
    let online = replicas.iter().filter(|it| it.is_online()).count();
    let mut findings = vec![confirmed(facts, server, replicas.len(), online)];
    findings.extend(replicas.iter().filter_map(behind));
    let guards_itself = server.told("min_slaves_good_slaves").is_some();
    if !replicas.is_empty() && !guards_itself && facts.layout != Arrangement::Quorum {
        findings.push(
            Finding::note(
                Topic::Replicas,
                "an isolated master continues to accept writes",
            )
            .why("its clients get leases that the new master does not know")
            .advice(
                "CONFIG SET min-replicas-to-write 1, and set min-replicas-max-lag to a few seconds",
            ),
        );
    }
    findings
}

/// The effect of a failover on leases.
fn confirmed(facts: &Facts, server: &ServerFacts, all: usize, online: usize) -> Finding {
    let wanted = usize::try_from(facts.min_replicas).unwrap_or(usize::MAX);
    let what = match (all, all - online) {
        (0, _) => "no replicas".to_owned(),
        (_, 0) => counted(all, "replica"),
        (_, away) => format!("{}, {away} not online", counted(all, "replica")),
    };
    if wanted > online {
        return Finding::broken(
            Topic::Replicas,
            format!("{what}, but min_replicas={wanted}"),
        )
        .why("too few replicas can confirm a lease: locks are `Unavailable`")
        .advice("start replicas, or lower `min_replicas`");
    }
    match (facts.layout, all) {
        (Arrangement::Quorum | Arrangement::Single, 0) => Finding::ok(Topic::Replicas, what),
        (Arrangement::Quorum, _) => Finding::note(Topic::Replicas, what)
            .why("a replica that replaces a server of a quorum may not have all of its leases")
            .advice("do not let a replica replace a server of the quorum automatically"),
        (Arrangement::Sentinel, 0) => Finding::risk(Topic::Replicas, what)
            .why("if the master fails, no replica can replace it")
            .advice("add a replica"),
        (Arrangement::Cluster, 0) => Finding::risk(Topic::Replicas, format!("{} has no replica", server.server))
            .why("if this master fails, the locks in its slots are `Unavailable`")
            .advice("add a replica to each master"),
        (Arrangement::Single, _) if wanted == 0 => Finding::note(Topic::Replicas, what)
            .why("a `redis://` URL does not follow a failover, and a failover may lose leases that no replica has")
            .advice("use `redis-sentinel://` if Sentinels monitor this server, and add `?min_replicas=1`"),
        (Arrangement::Cluster, _) => Finding::note(Topic::Replicas, what)
            .why("replication is asynchronous: a failover may lose the last leases, and then a second client acquires the lock; fencing tokens still grow")
            .advice("let the resource check fencing tokens, or use a quorum if no lease may be lost"),
        (_, _) if wanted == 0 => Finding::note(Topic::Replicas, what)
            .why("replication is asynchronous: a failover may lose leases that no replica has, and then a second client acquires the lock; fencing tokens still grow")
            .advice("add `?min_replicas=1` to the URL: a lease then counts only after a replica confirmed it"),
        (_, _) if wanted < all => Finding::note(Topic::Replicas, format!("{what}, min_replicas={wanted}"))
            .why("a replica that did not confirm the last leases may become the master")
            .advice(format!("min_replicas={all} prevents this, but locks are unavailable while a replica is down")),
        (_, _) => Finding::ok(Topic::Replicas, format!("{what}: all of them confirm each lease")),
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
            Finding::risk(
                Topic::Replicas,
                format!("replica {address} is not online: {state}"),
            )
            .why("it can neither confirm leases nor replace the master until it has the data"),
        );
    }
    // Replicas report once a second.
    let lag = lag.filter(|&lag| lag > 2)?;
    Some(
        Finding::risk(
            Topic::Replicas,
            format!("replica {address} last reported {lag} s ago"),
        )
        .why("a failover to it loses all later leases")
        .advice("check the replica's load and the network to it"),
    )
}

fn follower(server: &ServerFacts) -> Vec<Finding> {
    let link = match server.told("master_link_status") {
        Some("up") => Finding::ok(Topic::Replicas, "connected to its master"),
        Some(_) => Finding::risk(Topic::Replicas, "not connected to its master")
            .why("a failover to it loses all later leases")
            .advice("check the replica's log and the network"),
        None => Finding::unknown(
            Topic::Replicas,
            "`INFO` does not contain the state of the link to the master",
        ),
    };
    vec![link]
}
