//! Findings about servers together: their replicas, their machines, their clocks.

use dlock_runtime::store::{StoreError, StoreErrorKind};

use super::{Layout, check, clock, facts, no_answer, server, single};
use crate::{
    doctor::{Severity, Topic},
    model::{ClockReading, ReplicaReport},
};

#[test]
fn what_becomes_of_leases_in_a_failover() {
    use Severity::{Broken, Note, Ok, Risk};
    let online = "ip=10.0.0.2,port=6379,state=online,offset=14,lag=0";
    let late = "ip=10.0.0.2,port=6379,state=online,offset=14,lag=9";
    let syncing = "ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0";
    let guarded = ("min_slaves_good_slaves", "1");
    for (layout, min_replicas, changes, severity, contains) in [
        (Layout::Single, 0, &[][..], Ok, "no replicas"),
        (Layout::Single, 1, &[], Broken, "min_replicas=1"),
        (
            Layout::Single,
            0,
            &[("slave0", online), guarded],
            Note,
            "redis-sentinel://",
        ),
        (Layout::Sentinel, 0, &[], Risk, "add a replica"),
        (
            Layout::Sentinel,
            0,
            &[("slave0", online), guarded],
            Note,
            "?min_replicas=1",
        ),
        (
            Layout::Sentinel,
            1,
            &[("slave0", online), guarded],
            Ok,
            "1 replica: all of them confirm",
        ),
        (
            Layout::Sentinel,
            1,
            &[("slave0", online)],
            Note,
            "min-replicas-to-write 1",
        ),
        (
            Layout::Sentinel,
            1,
            &[("slave0", online), ("slave1", online), guarded],
            Note,
            "min_replicas=2 prevents",
        ),
        (
            Layout::Sentinel,
            2,
            &[("slave0", online), guarded],
            Broken,
            "min_replicas=2",
        ),
        (
            Layout::Sentinel,
            1,
            &[("slave0", syncing), guarded],
            Broken,
            "1 replica, 1 not online",
        ),
        (
            Layout::Sentinel,
            0,
            &[("slave0", syncing), guarded],
            Risk,
            "10.0.0.2:6379 is not online",
        ),
        (
            Layout::Sentinel,
            1,
            &[("slave0", late), guarded],
            Risk,
            "9 s ago",
        ),
        (
            Layout::Cluster,
            0,
            &[("cluster_enabled", "1")],
            Risk,
            "replica to each master",
        ),
        (Layout::Quorum, 0, &[], Ok, "no replicas"),
        (
            Layout::Quorum,
            0,
            &[("slave0", online)],
            Note,
            "replaces a server of a quorum",
        ),
    ] {
        let mut facts = facts(layout, vec![server("a:1", changes)]);
        facts.judge.min_replicas = min_replicas;
        check(&facts, Topic::Replicas, severity, contains);
    }
    let cut_off = server("b:1", &[("role", "slave"), ("master_link_status", "down")]);
    let facts = facts(
        Layout::Sentinel,
        vec![server("a:1", &[("slave0", online), guarded]), cut_off],
    );
    check(&facts, Topic::Replicas, Risk, "not connected to its master");
}

#[test]
fn a_quorum_wants_servers_that_fail_apart() {
    use Severity::{Broken, Note, Ok, Risk};
    let named = |names: &[&str]| {
        let servers = names.iter().map(|name| server(name, &[]));
        facts(Layout::Quorum, servers.collect())
    };
    check(
        &named(&["a:1", "b:1", "c:1"]),
        Topic::Quorum,
        Ok,
        "3 servers",
    );
    check(
        &named(&["a:1", "b:1", "c:1", "d:1"]),
        Topic::Quorum,
        Note,
        "odd number",
    );
    check(
        &named(&["a:1", "a:2", "b:1"]),
        Topic::Quorum,
        Risk,
        "3 servers on 2 hosts",
    );

    let mut twice = named(&["a:1", "b:1", "c:1"]);
    twice.servers[1].set("run_id", "a:1");
    check(
        &twice,
        Topic::Quorum,
        Broken,
        "redis://a:1 and redis://b:1 are one server",
    );

    let mut silent = named(&["a:1", "b:1", "c:1"]);
    silent.servers[1].info.clear();
    check(&silent, Topic::Quorum, Severity::Unknown, "+info");

    let mut down = named(&["a:1", "b:1", "c:1"]);
    down.servers[2].failure = Some(no_answer("down"));
    check(
        &down,
        Topic::Quorum,
        Risk,
        "2 of 3 servers answer, 2 are a majority | if one more server fails",
    );
    down.servers[1].failure = Some(no_answer("down"));
    check(&down, Topic::Quorum, Broken, "1 of 3 servers answer");

    let mut young = named(&["a:1", "b:1", "c:1"]);
    for server in &mut young.servers {
        server.appendfsync = Some("always".to_owned());
    }
    young.servers[0].set("uptime_in_seconds", 12);
    check(&young, Topic::Persistence, Risk, "12 s ago");
}

