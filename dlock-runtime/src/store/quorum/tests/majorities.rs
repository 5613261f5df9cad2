//! Answers that count only when a majority has given them, and the releases on the other nodes.

use std::time::SystemTime;

use super::*;
use crate::random::Random;

/// Random numbers that make all pauses minimal or maximal.
struct Always(u64);

impl Random for Always {
    fn next_u64(&self) -> u64 {
        self.0
    }
}

fn renewal(key: &LockKey, owner: OwnerId, ttl: Duration) -> RenewRequest<'_> {
    RenewRequest::new(key, owner, ttl)
}

/// Acquires one store for another client.
async fn hold(store: &MemoryStore) {
    let key = key();
    let request = AcquireRequest::new(&key, owner(), TTL);
    granted(store.acquire(request).await);
}

async fn renew(quorum: &Quorum, owner: OwnerId) -> Result<Renewal, StoreError> {
    quorum.renew_one(renewal(&key(), owner, TTL)).await
}

/// Creates a quorum that holds a lock, and the views through which it sees its stores.
async fn held() -> ([MemoryStore; COUNT], [View; COUNT], Quorum, OwnerId) {
    let stores = stores();
    let seen = views(&stores);
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    granted(ask(&quorum, id).await);
    (stores, seen, quorum, id)
}

