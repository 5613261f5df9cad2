//! How a lease was lost.

use std::time::Duration;

use dlock::{LockError, LockManager, LostCause, store::memory::MemoryStore};
use dlock_testkit::RedisServer;
use futures_util::{StreamExt as _, stream};

use crate::common::{TestClock, connect, soon};
use crate::error_page::{KEY, OF_FORKS, PATIENCE, page::Page, run};

/// Loses the lease of a body that would never end.
pub(crate) async fn provoke(code: &str) -> LockError {
    let manager = LockManager::memory();
    let ttl = Duration::from_millis(300);
    let outcome = match code {
        "revoked" => {
            let server = RedisServer::start().await;
            let manager = connect(&server.url()).await;
            // The renewal that finds it gone comes long before the deadline.
            let lock = manager.lock(KEY).ttl(30 * ttl);
            lock.run(async |_| {
                run(&server, &["DEL", "dlock:{order:42}"]).await;
                std::future::pending().await
            })
            .await
        }
        "not-renewed" => {
            let server = RedisServer::start().await;
            let builder = LockManager::builder().response_timeout(PATIENCE);
            let manager = builder.connect(&server.url()).await.unwrap();
            // Not much shorter: failures must be known before the deadline.
            let lock = manager.lock(KEY).ttl(20 * ttl);
            lock.run(async |_| {
                server.kill();
                std::future::pending().await
            })
            .await
        }
        "renewal-disabled" => {
            let lock = manager.lock(KEY).ttl(ttl).renew(false);
            lock.run(async |_| std::future::pending().await).await
        }
        "expired" => {
            let clock = TestClock::new();
            let builder = LockManager::builder().clock(clock.clone());
            let manager = builder.build_with_store(MemoryStore::new()).unwrap();
            let lock = manager.lock(KEY).ttl(Duration::from_secs(3600));
            lock.run(async |_| {
                clock.suspend(Duration::from_secs(3600));
                std::future::pending().await
            })
            .await
        }
        "max-hold" => {
            let lock = manager.lock(KEY).max_hold(ttl);
            lock.run(async |_| std::future::pending().await).await
        }
        "shut-down" => {
            let body = manager.lock(KEY).run(async |_| {
                let manager = manager.clone();
                tokio::spawn(async move { manager.shutdown(Duration::ZERO).await });
                std::future::pending().await
            });
            body.await
        }
        other => panic!("nobody knows how to provoke `{other}`"),
    };
    let Err(error): Result<std::convert::Infallible, _> = outcome;
    error
}

#[tokio::test]
async fn each_is_on_the_page() {
    let page = Page::read();
    let here = |code: &&&str| !OF_FORKS.contains(code);
    let codes = stream::iter(LostCause::CODES.iter().filter(here));
    let all = codes.for_each_concurrent(None, async |code| {
        let error = soon(provoke(code)).await;
        let LockError::Lost { key, cause, .. } = &error else {
            panic!("`{code}`: {error}");
        };
        assert_eq!((key.as_str(), cause.code()), (KEY, *code), "{error}");
        page.assert_shows(code, &error);
        page.assert_shows("lost", &error);
    });
    all.await;
}