#[test]
fn a_cluster_wants_a_majority_of_masters() {
    let of = |masters: usize| {
        let replica = "ip=z,port=1,state=online,offset=1,lag=0";
        let servers = (0..masters).map(|index| {
            server(
                &format!("{index}:1"),
                &[("cluster_enabled", "1"), ("slave0", replica)],
            )
        });
        facts(Layout::Cluster, servers.collect())
    };
    check(&of(2), Topic::Cluster, Severity::Risk, "three masters");
    check(&of(3), Topic::Cluster, Severity::Ok, "3 masters");
    let alone = facts(Layout::Cluster, vec![server("a:1", &[])]);
    check(
        &alone,
        Topic::Role,
        Severity::Broken,
        "not a node of a cluster",
    );
}

#[test]
fn replicas_should_not_share_the_machine_of_their_master() {
    let online = "ip=a,port=2,state=online,offset=14,lag=0";
    let shared = facts(Layout::Sentinel, vec![server("a:1", &[("slave0", online)])]);
    check(
        &shared,
        Topic::Sentinel,
        Severity::Risk,
        "on its master's machine: redis://a:1",
    );
    let online = "ip=::1,port=2,state=online,offset=14,lag=0";
    let shared = facts(
        Layout::Sentinel,
        vec![server("[::1]:1", &[("slave0", online)])],
    );
    check(
        &shared,
        Topic::Sentinel,
        Severity::Risk,
        "on its master's machine: redis://[::1]:1",
    );
    let apart = facts(Layout::Sentinel, vec![server("b:1", &[("slave0", online)])]);
    check(&apart, Topic::Sentinel, Severity::Ok, "3 Sentinels");
    let mut few = apart;
    few.judge.sentinels = 1;
    check(&few, Topic::Sentinel, Severity::Note, "lists 1 Sentinel");
}

#[test]
fn clocks_are_judged_by_their_effect() {
    use Severity::{Note, Ok, Risk, Unknown};
    let pair = |layout, ahead_ms| {
        let mut facts = facts(layout, vec![server("a:1", &[]), server("b:1", &[])]);
        facts.servers[1].clock = Some(clock(ahead_ms));
        facts
    };
    check(&pair(Layout::Cluster, -900), Topic::Clock, Ok, "ahead");
    check(
        &pair(Layout::Quorum, 5_000),
        Topic::Clock,
        Note,
        "time source",
    );
    let replicated = |clock: Result<ClockReading, StoreError>| {
        let mut facts = facts(Layout::Sentinel, vec![server("a:1", &[])]);
        facts.servers[0].replicas = vec![ReplicaReport::new("z:2", clock)];
        facts
    };
    // The drift of a TTL of 30 s is 302 ms, and each of the readings may be wrong by 50 µs.
    for (ahead_ms, severity, contains) in [
        (302, Ok, "the clocks of its replicas agree: z:2"),
        (
            303,
            Risk,
            "the clock of replica z:2 is 303.0 ms ahead | after a failover to this replica",
        ),
        (303, Risk, "the drift of 302.0 ms for a TTL of 30s"),
        (-999, Ok, "agree"),
        (-2_000, Note, "replica z:2 is 2000.0 ms behind"),
    ] {
        let facts = replicated(Result::Ok(clock(ahead_ms)));
        check(&facts, Topic::Clock, severity, contains);
    }
    let silent = replicated(Err(StoreError::new(
        StoreErrorKind::Unreachable,
        "no route",
    )));
    check(&silent, Topic::Clock, Unknown, "no route");
    let mut unseen = replicated(Result::Ok(clock(0)));
    for (name, port) in [("slave0", 2), ("slave1", 3)] {
        let line = format!("ip=z,port={port},state=online,offset=14,lag=0");
        unseen.servers[0].set(name, line);
    }
    check(&unseen, Topic::Clock, Unknown, "some replicas");
    let mut ours = single(&[]);
    ours.servers[0].clock = Some(clock(-60_000));
    check(&ours, Topic::Clock, Note, "60 s behind this machine's");
    ours.servers[0].clock = Some(clock(1));
    check(&ours, Topic::Clock, Ok, "1.0 ms ahead of this machine's");
    ours.servers[0].clock = Some(clock(0));
    check(
        &ours,
        Topic::Clock,
        Ok,
        "agrees with this machine's clock, ± 50 µs",
    );
    ours.servers[0].clock = None;
    check(&ours, Topic::Clock, Unknown, "+time");
}