fn mute(views: &[View], mute: bool) {
    for view in views {
        view.set(|way| way.mute = mute);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_only_when_a_majority_has_renewed_it() {
    let (_stores, seen, quorum, id) = held().await;
    mute(&seen[2..], true);
    let error = renew(&quorum, id).await.expect_err("two of five");
    assert!(!error.left_nothing(), "{error}");
    mute(&seen[2..3], false);
    assert_eq!(renew(&quorum, id).await, Ok(Renewal::Renewed), "three");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_confirmed_only_when_a_majority_has_confirmed_it() {
    let (stores, seen, quorum, id) = held().await;
    mute(&seen[2..], true);
    let released = LockStore::release(&quorum, ReleaseRequest::new(&key(), id)).await;
    let error = released.expect_err("two of five");
    assert!(!error.left_nothing(), "{error}");
    mute(&seen[2..], false);
    // The release is repeated: two stores have nothing any more, the others may have had it or not.
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();
    assert!(stores.iter().all(MemoryStore::is_empty));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_two_of_five_have_lost_is_released_as_one_that_was_held() {
    let (stores, _seen, quorum, id) = held().await;
    // The first nodes to answer.
    stores[..2].iter().for_each(MemoryStore::forget);
    let released = LockStore::release(&quorum, ReleaseRequest::new(&key(), id)).await;
    assert_eq!(released, Ok(Released::WasHeld));
}

/// Two nodes were unreachable at the grant, and one of the other three has lost the lease since.
#[tokio::test(start_paused = true)]
async fn nodes_that_never_had_a_lease_count_with_those_that_have_lost_it() {
    let stores = stores();
    let seen = views(&stores);
    // They answer first; otherwise the grant would be certain without them.
    for view in &seen[..2] {
        view.set(|way| way.down_after = Some(0));
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    granted(ask(&quorum, id).await);
    stores[2].forget();
    let released = LockStore::release(&quorum, ReleaseRequest::new(&key(), id)).await;
    assert_eq!(released, Ok(Released::WasGone));
    let sent = |view: &View| view.releases.load(Ordering::Relaxed);
    assert_eq!(seen.each_ref().map(sent), [0, 0, 1, 1, 1]);
}

/// A lease is restored on a node only if a majority still has it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_given_to_no_node_again() {
    let (stores, seen, quorum, id) = held().await;
    stores.iter().for_each(MemoryStore::forget);
    for view in &seen[3..] {
        view.set(|way| way.back = ms(50));
    }
    assert_eq!(renew(&quorum, id).await, Ok(Renewal::NotOwner));
    sleep(ms(300)).await;
    assert!(stores.iter().all(MemoryStore::is_empty), "for a whole TTL");
}

#[tokio::test(start_paused = true)]
async fn renewals_wait_as_long_as_their_caller_says_and_no_longer() {
    let (_stores, seen, quorum, id) = held().await;
    let (long, short) = (key(), LockKey::new("short").unwrap());
    let other = owner();
    let request = AcquireRequest::new(&short, other, ms(400));
    granted(LockStore::acquire(&quorum, request).await);
    mute(&seen[2..], true);
    let requests = [renewal(&long, id, TTL), renewal(&short, other, ms(400))];
    let before = Instant::now();
    let batch = RenewBatch::new(&requests).limit(Duration::from_secs(1));
    let answers = LockStore::renew(&quorum, batch).await;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    let took = before.elapsed();
    // The limit is longer than for other requests: a late answer has renewed the leases as well.
    assert!(took >= ms(999) && took <= ms(1001), "{took:?}");
}

/// The node has received the first request. It is unreachable for the second, which is granted without it.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_question_has_left_on_a_node_is_released_with_the_rest() {
    let stores = stores();
    let seen = views(&stores);
    mute(&seen, true);
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let first = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(10)).await;
    // Its caller is dropped, and another one repeats the request.
    first.abort();
    assert!(!stores[0].is_empty());
    mute(&seen, false);
    seen[0].set(|way| way.down_after = Some(1));
    granted(ask(&quorum, id).await);
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();
    sleep(ms(10)).await;
    assert!(stores[0].is_empty(), "it was left there");
}

/// The same for a place in a queue.
#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_of_a_node_that_is_away_now_is_given_up_with_the_rest() {
    let stores = stores();
    let here = Quorum::of(views(&stores)).unwrap();
    granted(ask(&here, owner()).await);
    let seen = views(&stores);
    let quorum = Quorum::of(seen.clone()).unwrap();
    let (id, key) = (owner(), key());
    let question = AcquireRequest::new(&key, id, TTL).queue(Queue::ForLease);
    let answer = LockStore::acquire(&quorum, question).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    seen[4].set(|way| way.down_after = Some(1));
    let answer = LockStore::acquire(&quorum, question).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    LockStore::release(&quorum, ReleaseRequest::new(&key, id))
        .await
        .unwrap();
    sleep(ms(10)).await;
    let newcomer = Proposal::new(AcquireRequest::new(&key, owner(), TTL), 0).notice(true);
    let AcquireOutcome::Busy(holder) = stores[4].propose(newcomer).await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(holder.position, Some(0), "no claim waits before it");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_no_node_has_got_leaves_nothing_and_says_so() {
    let stores = stores();
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.down_after = Some(0));
    }
    let quorum = Quorum::of(seen).unwrap();
    let error = ask(&quorum, owner()).await.expect_err("all are down");
    assert!(error.left_nothing(), "{error}");
    assert_eq!(quorum.shared.claims.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_place_in_the_queue_is_forgotten_when_it_is_refused() {
    let stores = stores();
    let here = Quorum::of(views(&stores)).unwrap();
    granted(ask(&here, owner()).await);
    let quorum = Quorum::of(views(&stores)).unwrap();
    for _ in 0..10 {
        let answer = ask(&quorum, owner()).await.unwrap();
        assert!(
            matches!(answer, AcquireOutcome::Busy(_)),
            "broken promise: two hold the key: {answer:?}"
        );
    }
    assert_eq!(quorum.shared.claims.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_allows_for_the_drift_of_its_worst_clock() {
    let stores = stores();
    let seen = views(&stores);
    let drift = |quorum: Quorum| quorum.properties().drift.of(TTL);
    let usual = drift(Quorum::of(views(&stores)).unwrap());
    seen[3].set(|way| way.drift = ms(700));
    assert_eq!(drift(Quorum::of(seen).unwrap()), usual + ms(700));
}

/// Otherwise each grant would need a raise, which is another round trip.
#[tokio::test(start_paused = true)]
async fn what_nodes_have_told_of_their_fences_is_exceeded_by_the_next_proposal() {
    let stores = stores();
    diverge(&stores, [1, 2, 3, 4, 5]).await;
    let holder = owner();
    for store in &stores {
        granted(
            store
                .acquire(AcquireRequest::new(&key(), holder, TTL))
                .await,
        );
    }
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.raise = ms(200));
    }
    let quorum = Quorum::of(seen).unwrap();
    // After a refusal.
    let answer = ask(&quorum, owner()).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    for store in &stores {
        store
            .release(ReleaseRequest::new(&key(), holder))
            .await
            .unwrap();
    }
    let before = Instant::now();
    let id = owner();
    granted(ask(&quorum, id).await);
    assert_eq!(before.elapsed(), Duration::ZERO, "no raise was needed");
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();

    // After a grant to another process, which needs a raise.
    diverge(&stores, [10, 20, 30, 40, 50]).await;
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.raise = ms(200));
    }
    let quorum = Quorum::of(seen).unwrap();
    for raised in [true, false] {
        let before = Instant::now();
        let id = owner();
        granted(ask(&quorum, id).await);
        assert_eq!(before.elapsed() >= ms(200), raised);
        // All raises have been carried out by now.
        sleep(ms(300)).await;
        LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
            .await
            .unwrap();
    }
}

