//! Requests of one mode that meet a lock of another.

use dlock_runtime::{
    LockMode,
    store::{
        AcquireOutcome, AcquireRequest, Holder, LockStore, OwnerId, Proposal, QuorumNode,
        ReleaseRequest, Released, Renewal, StoreErrorKind, redis::RedisStore,
    },
};
use std::time::Duration;

use dlock_testkit::Make;
use tokio::time::sleep;

use crate::{TTL, connect, key, owner, renewal, request, run, server_and_store, take, try_take};

/// Takes a lock together with those that share it; its fence.
async fn share(store: &RedisStore, owner: OwnerId) -> u64 {
    let lock = key("k");
    let asks = request(&lock, owner).mode(LockMode::Shared);
    match store.acquire(asks).await.unwrap() {
        AcquireOutcome::Granted { fence, .. } => fence,
        other => panic!("it cannot be shared: {other:?}"),
    }
}

async fn leave(store: &RedisStore, owner: OwnerId) -> Released {
    let lock = key("k");
    let leaves = ReleaseRequest::new(&lock, owner).mode(LockMode::Shared);
    store.release(leaves).await.unwrap()
}

pub(crate) async fn an_exclusive_request_leaves_a_shared_lock_alone(make: Make) {
    let (_server, store, _) = server_and_store(make).await;
    let (lock, one, two, other) = (key("k"), owner(), owner(), owner());
    let fence = share(&store, one).await;
    assert_eq!(
        share(&store, two).await,
        fence,
        "broken promise: two fences together"
    );
    // By the owner of a shared lease too: it was not acquired in this mode.
    for stranger in [other, one] {
        let AcquireOutcome::Busy(busy) = try_take(&store, &lock, stranger).await.unwrap() else {
            panic!("it is shared");
        };
        assert_eq!((busy.others, busy.fence), (1, fence));
        assert_eq!(
            store.renew_one(renewal(&lock, stranger)).await,
            Ok(Renewal::NotOwner),
            "broken promise: another owner has renewed"
        );
        assert_eq!(
            store.release(ReleaseRequest::new(&lock, stranger)).await,
            Ok(Released::WasGone)
        );
    }
    for sharer in [one, two] {
        let renews = renewal(&lock, sharer).mode(LockMode::Shared);
        assert_eq!(store.renew_one(renews).await, Ok(Renewal::Renewed));
        assert_eq!(leave(&store, sharer).await, Released::WasHeld);
        assert_eq!(leave(&store, sharer).await, Released::WasGone);
    }
    assert!(
        take(&store, &lock, other).await > fence,
        "broken promise: the token did not grow"
    );
}

pub(crate) async fn a_sharing_request_leaves_an_exclusive_lock_alone(make: Make) {
    let (_server, store, _) = server_and_store(make).await;
    let (lock, me, other) = (key("k"), owner(), owner());
    let fence = take(&store, &lock, me).await;
    for mode in [LockMode::Shared, LockMode::Permits(7)] {
        let asks = request(&lock, other).mode(mode);
        let AcquireOutcome::Busy(busy) = store.acquire(asks).await.unwrap() else {
            panic!("broken promise: a sharing request joins an exclusive holder");
        };
        assert_eq!((busy.others, busy.fence), (0, fence));
        for stranger in [other, me] {
            let renews = renewal(&lock, stranger).mode(mode);
            assert_eq!(
                store.renew_one(renews).await,
                Ok(Renewal::NotOwner),
                "broken promise: another owner has renewed"
            );
            let leaves = ReleaseRequest::new(&lock, stranger).mode(mode);
            assert_eq!(store.release(leaves).await, Ok(Released::WasGone));
        }
    }
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
}

