//! `dlock doctor` on healthy and unhealthy servers.

use std::{process::Command, time::Duration};

use dlock_testkit::{Cluster, Make, RedisServer, SentinelShape, Sentinels};
use serde_json::Value;

use super::{Ended, call, clean, quorum, until_answered};

/// Settings of a server without any finding that is worse than a note.
const FINE: [&str; 4] = ["--appendonly", "yes", "--maxmemory", "200mb"];

fn at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command.env("DLOCK_URL", url).arg("doctor").args(arguments);
    command
}

async fn examine(url: &str, arguments: &[&str]) -> Ended {
    until_answered(async || call(&mut at(url, arguments)).await).await
}

/// Asserts the exit code and returns the findings.
async fn findings(url: &str, code: i32, arguments: &[&str]) -> Findings {
    let ended = examine(url, &[arguments, &["--json"]].concat())
        .await
        .with(code);
    let told: Value = serde_json::from_str(&ended.stdout).expect("it is one JSON document");
    assert_eq!(told["healthy"], code == 0, "{told:#}");
    Findings(told)
}

struct Findings(Value);

impl Findings {
    /// Returns the finding with this severity, topic and part of its text.
    #[track_caller]
    fn about(&self, severity: &str, topic: &str, part: &str) -> &Value {
        let findings = self.0["findings"].as_array().expect("it is a list");
        let found = findings.iter().find(|it| {
            let says = ["what", "why", "do"].map(|name| it[name].as_str().unwrap_or_default());
            it["topic"] == topic && it["severity"] == severity && says.join("|").contains(part)
        });
        found.unwrap_or_else(|| panic!("no {severity} {topic} with `{part}`: {:#}", self.0))
    }
}

