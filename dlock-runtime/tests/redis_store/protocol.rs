//! What the three scripts promise.

use std::time::{Duration, Instant};

use dlock_runtime::LockMode;
use dlock_runtime::store::{
    ALIVE, AcquireOutcome, LockStore, Proposal, QuorumNode, ReleaseRequest, Released, RenewBatch,
    Renewal, StoreErrorKind,
};
use dlock_testkit::{Make, Polled, RedisServer, eventually, poll_times};

use crate::{
    DEADLINE, TTL, connect, get, key, owner, queue, renewal, request, run, server_and_store, take,
    try_take,
};

/// Makes a waiter look as if it had died.
async fn bury(
    behind: &mut redis::aio::MultiplexedConnection,
    name: &str,
    owner: dlock_runtime::store::OwnerId,
) {
    run(behind, &format!("ZADD dlock:{{{name}}}:a 1 {owner}")).await;
}

pub(crate) async fn a_lock_is_taken_once_and_given_back(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me, other) = (key("a b:%20"), owner(), owner());
    let fence = take(&store, &lock, me).await;
    let value = get(&mut behind, "dlock:{a b:%20}").await.unwrap();
    assert_eq!(value, format!("{me} {fence} svc@host/1"));

    let AcquireOutcome::Busy(holder) = try_take(&store, &lock, other).await.unwrap() else {
        panic!("broken promise: two holders")
    };
    assert_eq!(holder.label.as_deref(), Some("svc@host/1"));
    assert!(holder.ttl.is_some_and(|ttl| ttl <= TTL && ttl > TTL / 2));
    assert_eq!((holder.position, holder.last_fence), (None, fence));

    assert_eq!(
        store.renew_one(renewal(&lock, other)).await,
        Ok(Renewal::NotOwner),
        "broken promise: another owner has renewed"
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, other)).await,
        Ok(Released::WasGone)
    );
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasGone),
        "a repeated release"
    );
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::NotOwner),
        "broken promise: a lease that had ended came back"
    );
    let left = server.keys("*").await;
    assert!(
        left.len() == 1 && left[0].starts_with("dlock:fence:{"),
        "{left:?}"
    );
    assert!(
        take(&store, &lock, other).await > fence,
        "broken promise: the token did not grow"
    );
}

pub(crate) async fn asking_again_finds_ones_own_lock(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    let short = request(&lock, me)
        .ttl(Duration::from_secs(5))
        .label("first");
    let Ok(AcquireOutcome::Granted { fence, .. }) = store.acquire(short).await else {
        panic!("free")
    };
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease"
    );
    assert_eq!(
        get(&mut behind, "dlock:{k}").await,
        Some(format!("{me} {fence} svc@host/1"))
    );
    let left: i64 = redis::cmd("PTTL")
        .arg("dlock:{k}")
        .query_async(&mut behind)
        .await
        .unwrap();
    assert!(left > 20_000, "the TTL starts anew: {left}");
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease: with the same label"
    );
}

pub(crate) async fn waiters_are_served_in_their_order(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, holder) = (key("k"), owner());
    let fence = take(&store, &lock, holder).await;
    let waiters: Vec<_> = (0..5).map(|_| owner()).collect();
    for (place, waiter) in (0..).zip(&waiters) {
        let busy = queue(&store, &lock, *waiter).await;
        assert_eq!((busy.position, busy.last_fence), (Some(place), fence));
    }
    assert_eq!(
        queue(&store, &lock, waiters[0]).await.position,
        Some(0),
        "it keeps its place"
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, waiters[1])).await,
        Ok(Released::WasGone),
        "one leaves"
    );
    bury(&mut behind, "k", waiters[2]).await;

    assert_eq!(
        store.release(ReleaseRequest::new(&lock, holder)).await,
        Ok(Released::WasHeld)
    );
    let mut last = fence;
    for waiter in [waiters[0], waiters[3], waiters[4]] {
        // Nobody but the first waiter can have it.
        assert!(
            matches!(
                try_take(&store, &lock, holder).await,
                Ok(AcquireOutcome::Busy(_))
            ),
            "broken promise: two hold the key"
        );
        let value = get(&mut behind, "dlock:{k}").await.unwrap();
        assert!(
            value.starts_with(&format!("{waiter} ")) && value.ends_with(" -"),
            "{value}"
        );
        let granted = take(&store, &lock, waiter).await;
        assert!(granted > last);
        last = granted;
        assert_eq!(
            store.release(ReleaseRequest::new(&lock, waiter)).await,
            Ok(Released::WasHeld)
        );
    }
    assert_eq!(server.keys("dlock:{k}*").await, Vec::<String>::new());
}