/// The vote looks split until the third node answers. The raise then takes longer than the wait for that answer.
#[tokio::test(start_paused = true)]
async fn a_raise_has_all_the_time_there_is() {
    let stores = stores();
    diverge(&stores, [1, 2, 3, 4, 5]).await;
    hold(&stores[0]).await;
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| (way.there, way.raise) = (ms(20), ms(100)));
    }
    seen[3].set(|way| way.there = ms(30));
    seen[4].set(|way| way.mute = true);
    let quorum = Quorum::of(seen.clone()).unwrap();
    granted(ask(&quorum, owner()).await);
    assert_eq!(seen[1].asked.load(Ordering::Relaxed), 1, "in one round");
}

/// Without pauses, so that only the waits within the rounds count.
#[tokio::test(start_paused = true)]
async fn in_the_last_round_of_a_split_vote_the_farthest_node_is_waited_for() {
    let stores = stores();
    for store in &stores[..2] {
        hold(store).await;
    }
    let seen = views(&stores);
    for view in &seen[3..] {
        view.set(|way| way.there = ms(400));
    }
    let quorum = Quorum::of(seen).unwrap();
    let quorum = quorum.replayable(SystemTime::now, Always(0));
    granted(ask(&quorum, owner()).await);
}

/// One lease has one fence, even if some of its nodes have forgotten it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_asked_for_again_keeps_its_fence_also_where_nodes_know_nothing_of_it() {
    let stores = stores();
    let seen = views(&stores);
    // They come back empty: they know neither the lease nor a fence.
    for view in &seen[..2] {
        view.set(|way| way.down_after = Some(0));
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let fence = granted(ask(&quorum, id).await);
    for view in &seen[..2] {
        view.set(|way| way.down_after = None);
    }
    assert_eq!(granted(ask(&quorum, id).await), fence);
}

/// Nodes that have come back empty would count the same fence again.
#[tokio::test(start_paused = true)]
async fn the_fence_of_a_lease_that_a_renewal_has_found_lost_is_not_proposed_again() {
    let (stores, _seen, quorum, id) = held().await;
    let claims = &quorum.shared.claims;
    let proposed = || {
        claims
            .ask(id, &key(), TTL, quorum.shared.all())
            .unwrap()
            .fence
    };
    assert!(proposed().is_some());
    stores.iter().for_each(MemoryStore::forget);
    assert_eq!(renew(&quorum, id).await, Ok(Renewal::NotOwner));
    assert_eq!(proposed(), None);
}

