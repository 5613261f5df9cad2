//! Requests and leases that get lost, with paused time.

use std::time::Duration;

use dlock::{
    InvalidKeyReason, LockError, LockGuard, LockManager, LostCause, OnLost, Wait,
    store::memory::MemoryStore,
};
use dlock_testkit::eventually;
use futures_util::future::OptionFuture;
use tokio::{
    task::{JoinHandle, yield_now},
    time::{Instant, sleep, timeout},
};

use crate::common::{
    Fate, Faulty, Kind, LIMIT, Log, OneKey, TestClock, Wire, assert_idle, is_busy, is_lost, soon,
};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn no_keys_at_all_are_an_error() {
    let manager = LockManager::memory();
    let none = manager.lock_all([] as [&str; 0]).acquire().await;
    let error = none.unwrap_err();
    let no_keys = InvalidKeyReason::NoKeys;
    assert!(matches!(error, LockError::InvalidKey { reason, .. } if reason == no_keys));
    assert!(error.to_string().contains("at least one"), "{error}");
    let bad = manager.lock_all(["a", "{b}"]).try_acquire().await;
    let error = bad.unwrap_err();
    assert_eq!(error.key(), "{b}");
}

/// As with one key, the question is repeated while the caller waits.
#[tokio::test(start_paused = true)]
async fn requests_that_get_lost_are_repeated() {
    for fate in Fate::LOSSES {
        for lost in 1..=4 {
            let faulty = Faulty::start();
            for _ in 0..lost {
                faulty.wire.next(Kind::Acquire, fate.clone());
            }
            let call = faulty.manager.lock_all(["a", "b", "c"]);
            let guard = soon(call.acquire()).await.unwrap();
            assert_eq!(guard.fencing_tokens().count(), 3);
            guard.release().await.unwrap();
            faulty.assert_clean().await;
        }
    }
}

/// And with `wait = never` it is an error, which leaves nothing.
#[tokio::test(start_paused = true)]
async fn a_request_that_gets_lost_gives_everything_back() {
    for fate in Fate::LOSSES {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Acquire, fate);
        let call = faulty.manager.lock_all(["a", "b", "c"]).wait(Wait::Never);
        let error = soon(call.acquire()).await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert_eq!(error.key(), "a");
        faulty.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_kept_even_if_no_answer_comes() {
    // Of the first key, of the others, and of all.
    for (answered, wait) in [(0, 300), (0, 2500), (1, 300), (2, 300), (1, 2500)] {
        let faulty = Faulty::start();
        let answers = std::iter::repeat_n((), answered);
        let (_gate, opened) = tokio::sync::watch::channel(true);
        for () in answers {
            let fate = Fate::ReplyHeld(opened.clone());
            faulty.wire.next(Kind::Acquire, fate);
        }
        faulty.wire.always(Kind::Acquire, Fate::Swallowed);
        let wait = Duration::from_millis(wait);
        let before = Instant::now();
        let call = faulty.manager.lock_all(["a", "b", "c"]).wait(wait);
        let error = call.acquire().await.unwrap_err();
        let LockError::Unavailable { waited, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*waited, before.elapsed()), (wait, wait));
        assert_eq!(error.key(), ["a", "b", "c"][answered]);
        faulty.assert_clean().await;
    }
}

/// Each is renewed while the others are waited for, and while the body runs.
#[tokio::test(start_paused = true)]
async fn leases_are_renewed_while_others_are_waited_for() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("b").acquire().await.unwrap();
    let call = faulty.manager.lock_all(["a", "b"]).wait(Wait::Forever);
    let body = call.run(async |lease| {
        let token = lease.fencing_token_for("a");
        sleep(3 * TTL).await;
        (token, lease.ensure_held())
    });
    let (outcome, ()) = tokio::join!(body, async {
        sleep(3 * TTL).await;
        holder.release().await.unwrap();
    });
    let (token, valid) = outcome.unwrap();
    assert_eq!(valid, Ok(()));
    let first = faulty.wire.sent()[0].fence;
    assert_eq!(
        token.map(dlock::FencingToken::fence),
        first,
        "it was never lost"
    );
    faulty.assert_clean().await;
}

