//! A machine that was suspended. tokio's clock stood still, the store's went on.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{LockManager, LostCause, OnLost, store::memory::MemoryStore};
use tokio::{sync::Notify, task::yield_now, time::Instant};

use crate::common::{Kind, TestClock, Wire, assert_idle, is_lost, soon};
use crate::lifecycle::{TTL, assert_clean};

fn sleepy() -> (MemoryStore, TestClock, LockManager) {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let builder = LockManager::builder().clock(clock.clone());
    let manager = builder.build_with_store(store.clone()).unwrap();
    (store, clock, manager)
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_lost_as_soon_as_somebody_looks() {
    let (_store, clock, manager) = sleepy();
    let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
    clock.suspend(Duration::from_millis(29_999));
    guard.ensure_held().expect("a millisecond is left");
    assert_eq!(guard.remaining(), Duration::from_millis(1));
    clock.suspend(Duration::from_millis(1));
    assert!(
        guard.is_lost(),
        "broken promise: a lease is believed beyond its end"
    );
    assert!(is_lost(&guard.ensure_held(), |cause| *cause == LostCause::Expired));
    assert!(is_lost(&guard.release().await, |cause| *cause == LostCause::Expired));
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_is_cancelled_within_a_second() {
    let (store, clock, manager) = sleepy();
    // Far from its next renewal and its deadline.
    let ttl = Duration::from_secs(3600);
    let asleep = Arc::new(Notify::new());
    let body = manager.lock("order:42").ttl(ttl).run(async |_| {
        clock.suspend(ttl);
        asleep.notify_one();
        std::future::pending::<()>().await;
    });
    let (outcome, woken) = tokio::join!(body, async {
        asleep.notified().await;
        Instant::now()
    });
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Expired),
        "{outcome:?}"
    );
    assert!(
        woken.elapsed() <= Duration::from_millis(1100),
        "{:?}",
        woken.elapsed()
    );
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_sleep_brings_the_renewal_forward() {
    let store = MemoryStore::new();
    let (wire, clock) = (Wire::new(store.clone()), TestClock::new());
    let builder = LockManager::builder().clock(clock.clone());
    let manager = builder.build_with_store(wire.clone()).unwrap();
    let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let since = Instant::now();
    clock.suspend(TTL / 2);
    wire.until_sent(Kind::Renew, 1).await;
    assert!(
        since.elapsed() <= Duration::from_millis(1100),
        "not after ten seconds"
    );
    guard.release().await.unwrap();
    assert_idle(&[&manager]).await;
}

/// The lease ends between the grant and the first poll of the body.
#[tokio::test(start_paused = true)]
async fn a_body_is_never_started_with_a_lease_that_has_ended() {
    let (store, clock, manager) = sleepy();
    for on_lost in [OnLost::Stop, OnLost::Finish] {
        let lock = manager.lock("order:42").ttl(TTL).on_lost(on_lost);
        let guard = lock.acquire().await.unwrap();
        clock.suspend(TTL);
        let started = AtomicBool::new(false);
        let outcome = guard
            .run_while_held(async { started.store(true, Ordering::Relaxed) })
            .await;
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::Expired),
            "{outcome:?}"
        );
        assert!(!started.load(Ordering::Relaxed));
        drop(guard);
        assert_clean(&store, &manager).await;
    }
}

/// What a body has borrowed or locked is free when its caller hears of the loss, whether or not that drops the future.
#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_before_its_caller_hears_of_the_loss() {
    let (store, clock, manager) = sleepy();
    let guard = manager.lock("order:42").ttl(TTL).acquire().await.unwrap();
    let in_use = Arc::new(());
    let body_uses = in_use.clone();
    {
        let mut watch = pin!(guard.run_while_held(async move {
            clock.suspend(TTL);
            std::future::pending::<()>().await;
            drop(body_uses);
        }));
        let outcome = watch.as_mut().await;
        assert!(
            is_lost(&outcome, |cause| *cause == LostCause::Expired),
            "{outcome:?}"
        );
        assert_eq!(Arc::strong_count(&in_use), 1, "the body is gone");
    }
    drop(guard);
    assert_clean(&store, &manager).await;
}

