//! Cases of quorum nodes that inspect the store itself, beside those of `contract.rs`.

use dlock::store::{
    AcquireOutcome, AcquireRequest, Holder, OwnerId, Proposal, QuorumNode, Released,
};

use super::{TTL, one_key};
use crate::common::{Env, LABEL, OneKey};

async fn ask<S: QuorumNode>(
    key: &OneKey<S>,
    owner: OwnerId,
    notice: bool,
    proposal: u64,
) -> AcquireOutcome {
    let request = AcquireRequest::new(&key.key, owner, TTL).label(LABEL);
    let proposal = Proposal::new(request, proposal).notice(notice);
    key.store.propose(proposal).await.unwrap()
}

/// Waits only to be told.
pub(crate) async fn wait_for_notice<S: QuorumNode>(key: &OneKey<S>, owner: OwnerId) -> Holder {
    match ask(key, owner, true, 0).await {
        AcquireOutcome::Busy(holder) => holder,
        other => panic!("broken promise: two hold the key: {other:?}"),
    }
}

pub(crate) async fn a_waiter_for_a_notice_leaves_the_queue_when_the_lock_is_free<
    E: Env<Store: QuorumNode>,
>() {
    let (env, key) = one_key::<E>().await;
    let [holder, taker, leaver, next] = [(); 4].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    wait_for_notice(&key, leaver).await;
    wait_for_notice(&key, taker).await;
    assert_eq!(key.release(leaver).await, Released::WasGone);
    assert_eq!(wait_for_notice(&key, taker).await.position, Some(0));
    env.delete("order:42").await;
    let got = ask(&key, taker, true, 0).await;
    assert!(matches!(got, AcquireOutcome::Granted { .. }), "{got:?}");
    assert_eq!(wait_for_notice(&key, next).await.position, Some(0));
    key.release(next).await;
    key.release(taker).await;
    env.assert_clean(1, &[]).await;
}
