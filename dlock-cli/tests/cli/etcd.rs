//! The commands over etcd.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod doctor;
mod reads;
mod unlock;
mod watch;

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder};
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdMake, EtcdServer};
use serde_json::json;

use super::{
    Ended, LIMIT, call,
    cases::{self, Claim, Place, at, json},
    until_answered,
};

fn builder(application: &str) -> LockManagerBuilder {
    LockManager::builder()
        .scheme("etcd", Etcd)
        .application(application)
        .ttl(Duration::from_secs(60))
        .response_timeout(Duration::from_secs(10))
        .connect_timeout(LIMIT)
}

/// A namespace of a test's own, on a server that all tests use.
struct Namespace {
    server: &'static EtcdServer,
    name: &'static str,
}

impl Namespace {
    async fn new(name: &'static str) -> Self {
        Self::on(EtcdMake::Usual, name).await
    }

    async fn on(make: EtcdMake, name: &'static str) -> Self {
        let server = EtcdServer::shared(make).await;
        Self { server, name }
    }

    /// The name of a claim of this number.
    fn claim(&self, key: &str, number: u64) -> String {
        let key = key.replace('/', "%2F");
        format!("{}/{key}/{number:032x}.1", self.name)
    }
}

impl Place for Namespace {
    const STORE: &'static str = "etcd";
    const LONGEST: Duration = Duration::from_secs(6 * 3600);

    fn url(&self) -> String {
        self.server.url()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    async fn manager(&self, application: &str) -> LockManager {
        let builder = builder(application).namespace(self.name);
        builder.connect(&self.server.url()).await.unwrap()
    }

    async fn claims(&self, key: &str) -> Vec<String> {
        let key = key.replace('/', "%2F");
        self.server.keys(&format!("{}/{key}/", self.name)).await
    }

    fn owner(claim: &str) -> &str {
        claim.rsplit_once('/').unwrap().1
    }

    async fn put(&self, key: &str, number: u64, mode: &str, claim: Claim) {
        let name = self.claim(key, number);
        let rest = match claim {
            Claim::Holds(label) => format!("{label} - h1 -"),
            Claim::Waits(label) => format!("- - w1 {label}"),
        };
        let text = format!("1 1000 {mode} - {rest}");
        self.server.put(&name, &text).await;
    }

    async fn delete(&self, key: &str, number: u64) {
        self.server.delete(&self.claim(key, number)).await;
    }
}

/// A server with users: `shop` may lock, `looker` may read, `guest` may nothing.
async fn with_users() -> EtcdServer {
    let server = EtcdServer::start().await;
    let perm = |kind: &str| json!({"permType": kind, "key": "ZGxvY2sv", "range_end": "ZGxvY2sw"});
    let mut steps = vec![
        ("auth/user/add", json!({"name": "root", "password": "top"})),
        ("auth/role/add", json!({"name": "root"})),
        ("auth/user/grant", json!({"user": "root", "role": "root"})),
    ];
    for (user, kind) in [("shop", "READWRITE"), ("looker", "READ")] {
        steps.extend([
            ("auth/role/add", json!({"name": user})),
            ("auth/role/grant", json!({"name": user, "perm": perm(kind)})),
            ("auth/user/add", json!({"name": user, "password": "p@ss"})),
            ("auth/user/grant", json!({"user": user, "role": user})),
        ]);
    }
    steps.extend([
        (
            "auth/user/add",
            json!({"name": "guest", "password": "p@ss"}),
        ),
        ("auth/enable", json!({})),
    ]);
    for (path, body) in steps {
        server.call(path, &body).await;
    }
    server
}

/// Calls the program as this user.
async fn call_as(server: &EtcdServer, user: &str, arguments: &[&str]) -> Ended {
    until_answered(async || {
        let mut command = at(&server.url(), "dlock", arguments);
        command
            .env("DLOCK_USER", user)
            .env("DLOCK_PASSWORD", "p@ss");
        call(&mut command).await
    })
    .await
}

#[tokio::test]
async fn a_command_runs_under_a_lock_and_a_second_one_is_told_by_whom() {
    cases::a_command_runs_and_a_second_one_is_told_by_whom(Namespace::new("run").await).await;
}

#[tokio::test]
async fn a_benchmark_measures_and_leaves_no_locks() {
    cases::a_benchmark_measures_and_leaves_no_locks(Namespace::new("bench").await).await;
}

#[tokio::test]
async fn a_browser_shows_holders_and_waiters() {
    cases::a_browser_shows_holders_and_waiters(Namespace::new("browser").await).await;
}