/// A body that has not begun has lost nothing: all is given back, and asked for again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_others_are_waited_for_is_taken_again() {
    let faulty = Faulty::start();
    let (log, _capturing) = Log::capture();
    let holder = faulty.other.lock("b").acquire().await.unwrap();
    let call = faulty.manager.lock_all(["b", "a"]).wait(Wait::Forever);
    let call = tokio::spawn(call.acquire());
    faulty.wire.until_sent(Kind::Acquire, 2).await;
    let first = faulty.wire.sent()[0].clone();
    let thief = OneKey::new(faulty.store.clone(), "a");
    eventually(LIMIT, "the lease is there", async || {
        faulty.wire.sent()[0].fence.is_some()
    })
    .await;
    thief.release(first.owner).await;
    faulty.wire.until_sent(Kind::Renew, 1).await;
    eventually(LIMIT, "it starts over", async || {
        faulty.wire.count(Kind::Acquire) >= 4
    })
    .await;
    holder.release().await.unwrap();
    let guard = soon(call).await.unwrap().unwrap();
    let token = guard.fencing_token_for("a").unwrap();
    assert!(
        Some(token.fence()) > first.fence,
        "broken promise: the token did not grow: it is a new lease"
    );
    assert_eq!(guard.ensure_held(), Ok(()));
    guard.release().await.unwrap();
    faulty.assert_clean().await;
    let event = "DEBUG message=acquisition starts over: one of its leases was lost key=a error=lock `a` was lost";
    assert!(log.text().contains(event), "{}", log.text());
}

/// It starts over as often as it has to, and no longer than it may.
#[tokio::test(start_paused = true)]
async fn leases_that_end_before_the_others_come_are_no_reason_to_wait_longer() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("b").acquire().await.unwrap();
    let (brief, wait) = (Duration::from_millis(600), Duration::from_secs(10));
    let before = Instant::now();
    let call = faulty.manager.lock_all(["a", "b"]).wait(wait);
    let call = call.ttl(brief).acquire();
    let thief = OneKey::new(faulty.store.clone(), "a");
    let theft = async {
        loop {
            sleep(brief).await;
            let granted = faulty.wire.sent().into_iter();
            for sent in granted.filter(|sent| sent.fence.is_some()) {
                thief.release(sent.owner).await;
            }
        }
    };
    let error = tokio::select! {
        outcome = call => outcome.unwrap_err(),
        () = theft => unreachable!("it never ends"),
    };
    assert_eq!(before.elapsed(), wait);
    assert!(error.is_busy() && error.key() == "b", "{error}");
    let asked = faulty.wire.count(Kind::Acquire);
    assert!((20..60).contains(&asked), "{asked}");
    holder.release().await.unwrap();
    faulty.assert_clean().await;
}

/// A call for `a` and `b` that has `a` and waits for `b`, and what takes `a` away from it.
async fn half_way(
    faulty: &Faulty,
    wait: Wait,
) -> (
    JoinHandle<Result<LockGuard, LockError>>,
    impl AsyncFnOnce() + use<>,
) {
    let call = faulty.manager.lock_all(["a", "b"]).wait(wait);
    let call = tokio::spawn(call.ttl(Duration::from_millis(600)).acquire());
    eventually(LIMIT, "it has the first lease", async || {
        let sent = faulty.wire.sent();
        sent.first().is_some_and(|first| first.fence.is_some())
    })
    .await;
    let owner = faulty.wire.sent()[0].owner;
    let thief = OneKey::new(faulty.store.clone(), "a");
    (call, async move || _ = thief.release(owner).await)
}

