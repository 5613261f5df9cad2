//! What every store has to do: one suite, run against each of them.
//!
//! Managers stand for processes: those of one test share nothing but the store.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod common;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockError, LockManager, LostCause, OnLost, Wait,
    store::{ALIVE, Acquisition, GRANT_TTL, Released, Renewal},
};
use dlock_testkit::eventually;
use tokio::{
    task::{JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};

use common::{Env, Kind, LIMIT, Memory, OneKey, Wire, assert_idle, is_lost, soon};

const TTL: Duration = Duration::from_secs(30);

/// Makes a test of every case for every store.
macro_rules! conformance {
    ($($case:ident,)*) => {
        mod memory {
            $(
                #[tokio::test(start_paused = true)]
                async fn $case() {
                    super::$case::<super::Memory>().await;
                }
            )*
        }

        #[cfg(feature = "redis")]
        mod redis {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case::<super::common::Redis>().await;
                }
            )*
        }
    };
}

conformance! {
    a_free_key_is_granted_and_a_held_one_is_busy,
    asking_again_returns_the_same_fence_and_starts_the_ttl_anew,
    a_renewal_starts_the_ttl_anew,
    another_owner_can_neither_renew_nor_release,
    a_lease_that_ran_out_is_nobodys,
    waiters_are_granted_in_the_order_of_their_arrival,
    a_waiter_that_died_is_skipped,
    a_waiter_that_left_is_skipped,
    a_grant_that_nobody_confirms_goes_to_the_next_waiter,
    asking_once_leaves_nothing,
    a_newcomer_cannot_overtake_a_waiter,
    fences_grow_however_the_key_changes_hands,
    keys_do_not_hinder_each_other,
    no_two_bodies_overlap_and_their_tokens_grow,
    managers_get_their_turn_in_order,
    a_release_wakes_the_next_manager_and_no_other,
    a_wait_ends_in_busy_and_leaves_no_place,
    a_wait_for_ever_outlasts_the_holder,
    try_acquire_does_not_wait,
    busy_names_the_holder,
    a_lease_is_renewed_as_long_as_its_body_runs,
    max_hold_ends_a_lease_that_is_renewed,
    a_lease_without_renewal_ends_after_its_ttl,
    a_body_is_cancelled_when_the_store_says_it_is_lost,
    a_body_that_may_finish_does_so_without_its_lease,
    a_release_tells_that_the_lease_was_gone,
    a_lost_lease_does_not_harm_its_successor,
}

async fn one_key<E: Env>() -> (E, OneKey<E::Store>) {
    let env = E::start().await;
    let store = env.store().await;
    (env, OneKey::new(store, "order:42"))
}

async fn a_free_key_is_granted_and_a_held_one_is_busy<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, first, second] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL).await;

    let seen = key.busy(first).await;
    assert_eq!(seen.label.as_deref(), Some("test@host/1"));
    assert_eq!(seen.last_fence, fence);
    assert_eq!(seen.position, Some(0));
    let left = seen.ttl.expect("a lease ends");
    assert!(left <= TTL && left + LIMIT > TTL, "{left:?}");
    assert_eq!(key.busy(second).await.position, Some(1));
    assert_eq!(
        key.busy(first).await.position,
        Some(0),
        "it keeps its place"
    );

    for owner in [second, first, holder] {
        key.release(owner).await;
    }
    env.assert_clean(1, &[]).await;
}

async fn asking_again_returns_the_same_fence_and_starts_the_ttl_anew<E: Env>() {
    let (_env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL).await;
    // Even a first question of a much shorter time is overruled.
    assert_eq!(key.granted(holder, 2 * TTL).await, fence);
    let seen = key.busy(other).await;
    assert!(seen.ttl > Some(TTL), "{seen:?}");
    assert_eq!(seen.last_fence, fence, "no fence was used up");
}

async fn a_renewal_starts_the_ttl_anew<E: Env>() {
    let (_env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL / 2).await;
    assert_eq!(key.renew(holder).await, Renewal::Renewed);
    let seen = key.busy(other).await;
    assert!(seen.ttl > Some(TTL / 2), "{seen:?}");
    assert_eq!(key.granted(holder, TTL).await, fence);
}

