//! The three requests, as somebody without a manager sends them.

use std::time::Duration;

use dlock::{
    LockStore,
    store::{ALIVE, AcquireOutcome, GRANT_TTL, Released, RenewBatch, Renewal},
};
use dlock_testkit::eventually;
use tokio::time::Instant;

#[cfg(feature = "redis")]
use crate::common::{HasServer, OldRedis, Redis, Valkey, soon};
use crate::{
    TTL,
    common::{Env, LABEL, LIMIT, OneKey},
    one_key,
};

pub(crate) async fn a_free_key_is_granted_and_a_held_one_is_busy<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, first, second] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL).await;

    let seen = key.busy(first).await;
    assert_eq!(seen.label.as_deref(), Some("test@host/1"));
    assert_eq!((seen.last_fence, seen.fence), (fence, fence));
    assert_eq!(seen.position, Some(0));
    let left = seen.ttl.expect("a lease ends");
    assert!(left <= TTL && left + LIMIT > TTL, "{left:?}");
    assert_eq!(key.busy(second).await.position, Some(1));
    let place = key.busy(first).await.position;
    let is_kept = place == Some(0) || (!E::KEEPS_PLACES && place == Some(1));
    assert!(is_kept, "it keeps its place: {place:?}");

    for owner in [second, first, holder] {
        key.release(owner).await;
    }
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn asking_again_returns_the_same_fence_and_starts_the_ttl_anew<E: Env>() {
    let (_env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL).await;
    // Even a first question of a much shorter time is overruled.
    assert_eq!(key.granted(holder, 2 * TTL).await, fence);
    let seen = key.busy(other).await;
    assert!(seen.ttl > Some(TTL), "{seen:?}");
    assert_eq!(seen.last_fence, fence, "no fence was used up");
}

pub(crate) async fn a_renewal_starts_the_ttl_anew<E: Env>() {
    let (_env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    let fence = key.granted(holder, TTL / 2).await;
    assert_eq!(key.renew(holder).await, Renewal::Renewed);
    let seen = key.busy(other).await;
    assert!(seen.ttl > Some(TTL / 2), "{seen:?}");
    assert_eq!(key.granted(holder, TTL).await, fence);
}

pub(crate) async fn a_renewal_names_the_holder<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, next, asker] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    key.busy(next).await;
    assert_eq!(key.release(holder).await, Released::WasHeld);
    assert_eq!(key.busy(asker).await.label, None, "of a lease handed on");

    let renewal = |label| key.renewal(next).label(label);
    for (label, shown) in [("", None), (LABEL, Some(LABEL)), ("", Some(LABEL))] {
        let answer = key.store.renew_one(renewal(label)).await;
        assert_eq!(answer, Ok(Renewal::Renewed));
        let seen = key.busy(asker).await;
        assert_eq!(seen.label.as_deref(), shown);
        assert!(seen.ttl > Some(GRANT_TTL), "{seen:?}");
    }
    // Whoever does not hold it changes nothing.
    let strangers = key.renewal(holder).label("x");
    assert_eq!(key.store.renew_one(strangers).await, Ok(Renewal::NotOwner));
    assert_eq!(key.busy(asker).await.label.as_deref(), Some(LABEL));
    key.release(asker).await;
    assert_eq!(key.release(next).await, Released::WasHeld);
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn many_renewals_have_an_answer_each<E: Env>() {
    let env = E::start().await;
    let store = env.store().await;
    assert_eq!(store.renew(RenewBatch::new(&[]).limit(LIMIT)).await, []);
    let mut keys = Vec::new();
    for number in 0..12 {
        let key = OneKey::new(env.store().await, &format!("order:{number}"));
        let owner = OneKey::<E::Store>::owner();
        if number % 4 != 1 {
            key.granted(owner, TTL / 2).await;
        }
        keys.push((key, owner));
    }
    // Free, held by another, and held by who asks.
    let stranger = OneKey::<E::Store>::owner();
    let asks: Vec<_> = (0..)
        .zip(&keys)
        .map(|(number, (key, owner))| key.renewal(if number % 4 == 3 { stranger } else { *owner }))
        .collect();
    let expected: Vec<_> = (0..asks.len())
        .map(|number| match number % 2 {
            0 => Ok(Renewal::Renewed),
            _ => Ok(Renewal::NotOwner),
        })
        .collect();
    assert_eq!(
        store.renew(RenewBatch::new(&asks).limit(LIMIT)).await,
        expected
    );
    for (number, (key, owner)) in (0..).zip(&keys) {
        if let AcquireOutcome::Busy(seen) = key.ask_once(stranger, TTL).await {
            let is_renewed = seen.ttl > Some(TTL / 2);
            assert_eq!(is_renewed, number % 4 != 3, "{number}: {seen:?}");
        }
        key.release(stranger).await;
        key.release(*owner).await;
    }
    env.assert_clean(keys.len(), &[]).await;
}

