//! Leases: how they come, how they are kept, how they are lost.

use std::time::Duration;

use dlock::{LockError, LockManager, OnLost, StoreErrorKind, store::memory::MemoryStore};
use tokio::time::sleep;

use crate::common::{Fate, Faulty, Kind, TestClock, Wire, assert_idle, begin};
use crate::metrics::{
    exact,
    recorded::{Recorded, counted, once},
};

const TTL: Duration = Duration::from_secs(6);

/// What becomes of a lease of [`TTL`] is counted as lost for `cause`, once, and is held no longer.
#[track_caller]
fn assert_lost(recorded: &Recorded, cause: &str) {
    let labels = format!("template=none,mode=exclusive,cause={cause}");
    assert_eq!(recorded.all("dlock_lost_total"), once(&labels));
    assert_eq!(
        recorded.count("dlock_held{template=none,mode=exclusive}"),
        0.0,
        "while its body ends"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_takes_away() {
    counted(async |recorded| {
        let store = MemoryStore::new();
        let manager = LockManager::builder()
            .build_with_store(store.clone())
            .unwrap();
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        store.forget();
        guard.lost().await;
        assert_lost(recorded, "revoked");
        let outcome = "template=none,mode=exclusive,outcome=not-owner";
        assert_eq!(recorded.all("dlock_renewals_total"), once(outcome));
        drop(guard);
        assert_idle(&[&manager]).await;
        assert_lost(recorded, "revoked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_which_only_the_release_tells_that_it_was_gone() {
    counted(async |recorded| {
        let store = MemoryStore::new();
        let manager = LockManager::builder()
            .build_with_store(store.clone())
            .unwrap();
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        store.forget();
        guard.release().await.unwrap_err();
        assert_lost(recorded, "revoked");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed() {
    counted(async |recorded| {
        let faulty = Faulty::start();
        let guard = faulty.manager.lock("k").ttl(TTL).acquire().await.unwrap();
        sleep(TTL / 2).await;
        let renewed =
            recorded.count("dlock_renewals_total{template=none,mode=exclusive,outcome=renewed}");
        assert_eq!(renewed, 1.0);
        faulty.wire.always(Kind::Renew, Fate::Lost);
        guard.lost().await;
        assert_lost(recorded, "not-renewed");
        let failed =
            recorded.count("dlock_renewals_total{template=none,mode=exclusive,outcome=failed}");
        assert!(failed > 2.0, "seen before the lease was lost");
        let requests = "dlock_requests_failed_total{request=renew,kind=disconnected}";
        assert_eq!(recorded.count(requests), failed);
        drop(guard);
        faulty.assert_clean().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_renewed_together_count_each_for_itself() {
    counted(async |recorded| {
        let manager = exact();
        let keys = ["a", "b", "c"];
        let guard = manager.lock_all(keys).ttl(TTL).acquire().await.unwrap();
        sleep(TTL / 2).await;
        let renewed =
            recorded.count("dlock_renewals_total{template=none,mode=exclusive,outcome=renewed}");
        assert_eq!(renewed, 3.0);
        assert_eq!(
            recorded
                .samples("dlock_request_seconds{request=renew}")
                .len(),
            1
        );
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn leases_that_end_as_they_were_asked_to() {
    for (cause, limited) in [("max-hold", true), ("renewal-disabled", false)] {
        counted(async |recorded| {
            let manager = exact();
            let lock = manager.lock("k").ttl(TTL);
            let lock = if limited {
                lock.max_hold(TTL)
            } else {
                lock.renew(false)
            };
            let body = lock.run(async |_| std::future::pending::<()>().await);
            assert_eq!(body.await.unwrap_err().code(), "lost");
            assert_lost(recorded, cause);
            assert_eq!(
                recorded.samples("dlock_held_seconds{template=none,mode=exclusive}"),
                [6.0]
            );
            assert_idle(&[&manager]).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_while_the_machine_sleeps() {
    counted(async |recorded| {
        let clock = TestClock::new();
        let manager = LockManager::builder().clock(clock.clone());
        let manager = manager.build_with_store(MemoryStore::new()).unwrap();
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        clock.suspend(2 * TTL);
        assert!(guard.is_lost());
        assert_lost(recorded, "expired");
        drop(guard);
        assert_idle(&[&manager]).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_section_that_a_shutdown_cuts_short() {
    counted(async |recorded| {
        let manager = exact();
        let guard = manager.lock("k").acquire().await.unwrap();
        assert_eq!(manager.shutdown(Duration::ZERO).await.cut_short, 1);
        assert_lost(recorded, "shut-down");
        drop(guard);
        assert_idle(&[&manager]).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_without_its_lease_counts_one_loss() {
    counted(async |recorded| {
        let store = MemoryStore::new();
        let manager = LockManager::builder()
            .build_with_store(store.clone())
            .unwrap();
        let lock = manager.lock("k").ttl(TTL).on_lost(OnLost::Finish);
        let body = lock.run(async |_| {
            store.forget();
            sleep(TTL).await;
        });
        body.await.unwrap();
        assert_lost(recorded, "revoked");
        assert_idle(&[&manager]).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_lease_of_several_counts_when_it_is_lost() {
    counted(async |recorded| {
        let store = MemoryStore::new();
        let manager = LockManager::builder()
            .build_with_store(store.clone())
            .unwrap();
        let guard = manager
            .lock_all(["a", "b"])
            .ttl(TTL)
            .acquire()
            .await
            .unwrap();
        store.forget();
        sleep(TTL).await;
        assert_eq!(recorded.sum("dlock_lost_total"), 2.0);
        assert_eq!(
            recorded.sampled("dlock_held_seconds"),
            1,
            "the call has ended once"
        );
        drop(guard);
        assert_idle(&[&manager]).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_from_another_task_or_process_is_told_from_one_that_was_granted() {
    counted(async |recorded| {
        let store = MemoryStore::new();
        let [manager, other] = [(); 2].map(|()| {
            // By the machine's clock a turn could be over by now.
            let builder = LockManager::builder().clock(TestClock::new());
            builder.build_with_store(store.clone()).unwrap()
        });
        let next = async |manager: &LockManager| {
            let manager = manager.clone();
            let next = tokio::spawn(async move { manager.lock("k").acquire().await });
            sleep(Duration::from_millis(1)).await;
            next
        };
        let first = manager.lock("k").acquire().await.unwrap();
        assert_eq!(recorded.sum("dlock_handed_over_total"), 0.0);

        let second = next(&manager).await;
        first.release().await.unwrap();
        let second = second.await.unwrap().unwrap();
        assert_eq!(
            recorded.all("dlock_handed_over_total"),
            once("template=none,mode=exclusive,by=task")
        );

        let third = next(&other).await;
        second.release().await.unwrap();
        let third = third.await.unwrap().unwrap();
        assert_eq!(
            recorded.count("dlock_handed_over_total{template=none,mode=exclusive,by=store}"),
            1.0
        );
        third.release().await.unwrap();
        assert_eq!(recorded.sum("dlock_handed_over_total"), 2.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_never_arrives() {
    counted(async |recorded| {
        let faulty = Faulty::start();
        let guard = faulty.manager.lock("k").ttl(TTL).acquire().await.unwrap();
        faulty.wire.always(Kind::Release, Fate::Lost);
        let released: Result<(), LockError> = guard.release().await;
        released.unwrap();
        assert_eq!(
            recorded.count("dlock_held{template=none,mode=exclusive}"),
            0.0,
            "the section is over"
        );
        assert_eq!(
            recorded.sum("dlock_unreleased_total"),
            0.0,
            "it is tried again"
        );
        assert_idle(&[&faulty.manager]).await;
        let labels = "template=none,mode=exclusive,reason=no-answer";
        assert_eq!(recorded.all("dlock_unreleased_total"), once(labels));
        let failed = "dlock_requests_failed_total{request=release,kind=disconnected}";
        assert!(recorded.count(failed) > 2.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_store_refuses() {
    counted(async |recorded| {
        let faulty = Faulty::start();
        let guard = faulty.manager.lock("k").ttl(TTL).acquire().await.unwrap();
        let denied = Fate::Refused(StoreErrorKind::Denied);
        faulty.wire.always(Kind::Release, denied);
        guard.release().await.unwrap();
        assert_idle(&[&faulty.manager]).await;
        let labels = "template=none,mode=exclusive,reason=refused";
        assert_eq!(recorded.all("dlock_unreleased_total"), once(labels));
        let failed = "dlock_requests_failed_total{request=release,kind=denied}";
        assert_eq!(recorded.count(failed), 2.0);
    })
    .await;
}

#[test]
fn a_release_that_no_runtime_can_send() {
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let guard = runtime.block_on(async {
        let wire = Wire::new(MemoryStore::new());
        let manager = LockManager::builder().build_with_store(wire).unwrap();
        manager.lock("k").acquire().await.unwrap()
    });
    drop(runtime);
    drop(guard);
    let labels = "template=none,mode=exclusive,reason=no-runtime";
    assert_eq!(recorded.all("dlock_unreleased_total"), once(labels));
    recorded.assert_settled();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_polled() {
    counted(async |recorded| {
        let manager = exact();
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        let mut body = Box::pin(guard.run_while_held(std::future::pending::<()>()));
        begin(&mut body).await;
        sleep(5 * TTL).await;
        drop(body);
        let labels = "template=none,mode=exclusive";
        assert_eq!(recorded.all("dlock_stalled_total"), once(labels));
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn each_answered_request_is_measured_under_its_name() {
    counted(async |recorded| {
        let manager = exact();
        let lock = manager.lock("k").ttl(TTL);
        let guard = lock.clone().acquire().await.unwrap();
        sleep(TTL / 2).await;
        guard.release().await.unwrap();
        let guard = lock.min_hold(TTL).acquire().await.unwrap();
        guard.release().await.unwrap();
        let samples = ["acquire", "renew", "release", "keep"].map(|request| {
            let series = format!("dlock_request_seconds{{request={request}}}");
            recorded.samples(&series).len()
        });
        assert_eq!(samples, [2, 1, 1, 1]);
    })
    .await;
}