/// The answer to the first renewal arrives after the lease was released, except for the rest of a `min_hold`.
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_renewal_prolongs_nothing_that_was_shortened_since() {
    let (stores, seen, quorum, id) = held().await;
    stores[4].forget();
    seen[4].set(|way| way.back = ms(50));
    assert_eq!(renew(&quorum, id).await, Ok(Renewal::Renewed));
    // The node has carried it out, and its answer is in progress.
    sleep(ms(10)).await;
    seen[4].set(|way| way.back = ms(0));
    let (key, rest) = (key(), Duration::from_secs(1));
    let kept = quorum.renew_one(renewal(&key, id, rest)).await;
    assert_eq!(kept, Ok(Renewal::Renewed));
    sleep(2 * rest).await;
    let newcomer = AcquireRequest::new(&key, owner(), TTL);
    granted(stores[4].acquire(newcomer).await);
}

#[tokio::test(start_paused = true)]
async fn a_split_vote_is_not_repeated_for_who_has_left() {
    let stores = stores();
    // Held by three different clients, as the fences show.
    diverge(&stores, [1, 2, 3, 4, 5]).await;
    for store in &stores[..3] {
        hold(store).await;
    }
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.there = ms(10));
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let asking = tokio::spawn({
        let quorum = quorum.clone();
        async move { ask(&quorum, id).await }
    });
    sleep(ms(5)).await;
    let key = key();
    let leaving = LockStore::release(&quorum, ReleaseRequest::new(&key, id));
    let (asked, left) = tokio::join!(asking, leaving);
    assert!(matches!(asked.unwrap(), Ok(AcquireOutcome::Busy(_))));
    left.unwrap();
    assert_eq!(seen[0].asked.load(Ordering::Relaxed), 1);
    sleep(ms(100)).await;
    assert!(stores[3..].iter().all(MemoryStore::is_empty));
}

