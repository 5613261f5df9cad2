//! Split votes, and the effect of a round on later ones.

use tokio::time::timeout_at;

use super::*;

/// Acquires one store for another client, which sends nothing else.
async fn hold(store: &MemoryStore) {
    granted(
        store
            .acquire(AcquireRequest::new(&key(), owner(), TTL))
            .await,
    );
}

/// A dropped call has sent a request, and the next call repeats it.
#[tokio::test(start_paused = true)]
async fn an_old_question_releases_nothing_of_what_a_later_one_was_granted() {
    let stores = stores();
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.mute = true);
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let first = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(400)).await;
    for view in &seen {
        view.set(|way| way.mute = false);
    }
    granted(ask(&quorum, id).await);
    first.await.unwrap().expect_err("no node has answered it");
    sleep(ms(100)).await;
    let other = Quorum::of(views(&stores)).unwrap();
    let answer = ask(&other, owner()).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    let released = LockStore::release(&quorum, ReleaseRequest::new(&key(), id)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    assert!(stores.iter().all(MemoryStore::is_empty));
}

/// The later request was not granted either, and has to release the grants of both.
#[tokio::test(start_paused = true)]
async fn what_two_questions_have_left_is_given_back() {
    let stores = stores();
    let seen = views(&stores);
    for view in &seen[..3] {
        view.set(|way| way.mute = true);
    }
    let quorum = Quorum::of(seen).unwrap();
    let id = owner();
    let first = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(100)).await;
    ask(&quorum, id).await.expect_err("only two answer");
    first.await.unwrap().expect_err("only two answer");
    for store in &stores[3..] {
        assert!(store.is_empty());
    }
}

/// The first round has entered queues. In the second, no node is reachable.
#[tokio::test(start_paused = true)]
async fn an_error_of_a_later_round_does_not_say_that_nothing_is_left() {
    let stores = stores();
    diverge(&stores, [1, 2, 3, 4, 5]).await;
    for store in &stores[..4] {
        hold(store).await;
    }
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.down_after = Some(1));
    }
    let (quorum, key) = (Quorum::of(seen).unwrap(), key());
    let request = AcquireRequest::new(&key, owner(), TTL).queue(Queue::ForLease);
    let error = LockStore::acquire(&quorum, request).await.unwrap_err();
    let newcomer = Proposal::new(AcquireRequest::new(&key, owner(), TTL), 0).notice(true);
    let AcquireOutcome::Busy(seen) = stores[0].propose(newcomer).await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(seen.position, Some(1), "another claim is in the queue");
    assert!(!error.left_nothing(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_does_not_cost_its_whole_time_in_each_split_vote() {
    for _ in 0..10 {
        let stores = stores();
        let mut tasks = JoinSet::new();
        let begin = Instant::now();
        for near in [&[0, 1][..], &[2, 3]] {
            let seen = views(&stores);
            for (node, view) in seen.iter().enumerate() {
                view.set(|way| {
                    way.there = if near.contains(&node) { ms(1) } else { ms(3) };
                    way.mute = node == 4;
                });
            }
            let manager = LockManager::builder()
                .build_with_store(Quorum::of(seen).unwrap())
                .unwrap();
            tasks.spawn(async move {
                let lock = manager.lock("order:42").wait(Wait::Forever);
                lock.acquire().await.unwrap().release().await.unwrap();
            });
        }
        let end = begin + ms(1000);
        while let Some(task) = timeout_at(end, tasks.join_next()).await.unwrap() {
            task.unwrap();
        }
    }
}

/// A crashed client holds one or two nodes, and two others have a long round trip: their answers have to be awaited,
/// however long they take.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_far_away_are_waited_for_when_the_vote_looks_split() {
    for (held, way) in [(2, 40), (1, 100)] {
        let stores = stores();
        for store in &stores[..held] {
            hold(store).await;
        }
        let seen = views(&stores);
        for view in &seen[3..] {
            view.set(|it| it.there = ms(way));
        }
        granted(ask(&Quorum::of(seen).unwrap(), owner()).await);
    }
}

/// A majority has granted the lock without this node. When the node processes the request, the lease was already
/// released, for example over another connection.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_release_is_given_back() {
    let stores = stores();
    let seen = views(&stores);
    seen[4].set(|way| way.there = ms(300));
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    granted(ask(&quorum, id).await);
    seen[4].set(|way| way.there = ms(0));
    let released = LockStore::release(&quorum, ReleaseRequest::new(&key(), id)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    sleep(ms(299)).await;
    assert!(stores[4].is_empty(), "it has yet to come");
    sleep(ms(100)).await;
    assert!(stores.iter().all(MemoryStore::is_empty), "for a whole TTL");
}

/// The same where a renewal has found that the node had lost the lease, and restores it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_again_after_the_release_is_given_back() {
    let stores = stores();
    let seen = views(&stores);
    let quorum = Quorum::of(seen.clone()).unwrap();
    let (id, key) = (owner(), key());
    granted(ask(&quorum, id).await);
    stores[4].forget();
    seen[4].set(|way| way.there = ms(100));
    let renewal = RenewRequest::new(&key, id, TTL);
    let renewed = quorum.renew_one(renewal).await;
    assert_eq!(renewed, Ok(Renewal::Renewed));
    sleep(ms(150)).await;
    assert_eq!(seen[4].asked.load(Ordering::Relaxed), 2, "it is on its way");
    seen[4].set(|way| way.there = ms(0));
    let released = LockStore::release(&quorum, ReleaseRequest::new(&key, id)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    sleep(ms(49)).await;
    assert!(stores[4].is_empty(), "it has yet to come");
    sleep(ms(100)).await;
    assert!(stores.iter().all(MemoryStore::is_empty), "for a whole TTL");
}

/// A late node takes part in a lease that is still held, and is released with the other nodes.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_is_kept_as_long_as_the_lease_is_held() {
    let stores = stores();
    let seen = views(&stores);
    seen[4].set(|way| way.there = ms(300));
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    granted(ask(&quorum, id).await);
    assert!(stores[4].is_empty());
    sleep(ms(400)).await;
    assert!(!stores[4].is_empty(), "more nodes are better");
    seen[4].set(|way| way.there = ms(0));
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();
    sleep(ms(100)).await;
    assert!(stores.iter().all(MemoryStore::is_empty));
}

/// After its release, a claim must not use a late grant: that lease is being released.
#[tokio::test(start_paused = true)]
async fn a_question_that_was_released_meanwhile_is_granted_nothing() {
    let stores = stores();
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.there = ms(100));
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let asking = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(50)).await;
    for view in &seen {
        view.set(|way| way.there = ms(0));
    }
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();
    let error = asking.await.unwrap().expect_err("it was released");
    assert!(!error.left_nothing(), "{error}");
    sleep(ms(100)).await;
    assert!(stores.iter().all(MemoryStore::is_empty), "for a whole TTL");
}
