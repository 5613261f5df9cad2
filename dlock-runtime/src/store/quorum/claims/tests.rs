//! Tests of the state of an attempt, request by request.

use super::*;
use crate::{owner::ClientId, random::SystemRandom};

const TTL: Duration = Duration::from_secs(30);

fn claim() -> (Claims, OwnerId, LockKey, NodeSet) {
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 7);
    let key = LockKey::new("order:42").unwrap();
    (Claims::default(), owner, key, NodeSet::all(5))
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_sent_a_release_never_sees_that_id_again() {
    let (claims, owner, key, all) = claim();
    let one = NodeSet::default().with(3);
    let mut seen = Vec::new();
    for _ in 0..50 {
        let standing = claims.ask(owner, &key, TTL, all).unwrap();
        let id = standing.ids.at(3);
        seen.push(id);
        assert_eq!(id.in_any_round(), owner);
        let again = claims.ask(owner, &key, TTL, all).unwrap();
        assert_eq!(standing.ids, again.ids);
        let given_back = claims.give_back(owner, &key, &again, one, all.without(one));
        assert_eq!(given_back.ids, [(3, id)]);
    }
    let released = claims.release(owner, &key).unwrap();
    seen.push(claims.ask(owner, &key, TTL, all).unwrap().ids.at(3));
    claims.forget(owner, &key, &released);
    assert_eq!(claims.len(), 1, "it was made after the release");
    let released = claims.release(owner, &key).unwrap();
    claims.forget(owner, &key, &released);
    assert_eq!(claims.len(), 0);
    seen.push(claims.ask(owner, &key, TTL, all).unwrap().ids.at(3));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 52);
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_question_says_what_becomes_of_the_claim() {
    let (claims, owner, key, all) = claim();
    let none = NodeSet::default();
    let first = claims.ask(owner, &key, TTL, all).unwrap();
    let second = claims.ask(owner, &key, TTL, all).unwrap();
    let until = Instant::now() + TTL;
    assert!(!claims.granted(owner, &key, &first, all, 8, until));
    let given_back = claims.give_back(owner, &key, &first, all, none);
    assert!(given_back.ids.is_empty() && !given_back.is_latest);
    assert!(claims.granted(owner, &key, &second, all, 9, until));
    let standing = claims.renew(owner, &key, TTL).unwrap();
    assert_eq!((standing.fence, standing.touched), (Some(9), all));
    // After a release, the next request has new ids, and the first can be released.
    claims.release(owner, &key).unwrap();
    let third = claims.ask(owner, &key, TTL, all).unwrap();
    let given_back = claims.give_back(owner, &key, &second, all, none);
    assert_eq!(given_back.ids.len(), 5);
    assert!(claims.granted(owner, &key, &third, all, 10, until));
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_known_only_while_the_lease_may_last() {
    let (claims, owner, key, all) = claim();
    let ask = || claims.ask(owner, &key, TTL, all).unwrap();
    let second = Duration::from_secs(1);
    assert!(claims.granted(owner, &key, &ask(), all, 9, Instant::now() + TTL));
    tokio::time::advance(TTL.saturating_sub(second)).await;
    assert_eq!(ask().fence, Some(9));
    let standing = claims.renew(owner, &key, TTL).unwrap();
    claims.renewed(owner, &key, &standing, Instant::now() + TTL);
    tokio::time::advance(TTL.saturating_sub(second)).await;
    assert_eq!(ask().fence, Some(9), "it was renewed");
    tokio::time::advance(second).await;
    assert_eq!(ask().fence, None, "it has ended");
    assert!(claims.granted(owner, &key, &ask(), all, 10, Instant::now() + TTL));
    let one = NodeSet::default().with(1);
    let asked = ask();
    assert_eq!(asked.fence, Some(10));
    claims.give_back(owner, &key, &asked, one, all);
    assert_eq!(ask().fence, None, "the question found that it is gone");
    assert!(claims.granted(owner, &key, &ask(), all, 11, Instant::now() + TTL));
    let standing = claims.renew(owner, &key, TTL).unwrap();
    claims.lost(owner, &key, &standing);
    assert_eq!(ask().fence, None, "the renewal found that it is gone");
}

#[tokio::test(start_paused = true)]
async fn what_ends_without_a_word_is_forgotten_in_time() {
    let (claims, owner, key, all) = claim();
    for number in 0..1000 {
        let owner = OwnerId::new(owner.client(), number);
        claims.ask(owner, &key, TTL, all);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(claims.len() <= 128, "{}", claims.len());
}

#[tokio::test(start_paused = true)]
async fn what_is_renewed_anew_is_not_given_again_for_the_time_before() {
    let (claims, owner, key, all) = claim();
    let standing = claims.ask(owner, &key, TTL, all).unwrap();
    let until = Instant::now() + TTL;
    let most = all.without(NodeSet::default().with(4));
    assert!(claims.granted(owner, &key, &standing, most, 9, until));
    let first = claims.renew(owner, &key, TTL).unwrap();
    assert!(claims.refill(owner, &key, 4, &first));
    let rest = claims.renew(owner, &key, TTL / 10).unwrap();
    assert_eq!(rest.touched, all);
    assert!(!claims.refill(owner, &key, 4, &first), "for the whole TTL");
    assert!(claims.refill(owner, &key, 4, &rest));
}

#[tokio::test(start_paused = true)]
async fn what_is_being_given_back_is_neither_renewed_nor_touched() {
    let (claims, owner, key, all) = claim();
    let standing = claims.ask(owner, &key, TTL, all).unwrap();
    let ids = &standing.ids;
    let until = Instant::now() + TTL;
    assert!(claims.granted(owner, &key, &standing, all, 9, until));
    assert_eq!(claims.renew(owner, &key, TTL).unwrap().fence, Some(9));
    assert!(claims.touch(owner, &key, 1, ids.at(1)));
    assert!(!claims.touch(owner, &key, 1, owner), "another id");
    claims.release(owner, &key);
    assert!(claims.renew(owner, &key, TTL).is_none());
    assert!(!claims.touch(owner, &key, 1, ids.at(1)));
    assert!(
        !claims.granted(owner, &key, &standing, all, 9, until),
        "an answer that comes too late"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_or_renewed_again_is_not_forgotten_before_its_time() {
    let (claims, owner, key, all) = claim();
    let other = LockKey::new("order:43").unwrap();
    let first = claims.ask(owner, &key, TTL, all).unwrap();
    claims.ask(owner, &other, TTL, all).unwrap();
    for number in 100..200 {
        let until = Instant::now() + TTL;
        // One is requested repeatedly, the other is renewed.
        let asked = claims.ask(owner, &key, TTL, all).unwrap();
        claims.granted(owner, &key, &asked, all, 9, until);
        claims.renew(owner, &other, TTL).unwrap();
        tokio::time::advance(TTL / 3).await;
        for turn in 0..10 {
            let passing = OwnerId::new(owner.client(), 1000 * number + turn);
            claims.ask(passing, &key, TTL, all);
        }
    }
    let last = claims.release(owner, &key).expect("it is known");
    assert_eq!(last.ids, first.ids, "it is the same claim");
    assert!(claims.release(owner, &other).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_lease_that_was_lost_says_nothing_of_the_next_one() {
    let (claims, owner, key, all) = claim();
    let now = Instant::now();
    let asked = claims.ask(owner, &key, TTL, all).unwrap();
    assert!(claims.granted(owner, &key, &asked, all, 9, now + TTL));
    let renewed = claims.renew(owner, &key, TTL).unwrap();
    claims.lost(owner, &key, &renewed);
    let asked = claims.ask(owner, &key, TTL, all).unwrap();
    assert!(claims.granted(owner, &key, &asked, all, 10, now + TTL));
    claims.renewed(owner, &key, &renewed, now + 9 * TTL);
    tokio::time::advance(TTL).await;
    let asked = claims.ask(owner, &key, TTL, all).unwrap();
    assert_eq!(asked.fence, None, "it has ended");
}
