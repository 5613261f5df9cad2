//! `dlock doctor` over etcd.

use dlock_testkit::{EtcdEnsemble, EtcdGrpcProxy, EtcdMake, EtcdOptions, EtcdServer, eventually};
use serde_json::Value;

use super::{at, builder, call_as, json, with_users};
use crate::{LIMIT, call, until_answered};

/// The tests' servers are on one machine, share its processors, and may be of a version with faults.
const ACCEPTED: [&str; 2] = ["--accept", "version,persistence,latency,quorum"];

/// Returns the findings, after a check of the exit code.
async fn findings(url: &str, code: i32) -> Value {
    let words = [&["doctor", "--json"][..], &ACCEPTED].concat();
    let ended = until_answered(async || call(&mut at(url, "dlock", &words)).await).await;
    json(&ended.with(code).stdout)
}

fn has(told: &Value, severity: &str, topic: &str, part: &str) -> bool {
    told["findings"].as_array().unwrap().iter().any(|it| {
        let says = ["what", "why", "do"].map(|name| it[name].as_str().unwrap_or_default());
        it["topic"] == topic && it["severity"] == severity && says.join("|").contains(part)
    })
}

/// Asserts that there is a finding with this severity, topic and part of its text.
#[track_caller]
fn about(told: &Value, severity: &str, topic: &str, part: &str) {
    let found = has(told, severity, topic, part);
    assert!(found, "no {severity} {topic} with `{part}`: {told:#}");
}

#[tokio::test]
async fn a_server_is_examined() {
    let server = EtcdServer::start().await;
    let manager = builder("billing").connect(&server.url()).await.unwrap();
    let guard = manager.lock("order:1").acquire().await.unwrap();
    let before = server.revision().await;
    let told = findings(&server.url(), 0).await;
    assert_eq!(server.revision().await, before, "nothing was written");
    for (severity, topic, part) in [
        ("ok", "role", "leader"),
        ("ok", "database", "of a quota of 2.0 GiB"),
        ("ok", "permissions", "all permissions"),
        ("note", "quorum", "1 member"),
        ("ok", "quorum", "1 of 1 member in the URL answer"),
        ("ok", "locks", "1 lock held, 0 waiters"),
    ] {
        about(&told, severity, topic, part);
    }
    assert_eq!(told["layout"], "ensemble");
    assert!(!told.to_string().contains("clock"), "{told:#}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_proxy_of_etcd_is_told_from_a_member() {
    for make in [EtcdMake::Usual, EtcdMake::Old] {
        let server = EtcdServer::shared(make).await;
        let proxy = EtcdGrpcProxy::start(make, server).await;
        let manager = builder("billing").connect(&proxy.url()).await.unwrap();
        manager.lock("order:1").run(async |_| ()).await.unwrap();
        let told = findings(&proxy.url(), 1).await;
        about(&told, "risk", "role", "name the members in the URL");
        let told = findings(&server.url(), 0).await;
        assert!(!has(&told, "risk", "role", "proxy"), "{told:#}");
    }
}

#[tokio::test]
async fn a_version_with_faults_is_named() {
    let server = EtcdServer::shared(EtcdMake::Early).await;
    let told = findings(&server.url(), 0).await;
    about(&told, "risk", "version", "update to 3.5.13 or later");
    about(&told, "risk", "persistence", "other data than the rest");
}

#[tokio::test]
async fn a_full_database_is_named_with_its_remedy() {
    let options = EtcdOptions::new().argument("--quota-backend-bytes=4194304");
    let server = EtcdServer::start_with(options).await;
    let manager = builder("billing").connect(&server.url()).await.unwrap();
    manager
        .lock("order:1")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    server.fill().await;
    let told = findings(&server.url(), 1).await;
    about(&told, "broken", "database", "alarm NOSPACE");
    about(&told, "risk", "database", "of a quota of 4.0 MiB");
    let revision = server.revision().await;
    about(
        &told,
        "broken",
        "database",
        &format!("etcdctl compact {revision} && etcdctl defrag"),
    );
}

#[tokio::test]
async fn members_that_do_not_answer_and_a_missing_majority_are_named() {
    let ensemble = EtcdEnsemble::start().await;
    let url = ensemble.url();
    let told = findings(&url, 0).await;
    about(&told, "ok", "quorum", "3 members");
    about(&told, "ok", "quorum", "3 of 3 members in the URL answer");
    about(&told, "risk", "quorum", "3 servers on 1 host");
    let one = ensemble.members()[0].url();
    about(
        &findings(&one, 0).await,
        "note",
        "quorum",
        "does not name 2 members",
    );
    ensemble.members()[2].kill();
    eventually(4 * LIMIT, "the others have a leader", async || {
        let words = [&["doctor", "--json"][..], &ACCEPTED].concat();
        let ended = call(&mut at(&url, "dlock", &words)).await;
        let told = json(&ended.stdout);
        let has_lost_one = has(&told, "risk", "quorum", "2 of 3 members in the URL answer");
        has_lost_one && ended.code == Some(1) && has(&told, "ok", "locks", "0 locks held")
    })
    .await;
    ensemble.members()[1].kill();
    eventually(4 * LIMIT, "the last one has no leader", async || {
        let words = [&["doctor", "--json"][..], &ACCEPTED].concat();
        let ended = call(&mut at(&url, "dlock", &words)).await;
        ended.code == Some(69)
            && has(
                &json(&ended.stdout),
                "broken",
                "quorum",
                "none has a leader",
            )
    })
    .await;
    ensemble.members()[0].kill();
    let told = findings(&url, 69).await;
    assert_eq!(told["worst"], "broken", "{told:#}");
}

#[tokio::test]
async fn missing_permissions_and_a_refused_login_are_named() {
    let server = with_users().await;
    let examine = async |user: &str, accepted: &str, code| {
        let accepted = format!("{},{accepted}", ACCEPTED[1]);
        let words = ["doctor", "--json", "--accept", &accepted];
        json(&call_as(&server, user, &words).await.with(code).stdout)
    };
    let told = examine("shop", "unknown", 0).await;
    about(&told, "ok", "permissions", "all permissions");
    let told = examine("looker", "permissions", 0).await;
    about(&told, "broken", "permissions", "readwrite dlock/ --prefix");
    about(&told, "ok", "locks", "0 locks held");
    let told = examine("guest", "unknown", 1).await;
    about(&told, "risk", "permissions", "read dlock/ --prefix");
    about(&told, "unknown", "locks", "permission denied");
    let told = examine("nobody", "unknown", 1).await;
    about(
        &told,
        "broken",
        "connection",
        "check the user and the password",
    );
}
