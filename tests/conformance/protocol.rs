//! Cases that inspect the store itself, beside those of `contract.rs`.

use dlock::store::AcquireOutcome;

#[cfg(feature = "redis")]
use crate::common::{HasServer, OldRedis, Redis, Valkey, soon};
use crate::{
    TTL,
    common::{Env, OneKey},
    one_key,
};

pub(crate) async fn a_request_without_waiting_leaves_nothing<E: Env>() {
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
    assert!(
        fences.is_sorted_by(|one, two| one < two),
        "broken promise: the token did not grow: {fences:?}"
    );
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