/// What has ended the one lease may end the next.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_lost_a_lease_does_not_start_over_at_once() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("b").acquire().await.unwrap();
    let (call, steal) = half_way(&faulty, Wait::Forever).await;
    let asked = faulty.wire.count(Kind::Acquire);
    steal().await;
    faulty.wire.until_sent(Kind::Renew, 1).await;
    // It hears of the loss without any time passing.
    for _ in 0..1000 {
        yield_now().await;
    }
    assert_eq!(faulty.wire.count(Kind::Acquire), asked);
    holder.release().await.unwrap();
    let guard = soon(call).await.unwrap().unwrap();
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The first key is not free any more when it starts over.
#[tokio::test(start_paused = true)]
async fn a_call_that_starts_over_waits_for_the_rest_of_its_wait() {
    let wait = Duration::from_secs(10);
    let faulty = Faulty::start();
    let holder = faulty.other.lock("b").acquire().await.unwrap();
    let before = Instant::now();
    let (call, steal) = half_way(&faulty, Wait::For(wait)).await;
    sleep(wait / 2).await;
    steal().await;
    let other = faulty.other.lock("a").acquire().await.unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_busy() && error.key() == "a", "{error}");
    let late = before.elapsed().checked_sub(wait).unwrap();
    assert!(late < Duration::from_millis(10), "{late:?}");
    other.release().await.unwrap();
    holder.release().await.unwrap();
    faulty.assert_clean().await;
}

