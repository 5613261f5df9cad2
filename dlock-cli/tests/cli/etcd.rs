//! The commands over etcd.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod doctor;
mod reads;
mod unlock;
mod watch;

use std::{process::Command, time::Duration};

use dlock::{LockManager, LockManagerBuilder};
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdMake, EtcdServer, eventually};
use serde_json::{Value, json};

use super::{Ended, LIMIT, call, clean, until_answered};

/// Returns the program with a URL and a namespace.
fn at(url: &str, namespace: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    clean(&mut command);
    command
        .env("DLOCK_URL", url)
        .args(["--namespace", namespace])
        .args(arguments);
    command
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

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
        let server = EtcdServer::shared(EtcdMake::Usual).await;
        Self { server, name }
    }

    /// A manager, which stands for a process.
    async fn manager(&self, application: &str) -> LockManager {
        let builder = builder(application).namespace(self.name);
        builder.connect(&self.server.url()).await.unwrap()
    }

    /// Calls the program.
    async fn call(&self, arguments: &[&str]) -> Ended {
        let url = self.server.url();
        until_answered(async || call(&mut at(&url, self.name, arguments)).await).await
    }

    /// The names of the claims on a key, in the order of the queue.
    async fn claims(&self, key: &str) -> Vec<String> {
        self.server.keys(&format!("{}/{key}/", self.name)).await
    }

    /// Puts a claim that stays until it is deleted, however slow the machine is. `rest` is what follows the base of fences.
    async fn put(&self, key: &str, number: u64, rest: &str) {
        let name = self.claim(key, number);
        self.server.put(&name, &format!("1 1000 {rest}")).await;
    }

    /// The name of a claim of this number.
    fn claim(&self, key: &str, number: u64) -> String {
        format!("{}/{key}/{number:032x}.1", self.name)
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
    let namespace = Namespace::new("run").await;
    let script = "echo $DLOCK_KEY; echo $DLOCK_FENCING_TOKEN";
    let ran = namespace
        .call(&["run", "job:1", "sh", "-c", script])
        .await
        .with(0);
    let (key, token) = ran.stdout.trim().split_once('\n').unwrap();
    assert_eq!(key, "job:1");
    assert!(token.parse::<i64>().unwrap() > 0);
    assert_eq!(namespace.claims("job:1").await, [""; 0]);

    let billing = namespace.manager("billing").await;
    let guard = billing.lock("job:1").acquire().await.unwrap();
    let busy = namespace
        .call(&["run", "-n", "job:1", "true"])
        .await
        .with(75);
    assert!(busy.stderr.contains("billing@"), "{}", busy.stderr);
    guard.release().await.unwrap();
    let refused = namespace.call(&["--raw-keys", "ls"]).await.with(2);
    assert!(
        refused.stderr.contains("etcd has no raw keys"),
        "{}",
        refused.stderr
    );
}

#[tokio::test]
async fn a_benchmark_measures_and_leaves_no_locks() {
    let namespace = Namespace::new("bench").await;
    let words = ["bench", "--seconds", "0.2", "--tasks", "4", "--json"];
    let told = json(&namespace.call(&words).await.with(0).stdout);
    let measured = told["measurements"].as_array().unwrap();
    assert_eq!(measured.len(), 5, "{told:#}");
    for measured in measured {
        assert!(measured["count"].as_u64().unwrap() >= 1, "{measured}");
    }
    eventually(LIMIT, "nothing is held", async || {
        namespace.server.keys("bench/").await == ["bench//fence"]
    })
    .await;
}