pub(crate) async fn a_counter_that_is_lost_while_shared_is_not_behind_afterwards(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, one, two) = (key("k"), owner(), owner());
    // Ahead of the clock, so that the time does not make up for it.
    let ahead = take(&store, &lock, one).await + 1_000_000_000;
    let released = store.release(ReleaseRequest::new(&lock, one)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    let counter = server.keys("dlock:fence:*").await.remove(0);
    run(&mut behind, &format!("SET {counter} {ahead}")).await;
    let fence = share(&store, one).await;
    assert_eq!(fence, ahead + 1);

    run(&mut behind, &format!("DEL {counter}")).await;
    assert_eq!(
        share(&store, two).await,
        fence,
        "broken promise: two fences together"
    );
    // A waiter is granted the lock by the last of them, with a greater fence.
    let waiter = owner();
    let busy = crate::queue(&store, &lock, waiter).await;
    assert_eq!(busy.fence, fence);
    for sharer in [one, two] {
        assert_eq!(leave(&store, sharer).await, Released::WasHeld);
    }
    assert!(
        take(&store, &lock, waiter).await > fence,
        "broken promise: the token did not grow"
    );
}

/// The answer to a request that is refused.
async fn busy(store: &RedisStore, owner: OwnerId, mode: LockMode) -> Holder {
    let lock = key("k");
    match store
        .acquire(request(&lock, owner).mode(mode))
        .await
        .unwrap()
    {
        AcquireOutcome::Busy(holder) => holder,
        other => panic!("broken promise: the lock is not free: {other:?}"),
    }
}

/// Takes a lock together with others, for this time.
async fn join(store: &RedisStore, owner: OwnerId, mode: LockMode, ttl: Duration) {
    let lock = key("k");
    let asks = AcquireRequest::new(&lock, owner, ttl).label("svc@host/1");
    let answer = store.acquire(asks.mode(mode)).await.unwrap();
    assert!(
        matches!(answer, AcquireOutcome::Granted { .. }),
        "{answer:?}"
    );
}

/// A wait until the last holder leaves, or until the first one does for a permit. Among many, no name is worth the time
/// of the server.
pub(crate) async fn a_busy_answer_says_when_enough_holders_will_have_left(make: Make) {
    let (_server, store, _) = server_and_store(make).await;
    let [one, two, three, asker] = [(); 4].map(|()| owner());
    let is_about = |found: Option<Duration>, ttl: Duration| {
        let found = found.unwrap();
        assert!(
            found <= ttl && found > ttl.saturating_sub(TTL / 2),
            "{found:?} of {ttl:?}"
        );
    };
    let permits = LockMode::Permits(3);
    for (holder, times) in [(one, 2), (two, 4), (three, 3)] {
        join(&store, holder, permits, TTL * times).await;
    }
    is_about(busy(&store, asker, permits).await.ttl, TTL * 2);
    is_about(busy(&store, asker, LockMode::Exclusive).await.ttl, TTL * 4);
    // The lock itself goes on as long as it would with the one that has left.
    let lock = key("k");
    let leaves = ReleaseRequest::new(&lock, two).mode(permits);
    assert_eq!(store.release(leaves).await, Ok(Released::WasHeld));
    is_about(busy(&store, asker, LockMode::Exclusive).await.ttl, TTL * 3);
    for holder in [one, three] {
        let leaves = ReleaseRequest::new(&lock, holder).mode(permits);
        assert_eq!(store.release(leaves).await, Ok(Released::WasHeld));
    }

    for others in 0..65 {
        join(&store, owner(), LockMode::Shared, TTL).await;
        if others < 62 {
            continue;
        }
        let found = busy(&store, asker, LockMode::Exclusive).await;
        is_about(found.ttl, TTL);
        assert_eq!(found.others, others);
        assert_eq!(found.label.is_some(), others < 64, "{found:?}");
    }
}

/// A waiter for a notice may be about to take the lock, but those that share it do so together.
pub(crate) async fn a_sharer_is_kept_out_by_living_waiters_for_the_lock_alone(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, holder) = (key("k"), owner());
    take(&store, &lock, holder).await;
    for (waiter, mode) in [(owner(), LockMode::Shared), (owner(), LockMode::Exclusive)] {
        let asks = request(&lock, waiter).mode(mode);
        let answer = store.propose(Proposal::new(asks, 0).notice(true)).await;
        assert!(matches!(answer, Ok(AcquireOutcome::Busy(_))), "{answer:?}");
    }
    let release = store.release(ReleaseRequest::new(&lock, holder)).await;
    assert_eq!(release, Ok(Released::WasHeld));
    let late = owner();
    let found = busy(&store, late, LockMode::Shared).await;
    assert!(found.ttl.is_some_and(|it| it > Duration::ZERO), "{found:?}");
    // The one that wants it alone has died.
    let range = "ZRANGE dlock:{k}:q -1 -1".split(' ').collect::<Vec<_>>();
    let mut last = redis::cmd(range[0]);
    let last: Vec<String> = last
        .arg(&range[1..])
        .query_async(&mut behind)
        .await
        .unwrap();
    run(&mut behind, &format!("ZADD dlock:{{k}}:a 1 {}", last[0])).await;
    share(&store, late).await;
}