/// Not from when the first lease was got: a body that has just begun is not to end because others were
/// waited for.
#[tokio::test(start_paused = true)]
async fn a_max_hold_counts_from_when_the_body_begins() {
    // Ends before the first renewal: nobody looks by chance when it does.
    let limit = TTL / 6;
    let waits = [
        None,
        Some(limit.saturating_sub(Duration::from_millis(300))),
        Some(3 * limit),
    ];
    for waited in waits {
        let faulty = Faulty::start();
        // Nor because it has just begun to look after leases.
        let another = faulty.manager.lock("z").acquire().await.unwrap();
        sleep(Duration::from_millis(100)).await;
        let held = waited.map(|_| faulty.other.lock("b").acquire());
        let holder = OptionFuture::from(held).await.transpose().unwrap();
        let call = faulty.manager.lock_all(["c", "b", "a"]).wait(Wait::Forever);
        let mut began = None;
        let body = call.max_hold(limit).run(async |_| {
            began = Some(Instant::now());
            std::future::pending::<()>().await;
        });
        let (outcome, ()) = tokio::join!(body, async {
            if let (Some(waited), Some(holder)) = (waited, holder) {
                sleep(waited).await;
                holder.release().await.unwrap();
            }
        });
        assert!(is_lost(&outcome, |cause| *cause == LostCause::MaxHold));
        let ran = began.expect("it has begun").elapsed();
        // The timers are exact to a millisecond.
        assert!(
            ran.abs_diff(limit) < Duration::from_millis(5),
            "{ran:?} after {waited:?}"
        );
        another.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

/// What was only tried is given back at once; what the body has held is kept.
#[tokio::test(start_paused = true)]
async fn a_min_hold_is_for_bodies_that_have_run() {
    let faulty = Faulty::start();
    let least = Duration::from_secs(60);
    let holder = faulty.other.lock("a").acquire().await.unwrap();
    let call = faulty.manager.lock_all(["a", "b"]).min_hold(least);
    assert!(
        call.clone().try_acquire().await.unwrap().is_none(),
        "broken promise: two hold a key"
    );
    assert_idle(&[&faulty.manager]).await;
    let free = faulty.other.lock("b").try_acquire().await.unwrap();
    free.expect("nobody has run").release().await.unwrap();
    holder.release().await.unwrap();

    let before = Instant::now();
    call.run(async |_| ()).await.unwrap();
    for key in ["a", "b"] {
        let lock = faulty.other.lock(key).wait(Wait::Forever);
        let guard = lock.acquire().await.unwrap();
        assert!(before.elapsed() >= least, "{:?}", before.elapsed());
        guard.release().await.unwrap();
    }
    assert_idle(&[&faulty.manager, &faulty.other]).await;
    assert!(faulty.store.is_empty());
}

/// A caller that may try again at once is not to find them busy with this call.
#[tokio::test(start_paused = true)]
async fn what_was_got_is_free_again_before_a_refusal_is_told() {
    for wait in [Wait::Never, Wait::For(Duration::from_millis(500))] {
        let faulty = Faulty::with_response_timeout(Duration::from_secs(20));
        let holder = faulty.other.lock("b").acquire().await.unwrap();
        let (gate, opened) = tokio::sync::watch::channel(false);
        faulty.wire.next(Kind::Release, Fate::Stalled(opened));
        let call = faulty.manager.lock_all(["a", "b"]).wait(wait);
        let call = tokio::spawn(call.acquire());
        sleep(Duration::from_secs(2)).await;
        assert!(!call.is_finished(), "broken promise: two hold `a`");
        gate.send_replace(true);
        let error = soon(call).await.unwrap().unwrap_err();
        assert!(error.is_busy() && error.key() == "b", "{error}");
        assert!(!is_busy(&faulty.other, "a").await);
        holder.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

/// Of several that are busy it is the first, in the order of all keys, that is named.
#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_first_key_that_is_busy() {
    let faulty = Faulty::start();
    let held = faulty.other.lock_all(["b", "c"]).acquire().await.unwrap();
    let call = faulty.manager.lock_all(["c", "a", "b"]).wait(Wait::Never);
    let error = call.acquire().await.unwrap_err();
    assert!(error.is_busy() && error.key() == "b", "{error}");
    held.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The pause after which it would start over does not fit in any more.
#[tokio::test(start_paused = true)]
async fn a_call_that_loses_a_lease_just_before_its_wait_ends_ends_no_later() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("b").acquire().await.unwrap();
    // No renewal of the first is answered.
    faulty.wire.always(Kind::Renew, Fate::Swallowed);
    let wait = Duration::from_millis(1005);
    let before = Instant::now();
    let call = faulty.manager.lock_all(["a", "b"]).wait(wait);
    let error = call.ttl(Duration::from_secs(1)).acquire().await;
    let took = before.elapsed();
    assert!(took <= wait, "{took:?}");
    let error = error.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert_eq!(error.key(), "a");
    holder.release().await.unwrap();
    faulty.assert_clean().await;
}

/// However long the first is waited for, the second never becomes a lock.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_key_that_can_never_be_had_is_told_of_while_another_is_waited_for() {
    use crate::common::connect;

    let server = dlock_testkit::RedisServer::start().await;
    let url = server.url();
    let [manager, other] = [connect(&url).await, connect(&url).await];
    let holder = soon(other.lock("a").acquire()).await.unwrap();
    let mut push = redis::cmd("RPUSH");
    let push = push.arg("dlock:{b}").arg("somebody's");
    let mut behind = server.connection().await;
    push.exec_async(&mut behind).await.unwrap();
    let call = manager.lock_all(["a", "b"]).wait(Wait::Forever);
    let error = soon(call.acquire()).await.unwrap_err();
    let LockError::Unavailable { key, reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(key.as_str(), "b");
    assert_eq!(reason.kind(), dlock::store::StoreErrorKind::WrongType);
    soon(holder.release()).await.unwrap();
    assert_idle(&[&manager, &other]).await;
}

/// Whoever asks for one of them alone finds it kept, whichever it is.
#[tokio::test(start_paused = true)]
async fn each_of_several_keys_is_kept_for_its_min_hold() {
    let least = Duration::from_secs(60);
    for dropped in [false, true] {
        let faulty = Faulty::start();
        let call = faulty.manager.lock_all(["c", "a", "b"]).min_hold(least);
        let before = Instant::now();
        if dropped {
            drop(call.acquire().await.unwrap());
        } else {
            call.run(async |_| ()).await.unwrap();
        }
        tokio::time::sleep_until(before + least - Duration::from_millis(1)).await;
        for key in ["a", "b", "c"] {
            assert!(
                is_busy(&faulty.other, key).await,
                "broken promise: two hold `{key}`"
            );
        }
        sleep(Duration::from_secs(1)).await;
        for key in ["a", "b", "c"] {
            assert!(!is_busy(&faulty.other, key).await, "{key} is free again");
        }
    }
}

/// The machine sleeps while the last is waited for, and nobody has looked at the first since.
#[tokio::test(start_paused = true)]
async fn a_first_lease_that_has_expired_when_the_last_one_comes_is_taken_again() {
    let store = MemoryStore::new();
    let clock = TestClock::new();
    let builder = LockManager::builder().build_with_store(store.clone());
    let other = builder.unwrap();
    let wire = Wire::new(store.clone());
    let manager = LockManager::builder().clock(clock.clone());
    let manager = manager.build_with_store(wire.clone()).unwrap();
    let holder = other.lock("b").acquire().await.unwrap();
    let call = manager.lock_all(["a", "b"]).ttl(TTL).wait(Wait::Forever);
    let mut call = Box::pin(call.acquire());
    assert!(
        timeout(Duration::from_millis(500), &mut call)
            .await
            .is_err()
    );
    let first = wire.sent()[0].fence.expect("`a` was free");
    // From here to the grant no timer fires: the renewer has no time to notice.
    clock.suspend(2 * TTL);
    holder.release().await.unwrap();
    let guard = soon(call).await.unwrap();
    assert_eq!(guard.ensure_held(), Ok(()), "of none that has ended");
    let token = guard.fencing_token_for("a").unwrap();
    assert!(
        token.fence() > first,
        "broken promise: the token did not grow: it was asked for again"
    );
    guard.release().await.unwrap();
    assert_idle(&[&manager, &other]).await;
    assert!(store.is_empty());
}

/// A caller that does not wait is told of it instead.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_away_before_the_others_have_come_is_no_success() {
    let faulty = Faulty::with_response_timeout(Duration::from_secs(20));
    let (gate, opened) = tokio::sync::watch::channel(false);
    let (_open, at_once) = tokio::sync::watch::channel(true);
    faulty.wire.next(Kind::Acquire, Fate::ReplyHeld(at_once));
    faulty.wire.next(Kind::Acquire, Fate::ReplyHeld(opened));
    let call = faulty.manager.lock_all(["a", "b"]).wait(Wait::Never);
    let call = tokio::spawn(call.acquire());
    eventually(LIMIT, "the first is granted", async || {
        faulty
            .wire
            .sent()
            .first()
            .is_some_and(|it| it.fence.is_some())
    })
    .await;
    let first = faulty.wire.sent()[0].owner;
    OneKey::new(faulty.store.clone(), "a").release(first).await;
    // Its renewal tells, after a third of the TTL.
    faulty.wire.until_sent(Kind::Renew, 1).await;
    sleep(Duration::from_secs(1)).await;
    gate.send_replace(true);
    let error = soon(call).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert_eq!(error.key(), "a");
    faulty.assert_clean().await;
}

/// A release that fails is repeated in the background, and hinders the others in nothing.
#[tokio::test(start_paused = true)]
async fn all_are_released_even_if_one_release_fails() {
    for fate in [Fate::Lost, Fate::ReplyLost, Fate::Swallowed] {
        for failing in 0..3 {
            let faulty = Faulty::start();
            let call = faulty.manager.lock_all(["a", "b", "c"]);
            let guard = call.acquire().await.unwrap();
            let (_gate, opened) = tokio::sync::watch::channel(true);
            for _ in 0..failing {
                let fate = Fate::ReplyHeld(opened.clone());
                faulty.wire.next(Kind::Release, fate);
            }
            faulty.wire.next(Kind::Release, fate.clone());
            assert_eq!(guard.release().await, Ok(()));
            faulty.assert_clean().await;
            assert_eq!(faulty.wire.count(Kind::Release), 4);
        }
    }
}

/// And so they are if one of them was lost.
#[tokio::test(start_paused = true)]
async fn a_release_tells_that_one_was_lost() {
    for on_lost in [OnLost::Stop, OnLost::Finish] {
        for (place, key) in ["a", "b"].iter().enumerate() {
            let faulty = Faulty::start();
            let call = faulty.manager.lock_all(["b", "a"]).on_lost(on_lost);
            let guard = call.acquire().await.unwrap();
            let owner = faulty.wire.sent()[place].owner;
            let thief = OneKey::new(faulty.store.clone(), key);
            thief.release(owner).await;
            let outcome = guard.release().await;
            if on_lost == OnLost::Finish {
                assert_eq!(outcome, Ok(()));
            } else {
                let taken = |cause: &LostCause| *cause == LostCause::Revoked;
                assert!(is_lost(&outcome, taken), "{outcome:?}");
                assert_eq!(outcome.unwrap_err().key(), *key);
            }
            faulty.assert_clean().await;
        }
    }
}