pub(crate) async fn a_free_lock_goes_to_who_waits_first(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, first, second, hasty) = (key("k"), owner(), owner(), owner());
    take(&store, &lock, owner()).await;
    queue(&store, &lock, first).await;
    queue(&store, &lock, second).await;
    // The holder was killed.
    run(&mut behind, "DEL dlock:{k}").await;
    let busy = queue(&store, &lock, hasty).await;
    assert_eq!(
        (busy.position, busy.label),
        (Some(1), None),
        "behind `second`"
    );
    let fence = take(&store, &lock, first).await;
    assert_eq!(
        busy.last_fence, fence,
        "the fence it says is that of the grant"
    );

    // Granted, but dead: the lease runs out, and the next who asks finds the next waiter.
    store
        .release(ReleaseRequest::new(&lock, first))
        .await
        .unwrap();
    assert!(
        get(&mut behind, "dlock:{k}")
            .await
            .unwrap()
            .starts_with(&second.to_string())
    );
    run(&mut behind, "DEL dlock:{k}").await;
    assert!(
        take(&store, &lock, hasty).await > fence,
        "broken promise: the token did not grow"
    );
    let queued: u64 = redis::cmd("EXISTS")
        .arg("dlock:{k}:q")
        .arg("dlock:{k}:a")
        .query_async(&mut behind)
        .await
        .unwrap();
    assert_eq!(queued, 0);
}

/// Writes this as the lock `k`.
async fn set(behind: &mut redis::aio::MultiplexedConnection, value: &str) {
    let mut command = redis::cmd("SET");
    command.arg("dlock:{k}").arg(value).arg("PX").arg(60_000);
    command.query_async::<()>(behind).await.unwrap();
}

/// The only counter of fences that there is.
async fn fence_key(server: &RedisServer) -> String {
    let mut counters = server.keys("dlock:fence:*").await;
    assert_eq!(counters.len(), 1, "{counters:?}");
    counters.remove(0)
}

/// The clock of the server says nothing where the counter is ahead of it, as a quorum may put it.
pub(crate) async fn a_grant_by_a_caller_counts_and_leaves_the_queue(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, first, second) = (key("k"), owner(), owner());
    let fence = take(&store, &lock, owner()).await;
    queue(&store, &lock, first).await;
    run(&mut behind, "DEL dlock:{k}").await;
    let ahead = fence + 1_000_000_000;
    let counter = fence_key(&server).await;
    run(&mut behind, &format!("SET {counter} {ahead}")).await;
    let AcquireOutcome::Busy(holder) = try_take(&store, &lock, second).await.unwrap() else {
        panic!("it is the first waiter's");
    };
    assert_eq!(holder.last_fence, ahead + 1);
    assert_eq!(left_of_queue(&mut behind).await, 0);
    // Whoever was made the holder has died.
    run(&mut behind, "DEL dlock:{k}").await;
    assert_eq!(take(&store, &lock, second).await, ahead + 2);
}

pub(crate) async fn a_grant_by_a_release_counts(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, holder, waiter) = (key("k"), owner(), owner());
    let fence = take(&store, &lock, holder).await;
    queue(&store, &lock, waiter).await;
    let ahead = fence + 1_000_000_000;
    let counter = fence_key(&server).await;
    run(&mut behind, &format!("SET {counter} {ahead}")).await;
    let released = store.release(ReleaseRequest::new(&lock, holder)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    let granted = format!("{waiter} {} -", ahead + 1);
    assert_eq!(get(&mut behind, "dlock:{k}").await, Some(granted));
    assert_eq!(left_of_queue(&mut behind).await, 0);
    // Whoever was made the holder has died.
    run(&mut behind, "DEL dlock:{k}").await;
    assert_eq!(take(&store, &lock, owner()).await, ahead + 2);
}

/// It has given up, and would keep others out until the grant has run out.
pub(crate) async fn a_release_grants_nothing_to_its_own_owner(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    let later = "99999999999999";
    run(&mut behind, &format!("ZADD dlock:{{k}}:q 1 {me}")).await;
    run(&mut behind, &format!("ZADD dlock:{{k}}:a {later} {me}")).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    assert_eq!(get(&mut behind, "dlock:{k}").await, None);
    assert_eq!(left_of_queue(&mut behind).await, 0);
}