async fn another_owner_can_neither_renew_nor_release<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    assert_eq!(key.renew(other).await, Renewal::NotOwner, "of a free key");
    assert_eq!(key.release(other).await, Released::WasGone, "of a free key");

    let fence = key.granted(holder, TTL / 2).await;
    assert_eq!(key.renew(other).await, Renewal::NotOwner);
    assert_eq!(key.release(other).await, Released::WasGone);
    let seen = key.busy(other).await;
    assert!(seen.ttl <= Some(TTL / 2), "nothing was prolonged: {seen:?}");
    assert_eq!(seen.last_fence, fence);

    assert_eq!(key.release(other).await, Released::WasGone);
    assert_eq!(key.release(holder).await, Released::WasHeld);
    assert_eq!(key.release(holder).await, Released::WasGone, "only once");
    env.assert_clean(1, &[]).await;
}

async fn a_lease_that_ran_out_is_nobodys<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    let fence = key.granted(holder, E::BRIEF).await;
    let mut next = 0;
    eventually(LIMIT, "the lease has run out", async || {
        match key.ask_once(other, TTL).await {
            Acquisition::Granted { fence } => next = fence,
            Acquisition::Busy(_) => {}
        }
        next > 0
    })
    .await;
    assert!(next > fence);
    assert_eq!(key.renew(holder).await, Renewal::NotOwner);
    assert_eq!(key.release(holder).await, Released::WasGone);
    assert_eq!(key.release(other).await, Released::WasHeld);
    env.assert_clean(1, &[]).await;
}

async fn waiters_are_granted_in_the_order_of_their_arrival<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let owners = [(); 4].map(|()| OneKey::<E::Store>::owner());
    let mut last = key.granted(owners[0], TTL).await;
    for (place, waiter) in (0..).zip(&owners[1..]) {
        assert_eq!(key.busy(*waiter).await.position, Some(place));
    }
    for (holder, next) in owners.iter().zip(&owners[1..]) {
        assert_eq!(key.release(*holder).await, Released::WasHeld);
        // It was made the holder by the release: whoever asks in between changes nothing.
        let passer_by = OneKey::<E::Store>::owner();
        let Acquisition::Busy(seen) = key.ask_once(passer_by, TTL).await else {
            panic!("somebody overtook the waiters");
        };
        assert!(seen.ttl <= Some(GRANT_TTL), "not confirmed yet: {seen:?}");
        let fence = key.granted(*next, TTL).await;
        assert_eq!(fence, seen.last_fence, "granted before it asked");
        assert!(fence > last);
        last = fence;
    }
    key.release(owners[3]).await;
    env.assert_clean(1, &[]).await;
}

async fn a_waiter_that_died_is_skipped<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, dead, living] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    assert_eq!(key.busy(dead).await.position, Some(0));
    let since = Instant::now();
    assert_eq!(key.busy(living).await.position, Some(1));
    eventually(LIMIT, "the dead waiter's time is over", async || {
        key.busy(living).await.position == Some(0)
    })
    .await;
    // One millisecond is what a server's clock may round away.
    assert!(since.elapsed() + Duration::from_millis(1) >= ALIVE);
    key.release(holder).await;
    key.granted(living, TTL).await;
    key.release(living).await;
    env.assert_clean(1, &[]).await;
}

async fn a_waiter_that_left_is_skipped<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, gone, next] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    key.busy(gone).await;
    key.busy(next).await;
    assert_eq!(key.release(gone).await, Released::WasGone);
    assert_eq!(key.busy(next).await.position, Some(0));
    key.release(holder).await;
    key.granted(next, TTL).await;
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

async fn a_grant_that_nobody_confirms_goes_to_the_next_waiter<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, killed, next] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    key.busy(killed).await;
    key.release(holder).await;
    eventually(LIMIT, "the short lease of the grant ends", async || {
        matches!(key.ask(next, TTL).await, Acquisition::Granted { .. })
    })
    .await;
    assert_eq!(key.renew(killed).await, Renewal::NotOwner);
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

