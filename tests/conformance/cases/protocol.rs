//! Cases that inspect the store itself, beside those of `contract.rs`.

use dlock::store::AcquireOutcome;

use super::{TTL, one_key};
use crate::common::{Env, OneKey};

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
