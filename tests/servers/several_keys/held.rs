//! Leases of several keys, and their end.

use std::{future::pending, time::Duration};

use dlock::{LockError, LostCause};
use tokio::sync::watch;

use crate::common::{Env, Fate, Kind, OneKey, is_lost, soon};
use crate::several_keys::{assert_clean, tokens, two};

/// All are asked for before the first answer comes.
pub(crate) async fn free_keys_take_one_round_trip<E: Env>() {
    let (env, one, _) = two::<E>().await;
    let (gate, opened) = watch::channel(false);
    for _ in 0..3 {
        let fate = Fate::ReplyHeld(opened.clone());
        one.wire.next(Kind::Acquire, fate);
    }
    let call = one.manager.lock_all(["c", "a", "b"]).acquire();
    let (guard, ()) = tokio::join!(soon(call), async {
        one.wire.until_sent(Kind::Acquire, 3).await;
        gate.send_replace(true);
    });
    let guard = guard.unwrap();
    assert_eq!(guard.key().as_str(), "c");
    assert_eq!(one.wire.count(Kind::Acquire), 3, "no question more");
    assert_eq!(one.manager.active_keys(), 3);

    let (gate, opened) = watch::channel(false);
    for _ in 0..3 {
        let fate = Fate::ReplyHeld(opened.clone());
        one.wire.next(Kind::Release, fate);
    }
    let (released, ()) = tokio::join!(soon(guard.release()), async {
        one.wire.until_sent(Kind::Release, 3).await;
        gate.send_replace(true);
    });
    assert_eq!(released, Ok(()));
    assert_eq!(one.wire.count(Kind::Release), 3);
    assert_clean(&env, 3, &[&one]).await;
}

pub(crate) async fn each_key_has_a_token_that_grows<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let mut last = Vec::new();
    for process in [&one, &other, &one] {
        let call = process.manager.lock_all(["b", "a"]);
        let now = soon(call.run(async |lease| {
            let now = tokens(lease);
            assert_eq!(lease.key().as_str(), "b");
            assert_eq!(now[0], ("b".to_owned(), lease.fencing_token()));
            assert_eq!(lease.fencing_token_for("a"), Some(now[1].1));
            assert_eq!(lease.fencing_token_for("b"), Some(now[0].1));
            assert_eq!(lease.fencing_token_for("c"), None);
            assert!(!lease.is_lost() && lease.ensure_held().is_ok());
            assert!(lease.remaining() > Duration::from_secs(20));
            now
        }));
        let now = now.await.unwrap();
        for ((key, token), (_, last)) in now.iter().zip(&last) {
            assert!(
                token > last,
                "broken promise: the token did not grow: {key}: {token} after {last}"
            );
        }
        last = now;
    }
    assert_clean(&env, 2, &[&one, &other]).await;
}

pub(crate) async fn equal_keys_are_taken_once<E: Env>() {
    let (env, one, _) = two::<E>().await;
    for (keys, distinct) in [
        (vec!["a", "a"], vec!["a"]),
        (vec!["b", "a", "b", "a"], vec!["b", "a"]),
    ] {
        let guard = soon(one.manager.lock_all(keys).try_acquire()).await;
        let guard = guard.unwrap().expect("it is free");
        let held: Vec<_> = guard
            .fencing_tokens()
            .map(|(key, _)| key.as_str())
            .collect();
        assert_eq!(held, distinct);
        assert_eq!(one.manager.active_keys(), distinct.len());
        soon(guard.release()).await.unwrap();
    }
    assert_clean(&env, 2, &[&one]).await;
}

/// Whichever it is, it is named, and the others are given back as if nothing had happened.
pub(crate) async fn a_lease_that_is_taken_away_ends_the_body<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let keys = ["b", "a", "c"];
    for (place, key) in ["a", "b", "c"].iter().enumerate() {
        let asked = one.wire.sent().len();
        let call = one.manager.lock_all(keys).ttl(E::BRIEF);
        let body = call.run(async |_| {
            // Asked for in their order, whatever that of the call.
            let owner = one.wire.sent()[asked + place].owner;
            OneKey::new(env.store().await, key).release(owner).await;
            pending::<()>().await;
        });
        let outcome = soon(body).await;
        let taken = |cause: &LostCause| *cause == LostCause::Revoked;
        assert!(is_lost(&outcome, taken), "{outcome:?}");
        assert_eq!(outcome.unwrap_err().key(), *key);
        for key in keys {
            other.assert_free(key).await;
        }
    }
    assert_clean(&env, 3, &[&one, &other]).await;
}

/// The owner of a guard has to find out by itself: nothing of its own is stopped.
pub(crate) async fn a_guard_tells_the_loss_of_any_of_its_leases<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let keys = ["b", "a", "c"];
    for (place, key) in ["a", "b", "c"].iter().enumerate() {
        let asked = one.wire.sent().len();
        let call = one.manager.lock_all(keys).ttl(E::BRIEF);
        let guard = soon(call.acquire()).await.unwrap();
        assert!(!guard.is_lost() && guard.ensure_held().is_ok());
        let owner = one.wire.sent()[asked + place].owner;
        OneKey::new(env.store().await, key).release(owner).await;
        let lost = soon(guard.lost()).await;
        assert_eq!(lost.key(), *key);
        assert!(guard.is_lost());
        assert!(guard.remaining().is_zero());
        assert_eq!(guard.ensure_held().unwrap_err().key(), *key);
        let released = soon(guard.release()).await;
        assert_eq!(released.unwrap_err().key(), *key);
        for key in keys {
            other.assert_free(key).await;
        }
    }
    assert_clean(&env, 3, &[&one, &other]).await;
}

pub(crate) async fn sections_that_hold_one_of_the_keys_would_wait_for_themselves<E: Env>() {
    let (env, one, _) = two::<E>().await;
    let manager = &one.manager;
    let outer = manager.lock_all(["a", "b"]).run(async |_| {
        for keys in [&["a"][..], &["b"], &["c", "b"], &["a", "b"]] {
            let inner = manager.lock_all(keys.iter().copied()).try_acquire().await;
            let error = inner.expect_err("it is held by this very task");
            assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
            let held = keys.iter().find(|key| **key != "c");
            assert_eq!(Some(error.key()), held.copied());
        }
        let inner = manager.lock("b").acquire().await;
        assert!(matches!(inner, Err(LockError::WouldDeadlock { .. })));
        manager.lock_all(["c", "d"]).run(async |_| ()).await
    });
    assert_eq!(soon(outer).await, Ok(Ok(())));
    let outer = manager.lock("b").run(async |_| {
        let inner = manager.lock_all(["a", "b"]).acquire().await;
        assert!(matches!(inner, Err(LockError::WouldDeadlock { .. })));
    });
    assert_eq!(soon(outer).await, Ok(()));
    assert_clean(&env, 4, &[&one]).await;
}
