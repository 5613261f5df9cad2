//! No two grants have the same fence.

use super::*;

/// Two nodes lose the lock of the first process before they are raised, and another process acquires them. Then the
/// nodes with a long round trip answer the first process.
#[tokio::test(start_paused = true)]
async fn two_sections_never_have_one_token_however_late_the_nodes_answer() {
    let stores = stores();
    diverge(&stores, [6, 8, 6, 8, 7]).await;
    let seen = views(&stores);
    for far in [3, 4] {
        seen[far].set(|way| way.there = ms(100));
    }
    for behind in [0, 2] {
        seen[behind].set(|way| way.raise = ms(20));
    }
    let (first, second) = (
        Quorum::of(seen).unwrap(),
        Quorum::of(views(&stores)).unwrap(),
    );
    let asking = tokio::spawn(async move { ask(&first, owner()).await });
    sleep(ms(10)).await;
    stores[0].forget();
    stores[2].forget();
    let id = owner();
    let fence = granted(ask(&second, id).await);
    let released = LockStore::release(&second, ReleaseRequest::new(&key(), id)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    if let Ok(AcquireOutcome::Granted { fence: later, .. }) = asking.await.unwrap() {
        assert!(
            later > fence,
            "broken promise: the token did not grow: {later} after {fence}"
        );
    }
}

/// A claim that holds a majority of nodes with different fences is not refused.
#[tokio::test(start_paused = true)]
async fn a_majority_that_is_raised_once_more_grants() {
    let stores = stores();
    diverge(&stores, [1, 2, 3, 4, 5]).await;
    let seen = views(&stores);
    for behind in [0, 1] {
        seen[behind].set(|way| way.raise = ms(20));
    }
    for late in [3, 4] {
        seen[late].set(|way| way.there = ms(10));
    }
    let quorum = Quorum::of(seen).unwrap();
    let asking = tokio::spawn(async move { ask(&quorum, owner()).await });
    sleep(ms(5)).await;
    // Of the three nodes that have answered, two have lost the lock before they are raised.
    stores[0].forget();
    stores[1].forget();
    let fence = granted(asking.await.unwrap());
    // The last fence is greater by what the node has counted for another claim.
    let mut confirmed = 0;
    for store in &stores {
        let AcquireOutcome::Busy(holder) = store
            .acquire(AcquireRequest::new(&key(), owner(), TTL))
            .await
            .unwrap()
        else {
            continue;
        };
        confirmed += usize::from(holder.last_fence == fence);
    }
    assert_eq!(confirmed, 3);
}