async fn asking_once_leaves_nothing<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, passer_by, waiter] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    let Acquisition::Busy(seen) = key.ask_once(passer_by, TTL).await else {
        panic!("it is held");
    };
    assert_eq!(seen.position, None);
    assert_eq!(key.busy(waiter).await.position, Some(0));
    key.release(waiter).await;
    assert_eq!(env.locks().await.len(), 1, "the lock, and no queue");
    key.release(holder).await;
    env.assert_clean(1, &[]).await;
}

async fn a_newcomer_cannot_overtake_a_waiter<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, waiter, newcomer] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    let first = key.granted(holder, E::BRIEF / 4).await;
    key.busy(waiter).await;
    // The holder has died without a word: nobody but the newcomer is there to grant.
    let mut granted = first;
    eventually(LIMIT, "somebody else is the holder", async || {
        match key.ask_once(newcomer, TTL).await {
            Acquisition::Granted { .. } => panic!("it overtook the waiter"),
            Acquisition::Busy(seen) => granted = seen.last_fence,
        }
        granted > first
    })
    .await;
    assert_eq!(key.granted(waiter, TTL).await, granted);
    key.release(waiter).await;
    env.assert_clean(1, &[]).await;
}

async fn fences_grow_however_the_key_changes_hands<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let mut fences = Vec::new();
    for round in 0..30 {
        let owner = OneKey::<E::Store>::owner();
        match round % 3 {
            // Released at once.
            0 => {
                fences.push(key.granted(owner, TTL).await);
                key.release(owner).await;
            }
            // Handed to a waiter.
            1 => {
                let waiter = OneKey::<E::Store>::owner();
                fences.push(key.granted(owner, TTL).await);
                key.busy(waiter).await;
                key.release(owner).await;
                fences.push(key.granted(waiter, TTL).await);
                key.release(waiter).await;
            }
            // Forgotten by the store.
            _ => {
                fences.push(key.granted(owner, TTL).await);
                env.delete("order:42").await;
            }
        }
    }
    assert!(fences.is_sorted_by(|one, two| one < two), "{fences:?}");
    env.assert_clean(1, &[]).await;
}

async fn keys_do_not_hinder_each_other<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let names = ["a", "b", "a:1", "A", "ä", "a b"];
    let mut guards = Vec::new();
    for name in names {
        let guard = soon(manager.lock(name).try_acquire()).await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("`{name}` is free")));
    }
    assert_eq!(manager.active(), names.len());
    for guard in guards {
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(names.len(), &[&manager]).await;
}

