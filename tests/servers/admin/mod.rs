//! Inspection and forced release of locks, over every layout of servers.
#![cfg(all(feature = "admin", feature = "tls"))]

mod budget;
mod foreign;
mod layouts;
mod permissions;
mod processes;
mod publishing;
mod sharing;
mod unlocking;

use std::time::Duration;

use dlock::{
    LockKey, LockManager,
    admin::{Inspect as _, Inspector, LockInfo},
    store::redis::RedisConfig,
};
use dlock_testkit::eventually;

use crate::common::{ANSWER, LIMIT, builder, soon};

async fn inspector(url: &str) -> Inspector {
    let config = RedisConfig::new(url).response_timeout(ANSWER);
    soon(Inspector::connect(config)).await.unwrap()
}

async fn manager(url: &str) -> LockManager {
    let builder = builder().application("billing");
    soon(builder.connect(url)).await.unwrap()
}

async fn look(inspector: &Inspector, key: &str) -> Option<LockInfo> {
    let key = LockKey::new(key).unwrap();
    soon(inspector.lock(&key)).await.unwrap()
}

/// The lock as soon as it has so many waiters.
async fn with_waiters(inspector: &Inspector, key: &str, count: usize) -> LockInfo {
    let mut seen = None;
    eventually(LIMIT, "they wait", async || {
        seen = look(inspector, key).await;
        seen.as_ref().is_some_and(|it| it.waiters.len() == count)
    })
    .await;
    seen.expect("it was waited for")
}

/// Longer than anything here takes, so that no lease ends by itself.
const TTL: Duration = Duration::from_secs(60);
