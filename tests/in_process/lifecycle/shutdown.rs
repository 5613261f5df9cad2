//! Managers that are closed.

use std::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};

use dlock::{LockError, LockManager, LostCause, ShutdownReport, Wait, store::memory::MemoryStore};
use dlock_waiting::eventually;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::common::{Fate, Kind, LIMIT, Wire, assert_idle, is_lost, soon};
use crate::lifecycle::{TTL, assert_clean, hold, memory};

#[tokio::test(start_paused = true)]
async fn of_an_idle_manager_ends_at_once_and_refuses_what_comes() {
    let (store, manager) = memory();
    manager.health().await.unwrap();
    let before = Instant::now();
    assert_eq!(manager.shutdown(TTL).await, ShutdownReport::default());
    assert!(before.elapsed().is_zero());
    let started = AtomicBool::new(false);
    let body = manager
        .lock("order:42")
        .run(async |_| started.store(true, Ordering::Relaxed));
    let error = body.await.unwrap_err();
    assert!(matches!(error, LockError::Closed { .. }), "{error}");
    assert!(error.to_string().contains("`order:42`"), "{error}");
    assert_eq!(error.retry_after(), None);
    assert!(!started.load(Ordering::Relaxed));
    // A clone is the same manager, and a second time changes nothing.
    assert!(manager.clone().lock("order:7").try_acquire().await.is_err());
    assert!(manager.health().await.is_err());
    assert_eq!(manager.shutdown(TTL).await, ShutdownReport::default());
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn refuses_waiters_at_once_and_waits_for_holders() {
    let (store, manager) = memory();
    let (finish, finished) = oneshot::channel();
    let body = manager
        .lock("order:42")
        .ttl(TTL)
        .run(async |_| finished.await);
    let body = tokio::spawn(body);
    eventually(LIMIT, "it is held", async || store.len() == 1).await;
    let other = LockManager::builder()
        .build_with_store(store.clone())
        .unwrap();
    let waiters = [
        manager.lock("order:42"),
        manager.lock("order:42").wait(Wait::Forever),
    ];
    let mut waiters = waiters.map(|lock| Box::pin(lock.acquire()));
    for waiter in &mut waiters {
        let waits = poll_fn(|context| Poll::Ready(waiter.as_mut().poll(context).is_pending()));
        assert!(waits.await);
    }

    let before = Instant::now();
    let shutdown = tokio::spawn({
        let manager = manager.clone();
        async move { manager.shutdown(20 * TTL).await }
    });
    for waiter in waiters {
        let error = waiter.await.unwrap_err();
        assert!(matches!(error, LockError::Closed { .. }), "{error}");
    }
    assert!(
        before.elapsed().is_zero(),
        "they did not wait for the holder"
    );
    // It is renewed meanwhile, or it would be lost.
    sleep(5 * TTL).await;
    assert!(!shutdown.is_finished());
    finish.send("done").unwrap();
    assert_eq!(body.await.unwrap(), Ok(Ok("done")));
    assert_eq!(shutdown.await.unwrap(), ShutdownReport::default());
    assert_eq!(before.elapsed(), 5 * TTL, "no longer than the holder took");
    assert_clean(&store, &manager).await;
    hold(&other, "order:42").await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cuts_short_what_takes_too_long() {
    let (store, manager) = memory();
    let body = manager
        .lock("order:42")
        .run(async |_| std::future::pending::<()>().await);
    let body = tokio::spawn(body);
    let guard = hold(&manager, "order:7").await;
    eventually(LIMIT, "both are held", async || store.len() == 2).await;
    let before = Instant::now();
    let limit = Duration::from_secs(5);
    let (report, outcome) = tokio::join!(manager.shutdown(limit), async {
        let outcome = body.await.unwrap();
        assert_eq!(before.elapsed(), limit);
        assert!(guard.is_lost());
        let error = guard.release().await;
        assert!(
            is_lost(&error, |cause| *cause == LostCause::ShutDown),
            "{error:?}"
        );
        outcome
    });
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::ShutDown),
        "{outcome:?}"
    );
    assert_eq!((report.cut_short, report.unreleased), (2, 0));
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn reports_what_the_store_has_not_confirmed() {
    let store = MemoryStore::new();
    let wire = Wire::new(store.clone());
    let manager = LockManager::builder()
        .build_with_store(wire.clone())
        .unwrap();
    let guard = hold(&manager, "order:42").await;
    wire.always(Kind::Release, Fate::Swallowed);
    drop(guard);
    let report = soon(manager.shutdown(Duration::from_secs(3))).await;
    assert_eq!(report.unreleased, 1);
    wire.heal();
    assert_idle(&[&manager]).await;
    assert!(store.is_empty());
}

/// The manager is closed by the first poll of the future.
#[tokio::test(start_paused = true)]
async fn given_up_leaves_the_holders_alone() {
    let (store, manager) = memory();
    let guard = hold(&manager, "order:42").await;
    let impatient = tokio::time::timeout(Duration::from_secs(1), manager.shutdown(TTL));
    assert!(impatient.await.is_err());
    sleep(2 * TTL).await;
    guard.ensure_held().expect("it goes on being renewed");
    assert!(manager.lock("order:7").acquire().await.is_err());
    guard.release().await.unwrap();
    assert_clean(&store, &manager).await;
}