async fn order(server: &RedisServer, words: &[&str]) {
    let mut connection = server.connection().await;
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let answer: Result<redis::Value, _> = command.query_async(&mut connection).await;
    answer.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

#[tokio::test]
async fn a_server_that_is_set_up_for_locks_is_healthy() {
    let server = RedisServer::start_with(&FINE).await;
    let Ended { stdout, .. } = examine(&server.url(), &[]).await.with(0);
    for part in [
        "ok        version",
        "ok        eviction    noeviction",
        "0 locks held",
    ] {
        assert!(stdout.contains(part), "{stdout}");
    }
    assert!(
        !stdout.contains('\u{1b}'),
        "no colors without a terminal: {stdout}"
    );
    let found = findings(&server.url(), 0, &[]).await;
    found.about("ok", "latency", "PING: median");
    found.about("ok", "clock", "this machine's");
    found.about("ok", "permissions", "all permissions");
}

#[tokio::test]
async fn every_make_of_server_is_known_by_its_name() {
    for (make, name) in [(Make::OldRedis, "Redis 6.2"), (Make::Valkey, "Valkey 9.1")] {
        let server = RedisServer::start_make_with(make, &FINE).await;
        findings(&server.url(), 0, &[])
            .await
            .about("ok", "version", name);
    }
}

#[tokio::test]
async fn a_server_that_may_evict_locks_is_a_risk_until_its_policy_is_changed() {
    let evicting = [&FINE[..], &["--maxmemory-policy", "allkeys-lru"]].concat();
    let server = RedisServer::start_with(&evicting).await;
    let found = findings(&server.url(), 1, &[]).await;
    found.about("risk", "eviction", "CONFIG SET maxmemory-policy noeviction");
    order(
        &server,
        &["CONFIG", "SET", "maxmemory-policy", "noeviction"],
    )
    .await;
    findings(&server.url(), 0, &[])
        .await
        .about("ok", "eviction", "noeviction");
}

#[tokio::test]
async fn known_risks_can_be_accepted() {
    let server = RedisServer::start().await;
    findings(&server.url(), 1, &[])
        .await
        .about("risk", "persistence", "tokens still grow");
    let accepted = findings(&server.url(), 0, &["--accept", "persistence"]).await;
    assert_eq!(accepted.about("risk", "persistence", "")["accepted"], true);
    call(&mut at(&server.url(), &["--accept", "nonsense"]))
        .await
        .with(2);
}

#[tokio::test]
async fn a_server_without_room_is_broken() {
    let server = RedisServer::start_with(&FINE).await;
    order(&server, &["CONFIG", "SET", "maxmemory", "1"]).await;
    findings(&server.url(), 1, &[])
        .await
        .about("broken", "memory", "refuses writes");
}

#[tokio::test]
async fn remedies_grant_missing_permissions() {
    let server = RedisServer::start_with(&FINE).await;
    let permissions =
        "+ping +eval +evalsha +subscribe +time +exists +get +getex +set +del +pexpire +pttl";
    let user = [
        "ACL",
        "SETUSER",
        "poor",
        "on",
        ">s3cret",
        "resetkeys",
        "~other:*",
        "-@all",
    ];
    let user: Vec<_> = user.into_iter().chain(permissions.split(' ')).collect();
    order(&server, &user).await;
    let url = format!("redis://poor:s3cret@127.0.0.1:{}", server.port());
    let found = findings(&url, 1, &[]).await;
    let text = found.0.to_string();
    assert!(!text.contains("s3cret"), "{text}");
    found.about("unknown", "permissions", "ACL SETUSER poor +info");
    // A missing permission can hide another one: a denied command on a denied key.
    for _ in 0..4 {
        let ended = examine(&url, &["--json"]).await;
        let told: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
        let advised = told["findings"].as_array().expect("it is a list").iter();
        for advice in advised.filter(|it| it["topic"] == "permissions") {
            if let Some(words) = advice["do"].as_str() {
                order(&server, &words.split(' ').collect::<Vec<_>>()).await;
            }
        }
    }
    // A user that can read all settings can read the passwords, so no finding recommends that permission.
    let found = findings(&url, 1, &[]).await;
    found.about("ok", "permissions", "all permissions");
    found.about("unknown", "persistence", "CONFIG GET appendfsync");
    for known in ["persistence", "unknown"] {
        findings(&url, 0, &["--accept", known]).await;
    }
}

#[tokio::test]
async fn checks_that_could_not_run_count_as_failures() {
    let server = RedisServer::start_with(&FINE).await;
    let blind = "ACL SETUSER blind on >s3cret ~* &* +@all -info -config";
    order(&server, &blind.split(' ').collect::<Vec<_>>()).await;
    let url = format!("redis://blind:s3cret@127.0.0.1:{}", server.port());
    findings(&url, 1, &[])
        .await
        .about("unknown", "permissions", "eviction");
    findings(&url, 0, &["--accept", "unknown"]).await;
    let only_inspects = "ACL SETUSER blind -zadd";
    order(&server, &only_inspects.split(' ').collect::<Vec<_>>()).await;
    findings(&url, 1, &["--accept", "unknown"]).await.about(
        "broken",
        "permissions",
        "--accept permissions",
    );
    findings(&url, 0, &["--accept", "unknown,permissions"]).await;
}

#[tokio::test]
async fn how_often_the_log_is_flushed_is_judged_by_the_layout() {
    let servers = [
        RedisServer::start_with(&FINE).await,
        RedisServer::start_with(&FINE).await,
        RedisServer::start_with(&FINE).await,
    ];
    findings(&servers[0].url(), 0, &[])
        .await
        .about("note", "persistence", "flushed every second");
    let [one, two, three] = servers.each_ref().map(RedisServer::port);
    let quorum = format!("redlock://127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{three}");
    let found = findings(&quorum, 1, &[]).await;
    found.about("risk", "persistence", "CONFIG SET appendfsync always");
    for server in &servers {
        order(server, &["CONFIG", "SET", "appendfsync", "always"]).await;
    }
    // The recent start and the shared machine are separate risks.
    let found = findings(&quorum, 1, &[]).await;
    found.about("ok", "persistence", "flushed after each write");
    order(&servers[0], &["CONFIG", "SET", "appendfsync", "no"]).await;
    findings(&servers[0].url(), 1, &[]).await.about(
        "risk",
        "persistence",
        "flushed by the operating system",
    );
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_not_shown() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
    let wrong = format!("redis://:w0rse@127.0.0.1:{}", server.port());
    let Ended { stdout, stderr, .. } = examine(&wrong, &[]).await.with(1);
    assert!(stdout.contains("invalid username-password"), "{stdout}");
    assert!(!(stdout + &stderr).contains("w0rse"));
}

#[tokio::test]
async fn a_replica_takes_no_locks() {
    let master = RedisServer::start().await;
    let port = master.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    findings(&replica.url(), 1, &[])
        .await
        .about("broken", "connection", "replica");
}

#[tokio::test]
async fn a_dead_server_is_unavailable() {
    let server = RedisServer::start().await;
    server.kill();
    findings(&server.url(), 69, &[])
        .await
        .about("broken", "connection", "");
    call(&mut at("http://localhost", &[])).await.with(2);
}

#[tokio::test]
async fn third_party_data_and_locks_without_a_ttl_are_listed() {
    let server = RedisServer::start_with(&FINE).await;
    order(&server, &["SET", "dlock:{order:42}", "somebody"]).await;
    let found = findings(&server.url(), 1, &[]).await;
    found.about("risk", "locks", "not written by dlock: `order:42`");
    found.about("risk", "locks", "locks without a TTL: `order:42`");
    order(&server, &["DEL", "dlock:{order:42}"]).await;
    findings(&server.url(), 0, &[])
        .await
        .about("ok", "locks", "0 locks held");
}

#[tokio::test]
async fn a_clock_that_differs_is_noted() {
    let server = RedisServer::start_with_clock(&FINE).await;
    server.put_clock_back(Duration::from_secs(3600));
    findings(&server.url(), 0, &[])
        .await
        .about("note", "clock", "behind this machine's");
}

#[tokio::test]
async fn replicas_that_have_to_confirm_must_be_there() {
    let server = RedisServer::start_with(&FINE).await;
    let url = format!("{}?min_replicas=1", server.url());
    let found = findings(&url, 1, &[]).await;
    found.about("broken", "replicas", "no replicas, but min_replicas=1");
}

#[tokio::test]
async fn a_master_of_sentinels_is_examined_with_its_replicas() {
    let sentinels = Sentinels::pooled().await;
    let found = findings(&sentinels.url(), 1, &[]).await;
    found.about("note", "replicas", "?min_replicas=1");
    found.about("note", "sentinel", "lists 1 Sentinel");
    found.about("risk", "sentinel", "on its master's machine");
    found.about("ok", "clock", "the clocks of its replicas agree");
}

#[tokio::test]
async fn a_replica_whose_clock_is_ahead_is_a_risk_of_a_failover() {
    // A failover while the machine stands still would leave the paused replica without a master.
    let sentinels = Sentinels::start_with(SentinelShape {
        replicas: 1,
        sentinels: 1,
        down_after: Duration::from_secs(60),
        ..SentinelShape::default()
    })
    .await;
    let port = sentinels.master().await.port().to_string();
    let follows = ["--replicaof", "127.0.0.1", &port];
    let replica = RedisServer::start_with_clock(&follows).await;
    sentinels.until_in_sync(&[&replica]).await;
    let address = format!("127.0.0.1:{}", replica.port());
    findings(&sentinels.url(), 1, &[])
        .await
        .about("ok", "clock", &address);
    replica.put_clock_forward(Duration::from_secs(60));
    let found = findings(&sentinels.url(), 1, &[]).await;
    found.about(
        "risk",
        "clock",
        &format!("the clock of replica {address} is "),
    );
    replica.pause();
    let found = findings(&sentinels.url(), 1, &[]).await;
    found.about("unknown", "clock", &address);
    replica.resume();
}

#[tokio::test]
async fn the_replicas_of_a_cluster_are_asked_for_their_clocks() {
    let cluster = Cluster::start(3, 1).await;
    let found = findings(&cluster.url(), 1, &[]).await;
    for node in 0..3 {
        let replica = cluster.replica_of(node).await;
        let address = format!("127.0.0.1:{}", cluster.port(replica));
        found.about("ok", "clock", &address);
    }
}

#[tokio::test]
async fn every_master_of_a_cluster_is_examined() {
    let cluster = Cluster::start(3, 0).await;
    let found = findings(&cluster.url(), 1, &[]).await;
    found.about("ok", "cluster", "3 masters");
    found.about("risk", "cluster", "3 servers on 1 host");
    found.about("risk", "replicas", "add a replica to each master");
    assert_eq!(found.0["servers"].as_array().map(Vec::len), Some(3));
    // A node of a cluster is not a single server.
    let alone = cluster.node(0).url();
    findings(&alone, 1, &[])
        .await
        .about("broken", "connection", "cluster");
}

#[tokio::test]
async fn a_quorum_loses_a_server_and_then_another_one() {
    let (servers, url) = quorum().await;
    servers[2].kill();
    let found = findings(&url, 1, &[]).await;
    found.about("risk", "quorum", "if one more server fails");
    found.about("risk", "persistence", "keep a restarted server out");
    let down = found.about("broken", "connection", "");
    let is_named = down["server"]
        .as_str()
        .is_some_and(|it| it.contains(&servers[2].port().to_string()));
    assert!(is_named, "{down}");
    servers[1].kill();
    findings(&url, 69, &[])
        .await
        .about("broken", "quorum", "1 of 3 servers answer");
}

#[tokio::test]
async fn an_even_quorum_and_one_of_two_servers() {
    let servers = [
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
        RedisServer::start().await,
    ];
    let hosts: Vec<_> = servers
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    let found = findings(&format!("redlock://{}", hosts.join(",")), 1, &[]).await;
    found.about("note", "quorum", "no more failures than 3 servers");
    found.about("risk", "quorum", "4 servers on 1 host");
    let two = format!("redlock://{}", hosts[..2].join(","));
    let refused = call(&mut at(&two, &[])).await.with(2);
    assert!(refused.stderr.contains("three"), "{}", refused.stderr);
}
