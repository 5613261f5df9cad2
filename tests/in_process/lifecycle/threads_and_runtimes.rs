//! Bodies that hog their thread, and callers without a runtime.

use std::{thread, time::Duration};

use dlock::{LockError, LockManager, store::memory::MemoryStore};

use crate::common::{Kind, LIMIT, Wire, assert_idle, soon};
use crate::lifecycle::{hold, memory, one_thread, threads};

/// Long enough for a machine that stands still for a second.
const TTL: Duration = Duration::from_secs(3);

/// A body that does not await until it has been renewed four times.
async fn hog(manager: &LockManager, wire: &Wire<MemoryStore>) {
    let lock = manager.lock("order:42").ttl(TTL);
    let wire = wire.clone();
    let body = lock.run(async move |_| {
        let since = std::time::Instant::now();
        while wire.count(Kind::Renew) < 4 && since.elapsed() < LIMIT / 2 {
            thread::sleep(Duration::from_millis(5));
        }
        wire.count(Kind::Renew) >= 4
    });
    assert_eq!(soon(tokio::spawn(body)).await.unwrap(), Ok(true));
}

/// On a runtime of several threads the lease is renewed by another one.
#[test]
fn a_body_that_hogs_its_thread_keeps_its_lease() {
    threads(2).block_on(async {
        let wire = Wire::new(MemoryStore::new());
        let manager = LockManager::builder()
            .build_with_store(wire.clone())
            .unwrap();
        // Its renewal runs already.
        let other = hold(&manager, "order:7").await;
        hog(&manager, &wire).await;
        other.release().await.unwrap();
        assert_idle(&[&manager]).await;
    });
}

/// Also if it is the first, whose renewal was started from the thread that it hogs.
#[test]
fn the_first_body_of_all_that_hogs_its_thread_keeps_its_lease() {
    threads(2).block_on(async {
        let wire = Wire::new(MemoryStore::new());
        let manager = LockManager::builder()
            .build_with_store(wire.clone())
            .unwrap();
        hog(&manager, &wire).await;
        assert_idle(&[&manager]).await;
    });
}

#[test]
fn a_runtime_of_one_thread_renews_between_awaits() {
    let runtime = one_thread();
    runtime.block_on(async {
        let wire = Wire::new(MemoryStore::new());
        let manager = LockManager::builder()
            .build_with_store(wire.clone())
            .unwrap();
        let lock = manager.lock("order:42").ttl(TTL);
        let body = lock.run(async |_| wire.until_sent(Kind::Renew, 3).await);
        soon(body).await.unwrap();
        assert_idle(&[&manager]).await;
    });
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let (_store, manager) = memory();
    let mut acquiring = Box::pin(manager.lock("order:42").acquire());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(outcome) = acquiring.as_mut().poll(&mut context) else {
        panic!("it waits for a runtime");
    };
    let error = outcome.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("tokio runtime"), "{error}");
    assert_eq!(manager.active_keys(), 0);
}