async fn no_two_bodies_overlap_and_their_tokens_grow<E: Env>() {
    const MANAGERS: usize = 3;
    const TASKS: usize = 4;
    const SECTIONS: usize = 6;

    let env = E::start().await;
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(env.manager().await);
    }
    let counter = Arc::new(AtomicUsize::new(0));
    let inside = Arc::new(AtomicBool::new(false));
    let tokens = Arc::new(Mutex::new(Vec::new()));

    let mut tasks = JoinSet::new();
    for manager in managers.iter().flat_map(|it| [it; TASKS]) {
        let lock = manager.lock("counter").wait(Wait::Forever);
        let (counter, inside, tokens) = (counter.clone(), inside.clone(), tokens.clone());
        tasks.spawn(async move {
            for _ in 0..SECTIONS {
                let guard = lock.clone().acquire().await.unwrap();
                assert!(!inside.swap(true, Ordering::Relaxed), "two are inside");
                tokens.lock().unwrap().push(guard.fencing_token());
                // A read and a write that lose an update as soon as two are inside.
                let seen = counter.load(Ordering::Relaxed);
                for _ in 0..3 {
                    yield_now().await;
                }
                sleep(Duration::from_millis(1)).await;
                counter.store(seen + 1, Ordering::Relaxed);
                inside.store(false, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    assert_eq!(counter.load(Ordering::Relaxed), MANAGERS * TASKS * SECTIONS);
    let tokens = tokens.lock().unwrap().clone();
    assert!(tokens.is_sorted_by(|one, two| one < two), "{tokens:?}");
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

async fn managers_get_their_turn_in_order<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let holder = env.manager().await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();

    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let mut managers = vec![holder];
    for turn in 0..4 {
        let manager = env.manager().await;
        let lock = manager.lock("order:42").wait(Wait::Forever);
        managers.push(manager);
        let order = order.clone();
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(turn);
            guard.release().await.unwrap();
        });
        key.until_waiting(turn + 1).await;
    }
    soon(guard.release()).await.unwrap();
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// Without hints a waiter looks again after a second: this many turns would be too many for the
/// time there is.
async fn a_release_wakes_the_next_manager_and_no_other<E: Env>() {
    const TURNS: u64 = 40;

    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    let turns = async {
        for turn in 0..TURNS {
            let [holder, waiter] = if turn % 2 == 0 {
                [&managers[0], &managers[1]]
            } else {
                [&managers[1], &managers[0]]
            };
            let guard = holder.lock("order:42").acquire().await.unwrap();
            let next = waiter.lock("order:42").wait(TTL);
            let next = tokio::spawn(async move { next.acquire().await });
            key.until_waiting(1).await;
            let before = Instant::now();
            guard.release().await.unwrap();
            next.await.unwrap().unwrap().release().await.unwrap();
            assert!(before.elapsed() <= E::PROMPT);
        }
    };
    // Paused time stands still while nobody waits for a timer.
    timeout(LIMIT, turns).await.expect("hints wake the waiters");
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

async fn a_wait_ends_in_busy_and_leaves_no_place<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();

    let limit = Duration::from_millis(300);
    let before = Instant::now();
    let error = soon(managers[1].lock("order:42").wait(limit).acquire())
        .await
        .expect_err("it is held all the time");
    assert!(before.elapsed() >= limit);
    let LockError::Busy { waited, .. } = &error else {
        panic!("{error}");
    };
    assert!(*waited >= limit, "{waited:?}");
    assert!(error.retry_after().is_some());
    assert!(error.to_string().contains("`order:42`"), "{error}");

    // What it left is given back in the background.
    assert_idle(&[&managers[1]]).await;
    key.until_waiting(0).await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

async fn a_wait_for_ever_outlasts_the_holder<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    // It dies: nobody renews and nobody releases.
    let dead = OneKey::<E::Store>::owner();
    let fence = key.granted(dead, E::BRIEF).await;
    let lock = managers[1].lock("order:42").wait(Wait::Forever);
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(guard.fencing_token().fence() > fence);
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

async fn try_acquire_does_not_wait<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    let guard = soon(managers[0].lock("order:42").try_acquire()).await;
    let guard = guard.unwrap().expect("it is free");
    // A wait that was set before does not count, and neither does one of nothing.
    let lock = managers[1].lock("order:42");
    assert!(
        soon(lock.clone().wait(Wait::Forever).try_acquire())
            .await
            .unwrap()
            .is_none()
    );
    let error = soon(lock.wait(Duration::ZERO).acquire()).await;
    assert!(error.is_err_and(|error| error.is_busy()));
    assert_eq!(managers[1].active(), 0, "there is nothing to give back");
    key.until_waiting(0).await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

async fn busy_names_the_holder<E: Env>() {
    let env = E::start().await;
    let holder = env.manager_with(|it| it.application("billing")).await;
    let other = env.manager().await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let error = soon(other.lock("order:42").wait(Wait::Never).acquire())
        .await
        .unwrap_err();
    let LockError::Busy { holder: seen, .. } = &error else {
        panic!("{error}");
    };
    let label = seen.label.as_deref().expect("it says who it is");
    assert!(label.starts_with("billing@"), "{label}");
    assert!(
        label.ends_with(&format!("/{}", std::process::id())),
        "{label}"
    );
    let text = error.to_string();
    assert!(
        text.contains("`order:42`") && text.contains(label),
        "{text}"
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &other]).await;
}

async fn a_lease_is_renewed_as_long_as_its_body_runs<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let body = managers[0]
        .lock("order:42")
        .ttl(E::BRIEF)
        .run(async |lease| {
            let since = Instant::now();
            while since.elapsed() < 3 * E::BRIEF {
                let other = managers[1].lock("order:42").try_acquire().await.unwrap();
                assert!(other.is_none(), "after {:?}", since.elapsed());
                lease.ensure().unwrap();
                sleep(E::BRIEF / 10).await;
            }
            lease.remaining()
        });
    let remaining = soon(body).await.unwrap();
    assert!(
        !remaining.is_zero() && remaining <= E::BRIEF,
        "{remaining:?}"
    );
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

async fn max_hold_ends_a_lease_that_is_renewed<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let limit = E::BRIEF * 3 / 2;
    let before = Instant::now();
    let lock = managers[0].lock("order:42").ttl(E::BRIEF).max_hold(limit);
    let outcome = soon(lock.run(async |_| std::future::pending::<()>().await)).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::MaxHold),
        "{outcome:?}"
    );
    assert!(before.elapsed() >= limit);
    let next = soon(managers[1].lock("order:42").acquire()).await.unwrap();
    soon(next.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

async fn a_lease_without_renewal_ends_after_its_ttl<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let before = Instant::now();
    let lock = manager.lock("order:42").ttl(E::BRIEF).renew(false);
    let outcome = soon(lock.run(async |_| std::future::pending::<()>().await)).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Expired),
        "{outcome:?}"
    );
    // Earlier by the drift, never later than the store.
    assert!(before.elapsed() + E::BRIEF / 50 >= E::BRIEF);
    env.assert_clean(1, &[&manager]).await;
}

