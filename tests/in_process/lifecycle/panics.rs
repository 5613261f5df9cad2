//! Bodies that panic.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use dlock::{KeyPart, LockError, LockManager, PartWriter, distributed_lock};
use tokio::{task::yield_now, time::Instant};

use crate::common::{Faulty, is_busy, soon};
use crate::lifecycle::{assert_clean, hold, memory, threads};

#[tokio::test]
async fn a_body_that_panics_gives_the_lock_back() {
    let (store, manager) = memory();
    let lock = manager.lock("order:42");
    let body = lock.run(async |_| {
        yield_now().await;
        panic!("on purpose");
    });
    let outcome: Result<Result<(), _>, _> = soon(tokio::spawn(body)).await;
    let panic = outcome.unwrap_err().into_panic();
    assert_eq!(
        panic.downcast_ref(),
        Some(&"on purpose"),
        "the caller's own"
    );
    hold(&manager, "order:42").await.release().await.unwrap();
    assert_clean(&store, &manager).await;
}

#[tokio::test]
async fn a_locked_function_that_panics_gives_the_lock_back() {
    #[distributed_lock(key = "order:<id>", manager = locks)]
    async fn settle(locks: LockManager, id: u32) -> Result<(), LockError> {
        panic!("on purpose");
    }

    let (store, manager) = memory();
    assert!(
        soon(tokio::spawn(settle(manager.clone(), 42)))
            .await
            .is_err()
    );
    assert_clean(&store, &manager).await;
}

/// A guard that is dropped while unwinding, outside of any runtime.
#[test]
fn a_guard_dropped_while_unwinding_is_released() {
    let runtime = threads(1);
    let (store, manager) = memory();
    let guard = runtime.block_on(hold(&manager, "order:42"));
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _guard = guard;
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    runtime.block_on(assert_clean(&store, &manager));
}

/// The thread that unwound knows nothing of the key any more.
#[tokio::test]
async fn a_panic_is_not_taken_for_a_lock_that_is_held() {
    let (_store, manager) = memory();
    let lock = manager.lock("order:42");
    let body = lock.clone().run(async |_| panic!("on purpose"));
    let outcome: Result<Result<(), _>, _> = soon(tokio::spawn(body)).await;
    assert!(outcome.is_err());
    assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7));
}

// H8
/// The key is written before anything is asked for: the panic is the caller's, and nothing is left.
#[tokio::test]
async fn a_value_that_panics_in_the_key_leaves_nothing() {
    struct Panics;

    impl KeyPart for Panics {
        fn write_part(&self, out: &mut PartWriter<'_>) {
            out.push_str("half a value");
            panic!("on purpose");
        }
    }

    #[distributed_lock(key = "order:<id>", manager = locks)]
    async fn settle(locks: &LockManager, id: Panics) -> Result<(), LockError> {
        Ok(())
    }

    let (store, manager) = memory();
    let call = manager.clone();
    let outcome = soon(tokio::spawn(async move { settle(&call, Panics).await })).await;
    let panic = outcome.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    assert_eq!(manager.active_keys(), 0);
    assert_clean(&store, &manager).await;
}

/// What the lock is held for at least does not depend on how its body ends.
#[tokio::test(start_paused = true)]
async fn a_body_that_panics_is_kept_for_its_min_hold() {
    #[distributed_lock(key = "order:<id>", manager = locks, min_hold = "1m")]
    async fn settle(locks: LockManager, id: u32) -> Result<(), LockError> {
        panic!("on purpose");
    }

    let least = Duration::from_secs(60);
    for is_attribute in [true, false] {
        let faulty = Faulty::start();
        let before = Instant::now();
        let panicked = if is_attribute {
            tokio::spawn(settle(faulty.manager.clone(), 42)).await
        } else {
            let lock = faulty.manager.lock("order:42").min_hold(least);
            let body = lock.run(async |_| panic!("on purpose"));
            tokio::spawn(body).await
        };
        assert!(panicked.unwrap_err().is_panic());
        let lock = faulty.other.lock("order:42").wait(Duration::from_secs(90));
        let guard = lock.acquire().await.unwrap();
        let kept = before.elapsed();
        assert!(kept >= least, "{kept:?}");
        guard.release().await.unwrap();
        // A guard that is dropped while its task unwinds.
        let before = Instant::now();
        let manager = faulty.manager.clone();
        let panicked = tokio::spawn(async move {
            let lock = manager.lock("order:42").min_hold(least);
            let _guard = lock.acquire().await.unwrap();
            panic!("on purpose");
        });
        let panicked: Result<(), _> = panicked.await;
        assert!(panicked.unwrap_err().is_panic());
        tokio::time::sleep_until(before + least - Duration::from_millis(10)).await;
        assert!(
            is_busy(&faulty.other, "order:42").await,
            "broken promise: two hold the key"
        );
    }
}

/// The same in memory, where a lock could be freed in a destructor.
#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_in_a_panic_is_kept_for_its_min_hold_in_memory() {
    let least = Duration::from_secs(60);
    let (store, manager) = memory();
    let other = LockManager::builder().build_with_store(store).unwrap();
    let before = Instant::now();
    let panicked = tokio::spawn(async move {
        let lock = manager.lock("order:42").min_hold(least);
        let _guard = lock.acquire().await.unwrap();
        panic!("on purpose");
    });
    let panicked: Result<(), _> = panicked.await;
    assert!(panicked.unwrap_err().is_panic());
    tokio::time::sleep_until(before + least - Duration::from_millis(10)).await;
    assert!(
        is_busy(&other, "order:42").await,
        "broken promise: two hold the key"
    );
}
