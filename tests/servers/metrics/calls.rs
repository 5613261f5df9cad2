//! Calls: each is acquired, refused or given up once.

use std::time::Duration;

use dlock::{LockError, LockManager, distributed_lock, store::memory::MemoryStore, with_manager};
use dlock_testkit::{Polled, poll_times};
use tokio::time::{sleep, timeout};

use crate::common::{Fate, Faulty, Kind, TestClock, soon};
use crate::metrics::{
    exact,
    recorded::{Recorded, counted, once},
};

#[distributed_lock(key = "order:<id>", wait = "2s")]
async fn settle(id: u64, work: Duration) -> Result<(), LockError> {
    sleep(work).await;
    Ok(())
}

#[distributed_lock(key = ["account:<from>", "account:<to>"], wait = never)]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    sleep(Duration::from_secs(1)).await;
    Ok(())
}

#[distributed_lock(key = "order:<id>", on_cancel = detach)]
async fn pay(id: u64) -> Result<(), LockError> {
    sleep(Duration::from_secs(2)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_function_counts_under_its_template_and_not_under_its_key() {
    counted(async |recorded| {
        let manager = exact();
        for id in 0..3 {
            let work = Duration::from_secs(5);
            with_manager(manager.clone(), settle(id, work))
                .await
                .unwrap();
        }
        let series = "{template=order:<id>,mode=exclusive}";
        assert_eq!(
            recorded.count(&format!("dlock_acquired_total{series}")),
            3.0
        );
        assert_eq!(recorded.all("dlock_acquired_total").len(), 1);
        assert_eq!(
            recorded.samples(&format!("dlock_held_seconds{series}")),
            [5.0; 3]
        );
        assert_eq!(
            recorded.samples(&format!("dlock_wait_seconds{series}")),
            [0.0; 3]
        );
    })
    .await;
}

#[distributed_lock(
    key = ["account:<from>", "account:<to>"],
    metric = "book-twice",
    enabled = from != to,
    on_busy = skip
)]
async fn book(from: u64, to: u64) -> Result<Option<u64>, LockError> {
    sleep(Duration::from_secs(1)).await;
    Ok(Some(from))
}