#[tokio::test(start_paused = true)]
async fn what_a_few_nodes_have_counted_further_costs_no_raise_the_next_time() {
    let stores = stores();
    diverge(&stores, [1, 1, 1, 40, 50]).await;
    let seen = views(&stores);
    for view in &seen {
        view.set(|way| way.raise = ms(200));
    }
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    granted(ask(&quorum, id).await);
    sleep(ms(50)).await;
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();
    // Now these nodes are among the first to answer.
    for view in &seen[..2] {
        view.set(|way| way.there = ms(10));
    }
    let before = Instant::now();
    granted(ask(&quorum, owner()).await);
    assert!(before.elapsed() <= ms(10), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_at_nodes_that_have_not_confirmed_it() {
    for refuses in [false, true] {
        let (stores, seen, quorum, id) = held().await;
        // The last node answers after the majority in any case.
        let fault = move |way: &mut Way, is_on: bool| {
            if refuses {
                way.fails = is_on;
            } else {
                way.swallows = is_on;
            }
        };
        seen[4].set(|way| fault(way, true));
        let released = LockStore::release(&quorum, ReleaseRequest::new(&key(), id)).await;
        assert_eq!(released, Ok(Released::WasHeld));
        assert_eq!(quorum.shared.claims.len(), 0, "releases cover the rest");
        sleep(ms(100)).await;
        assert!(!stores[4].is_empty(), "it has not got it");
        seen[4].set(|way| fault(way, false));
        sleep(Duration::from_secs(3)).await;
        assert!(stores[4].is_empty(), "long before its TTL");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_a_node_never_confirms_is_repeated_ever_more_slowly_and_not_for_ever() {
    let (_stores, seen, quorum, id) = held().await;
    seen[4].set(|way| way.fails = true);
    LockStore::release(&quorum, ReleaseRequest::new(&key(), id))
        .await
        .unwrap();
    let count = || seen[4].releases.load(Ordering::Relaxed);
    sleep(TTL).await;
    let during = count();
    assert!((10..80).contains(&during), "{during} in {TTL:?}");
    sleep(2 * TTL).await;
    let after = count();
    sleep(2 * TTL).await;
    assert_eq!(count(), after, "the node has forgotten the lease by now");
}

/// A node that was unreachable for long would be flooded when it is back, and the releases would fill the memory
/// until then.
#[tokio::test(start_paused = true)]
async fn releases_that_are_repeated_are_limited_in_number() {
    const MANY: usize = 5000;
    const MOST: usize = 4096;
    let stores = stores();
    let seen = views(&stores);
    let quorum = Quorum::of(seen.clone()).unwrap();
    seen[4].set(|way| way.fails = true);
    let client = ClientId::new(&SystemRandom);
    for number in 1..=MANY {
        let id = OwnerId::new(client, u64::try_from(number).unwrap());
        let key = LockKey::new(format!("order:{number}")).unwrap();
        let request = AcquireRequest::new(&key, id, TTL);
        granted(LockStore::acquire(&quorum, request).await);
        LockStore::release(&quorum, ReleaseRequest::new(&key, id))
            .await
            .unwrap();
    }
    // Each release is tried at once, and only a limited number is repeated.
    sleep(Duration::from_secs(10)).await;
    let before = seen[4].releases.load(Ordering::Relaxed);
    sleep(Duration::from_secs(5)).await;
    let repeated = seen[4].releases.load(Ordering::Relaxed) - before;
    assert!(repeated > MOST, "{repeated}");
    assert!(repeated <= 5 * MOST, "{repeated}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_majority_names_a_holder_of_is_asked_for_once() {
    let stores = stores();
    let here = Quorum::of(views(&stores)).unwrap();
    granted(ask(&here, owner()).await);
    let seen = views(&stores);
    seen[4].set(|way| way.mute = true);
    let quorum = Quorum::of(seen.clone()).unwrap();
    let before = Instant::now();
    let answer = ask(&quorum, owner()).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {answer:?}"
    );
    assert_eq!(seen[0].asked.load(Ordering::Relaxed), 1);
    let took = before.elapsed();
    assert!(took <= ms(2), "no call waits for a hanging node: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_split_vote_is_repeated_so_often_and_so_long_and_then_told() {
    // The last pause would end after the time of the request.
    for (random, there) in [(0, 0), (u64::MAX, 150), (u64::MAX, 200)] {
        let stores = stores();
        diverge(&stores, [1, 2, 3, 4, 5]).await;
        for store in &stores[..3] {
            hold(store).await;
        }
        let seen = views(&stores);
        for view in &seen {
            // A limit, so that the test ends if the request were repeated forever.
            view.set(|way| (way.there, way.down_after) = (ms(there), Some(50)));
        }
        let quorum = Quorum::of(seen.clone()).unwrap();
        let quorum = quorum.replayable(SystemTime::now, Always(random));
        let before = Instant::now();
        // Its time may also end within a round, undetected.
        let answer = ask(&quorum, owner()).await;
        let is_granted = matches!(answer, Ok(AcquireOutcome::Granted { .. }));
        assert!(!is_granted, "{answer:?}");
        let asked = seen[0].asked.load(Ordering::Relaxed);
        let took = before.elapsed();
        assert!(asked <= 8 && took <= ms(1000), "{asked} in {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_here_knows_is_not_renewed() {
    let (_stores, _seen, quorum, _id) = held().await;
    assert_eq!(renew(&quorum, owner()).await, Ok(Renewal::NotOwner));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_given_a_lease_again_has_it_with_the_fence_of_the_others() {
    let stores = stores();
    let seen = views(&stores);
    seen[0].set(|way| way.down_after = Some(0));
    let quorum = Quorum::of(seen.clone()).unwrap();
    let id = owner();
    let fence = granted(ask(&quorum, id).await);
    seen[0].set(|way| way.down_after = None);
    assert_eq!(renew(&quorum, id).await, Ok(Renewal::Renewed));
    sleep(ms(10)).await;
    let key = key();
    let newcomer = AcquireRequest::new(&key, owner(), TTL);
    let AcquireOutcome::Busy(holder) = stores[0].acquire(newcomer).await.unwrap() else {
        panic!("the lease was not restored");
    };
    assert_eq!(holder.fence, fence);
}