async fn a_body_is_cancelled_when_the_store_says_it_is_lost<E: Env>() {
    struct Dropped<'a>(&'a AtomicBool);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let env = E::start().await;
    let manager = env.manager().await;
    let dropped = AtomicBool::new(false);
    let ttl = 4 * E::BRIEF;
    let before = Instant::now();
    let body = manager.lock("order:42").ttl(ttl).run(async |_| {
        let _dropped = Dropped(&dropped);
        env.delete("order:42").await;
        std::future::pending::<()>().await;
    });
    let outcome = soon(body).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::TakenAway),
        "{outcome:?}"
    );
    assert!(
        dropped.load(Ordering::Relaxed),
        "the body is gone before the caller knows"
    );
    // The next renewal told, which comes after a third of the TTL; exact where time is paused.
    assert!(before.elapsed() <= ttl / 3 + E::PROMPT);
    env.assert_clean(1, &[&manager]).await;
}

async fn a_body_that_may_finish_does_so_without_its_lease<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let lock = manager
        .lock("order:42")
        .ttl(E::BRIEF)
        .on_lost(OnLost::Finish);
    let outcome = soon(lock.run(async |lease| {
        env.delete("order:42").await;
        let error = lease.lost().await;
        assert!(matches!(error, LockError::Lost { .. }));
        assert!(lease.is_lost() && lease.ensure().is_err());
        assert!(lease.remaining().is_zero());
        yield_now().await;
        "done"
    }))
    .await;
    assert_eq!(outcome, Ok("done"));
    env.assert_clean(1, &[&manager]).await;
}

async fn a_release_tells_that_the_lease_was_gone<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    for (on_lost, is_told) in [(OnLost::Cancel, true), (OnLost::Finish, false)] {
        let lock = manager.lock("order:42").on_lost(on_lost);
        let guard = soon(lock.acquire()).await.unwrap();
        env.delete("order:42").await;
        let outcome = soon(guard.release()).await;
        let told = is_lost(&outcome, |cause| *cause == LostCause::TakenAway);
        assert_eq!(told, is_told, "{outcome:?}");
    }
    env.assert_clean(1, &[&manager]).await;
}

