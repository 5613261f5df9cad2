//! What a call can end with.

use std::time::Duration;

use dlock::{
    AlreadyInstalled, LockError, LockManager, distributed_lock, store::memory::MemoryStore,
};

use crate::common::soon;
use crate::error_page::{KEY, page::Page};

#[distributed_lock(key = "order:<id>", manager = manager)]
async fn outer(manager: &LockManager, id: u64) -> Result<(), LockError> {
    inner(manager, id).await
}

#[distributed_lock(key = "order:<id>", manager = manager)]
async fn inner(manager: &LockManager, id: u64) -> Result<(), LockError> {
    unreachable!("{id} is held by the caller, and {manager:?} sees it")
}

/// The only one here that asks for the installed manager.
#[distributed_lock(key = "order:<id>")]
async fn managed(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

async fn provoke(code: &str) -> LockError {
    let store = MemoryStore::new();
    let manager = LockManager::builder().application("billing");
    let manager = manager.build_with_store(store.clone()).unwrap();
    let lock = manager.lock(KEY);
    let outcome = match code {
        "busy" => {
            let guard = lock.acquire().await.unwrap();
            let other = LockManager::builder().build_with_store(store).unwrap();
            let waiting = other.lock(KEY).wait(Duration::from_millis(50));
            let outcome = waiting.run(async |_| ()).await;
            drop(guard);
            outcome
        }
        "unavailable" => return crate::error_page::store_errors::unreachable().await,
        "lost" => return crate::error_page::lost_causes::provoke("max-hold").await,
        "would-deadlock" => outer(&manager, 42).await,
        "would-block" => manager.blocking().lock(KEY).run(|_| ()),
        "invalid-key" => manager.lock("order:{42}").run(async |_| ()).await,
        "invalid-option" => lock.ttl(Duration::ZERO).run(async |_| ()).await,
        "not-installed" => managed(42).await.map(|_| ()),
        "closed" => {
            manager.shutdown(Duration::from_secs(1)).await;
            lock.run(async |_| ()).await
        }
        other => panic!("nobody knows how to provoke `{other}`"),
    };
    outcome.expect_err("the body must not run")
}

/// One test, as a manager stays installed.
#[tokio::test]
async fn each_is_on_the_page() {
    let page = Page::read();
    for code in LockError::CODES {
        let error = soon(provoke(code)).await;
        assert_eq!(error.code(), *code, "{error}");
        page.assert_shows(code, &error);
        let key = if *code == "invalid-key" {
            "order:{42}"
        } else {
            KEY
        };
        let named = format!("`{key}`");
        assert!(error.to_string().contains(&named), "no key in: {error}");
        #[cfg(any(feature = "axum", feature = "actix-web"))]
        {
            let status = dlock::web::Problem::of(&error).status();
            assert_eq!(page.row(code).status, Some(status), "{code}");
        }
    }

    let install = || dlock::install(LockManager::memory());
    install().expect("nobody else does");
    assert_eq!(soon(managed(42)).await, Ok(42));
    let second: AlreadyInstalled = install().expect_err("once is enough");
    page.assert_shows("already-installed", &second);
}
