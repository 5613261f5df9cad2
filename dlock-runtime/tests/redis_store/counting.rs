//! What the scripts count: fences, places, and the calls that a lock costs the server.

use std::{fmt::Debug, future::Future, time::Duration};

use dlock_runtime::{
    LockMode,
    store::{
        AcquireOutcome, LockStore, OwnerId, Queue, ReleaseRequest, Released, Renewal, StoreError,
        redis::RedisStore,
    },
};
use dlock_testkit::{Make, RedisServer};
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

use crate::{connect, key, owner, queue, renewal, request, run, server_and_store, take, try_take};

/// The server's time as a fence.
async fn moment(behind: &mut MultiplexedConnection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(behind).await.unwrap();
    (seconds - 1_704_067_200) * 100_000 + micros / 10
}

/// Expects that the last fence is from the time of this step.
async fn counts<T: Debug>(
    behind: &mut MultiplexedConnection,
    counter: &str,
    step: impl Future<Output = T>,
) -> T {
    let begun = moment(behind).await;
    let answer = step.await;
    let last: u64 = redis::cmd("GET")
        .arg(counter)
        .query_async(behind)
        .await
        .unwrap();
    let ended = moment(behind).await;
    let is_from_then = (begun..=ended).contains(&last);
    assert!(is_from_then, "{begun} {last} {ended}: {answer:?}");
    answer
}

async fn ask(
    store: &RedisStore,
    owner: OwnerId,
    mode: LockMode,
) -> Result<AcquireOutcome, StoreError> {
    let lock = key("k");
    let request = request(&lock, owner).mode(mode);
    store.acquire(request.queue(Queue::ForLease)).await
}

async fn leave(store: &RedisStore, owner: OwnerId, mode: LockMode) {
    let lock = key("k");
    let request = ReleaseRequest::new(&lock, owner).mode(mode);
    assert_eq!(store.release(request).await, Ok(Released::WasHeld));
}

fn is_granted(answer: &Result<AcquireOutcome, StoreError>) -> bool {
    matches!(answer, Ok(AcquireOutcome::Granted { .. }))
}

pub(crate) async fn a_fence_is_the_servers_time_however_it_is_counted(make: Make) {
    const ALONE: LockMode = LockMode::Exclusive;
    const SHARED: LockMode = LockMode::Shared;
    let (server, store, mut behind) = server_and_store(make).await;
    let behind = &mut behind;
    let [one, two, three, four] = [(); 4].map(|()| owner());
    take(&store, &key("k"), one).await;
    let counter = &*server.keys("dlock:fence:*").await.remove(0);
    leave(&store, one, ALONE).await;

    // A free lock.
    let answer = counts(behind, counter, ask(&store, one, ALONE)).await;
    assert!(is_granted(&answer));
    // A release to a waiter.
    for waiter in [two, three] {
        assert!(!is_granted(&ask(&store, waiter, ALONE).await));
    }
    counts(behind, counter, leave(&store, one, ALONE)).await;
    // A waiter that is found by who comes after the holder has died.
    run(behind, "DEL dlock:{k}").await;
    let answer = counts(behind, counter, ask(&store, four, ALONE)).await;
    assert!(!is_granted(&answer), "{answer:?}");
    // A lock for which only the dead wait.
    run(behind, "DEL dlock:{k}").await;
    run(behind, &format!("ZADD dlock:{{k}}:a 1 {four}")).await;
    let answer = counts(behind, counter, ask(&store, one, ALONE)).await;
    assert!(is_granted(&answer));
    // A release to one who shares it from then on, and to one who joins.
    for waiter in [two, three] {
        assert!(!is_granted(&ask(&store, waiter, SHARED).await));
    }
    counts(behind, counter, leave(&store, one, ALONE)).await;
    // The last one's release to an exclusive waiter.
    assert!(!is_granted(&ask(&store, one, ALONE).await));
    leave(&store, two, SHARED).await;
    counts(behind, counter, leave(&store, three, SHARED)).await;
    leave(&store, one, ALONE).await;
    // The first of several.
    let answer = counts(behind, counter, ask(&store, two, SHARED)).await;
    assert!(is_granted(&answer));
    leave(&store, two, SHARED).await;
}

