//! Checks the replicas of a server, and which leases a failover can lose.

use super::{Layout, RedisJudge};
use crate::{
    doctor::{Finding, Topic, counted},
    model::ServerReport,
};

/// The state of a replica, as its master reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replica<'a> {
    pub(super) host: &'a str,
    port: &'a str,
    state: &'a str,
    /// The seconds since the replica last reported to its master.
    lag: Option<u64>,
}

impl<'a> Replica<'a> {
    /// Reads `ip=10.0.0.2,port=6379,state=online,offset=14,lag=0`.
    fn read(text: &'a str) -> Self {
        let field = |name: &str| {
            let mut pairs = text.split(',');
            pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        Self {
            host: field("ip").unwrap_or("?"),
            port: field("port").unwrap_or("?"),
            state: field("state").unwrap_or("unknown"),
            lag: field("lag").and_then(|it| it.parse().ok()),
        }
    }

    fn is_online(&self) -> bool {
        self.state == "online"
    }
}

/// Returns the replicas that `INFO` of the server lists.
pub(super) fn listed(server: &ServerReport) -> impl Iterator<Item = Replica<'_>> {
    (0..)
        .map_while(|index| server.field(&format!("slave{index}")))
        .map(Replica::read)
}

pub(super) fn judge(judge: &RedisJudge, server: &ServerReport) -> Vec<Finding> {
    if server.is("role", "slave") {
        return follower(server);
    }
    let replicas: Vec<_> = listed(server).collect();
    let online = replicas.iter().filter(|it| it.is_online()).count();
    let mut findings = vec![confirmed(judge, server, replicas.len(), online)];
    findings.extend(replicas.iter().filter_map(behind));
    let guards_itself = server.field("min_slaves_good_slaves").is_some();
    if !replicas.is_empty() && !guards_itself && judge.layout != Layout::Quorum {
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
fn confirmed(judge: &RedisJudge, server: &ServerReport, all: usize, online: usize) -> Finding {
    let wanted = usize::try_from(judge.min_replicas).unwrap_or(usize::MAX);
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
    match (judge.layout, all) {
        (Layout::Quorum | Layout::Single, 0) => Finding::ok(Topic::Replicas, what),
        (Layout::Quorum, _) => Finding::note(Topic::Replicas, what)
            .why("a replica that replaces a server of a quorum may not have all of its leases")
            .advice("do not let a replica replace a server of the quorum automatically"),
        (Layout::Sentinel, 0) => Finding::risk(Topic::Replicas, what)
            .why("if the master fails, no replica can replace it")
            .advice("add a replica"),
        (Layout::Cluster, 0) => Finding::risk(Topic::Replicas, format!("{} has no replica", server.server))
            .why("if this master fails, the locks in its slots are `Unavailable`")
            .advice("add a replica to each master"),
        (Layout::Single, _) if wanted == 0 => Finding::note(Topic::Replicas, what)
            .why("a `redis://` URL does not follow a failover, and a failover may lose leases that no replica has")
            .advice("use `redis-sentinel://` if Sentinels monitor this server, and add `?min_replicas=1`"),
        (Layout::Cluster, _) => Finding::note(Topic::Replicas, what)
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

fn follower(server: &ServerReport) -> Vec<Finding> {
    let link = match server.field("master_link_status") {
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