/// A body that computes through the end of its lease is stopped at its next await.
#[tokio::test(start_paused = true)]
async fn a_body_that_was_held_up_does_not_go_on_after_its_next_await() {
    let (store, clock, manager) = sleepy();
    let reached = AtomicBool::new(false);
    let body = manager.lock("order:42").ttl(TTL).run(async |_| {
        clock.suspend(TTL);
        yield_now().await;
        reached.store(true, Ordering::Relaxed);
    });
    let outcome = body.await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Expired),
        "{outcome:?}"
    );
    assert!(!reached.load(Ordering::Relaxed));
    assert_clean(&store, &manager).await;
}

/// A virtual machine that was paused: the clocks of the guest stood still with it, and only the time of day was set
/// when it went on. The store has ended the lease meanwhile.
#[tokio::test]
async fn a_jump_of_the_time_of_day_has_leases_renewed_that_are_not_due() {
    let (store, clock, manager) = sleepy();
    // Far from its next renewal and its deadline.
    let ttl = Duration::from_secs(3600);
    let body = manager.lock("order:42").ttl(ttl).run(async |_| -> () {
        store.forget();
        // Again and again: somebody has to have looked before it.
        loop {
            clock.put_time_of_day_forward(ttl);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let outcome = soon(body).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    assert_clean(&store, &manager).await;
}

/// The renewer has gone to sleep for its second before the machine does, and notices by the clocks alone.
#[tokio::test(start_paused = true)]
async fn a_sleep_of_the_machine_is_noticed_by_a_keeper_that_has_long_been_running() {
    let (store, clock, manager) = sleepy();
    let ttl = Duration::from_secs(3600);
    let body = manager.lock("order:42").ttl(ttl).run(async |_| {
        tokio::time::sleep(Duration::from_millis(5500)).await;
        clock.suspend(ttl);
        // Nobody else looks at the clocks.
        std::future::pending::<()>().await;
    });
    let before = Instant::now();
    let outcome = body.await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Expired),
        "{outcome:?}"
    );
    let took = before.elapsed();
    assert!(took <= Duration::from_millis(6600), "{took:?}");
    assert_clean(&store, &manager).await;

    // A shorter sleep than the lease: it is renewed, and not after a third of an hour.
    let store = MemoryStore::new();
    let (wire, clock) = (Wire::new(store.clone()), TestClock::new());
    let builder = LockManager::builder().clock(clock.clone());
    let manager = builder.build_with_store(wire.clone()).unwrap();
    let guard = manager.lock("order:42").ttl(ttl).acquire().await.unwrap();
    tokio::time::sleep(Duration::from_millis(5500)).await;
    assert_eq!(wire.count(Kind::Renew), 0);
    clock.suspend(ttl / 2);
    let before = Instant::now();
    wire.until_sent(Kind::Renew, 1).await;
    assert!(before.elapsed() <= Duration::from_millis(1100));
    guard.release().await.unwrap();
    assert_idle(&[&manager]).await;
}

/// The lease has waited for another key while the machine slept, so its timers are late when the body begins.
#[tokio::test(start_paused = true)]
async fn a_body_that_begins_after_a_suspension_is_cancelled_at_its_deadline() {
    let (store, clock, manager) = sleepy();
    let lock = manager.lock("order:42").ttl(TTL).renew(false);
    let guard = lock.acquire().await.unwrap();
    // The renewer has looked at the clocks, and looks again after a second.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let remaining = Duration::from_millis(300);
    clock.suspend(guard.remaining().saturating_sub(remaining));
    let before = Instant::now();
    let outcome = guard.run_while_held(std::future::pending::<()>()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::RenewalDisabled),
        "{outcome:?}"
    );
    // tokio's timers are rounded up to a millisecond.
    let late = before.elapsed().saturating_sub(remaining);
    assert!(late <= Duration::from_millis(1), "late by {late:?}");
    drop(guard);
    assert_clean(&store, &manager).await;
}