/// A waiter may believe a hint whose fence is above what its last question was answered.
pub(crate) async fn a_refusal_tells_old_grants_from_new_ones<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, waiter, other] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    let held = key.granted(holder, TTL).await;
    assert!(key.busy(waiter).await.last_fence >= held);
    // It asks again now and then, and the last answer counts.
    let told = key.busy(waiter).await.last_fence;
    assert!(told >= held);
    key.release(holder).await;
    let granted = key.granted(waiter, TTL).await;
    assert!(granted > told, "a grant that came after the question");
    assert!(key.busy(other).await.last_fence >= granted);
    key.release(waiter).await;
    let next = key.granted(other, TTL).await;

    // Nothing that is still said of the first grant may be believed any more.
    let told = key.busy(waiter).await.last_fence;
    assert!(told >= next && told > granted);
    key.release(waiter).await;
    key.release(other).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn another_owner_can_neither_renew_nor_release<E: Env>() {
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

pub(crate) async fn a_lease_that_ran_out_is_nobodys<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let (holder, other) = (OneKey::<E::Store>::owner(), OneKey::<E::Store>::owner());
    let fence = key.granted(holder, E::BRIEF).await;
    let mut next = 0;
    eventually(LIMIT, "the lease has run out", async || {
        match key.ask_once(other, TTL).await {
            AcquireOutcome::Granted { fence, .. } => next = fence,
            _ => {}
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

pub(crate) async fn waiters_are_granted_in_the_order_of_their_arrival<E: Env>() {
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
        let AcquireOutcome::Busy(seen) = key.ask_once(passer_by, TTL).await else {
            panic!("somebody overtook the waiters");
        };
        assert!(seen.ttl <= Some(GRANT_TTL), "not confirmed yet: {seen:?}");
        let fence = key.granted(*next, TTL).await;
        assert_eq!(fence, seen.last_fence, "granted before it asked");
        assert_eq!(fence, seen.fence);
        assert!(fence > last);
        last = fence;
    }
    key.release(owners[3]).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn a_waiter_that_died_is_skipped<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, dead, living] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    // The store counts from when it is asked, not from when its answer has come.
    let since = Instant::now();
    assert_eq!(key.busy(dead).await.position, Some(0));
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

pub(crate) async fn a_waiter_that_left_is_skipped<E: Env>() {
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

pub(crate) async fn a_grant_that_nobody_confirms_goes_to_the_next_waiter<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, killed, next] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    key.busy(killed).await;
    key.release(holder).await;
    eventually(LIMIT, "the short lease of the grant ends", async || {
        matches!(key.ask(next, TTL).await, AcquireOutcome::Granted { .. })
    })
    .await;
    assert_eq!(key.renew(killed).await, Renewal::NotOwner);
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn asking_once_leaves_nothing<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, passer_by, waiter] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    let AcquireOutcome::Busy(seen) = key.ask_once(passer_by, TTL).await else {
        panic!("it is held");
    };
    assert_eq!(seen.position, None);
    assert_eq!(key.busy(waiter).await.position, Some(0));
    key.release(waiter).await;
    assert_eq!(env.locks().await.len(), 1, "the lock, and no queue");
    key.release(holder).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn a_newcomer_cannot_overtake_a_waiter<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let [holder, waiter, newcomer] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    let first = key.granted(holder, E::BRIEF / 4).await;
    key.busy(waiter).await;
    // The holder has died without a word: nobody but the newcomer is there to grant.
    let mut granted = first;
    eventually(LIMIT, "somebody else is the holder", async || {
        match key.ask_once(newcomer, TTL).await {
            AcquireOutcome::Granted { .. } => panic!("it overtook the waiter"),
            AcquireOutcome::Busy(seen) => granted = seen.last_fence,
            other => panic!("{other:?}"),
        }
        granted > first
    })
    .await;
    assert_eq!(key.granted(waiter, TTL).await, granted);
    key.release(waiter).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn fences_grow_however_the_key_changes_hands<E: Env>() {
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

/// A server that lost its scripts gets them again, and nothing is done twice.
#[cfg(feature = "redis")]
async fn taught_again<E: Env + HasServer>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let mut connection = env.server().connection().await;
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

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_server_that_forgot_its_scripts_is_taught_them_again() {
    taught_again::<Redis>().await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_valkey_server_that_forgot_its_scripts_is_taught_them_again() {
    taught_again::<Valkey>().await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn an_old_server_that_forgot_its_scripts_is_taught_them_again() {
    taught_again::<OldRedis>().await;
}