pub(crate) async fn a_waiter_that_was_told_of_a_release_keeps_its_place_for_a_second(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let lock = key("k");
    for (mode, mark) in [(LockMode::Exclusive, "!"), (LockMode::Shared, "+!")] {
        let (holder, waiter) = (owner(), owner());
        take(&store, &lock, holder).await;
        let begun = milliseconds(&mut behind).await;
        let notice = Proposal::new(request(&lock, waiter).mode(mode), 0).notice(true);
        let busy = store.propose(notice).await.unwrap();
        assert!(
            matches!(busy, AcquireOutcome::Busy(_)),
            "broken promise: two hold the key: {busy:?}"
        );
        let released = store.release(ReleaseRequest::new(&lock, holder)).await;
        assert_eq!(released, Ok(Released::WasHeld));
        assert_eq!(left_of_queue(&mut behind).await, 2);
        let mut alive = redis::cmd("ZSCORE");
        alive.arg("dlock:{k}:a").arg(format!("{waiter}{mark}"));
        let until: u64 = alive.query_async(&mut behind).await.unwrap();
        let now = milliseconds(&mut behind).await;
        assert!(
            (begun + 1000..=now + 1000).contains(&until),
            "{begun} {until} {now}"
        );
        let answer = store.propose(notice).await.unwrap();
        assert!(
            matches!(answer, AcquireOutcome::Granted { .. }),
            "{answer:?}"
        );
        assert_eq!(left_of_queue(&mut behind).await, 0);
        let released = store.release(ReleaseRequest::new(&lock, waiter).mode(mode));
        assert_eq!(released.await, Ok(Released::WasHeld));
    }
}

/// The server's time.
async fn milliseconds(behind: &mut redis::aio::MultiplexedConnection) -> u64 {
    let now: (u64, u64) = redis::cmd("TIME").query_async(behind).await.unwrap();
    now.0 * 1000 + now.1 / 1000
}

/// How many of the two sets of waiters there are.
async fn left_of_queue(behind: &mut redis::aio::MultiplexedConnection) -> u64 {
    let mut exists = redis::cmd("EXISTS");
    exists.arg("dlock:{k}:q").arg("dlock:{k}:a");
    exists.query_async(behind).await.unwrap()
}

/// Counted on from, it would leave no fence for anybody.
pub(crate) async fn a_fence_too_great_in_a_lock_is_not_believed(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let lock = key("k");
    let mut fence = take(&store, &lock, owner()).await;
    for great in ["4503599627370496", "9007199254740992"] {
        set(&mut behind, &format!("somebody.1 {great} strange")).await;
        let AcquireOutcome::Busy(holder) = try_take(&store, &lock, owner()).await.unwrap() else {
            panic!("it is held")
        };
        assert_eq!(holder.last_fence, fence);
        let (waiter, next) = (owner(), owner());
        assert_eq!(queue(&store, &lock, waiter).await.last_fence, fence);
        run(&mut behind, "DEL dlock:{k}").await;
        let granted = take(&store, &lock, waiter).await;
        assert!((fence + 1..1 << 51).contains(&granted), "{granted}");
        // Nor does a release.
        queue(&store, &lock, next).await;
        set(&mut behind, &format!("{waiter} {great} strange")).await;
        let released = store.release(ReleaseRequest::new(&lock, waiter)).await;
        assert_eq!(released, Ok(Released::WasHeld));
        fence = take(&store, &lock, next).await;
        assert!((granted + 1..1 << 51).contains(&fence), "{fence}");
    }
}

/// Ids are of different lengths: one may begin with another.
pub(crate) async fn an_owner_whose_id_begins_alike_is_another(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    let value = format!("{me}7 12345 svc@host/1");
    set(&mut behind, &value).await;
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::NotOwner),
        "broken promise: a lease that had ended came back"
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasGone)
    );
    let busy = try_take(&store, &lock, me).await.unwrap();
    assert!(
        matches!(busy, AcquireOutcome::Busy(_)),
        "broken promise: two hold the key: {busy:?}"
    );
    assert_eq!(get(&mut behind, "dlock:{k}").await, Some(value));
}

pub(crate) async fn a_grant_is_short_whoever_gives_it(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, holder, waiter) = (key("k"), owner(), owner());
    let grant = Duration::from_secs(3);
    for ttl in [Duration::from_secs(2), TTL] {
        let brief = request(&lock, holder).ttl(ttl);
        assert!(matches!(
            store.acquire(brief).await,
            Ok(AcquireOutcome::Granted { .. })
        ));
        queue(&store, &lock, waiter).await;
        let since = Instant::now();
        store
            .release(ReleaseRequest::new(&lock, holder))
            .await
            .unwrap();
        let left: u64 = redis::cmd("PTTL")
            .arg("dlock:{k}")
            .query_async(&mut behind)
            .await
            .unwrap();
        // A waiter reckons with all of it, so a releaser's own TTL must not shorten it.
        let left = Duration::from_millis(left);
        assert!(left <= grant, "{left:?}");
        let rounded = Duration::from_millis(2);
        assert!(left + since.elapsed() + rounded >= grant, "{left:?}");
        store
            .release(ReleaseRequest::new(&lock, waiter))
            .await
            .unwrap();
    }
}

