//! What can be wrong around a lock: the server, the URL, the key, the options. Each is a typed
//! error in time, which says what to do and no secret, and no body ever runs without its lease.
#![cfg(feature = "redis")]

mod a_dying_server;
mod garbage;
mod hostile_values;
mod keys_and_options;
mod modes;
mod no_server;
mod odd_servers;
mod passwords;
mod silence;
mod troubled_servers;
mod urls;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use dlock::{LockError, LockManager, store::StoreError};
use dlock_testkit::Proxy;
use redis::aio::MultiplexedConnection;

use crate::common::{LIMIT, builder, soon};

const SECRET: &str = "s3cr3t-p4ssw0rd";

/// Long enough for several questions, short enough for a test.
const WAIT: Duration = Duration::from_millis(2500);

/// A port on which nobody listens as long as the proxy lives.
fn refused() -> (Proxy, String) {
    let proxy = Proxy::start(1);
    proxy.refuse();
    let url = proxy.url();
    (proxy, url)
}

/// A manager that need not be connected, and gives up soon.
fn lazy(url: &str) -> LockManager {
    LockManager::builder()
        .response_timeout(Duration::from_millis(300))
        .wait(WAIT)
        .connect_lazy(url)
        .unwrap()
}

/// A manager that need not be connected, for refusals that end a wait at once: a machine that stands still does not end it
/// before.
fn patient(url: &str) -> LockManager {
    builder().wait(LIMIT).connect_lazy(url).unwrap()
}

/// Tries to run a body and expects it not to.
async fn refusal(manager: &LockManager) -> LockError {
    let started = AtomicBool::new(false);
    let body = manager
        .lock("order:42")
        .run(async |_| started.store(true, Ordering::Relaxed));
    let error = soon(body).await.expect_err("there is no lease to be had");
    assert!(
        !started.load(Ordering::Relaxed),
        "a body ran without its lease"
    );
    error
}

/// The failure of the store, in an error that names the key.
fn unavailable(error: &LockError) -> &StoreError {
    let text = error.to_string();
    assert!(text.contains("`order:42`"), "it names no key: {text}");
    match error {
        LockError::Unavailable { reason, .. } => reason,
        other => panic!("it is something else: {other}"),
    }
}

#[track_caller]
fn assert_says(error: &impl std::fmt::Display, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
}

async fn run(connection: &mut MultiplexedConnection, words: &[&str]) -> redis::Value {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    command.query_async(connection).await.unwrap()
}