#[tokio::test(start_paused = true)]
async fn a_function_counts_under_its_own_word() {
    counted(async |recorded| {
        let manager = exact();
        let call = |from, to| with_manager(manager.clone(), book(from, to));
        assert_eq!(call(7, 4).await.unwrap(), Some(7));
        assert_eq!(
            recorded.all("dlock_acquired_total"),
            once("template=book-twice,mode=exclusive")
        );
        assert_eq!(
            recorded.samples("dlock_held_seconds{template=book-twice,mode=exclusive}"),
            [1.0]
        );
        // What runs without a lock is not counted.
        assert_eq!(call(7, 7).await.unwrap(), Some(7));
        assert_eq!(recorded.sum("dlock_acquired_total"), 1.0);

        let guard = manager.lock("account:4").metric("by-hand").acquire();
        let guard = guard.await.unwrap();
        assert_eq!(call(7, 4).await.unwrap(), None);
        let refused = once("template=book-twice,mode=exclusive,reason=taken");
        assert_eq!(recorded.all("dlock_refused_total"), refused);
        guard.release().await.unwrap();

        // Before there is a manager, too.
        assert!(book(7, 4).await.is_err());
        let refused =
            "dlock_refused_total{template=book-twice,mode=exclusive,reason=not-installed}";
        assert_eq!(recorded.count(refused), 1.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_by_hand_counts_under_what_it_says_or_under_none() {
    counted(async |recorded| {
        let manager = exact();
        let lock = manager.lock("order:42").metric("order:<id>");
        let guard = lock.acquire().await.unwrap();
        assert_eq!(
            recorded.all("dlock_held"),
            once("template=order:<id>,mode=exclusive")
        );
        sleep(Duration::from_secs(3)).await;
        guard.release().await.unwrap();
        assert_eq!(
            recorded.samples("dlock_held_seconds{template=order:<id>,mode=exclusive}"),
            [3.0]
        );

        manager.lock("order:42").run(async |_| ()).await.unwrap();
        assert_eq!(
            recorded.count("dlock_acquired_total{template=none,mode=exclusive}"),
            1.0
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_seen_and_how_long_it_took() {
    counted(async |recorded| {
        let manager = exact();
        let guard = manager.lock("k").acquire().await.unwrap();
        let waiting = tokio::spawn({
            let manager = manager.clone();
            async move { manager.lock("k").acquire().await }
        });
        sleep(Duration::from_secs(4)).await;
        assert_eq!(
            recorded.count("dlock_waiting{template=none,mode=exclusive}"),
            1.0
        );
        assert_eq!(
            recorded.count("dlock_held{template=none,mode=exclusive}"),
            1.0
        );
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert_eq!(
            recorded.count("dlock_waiting{template=none,mode=exclusive}"),
            0.0
        );
        guard.release().await.unwrap();
        assert_eq!(
            recorded.samples("dlock_wait_seconds{template=none,mode=exclusive}"),
            [0.0, 4.0]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_counts_by_its_reason_and_a_try_in_vain_is_none_to_worry_about() {
    counted(async |recorded| {
        let faulty = Faulty::start();
        let guard = faulty.other.lock("k").acquire().await.unwrap();
        let refused = |reason: &str| {
            recorded.count(&format!(
                "dlock_refused_total{{template=none,mode=exclusive,reason={reason}}}"
            ))
        };

        let manager = &faulty.manager;
        assert!(manager.lock("k").try_acquire().await.unwrap().is_none());
        assert_eq!((refused("taken"), refused("busy")), (1.0, 0.0));

        let busy = manager
            .lock("k")
            .wait(Duration::from_secs(1))
            .acquire()
            .await;
        assert_eq!(busy.unwrap_err().code(), "busy");
        assert_eq!((refused("taken"), refused("busy")), (1.0, 1.0));

        faulty.wire.always(Kind::Acquire, Fate::Lost);
        let lock = manager.lock("other").wait(Duration::from_secs(1));
        assert_eq!(lock.acquire().await.unwrap_err().code(), "unavailable");
        assert_eq!(refused("unavailable"), 1.0);
        assert!(
            recorded.count("dlock_requests_failed_total{request=acquire,kind=disconnected}") > 1.0
        );
        faulty.wire.heal();

        assert_eq!(
            manager.lock("").acquire().await.unwrap_err().code(),
            "invalid-key"
        );
        assert_eq!(refused("invalid-key"), 1.0);
        let lock = manager.lock("l").ttl(Duration::ZERO);
        assert_eq!(lock.acquire().await.unwrap_err().code(), "invalid-option");
        assert_eq!(refused("invalid-option"), 1.0);
        let nested = manager
            .lock("l")
            .run(async |_| manager.lock("l").run(async |_| ()).await);
        assert_eq!(nested.await.unwrap().unwrap_err().code(), "would-deadlock");
        assert_eq!(refused("would-deadlock"), 1.0);

        manager.shutdown(Duration::from_secs(1)).await;
        assert_eq!(
            manager.lock("l").acquire().await.unwrap_err().code(),
            "closed"
        );
        assert_eq!(refused("closed"), 1.0);

        guard.release().await.unwrap();
        assert_eq!(recorded.sum("dlock_refused_total"), 7.0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_function_without_a_manager_counts_as_refused() {
    counted(async |recorded| {
        let refused = settle(1, Duration::ZERO).await;
        assert_eq!(refused.unwrap_err().code(), "not-installed");
        let reason = "template=order:<id>,mode=exclusive,reason=not-installed";
        assert_eq!(recorded.all("dlock_refused_total"), once(reason));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_counts_at_whatever_await_it_goes() {
    for polls in 1.. {
        let recorded = Recorded::default();
        let _recorder = recorded.start();
        let faulty = Faulty::start();
        let guard = faulty.other.lock("k").acquire().await.unwrap();
        let release = tokio::spawn(async move {
            sleep(Duration::from_secs(2)).await;
            guard.release().await
        });
        let waiting = faulty.manager.lock("k").metric("a").acquire();
        let finished = match soon(poll_times(waiting, polls)).await {
            Polled::Finished(guard) => {
                drop(guard.unwrap());
                true
            }
            Polled::Dropped => false,
        };
        soon(release).await.unwrap().unwrap();
        faulty.assert_clean().await;
        let gone = f64::from(u8::from(!finished));
        assert_eq!(
            recorded.count("dlock_cancelled_total{template=a,mode=exclusive}"),
            gone
        );
        assert_eq!(
            recorded.count("dlock_acquired_total{template=a,mode=exclusive}"),
            1.0 - gone
        );
        recorded.assert_settled();
        if finished {
            assert!(polls > 2, "there was something to wait for");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_section() {
    counted(async |recorded| {
        let manager = exact();
        let task = tokio::spawn({
            let manager = manager.clone();
            async move {
                let panics = manager.lock("k").run(async |_| {
                    sleep(Duration::from_secs(1)).await;
                    panic!("on purpose");
                });
                panics.await.unwrap();
            }
        });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!(
            recorded.samples("dlock_held_seconds{template=none,mode=exclusive}"),
            [1.0]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_section_that_goes_on_without_its_caller_is_held_to_its_end() {
    counted(async |recorded| {
        let manager = exact();
        let paying = with_manager(manager.clone(), pay(42));
        assert!(timeout(Duration::from_secs(1), paying).await.is_err());
        tokio::task::yield_now().await;
        assert_eq!(
            recorded.all("dlock_detached_total"),
            once("template=order:<id>,mode=exclusive")
        );
        assert_eq!(
            recorded.all("dlock_held"),
            once("template=order:<id>,mode=exclusive")
        );
        manager.shutdown(Duration::from_secs(5)).await;
        assert_eq!(
            recorded.samples("dlock_held_seconds{template=order:<id>,mode=exclusive}"),
            [2.0]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_several_keys_counts_once() {
    counted(async |recorded| {
        let store = MemoryStore::new();
        let [manager, other] = [(); 2].map(|()| {
            // By the machine's clock a call could take longer than by that of the test.
            let builder = LockManager::builder().clock(TestClock::new());
            builder.build_with_store(store.clone()).unwrap()
        });
        with_manager(manager.clone(), transfer(7, 4)).await.unwrap();
        let template = "template=account:<from>, account:<to>,mode=exclusive";
        assert_eq!(recorded.all("dlock_acquired_total"), once(template));
        assert_eq!(
            recorded.samples(&format!("dlock_held_seconds{{{template}}}")),
            [1.0]
        );

        // One of them is there, and is given back as the other is not.
        let guard = other.lock("account:7").acquire().await.unwrap();
        assert!(with_manager(manager, transfer(7, 4)).await.is_err());
        assert_eq!(
            recorded.all("dlock_refused_total"),
            once(&format!("{template},reason=taken"))
        );
        guard.release().await.unwrap();
        assert_eq!(
            recorded.sum("dlock_acquired_total"),
            2.0,
            "with that of the other"
        );
    })
    .await;
}

#[test]
fn a_plain_function_counts_as_every_other() {
    #[distributed_lock(key = "stock:<id>", on_lost = finish, wait = never)]
    fn sell(id: u64) -> Result<(), LockError> {
        Ok(())
    }

    let recorded = Recorded::default();
    let recording = recorded.start();
    let manager = LockManager::memory();
    let held = manager.blocking().lock("stock:7").acquire().unwrap();
    dlock::blocking::with_manager(manager, || {
        sell(42).unwrap();
        assert!(sell(7).unwrap_err().is_busy());
    });
    held.release().unwrap();
    drop(recording);
    let series = "{template=stock:<id>,mode=exclusive}";
    assert_eq!(
        recorded.count(&format!("dlock_acquired_total{series}")),
        1.0
    );
    assert_eq!(
        recorded
            .samples(&format!("dlock_held_seconds{series}"))
            .len(),
        1
    );
    let refused = recorded.all("dlock_refused_total");
    assert_eq!(refused.len(), 1, "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn each_mode_of_a_template_has_counts_of_its_own() {
    counted(async |recorded| {
        let manager = exact();
        let lock = || manager.lock("catalog").metric("catalog");
        for request in [lock(), lock().shared(), lock().permits(3)] {
            request.acquire().await.unwrap().release().await.unwrap();
        }
        let guard = lock().shared().acquire().await.unwrap();
        let refused = lock().permits(0).acquire().await.unwrap_err();
        assert_eq!(refused.code(), "invalid-option");
        for (mode, count) in [("exclusive", 1.0), ("shared", 2.0), ("permits", 1.0)] {
            let series = format!("dlock_acquired_total{{template=catalog,mode={mode}}}");
            assert_eq!(recorded.count(&series), count, "{mode}");
        }
        assert_eq!(
            recorded.all("dlock_held"),
            once("template=catalog,mode=shared")
        );
        assert_eq!(
            recorded.all("dlock_refused_total"),
            once("template=catalog,mode=permits,reason=invalid-option")
        );
        guard.release().await.unwrap();
    })
    .await;
}
