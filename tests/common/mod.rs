//! What the behaviour tests share.
#![allow(dead_code, reason = "each test file uses its own part of it")]
#![allow(unused_imports, reason = "each test file uses its own part of it")]
#![allow(unused_macros, reason = "each test file uses its own part of it")]

mod clock;
#[cfg(feature = "redis")]
mod cluster;
mod env;
mod faulty;
mod log;
mod node;
mod one_key;
#[cfg(feature = "redis")]
mod program;
mod quorum;
#[cfg(feature = "redis")]
mod replicated;
#[cfg(all(feature = "redis", feature = "tls"))]
mod ways;
mod wire;

use std::{
    future::{Future, poll_fn},
    path::Path,
    task::Poll,
    time::Duration,
};

use dlock::{LockError, LockManager, LockManagerBuilder};
use dlock_waiting::within;
use futures_util::FutureExt;

pub(crate) use clock::TestClock;
#[cfg(feature = "redis")]
pub(crate) use cluster::RedisCluster;
#[cfg(feature = "redis")]
pub(crate) use env::{
    ANSWER, HasServer, OldRedis, RawKeys, Redis, Valkey, delete_lock, stored, without_fences,
};
pub(crate) use env::{Env, Memory, assert_idle};
pub(crate) use faulty::Faulty;
pub(crate) use log::Log;
pub(crate) use node::{Mood, Node};
pub(crate) use one_key::{LABEL, OneKey};
#[cfg(feature = "redis")]
pub(crate) use program::Program;
#[cfg(feature = "redis")]
pub(crate) use quorum::QuorumOfRedis;
pub(crate) use quorum::{NODES, QuorumOfMemory, QuorumWithFaults};
#[cfg(feature = "redis")]
pub(crate) use replicated::{Confirmed, Sentinel};
#[cfg(all(feature = "redis", feature = "tls"))]
pub(crate) use ways::{
    Acl, By, PERMISSIONS, Reached, RedisByResp2, RedisOverTls, RedisUnderAcl, Resp2, Tls, Way,
    set_permissions,
};
pub(crate) use wire::{Fate, Kind, Wire};

/// Polls `future` until nothing but an event from outside can move it.
pub(crate) async fn begin<F: Future + Unpin>(future: &mut F) {
    for _ in 0..100 {
        poll_fn(|context| {
            assert!(future.poll_unpin(context).is_pending(), "it has ended");
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("this package lies in the workspace")
}

/// Nothing in a test takes that long unless it hangs; less than the default TTL of 30 s, so what
/// happens within it did not wait for a lease to run out.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The output of `future`, which must not hang.
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    // Boxed, as what it is given may be large.
    let future = Box::pin(future);
    async move {
        within(LIMIT, future)
            .await
            .unwrap_or_else(|| panic!("it hangs (waited for at {caller})"))
    }
}

/// Makes a test of every case for memory, for a Redis server, and for a cluster.
///
/// A case is an `async fn` over an [`Env`], in a module of the test's own. The tests are named
/// after store and case.
macro_rules! for_every_store {
    ($($cases:tt)*) => {
        mod memory {
            crate::common::cases! { paused crate::common::Memory: $($cases)* }
        }

        #[cfg(feature = "redis")]
        mod redis {
            crate::common::cases! { real crate::common::Redis: $($cases)* }
        }

        #[cfg(feature = "redis")]
        mod redis_cluster {
            crate::common::cases! { real crate::common::RedisCluster: $($cases)* }
        }
    };
}
pub(crate) use for_every_store;

/// Makes a test of every case for one [`Env`], with `paused` or `real` time.
macro_rules! cases {
    (paused $env:path: $($module:ident { $($case:ident,)* })*) => {
        $($(
            #[tokio::test(start_paused = true)]
            async fn $case() {
                super::$module::$case::<$env>().await;
            }
        )*)*
    };
    (real $env:path: $($module:ident { $($case:ident,)* })*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                super::$module::$case::<$env>().await;
            }
        )*)*
    };
}
pub(crate) use cases;

/// What a user may see of an error.
pub(crate) fn shown(error: &impl std::error::Error) -> String {
    format!("{error} {error:?}")
}

/// A builder of managers whose server may take as long as [`ANSWER`]: the default limit passes on a machine that stands
/// still for a second, and a caller that asks once is refused then.
#[cfg(feature = "redis")]
pub(crate) fn builder() -> LockManagerBuilder {
    LockManager::builder().response_timeout(ANSWER)
}

/// A manager of [`builder`] that is connected.
#[cfg(feature = "redis")]
pub(crate) async fn connect(url: &str) -> LockManager {
    soon(builder().connect(url)).await.unwrap()
}

/// Whether somebody has the lock; who has not keeps it no longer than to see that.
pub(crate) async fn is_busy(manager: &LockManager, key: &str) -> bool {
    let taken = soon(manager.lock(key).try_acquire()).await;
    taken.unwrap().is_none()
}

/// Whether the lease was lost for a reason that `cause` accepts.
pub(crate) fn is_lost<T>(
    outcome: &Result<T, LockError>,
    cause: impl FnOnce(&dlock::LostCause) -> bool,
) -> bool {
    matches!(outcome, Err(LockError::Lost { cause: found, .. }) if cause(found))
}

/// The URL of a server that answers, and not as Redis would.
pub(crate) async fn no_redis() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        while let Ok((mut client, _)) = listener.accept().await {
            client
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .ok();
            // Held open: it is the answer that is wrong.
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(client);
            });
        }
    });
    format!("redis://127.0.0.1:{port}")
}