/// The script of version 0.1, which knows no shared locks.
const EARLIER_ACQUIRE: &str = include_str!("fixtures/acquire_0.1.lua");

pub(crate) async fn a_program_of_an_earlier_protocol_fails_at_a_shared_lock(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (one, earlier) = (owner(), owner());
    share(&store, one).await;
    let counter = server.keys("dlock:fence:*").await.remove(0);
    for alive in ["0", "3000", "-3000"] {
        let mut script = redis::cmd("EVAL");
        script.arg(EARLIER_ACQUIRE).arg(4);
        script
            .arg("dlock:{k}")
            .arg("dlock:{k}:q")
            .arg("dlock:{k}:a");
        script.arg(&counter).arg(earlier.to_string());
        script
            .arg(TTL.as_millis().to_string())
            .arg(alive)
            .arg("svc@host/1");
        let answer = script.query_async::<redis::Value>(&mut behind).await;
        let error = answer.expect_err("the lock is shared").to_string();
        assert!(error.contains("WRONGTYPE"), "{error}");
    }
    assert_eq!(
        server.keys("dlock:{*").await,
        ["dlock:{k}"],
        "nothing was written"
    );
    assert_eq!(leave(&store, one).await, Released::WasHeld);
}

/// One of two leases has ended, so whoever comes has to look at all of them.
pub(crate) async fn who_may_not_see_the_holders_lets_in_nobody_beside_them(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let lock = key("k");
    let rules = "ACL SETUSER me on >s3cret +@all ~dlock:* resetchannels &dlock:*";
    run(&mut behind, rules).await;
    let denied = connect(&format!("redis://me:s3cret@127.0.0.1:{}", server.port())).await;
    let brief = Duration::from_millis(100);
    for command in ["hget", "hgetall", "hlen", "hset", "hdel"] {
        let [ends, lives, comes, leaves] = [(); 4].map(|()| owner());
        share(&store, lives).await;
        share(&store, leaves).await;
        let asks = request(&lock, ends).ttl(brief).mode(LockMode::Shared);
        store.acquire(asks).await.unwrap();
        sleep(2 * brief).await;
        run(&mut behind, &format!("ACL SETUSER me -{command}")).await;
        for mode in [LockMode::Exclusive, LockMode::Permits(2)] {
            let answer = denied.acquire(request(&lock, comes).mode(mode)).await;
            let is_in = matches!(answer, Ok(AcquireOutcome::Granted { .. }));
            assert!(!is_in, "{mode:?} without `{command}`: {answer:?}");
        }
        // It may be refused. Whatever it does, the others go on.
        let gone = ReleaseRequest::new(&lock, leaves).mode(LockMode::Shared);
        let released = denied.release(gone).await;
        if command == "hgetall" {
            // It has left, whether or not the others can be seen.
            assert_eq!(released, Ok(Released::WasHeld));
        }
        let renews = renewal(&lock, lives).mode(LockMode::Shared);
        let renewed = store.renew_one(renews).await;
        assert_eq!(renewed, Ok(Renewal::Renewed), "without `{command}`");
        run(&mut behind, &format!("ACL SETUSER me +{command}")).await;
        for sharer in [lives, leaves, comes] {
            leave(&store, sharer).await;
        }
        let left = server.keys("dlock:{*").await;
        assert_eq!(left, Vec::<String>::new(), "without `{command}`");
    }
}

pub(crate) async fn a_foreign_hash_is_never_touched(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    for hash in ["HSET dlock:{k} field value", "HSET dlock:{k} ! value"] {
        run(&mut behind, hash).await;
        let error = store
            .acquire(request(&lock, me).mode(LockMode::Shared))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::WrongType);
        assert_eq!(server.keys("dlock:{*").await, ["dlock:{k}"]);
    }
}