async fn a_lost_lease_does_not_harm_its_successor<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let loser = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    env.delete("order:42").await;
    let winner = soon(managers[1].lock("order:42").acquire()).await.unwrap();
    assert!(winner.fencing_token() > loser.fencing_token());
    let outcome = soon(loser.release()).await;
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::TakenAway),
        "{outcome:?}"
    );
    // Its release has not touched what is not its own.
    assert_eq!(env.locks().await.len(), 1);
    assert!(
        soon(managers[0].lock("order:42").try_acquire())
            .await
            .unwrap()
            .is_none()
    );
    soon(winner.release())
        .await
        .expect("it was the holder to the end");
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// D1: a server that lost its scripts gets them again, and nothing is done twice.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_server_that_forgot_its_scripts_is_taught_them_again() {
    let env = common::Redis::start().await;
    let manager = env.manager().await;
    let mut connection = env.server.connection().await;
    let mut forget = async || {
        ::redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async::<()>(&mut connection)
            .await
            .unwrap();
    };
    forget().await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    forget().await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// Fences of the store and of the managers above it agree.
#[tokio::test(start_paused = true)]
async fn a_token_is_made_of_the_fence_in_the_store() {
    let env = Memory::start().await;
    let manager = env.manager().await;
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let store = env.store().await;
    let key = OneKey::new(store, "order:42");
    let seen = key.busy(OneKey::<<Memory as Env>::Store>::owner()).await;
    assert_eq!(guard.fencing_token().fence(), seen.last_fence);
    guard.release().await.unwrap();
}

/// A grant makes nobody but the manager of the granted waiter ask.
#[tokio::test(start_paused = true)]
async fn a_hint_reaches_the_granted_waiters_manager_only() {
    let env = Memory::start().await;
    let key = OneKey::new(env.store().await, "order:42");
    let mut wires = Vec::new();
    let mut managers = Vec::new();
    for _ in 0..3 {
        let wire = Wire::new(env.store().await);
        managers.push(LockManager::builder().store(wire.clone()).unwrap());
        wires.push(wire);
    }
    let guard = managers[0].lock("order:42").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (others, manager) in (0..).zip(&managers[1..]) {
        let lock = manager.lock("order:42").wait(TTL);
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
        key.until_waiting(others + 1).await;
    }
    let asked = [&wires[1], &wires[2]].map(|wire| wire.count(Kind::Acquire));
    let before = Instant::now();
    guard.release().await.unwrap();
    let next = waiting.remove(0).await.unwrap();
    assert!(before.elapsed().is_zero(), "it did not wait for its timer");
    let asks = [&wires[1], &wires[2]].map(|wire| wire.count(Kind::Acquire));
    assert_eq!(asks, [asked[0] + 1, asked[1]]);
    next.release().await.unwrap();
    waiting.remove(0).await.unwrap().release().await.unwrap();
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// One message for one grant, on the channel of the one manager.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_hint_goes_to_the_channel_of_the_granted_waiter_only() {
    let env = common::Redis::start().await;
    let key = OneKey::new(env.store().await, "order:42");
    let [holder, first, second] =
        [(); 3].map(|()| OneKey::<<common::Redis as Env>::Store>::owner());
    let (sender, mut pushed) = tokio::sync::mpsc::unbounded_channel();
    let client = ::redis::Client::open(env.server.url() + "/?protocol=resp3").unwrap();
    let config = ::redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let mut listener = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap();
    listener.psubscribe("*").await.unwrap();

    key.granted(holder, TTL).await;
    key.busy(first).await;
    key.busy(second).await;
    key.release(holder).await;
    let fence = key.granted(first, TTL).await;
    key.release(second).await;
    key.release(first).await;
    // Whatever was published came before this.
    let mut connection = env.server.connection().await;
    let _: u32 = ::redis::cmd("PUBLISH")
        .arg("end")
        .arg("")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut heard = Vec::new();
    while let Some(message) = soon(pushed.recv()).await {
        let Some(message) = ::redis::Msg::from_push_info(message) else {
            continue;
        };
        if message.get_channel_name() == "end" {
            break;
        }
        let text: String = message.get_payload().unwrap();
        heard.push((message.get_channel_name().to_owned(), text));
    }
    let channel = format!("dlock:wake:{}", first.client());
    assert_eq!(heard, [(channel, format!("{first} {fence} order:42"))]);
    env.assert_clean(1, &[]).await;
}