/// How often the server has been asked for these commands, by clients or by scripts.
async fn calls(server: &RedisServer) -> u64 {
    let mut all = 0;
    for name in [
        "exists", "get", "set", "del", "time", "getex", "pexpire", "pttl", "zadd", "zcard",
        "zrange", "zrank", "zrem", "zscore", "hget", "hset", "hdel", "hlen", "publish",
    ] {
        all += server.command_count(name).await;
    }
    all
}

/// The heads of the scripts promise it: most locks are free, and most releases find nobody who waits.
pub(crate) async fn a_lock_that_nobody_waits_for_costs_few_calls(make: Make) {
    let (server, store, _) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    for _ in 0..2 {
        let before = calls(&server).await;
        take(&store, &lock, me).await;
        let taken = calls(&server).await;
        assert_eq!(
            store.renew_one(renewal(&lock, me)).await,
            Ok(Renewal::Renewed)
        );
        let renewed = calls(&server).await;
        // A request without a wait is refused as soon as the lock and the counter are read.
        let refused = try_take(&store, &lock, owner()).await;
        assert!(!is_granted(&refused), "{refused:?}");
        let asked = calls(&server).await;
        leave(&store, me, LockMode::Exclusive).await;
        let released = calls(&server).await;
        assert_eq!(
            [
                taken - before,
                renewed - taken,
                asked - renewed,
                released - asked
            ],
            [5, 2, 4, 3]
        );
    }
    // A renewal writes no value that is there already.
    take(&store, &lock, me).await;
    let before = server.command_count("set").await;
    let renewed = store.renew_one(renewal(&lock, me)).await;
    assert_eq!(renewed, Ok(Renewal::Renewed));
    assert_eq!(server.command_count("set").await, before);
}

/// Of many that share a lock, each request would have to read all.
pub(crate) async fn those_that_share_a_lock_are_not_read_while_no_lease_has_ended(make: Make) {
    const SHARED: LockMode = LockMode::Shared;
    let (server, store, _) = server_and_store(make).await;
    let sharers = [(); 5].map(|()| owner());
    for sharer in sharers {
        assert!(is_granted(&ask(&store, sharer, SHARED).await));
    }
    for sharer in &sharers[1..] {
        leave(&store, *sharer, SHARED).await;
    }
    assert_eq!(server.command_count("hgetall").await, 0);
    leave(&store, sharers[0], SHARED).await;
    assert!(is_granted(
        &ask(&store, sharers[1], LockMode::Exclusive).await
    ));
}

/// The server's clock counts milliseconds, and it takes many requests in one of them.
pub(crate) async fn waiters_of_one_millisecond_keep_their_order(make: Make) {
    let (_server, store, _) = server_and_store(make).await;
    let lock = key("k");
    take(&store, &lock, owner()).await;
    let waiters: Vec<_> = (0..100).map(|_| owner()).collect();
    for again in ["at first", "again"] {
        let places = waiters.iter().map(|it| queue(&store, &lock, *it));
        let places = join_all(places).await;
        let places = places.into_iter().map(|busy| busy.position.unwrap());
        assert_eq!(
            places.collect::<Vec<_>>(),
            (0..100).collect::<Vec<_>>(),
            "{again}"
        );
    }
}

#[tokio::test]
async fn a_waiter_comes_behind_the_last_although_the_clock_was_put_back() {
    let server = RedisServer::start_with_clock(&[]).await;
    let store = connect(&server.url()).await;
    let lock = key("k");
    take(&store, &lock, owner()).await;
    let waiters = [(); 4].map(|()| owner());
    queue(&store, &lock, waiters[0]).await;
    server.put_clock_back(Duration::from_secs(10));
    for _ in 0..2 {
        for (waiter, place) in waiters.iter().zip(0..) {
            assert_eq!(queue(&store, &lock, *waiter).await.position, Some(place));
        }
    }
}