pub(crate) async fn fences_grow_even_when_the_server_forgets(make: Make) {
    let (server, store, _behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    let mut last = 0;
    for round in 0..20 {
        let fence = take(&store, &lock, me).await;
        assert!(
            fence > last && fence < 1 << 52,
            "broken promise: the token did not grow: {last} then {fence}"
        );
        last = fence;
        if round % 2 == 0 {
            store.release(ReleaseRequest::new(&lock, me)).await.unwrap();
        } else {
            server.flush().await;
        }
    }
}

pub(crate) async fn nothing_stays_behind_when_everybody_dies(make: Make) {
    let (server, store, _behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    let brief = request(&lock, me).ttl(ALIVE);
    assert!(store.acquire(brief).await.is_ok());
    queue(&store, &lock, owner()).await;
    assert_eq!(server.keys("dlock:{k}*").await.len(), 3);
    eventually(ALIVE + DEADLINE, "all is gone", async || {
        server.keys("dlock:{k}*").await.is_empty()
    })
    .await;
}

pub(crate) async fn a_foreign_value_is_held_by_nobody_known(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    for value in ["1700000000", "a b c d", ""] {
        redis::cmd("SET")
            .arg("dlock:{k}")
            .arg(value)
            .exec_async(&mut behind)
            .await
            .unwrap();
        let busy = queue(&store, &lock, me).await;
        assert_eq!((busy.label, busy.ttl, busy.position), (None, None, Some(0)));
        assert_eq!(
            store.renew_one(renewal(&lock, me)).await,
            Ok(Renewal::NotOwner),
            "broken promise: a lease that had ended came back"
        );
        assert_eq!(
            store.release(ReleaseRequest::new(&lock, me)).await,
            Ok(Released::WasGone)
        );
        assert_eq!(
            get(&mut behind, "dlock:{k}").await.as_deref(),
            Some(value),
            "left alone"
        );
    }
}

pub(crate) async fn a_release_overtakes_no_acquire_that_was_given_up(make: Make) {
    let (server, store, _behind) = server_and_store(make).await;
    for polls in 0.. {
        let (lock, me) = (key(&format!("k{polls}")), owner());
        let outcome = poll_times(try_take(&store, &lock, me), polls).await;
        store.release(ReleaseRequest::new(&lock, me)).await.unwrap();
        assert_eq!(
            server.keys("dlock:{k*").await,
            Vec::<String>::new(),
            "after {polls} polls"
        );
        if let Polled::Finished(_) = outcome {
            assert!(polls > 1, "it has to wait for the server");
            break;
        }
    }
}

pub(crate) async fn scripts_are_sent_again_to_a_server_that_forgot_them(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    let before = server.command_count("eval").await;
    assert_eq!(before, 1, "they were loaded before, and one was tried");
    for _ in 0..2 {
        run(&mut behind, "SCRIPT FLUSH").await;
        let fence = take(&store, &lock, me).await;
        assert_eq!(
            take(&store, &lock, me).await,
            fence,
            "broken promise: the owner has another lease"
        );
        assert_eq!(
            store.renew_one(renewal(&lock, me)).await,
            Ok(Renewal::Renewed)
        );
        assert_eq!(
            store.release(ReleaseRequest::new(&lock, me)).await,
            Ok(Released::WasHeld)
        );
    }
    assert_eq!(server.command_count("eval").await, before + 6);
}

pub(crate) async fn a_refusal_never_tells_less_than_the_holders_fence(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    let fence = take(&store, &lock, me).await;
    let counter = server.keys("dlock:fence:*").await.remove(0);
    run(&mut behind, &format!("DEL {counter}")).await;
    assert_eq!(queue(&store, &lock, owner()).await.last_fence, fence);
    let Ok(AcquireOutcome::Busy(seen)) = try_take(&store, &lock, owner()).await else {
        panic!("it is held")
    };
    assert_eq!((seen.last_fence, seen.position), (fence, None));
}

pub(crate) async fn a_lock_is_handed_on_with_more_than_the_holders_fence(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me, next) = (key("k"), owner(), owner());
    take(&store, &lock, me).await;
    queue(&store, &lock, next).await;
    // From before the server's clock was set back and its counter was lost.
    let fence = 1_u64 << 51;
    let counter = server.keys("dlock:fence:*").await.remove(0);
    run(&mut behind, &format!("DEL {counter}")).await;
    redis::cmd("SET")
        .arg(&["dlock:{k}", &format!("{me} {fence} label"), "KEEPTTL"])
        .exec_async(&mut behind)
        .await
        .unwrap();
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    assert_eq!(take(&store, &lock, next).await, fence + 1);
}

pub(crate) async fn many_leases_are_renewed_in_one_write(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let leases: Vec<_> = (0..50).map(|n| (key(&format!("k{n}")), owner())).collect();
    for (lock, me) in &leases {
        take(&store, lock, *me).await;
    }
    run(&mut behind, "HSET dlock:{foreign} field value").await;
    let (foreign, stranger) = (key("foreign"), owner());
    let mut asks: Vec<_> = leases.iter().map(|(lock, me)| renewal(lock, *me)).collect();
    asks[7].owner = stranger;
    asks[9].key = &foreign;

    for is_forgotten in [false, true] {
        for (lock, _) in &leases {
            run(&mut behind, &format!("PEXPIRE dlock:{{{lock}}} 20000")).await;
        }
        if is_forgotten {
            run(&mut behind, "SCRIPT FLUSH").await;
        }
        let before = reads(&mut behind).await;
        let answers = store.renew(RenewBatch::new(&asks).limit(TTL)).await;
        let reads = reads(&mut behind).await - before;
        // A buffer of the server holds not quite all, and the count is read as well.
        assert!(reads < 10, "{reads} reads for {} leases", asks.len());

        assert_eq!(answers.len(), asks.len());
        for (number, answer) in answers.into_iter().enumerate() {
            let left: u64 = redis::cmd("PTTL")
                .arg(format!("dlock:{{k{number}}}"))
                .query_async(&mut behind)
                .await
                .unwrap();
            match number {
                7 => assert_eq!(
                    answer,
                    Ok(Renewal::NotOwner),
                    "broken promise: a lease that had ended came back"
                ),
                9 => {
                    let error = answer.expect_err("it is no lock");
                    assert_eq!(error.kind(), StoreErrorKind::WrongType);
                    assert!(error.to_string().contains("`dlock:{foreign}`"), "{error}");
                }
                _ => assert_eq!(answer, Ok(Renewal::Renewed), "{number}"),
            }
            assert_eq!(left > 20_000, ![7, 9].contains(&number), "{number}: {left}");
        }
    }
}

/// How often the server has read from a socket.
async fn reads(behind: &mut redis::aio::MultiplexedConnection) -> u64 {
    let stats: String = redis::cmd("INFO")
        .arg("stats")
        .query_async(behind)
        .await
        .unwrap();
    let line = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_reads_processed:"));
    line.unwrap().parse().unwrap()
}

pub(crate) async fn a_lease_that_was_handed_on_gets_its_label_by_a_renewal(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, holder, waiter) = (key("k"), owner(), owner());
    take(&store, &lock, holder).await;
    queue(&store, &lock, waiter).await;
    store
        .release(ReleaseRequest::new(&lock, holder))
        .await
        .unwrap();
    let granted = get(&mut behind, "dlock:{k}").await.unwrap();
    let nameless = granted.strip_suffix(" -").unwrap();

    let named = format!("{nameless} svc@host/1");
    // What is ours is not refused.
    run(&mut behind, "CONFIG SET maxmemory 1").await;
    for _ in 0..2 {
        run(&mut behind, "PEXPIRE dlock:{k} 10000").await;
        assert_eq!(
            store.renew_one(renewal(&lock, waiter)).await,
            Ok(Renewal::Renewed)
        );
        assert_eq!(get(&mut behind, "dlock:{k}").await.as_ref(), Some(&named));
        let left: u64 = redis::cmd("PTTL")
            .arg("dlock:{k}")
            .query_async(&mut behind)
            .await
            .unwrap();
        assert!(left > 20_000, "{left}");
    }
}

pub(crate) async fn databases_and_sockets_work_too(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    let second = connect(&format!("{}/3", server.url())).await;
    take(&second, &lock, owner()).await;

    let (_, path): (String, String) = redis::cmd("CONFIG")
        .arg("GET")
        .arg("unixsocket")
        .query_async(&mut behind)
        .await
        .unwrap();
    let local = connect(&format!("redis+unix://{path}")).await;
    assert_eq!(
        local.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
}
