//! What a quorum asks of the stores that it is made of.

use dlock::{
    OwnerId,
    store::{
        AcquireOutcome, AcquireRequest, GRANT_TTL, Holder, Proposal, QuorumNode, Raised, Released,
        Renewal,
    },
};
use dlock_testkit::eventually;

use crate::{
    TTL,
    common::{Env, LABEL, LIMIT, OneKey},
    one_key,
};

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
async fn wait_for_notice<S: QuorumNode>(key: &OneKey<S>, owner: OwnerId) -> Holder {
    match ask(key, owner, true, 0).await {
        AcquireOutcome::Busy(holder) => holder,
        other => panic!("it was granted: {other:?}"),
    }
}

pub(crate) async fn a_proposal_takes_the_place_of_the_clock<E: Env<Store: QuorumNode>>() {
    let (env, key) = one_key::<E>().await;
    let first = OneKey::<E::Store>::owner();
    let start = key.granted(first, TTL).await;
    key.release(first).await;
    // Far ahead of any clock, reached already, and far behind.
    let ahead = start + (1 << 40);
    for (proposal, expected) in [(ahead, ahead), (ahead, ahead + 1), (1, ahead + 2)] {
        let owner = OneKey::<E::Store>::owner();
        let fence = expected;
        let answer = ask(&key, owner, false, proposal).await;
        assert_eq!(answer, AcquireOutcome::granted(fence));
        let again = ask(&key, owner, false, 2 * ahead).await;
        assert_eq!(again, AcquireOutcome::granted(fence), "it has it already");
        key.release(owner).await;
    }
    let next = OneKey::<E::Store>::owner();
    assert_eq!(key.granted(next, TTL).await, ahead + 3);
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn only_the_holder_raises_a_fence<E: Env<Store: QuorumNode>>() {
    let (env, key) = one_key::<E>().await;
    let [holder, stranger, next] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    let raise = async |owner, from, to| key.store.raise(&key.key, owner, from, to).await.unwrap();
    let free = raise(holder, 6, 7).await;
    assert_eq!(free, Raised::NotOwner, "of a free key");
    let fence = key.granted(holder, TTL).await;
    let far = fence + 1_000_000_000;
    assert_eq!(raise(stranger, fence, far).await, Raised::NotOwner);
    let other_grant = raise(holder, fence - 1, far).await;
    assert_eq!(other_grant, Raised::NotOwner, "of an earlier grant");
    assert_eq!(key.busy(stranger).await.last_fence, fence, "nothing raised");
    key.release(stranger).await;

    for repeated in [false, true] {
        let raised = raise(holder, fence, far).await;
        assert_eq!(raised, Raised::Raised, "{repeated}");
    }
    assert_eq!(
        raise(holder, far, fence).await,
        Raised::Raised,
        "not lowered"
    );
    assert_eq!(key.granted(holder, TTL).await, far);
    let seen = key.busy(stranger).await;
    assert_eq!((seen.last_fence, seen.label.as_deref()), (far, Some(LABEL)));
    key.release(stranger).await;
    assert_eq!(key.release(holder).await, Released::WasHeld);
    assert_eq!(raise(holder, far, far + 9).await, Raised::NotOwner, "gone");
    assert_eq!(key.granted(next, TTL).await, far + 1);
    key.release(next).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn a_raise_does_not_prolong_a_lease<E: Env<Store: QuorumNode>>() {
    let (env, key) = one_key::<E>().await;
    let [holder, other] = [(); 2].map(|()| OneKey::<E::Store>::owner());
    let fence = key.granted(holder, E::BRIEF).await;
    let raised = key.store.raise(&key.key, holder, fence, fence + 5).await;
    assert_eq!(raised, Ok(Raised::Raised));
    let AcquireOutcome::Busy(seen) = key.ask_once(other, TTL).await else {
        panic!("it is held");
    };
    assert!(seen.ttl.is_some_and(|ttl| ttl <= E::BRIEF), "{seen:?}");
    eventually(LIMIT, "the lease has run out", async || {
        matches!(
            key.ask_once(other, TTL).await,
            AcquireOutcome::Granted { .. }
        )
    })
    .await;
    assert_eq!(key.renew(holder).await, Renewal::NotOwner);
    key.release(other).await;
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn who_waits_for_notice_gets_no_lease<E: Env<Store: QuorumNode>>() {
    let (env, key) = one_key::<E>().await;
    let [holder, told, second, passer_by] = [(); 4].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    assert_eq!(wait_for_notice(&key, told).await.position, Some(0));
    assert_eq!(wait_for_notice(&key, second).await.position, Some(1));
    let place = wait_for_notice(&key, told).await.position;
    assert_eq!(place, Some(0), "it keeps its place");
    key.release(holder).await;
    // It was told and has left; the lock is free for whoever asks first.
    let got = ask(&key, passer_by, false, 0).await;
    assert!(matches!(got, AcquireOutcome::Granted { .. }), "{got:?}");
    assert_eq!(wait_for_notice(&key, second).await.position, Some(0));
    assert_eq!(wait_for_notice(&key, told).await.position, Some(1));
    for owner in [told, second, passer_by] {
        key.release(owner).await;
    }
    env.assert_clean(1, &[]).await;
}

pub(crate) async fn who_gets_the_lock_or_leaves_waits_no_more<E: Env<Store: QuorumNode>>() {
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

pub(crate) async fn who_waits_for_a_lease_goes_before_who_waits_for_notice<
    E: Env<Store: QuorumNode>,
>() {
    let (env, key) = one_key::<E>().await;
    let [holder, waiter, told] = [(); 3].map(|()| OneKey::<E::Store>::owner());
    key.granted(holder, TTL).await;
    key.busy(waiter).await;
    assert_eq!(wait_for_notice(&key, told).await.position, Some(1));
    key.release(holder).await;
    let seen = wait_for_notice(&key, told).await;
    assert!(seen.ttl <= Some(GRANT_TTL), "the waiter's: {seen:?}");
    assert_eq!(key.granted(waiter, TTL).await, seen.last_fence);
    key.release(told).await;
    key.release(waiter).await;
    env.assert_clean(1, &[]).await;
}

/// One message, without a fence.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_redis_server_tells_who_waits_for_notice_without_a_fence() {
    use crate::{common::Redis, hints::messages_during};

    let env = Redis::start().await;
    let key = OneKey::new(env.store().await, "order:42");
    let [holder, told] = [(); 2].map(|()| OneKey::<<Redis as Env>::Store>::owner());
    let heard = messages_during(&env.server, async {
        key.granted(holder, TTL).await;
        wait_for_notice(&key, told).await;
        key.release(holder).await;
    })
    .await;
    let channel = format!("dlock:wake:{}", told.client());
    assert_eq!(heard, [(channel, format!("{told} 0 order:42"))]);
    assert_eq!(env.locks().await, Vec::<String>::new());
}
