//! How a connection is made: TLS, RESP2, users and passwords, names, permissions, and time.
#![cfg(all(feature = "redis", feature = "tls"))]

mod certificates;
mod credentials;
mod layouts;
mod limits;
mod names;
mod permissions;
mod proxies;
mod renewals;
mod resp2;
mod secrets;
mod subscriptions;
mod tls;

use std::time::Duration;

use dlock::{ConnectError, LockManager, LockManagerBuilder, store::StoreErrorKind};
use dlock_testkit::RedisServer;
use redis::aio::MultiplexedConnection;

use crate::common::{LIMIT, assert_idle, shown, soon};

const SECRET: &str = "s3cr3t-p4ssw0rd";

/// Tries to connect, which must fail without a second try, and show no secret.
async fn refused(builder: LockManagerBuilder, url: &str) -> (StoreErrorKind, String) {
    let builder = builder.connect_timeout(2 * LIMIT);
    failed(soon(builder.connect(url)).await)
}

/// Tries to connect for a short while.
async fn not_reached(builder: LockManagerBuilder, url: &str) -> (StoreErrorKind, String) {
    // One attempt has an end in it on a machine that stands still for a second, too.
    let builder = builder.connect_timeout(Duration::from_secs(4));
    failed(soon(builder.connect(url)).await)
}

#[track_caller]
fn failed(outcome: Result<LockManager, ConnectError>) -> (StoreErrorKind, String) {
    let error = outcome.expect_err("it cannot be used");
    let text = shown(&error);
    assert!(!text.contains(SECRET), "{text}");
    match error {
        ConnectError::Unavailable { reason, .. } => (reason.kind(), text),
        other => panic!("{other}"),
    }
}

/// A lock is taken, waited for, handed on by a hint and given back.
async fn assert_works(server: &RedisServer, one: &LockManager, other: &LockManager) {
    let mut counts = Vec::new();
    for _ in 0..5 {
        let before = server.command_count("evalsha").await;
        let held = soon(one.lock("order:42").acquire()).await.unwrap();
        let waits = async {
            let lock = other.lock("order:42").wait(LIMIT);
            soon(lock.run(async |_| ())).await.unwrap();
        };
        let gives_back = async {
            common_queue(server).await;
            soon(held.release()).await.unwrap();
        };
        tokio::join!(waits, gives_back);
        assert_idle(&[one, other]).await;
        counts.push(server.command_count("evalsha").await - before);
    }
    // Taken, waited for, and given back twice: who is told begins without asking. On a slow
    // machine a waiter may have asked before.
    assert_eq!(counts.iter().min(), Some(&4), "{counts:?}");
}

/// Waits until somebody is in the queue, whichever database the lock is in.
async fn common_queue(server: &RedisServer) {
    dlock_testkit::eventually(LIMIT, "it waits", async || {
        let mut connection = server.connection().await;
        let databases = run(&mut connection, "INFO keyspace").await;
        for line in databases.lines() {
            let Some((database, _)) = line.strip_prefix("db").and_then(|it| it.split_once(':'))
            else {
                continue;
            };
            run(&mut connection, &format!("SELECT {database}")).await;
            let queues: Vec<String> = redis::cmd("KEYS")
                .arg("*:q")
                .query_async(&mut connection)
                .await
                .unwrap();
            if !queues.is_empty() {
                return true;
            }
        }
        false
    })
    .await;
}

/// Sends a command, and shows the answer.
async fn run(connection: &mut MultiplexedConnection, command: &str) -> String {
    let mut words = command.split_whitespace();
    let mut request = redis::cmd(words.next().unwrap());
    request.arg(words.collect::<Vec<_>>());
    let answer: redis::Value = request.query_async(connection).await.unwrap();
    match answer {
        redis::Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
        redis::Value::VerbatimString { text, .. } => text,
        other => format!("{other:?}"),
    }
}

/// The lines of `CLIENT LIST` that are ours.
async fn clients(server: &RedisServer) -> Vec<String> {
    let list = run(&mut server.connection().await, "CLIENT LIST").await;
    let ours = list.lines().filter(|line| line.contains(" name=dlock:"));
    ours.map(str::to_owned).collect()
}
