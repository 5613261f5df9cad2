//! Waiters, which are woken by watches and send nothing meanwhile.

use std::{iter, time::Duration};

use dlock::LockMode;
use dlock_runtime::store::{
    ALIVE, AcquireOutcome, AcquireRequest, LockStore, OwnerId, Queue, ReleaseRequest, RenewRequest,
    Renewal,
};
use dlock_testkit::{CountedRequests, Proxy, ZooKeepers, eventually, within};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use zookeeper_client::{Acls, CreateMode};

use crate::world::{
    LIMIT, SESSION, TTL, children, client, hold, key, listen, manager, owner, release, store, wait,
};

const EXCLUSIVE: LockMode = LockMode::Exclusive;
const TWO: LockMode = LockMode::Permits(2);

#[tokio::test]
async fn a_hundred_waiters_send_no_request_while_they_wait() {
    let servers = ZooKeepers::shared().await;
    let counted = CountedRequests::start(servers.port(0)).await;
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", counted.port()), SESSION);
    let (waiting, holding) = (store(&url).await, store(&servers.url(SESSION)).await);
    // Behind an exclusive lock, behind another waiter of a shared one, and behind permits.
    let kinds = [EXCLUSIVE, LockMode::Shared, TWO].map(|mode| (key("quiet"), mode));
    let holders = [owner(), owner()];
    let held = |mode| match mode {
        TWO => (TWO, &holders[..]),
        _ => (EXCLUSIVE, &holders[..1]),
    };
    let waiters: Vec<_> = iter::repeat_with(owner).take(100).collect();
    // As their managers do, in case a hint was lost.
    let all_ask = async || {
        let answers = waiters
            .iter()
            .zip(kinds.iter().cycle())
            .map(|(owner, (key, mode))| {
                let request = AcquireRequest::new(key, *owner, TTL).mode(*mode);
                waiting.acquire(request.queue(Queue::ForLease))
            });
        for answer in join_all(answers).await {
            assert!(
                !matches!(answer, Ok(AcquireOutcome::Granted { .. })),
                "{answer:?}"
            );
        }
    };
    eventually(3 * LIMIT, "five seconds without a request", async || {
        for (key, mode) in &kinds {
            let (mode, holders) = held(*mode);
            for holder in holders {
                hold(&holding, key, *holder, mode).await;
            }
        }
        // On a busy machine, a waiter that was late loses its place and begins again.
        all_ask().await;
        sleep(Duration::from_secs(1)).await;
        all_ask().await;
        let before = counted.requests();
        for _ in 0..5 {
            sleep(Duration::from_secs(1)).await;
            all_ask().await;
        }
        before > 0 && counted.requests() == before
    })
    .await;
    for (key, mode) in &kinds {
        let (mode, holders) = held(*mode);
        for holder in holders {
            release(&holding, key, *holder, mode).await;
        }
    }
}

#[tokio::test]
async fn a_waiter_behind_a_lease_that_is_over_asks_once_a_second() {
    let servers = ZooKeepers::shared().await;
    let counted = CountedRequests::start(servers.port(0)).await;
    let locks = manager(&ZooKeepers::url_of(
        &format!("127.0.0.1:{}", counted.port()),
        SESSION,
    ))
    .await;
    // The holder has crashed, and its session has not ended.
    let (crashed, key) = (client(servers).await, key("over"));
    let directory = format!("/dlock/lock:{key}");
    for (path, mode, text) in [
        (directory.clone(), CreateMode::Container, ""),
        (
            format!("{directory}/{}-exclusive-", owner()),
            CreateMode::EphemeralSequential,
            "1 1 1 1 - - - -",
        ),
    ] {
        let options = mode.with_acls(Acls::anyone_all());
        crashed
            .create(&path, text.as_bytes(), &options)
            .await
            .unwrap();
    }
    eventually(LIMIT, "the key is busy", async || {
        let before = counted.requests();
        let lock = locks.lock(key.as_str()).wait(Duration::from_secs(3));
        let error = lock.acquire().await.unwrap_err();
        let requests = counted.requests() - before;
        // It creates its child, watches, and asks three times.
        assert!((1..25).contains(&requests), "{requests} requests");
        // Its last answer may have been late.
        assert!(error.is_busy() || error.is_unavailable(), "{error}");
        error.is_busy()
    })
    .await;
}

/// Has a waiter wait for a holder in this mode, breaks something, releases, and returns whether the waiter was told by a watch.
/// It sends no request meanwhile.
async fn is_told(url: &str, servers: &ZooKeepers, mode: LockMode, breaks: impl AsyncFn()) -> bool {
    let (other, own) = (store(&servers.url(SESSION)).await, store(url).await);
    let (client, mut heard) = listen(&own);
    let (key, waiter) = (key("told"), OwnerId::new(client, 1));
    let holders: Vec<_> = iter::repeat_with(owner).take(2).collect();
    let held = if mode == TWO {
        &holders[..]
    } else {
        &holders[..1]
    };
    for holder in held {
        hold(&other, &key, *holder, mode).await;
    }
    wait(&own, &key, waiter, mode).await;
    breaks().await;
    release(&other, &key, holders[0], mode).await;
    // Its child is deleted 3 s after its last request: a waiter that was not told in this time never will be.
    let told = within(Duration::from_secs(6), heard.recv()).await;
    let is_told = matches!(told, Some(Some((told, _))) if told == waiter);
    let renewal = RenewRequest::new(&key, waiter, TTL).mode(mode);
    let is_held = own.renew_one(renewal).await == Ok(Renewal::Renewed);
    release(&own, &key, waiter, mode).await;
    for holder in held {
        release(&other, &key, *holder, mode).await;
    }
    is_told && is_held
}

#[tokio::test]
async fn a_release_wakes_the_waiter_of_another_process_by_a_watch() {
    let servers = ZooKeepers::shared().await;
    for mode in [EXCLUSIVE, TWO] {
        eventually(LIMIT, "a waiter is told of its grant", async || {
            is_told(&servers.url(SESSION), servers, mode, async || ()).await
        })
        .await;
    }
}

#[tokio::test]
async fn a_watch_whose_connection_was_cut_is_set_again() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", proxy.port()), SESSION);
    eventually(LIMIT, "a waiter is told of its grant", async || {
        is_told(&url, servers, EXCLUSIVE, async || proxy.cut()).await
    })
    .await;
}

#[tokio::test]
async fn readers_behind_a_writer_are_all_told_when_it_leaves() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (other, one, two) = tokio::join!(store(&url), store(&url), store(&url));
    eventually(LIMIT, "both readers are told", async || {
        let (key, writer) = (key("readers"), owner());
        hold(&other, &key, writer, EXCLUSIVE).await;
        let (mut told, mut readers) = (0, Vec::new());
        for store in [&one, &two] {
            let (client, heard) = listen(store);
            let reader = OwnerId::new(client, 1);
            wait(store, &key, reader, LockMode::Shared).await;
            readers.push((store, reader, heard));
        }
        release(&other, &key, writer, EXCLUSIVE).await;
        for (_, _, heard) in &mut readers {
            let hint = within(Duration::from_secs(6), heard.recv()).await;
            told += usize::from(hint.is_some());
        }
        for (store, reader, _) in &readers {
            release(store, &key, *reader, LockMode::Shared).await;
        }
        told == 2
    })
    .await;
}

/// Has a waiter of a session wait for some seconds behind a holder, breaks something, and releases. Returns the fence of the
/// hint that the waiter gets; `None` if the machine was too slow.
async fn granted(
    servers: &ZooKeepers,
    session: Duration,
    seconds: u32,
    breaks: impl AsyncFn(&str),
) -> Option<u64> {
    let url = servers.url(session);
    let (other, own) = (store(&servers.url(SESSION)).await, store(&url).await);
    let (client, mut heard) = listen(&own);
    let (key, holder, waiter) = (key("granted"), owner(), OwnerId::new(client, 1));
    hold(&other, &key, holder, EXCLUSIVE).await;
    let request = AcquireRequest::new(&key, waiter, TTL).queue(Queue::ForLease);
    let mut is_waiting = matches!(own.acquire(request).await, Ok(AcquireOutcome::Busy(_)));
    for _ in 0..seconds {
        sleep(Duration::from_secs(1)).await;
        is_waiting &= matches!(own.acquire(request).await, Ok(AcquireOutcome::Busy(_)));
    }
    breaks(key.as_str()).await;
    release(&other, &key, holder, EXCLUSIVE).await;
    let hint = within(Duration::from_secs(6), heard.recv()).await??;
    let is_told = is_waiting && hint.0 == waiter;
    // The session may have ended, and the child with it.
    own.release(ReleaseRequest::new(&key, waiter)).await.ok();
    is_told.then_some(hint.1)
}

#[tokio::test]
async fn a_grant_is_a_lease_at_once_only_while_the_session_certainly_lasts() {
    let servers = ZooKeepers::shared().await;
    // The only write of the short session is at its begin, and proves nothing about its last seconds.
    for (session, seconds, is_lease) in [(SESSION, 0, true), (Duration::from_secs(8), 6, false)] {
        eventually(LIMIT, "a hint that may be believed", async || {
            let fence = granted(servers, session, seconds, async |_| ()).await;
            fence.is_some_and(|fence| (fence > 0) == is_lease)
        })
        .await;
    }
}

#[tokio::test]
async fn a_waiter_whose_child_was_deleted_holds_nothing() {
    let servers = ZooKeepers::shared().await;
    eventually(LIMIT, "a hint without a fence", async || {
        let fence = granted(servers, SESSION, 0, async |key| {
            let client = client(servers).await;
            let all = children(servers, "dlock", key).await;
            let waiter = all
                .iter()
                .max_by_key(|it| it.rsplit('-').next().unwrap().to_owned());
            client.delete(waiter.unwrap(), None).await.unwrap();
        });
        fence.await == Some(0)
    })
    .await;
}

#[tokio::test]
async fn a_child_that_was_found_is_not_held_without_a_write() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", proxy.port()), SESSION);
    let (other, own) = (store(&servers.url(SESSION)).await, store(&url).await);
    let (client, mut heard) = listen(&own);
    // The session has a recent write: without that, no grant would be believed.
    hold(&own, &key("recent"), owner(), EXCLUSIVE).await;
    let mut number = 0;
    eventually(LIMIT, "a hint to the waiter", async || {
        number += 1;
        let (key, holder, waiter) = (key("found"), owner(), OwnerId::new(client, number));
        hold(&other, &key, holder, EXCLUSIVE).await;
        let request = AcquireRequest::new(&key, waiter, TTL).queue(Queue::ForLease);
        proxy.cut_before_reply_to(&format!("lock:{key}/{waiter}"));
        own.acquire(request).await.unwrap_err();
        // Another process may have replaced the base: then the creation without an answer was refused.
        let is_created = children(servers, "dlock", key.as_str()).await.len() == 2;
        let mut asked = Instant::now();
        eventually(LIMIT, "the child is found", async || {
            asked = Instant::now();
            matches!(own.acquire(request).await, Ok(AcquireOutcome::Busy(_)))
        })
        .await;
        let found = children(servers, "dlock", key.as_str()).await.len();
        // On a slow machine, the waiter was silent for too long.
        let is_late = asked.elapsed() > ALIVE / 2;
        assert!(found == 2 || is_late, "{found} children");
        release(&other, &key, holder, EXCLUSIVE).await;
        let hint = within(Duration::from_secs(6), heard.recv()).await.flatten();
        release(&own, &key, waiter, EXCLUSIVE).await;
        // On a slow machine, that of an earlier waiter, or none.
        hint.is_some_and(|(told, fence)| {
            let is_own = told == waiter && is_created;
            assert!(
                !is_own || fence == 0,
                "broken promise: a lease without a write"
            );
            is_own
        })
    })
    .await;
}

#[tokio::test]
async fn waiters_that_leave_watch_nothing() {
    // Of its own, since all watches are counted.
    let servers = ZooKeepers::start().await;
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", servers.port(0)), SESSION);
    let (store, holder) = (store(&url).await, owner());
    let keys = [key("watches"), key("watches"), key("watches")];
    // That for the messages of operators.
    let before = Some(1);
    eventually(LIMIT, "the session has one watch", async || {
        servers.watches(0).await == before
    })
    .await;
    for key in &keys {
        hold(&store, key, holder, EXCLUSIVE).await;
        let waiter = owner();
        eventually(LIMIT, "the waiter watches", async || {
            wait(&store, key, waiter, EXCLUSIVE).await;
            servers.watches(0).await > before
        })
        .await;
        release(&store, key, waiter, EXCLUSIVE).await;
        eventually(LIMIT, "no watch is left", async || {
            servers.watches(0).await == before
        })
        .await;
    }
    for key in &keys {
        release(&store, key, holder, EXCLUSIVE).await;
    }
}

/// No request waits inside the server for a key, and none inside the store for that of another key.
#[tokio::test]
async fn a_key_that_many_poll_for_delays_no_other_key() {
    let servers = ZooKeepers::shared().await;
    let (waiting, holding) = (
        store(&servers.url(SESSION)).await,
        store(&servers.url(SESSION)).await,
    );
    let hot = key("hot");
    hold(&holding, &hot, owner(), EXCLUSIVE).await;
    let waiters: Vec<_> = iter::repeat_with(owner).take(64).collect();
    let all_ask = async || {
        let asked = waiters.iter().map(|owner| {
            let request = AcquireRequest::new(&hot, *owner, TTL);
            waiting.acquire(request.queue(Queue::ForLease))
        });
        for answer in join_all(asked).await {
            assert!(matches!(answer, Ok(AcquireOutcome::Busy(_))), "{answer:?}");
        }
    };
    all_ask().await;
    let polls = async {
        loop {
            all_ask().await;
            // Most of them ask no server.
            tokio::task::yield_now().await;
        }
    };
    let sections = async {
        for _ in 0..50 {
            let (free, owner) = (key("free"), owner());
            hold(&waiting, &free, owner, EXCLUSIVE).await;
            release(&waiting, &free, owner, EXCLUSIVE).await;
        }
    };
    tokio::select! {
        () = polls => {}
        ended = within(3 * LIMIT, sections) => ended.expect("fifty sections of other keys"),
    }
}

#[tokio::test]
async fn a_waiter_without_a_connection_is_not_answered_from_memory() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", proxy.port()), SESSION);
    let (other, own) = (store(&servers.url(SESSION)).await, store(&url).await);
    eventually(2 * LIMIT, "a waiter that gets no answer", async || {
        let (key, holder, waiter) = (key("from-memory"), owner(), owner());
        hold(&other, &key, holder, EXCLUSIVE).await;
        wait(&own, &key, waiter, EXCLUSIVE).await;
        // Meanwhile its watch is set.
        assert_eq!(children(servers, "dlock", key.as_str()).await.len(), 2);
        proxy.refuse();
        proxy.cut();
        let request = AcquireRequest::new(&key, waiter, TTL).queue(Queue::ForLease);
        let mut is_answered = true;
        for _ in 0..50 {
            let answer = within(Duration::from_millis(300), own.acquire(request)).await;
            is_answered = matches!(answer, Some(Ok(AcquireOutcome::Busy(_))));
            if !is_answered {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        proxy.accept();
        own.release(ReleaseRequest::new(&key, waiter)).await.ok();
        release(&other, &key, holder, EXCLUSIVE).await;
        !is_answered
    })
    .await;
}

/// The answers to a waiter are repeated without a request only while nothing has changed before it.
#[tokio::test]
async fn a_waiter_hears_soon_that_another_one_before_it_has_left() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (other, own) = tokio::join!(store(&url), store(&url));
    eventually(2 * LIMIT, "another place", async || {
        let (key, holder, leaves, stays) = (key("place"), owner(), owner(), owner());
        hold(&other, &key, holder, EXCLUSIVE).await;
        wait(&other, &key, leaves, EXCLUSIVE).await;
        let request = AcquireRequest::new(&key, stays, TTL).queue(Queue::ForLease);
        let place = async || match own.acquire(request).await {
            Ok(AcquireOutcome::Busy(seen)) => seen.position,
            answer => panic!("{answer:?}"),
        };
        place().await;
        // Meanwhile its watch is set.
        children(servers, "dlock", key.as_str()).await;
        let before = place().await;
        release(&other, &key, leaves, EXCLUSIVE).await;
        // An answer that a waiter remembers would be the same for half a minute.
        let changed = within(Duration::from_secs(5), async {
            while place().await != Some(0) {
                sleep(Duration::from_millis(20)).await;
            }
        });
        let is_changed = changed.await.is_some();
        release(&own, &key, stays, EXCLUSIVE).await;
        release(&other, &key, holder, EXCLUSIVE).await;
        before == Some(1) && is_changed
    })
    .await;
}

/// Its process may hear of the grant a moment before the time of its place is over.
#[tokio::test]
async fn a_waiter_that_is_told_late_has_time_to_renew() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (other, own) = tokio::join!(store(&url), store(&url));
    eventually(2 * LIMIT, "a renewal", async || {
        let (client, mut heard) = listen(&own);
        let (key, holder, waiter) = (key("told-late"), owner(), OwnerId::new(client, 1));
        hold(&other, &key, holder, EXCLUSIVE).await;
        let begun = Instant::now();
        wait(&own, &key, waiter, EXCLUSIVE).await;
        sleep(ALIVE * 2 / 3).await;
        release(&other, &key, holder, EXCLUSIVE).await;
        let hint = within(Duration::from_secs(6), heard.recv()).await.flatten();
        let is_told = hint.is_some_and(|(told, fence)| told == waiter && fence > 0);
        sleep((ALIVE * 4 / 3).saturating_sub(begun.elapsed())).await;
        let renewal = own.renew_one(RenewRequest::new(&key, waiter, TTL)).await;
        release(&own, &key, waiter, EXCLUSIVE).await;
        is_told && renewal == Ok(Renewal::Renewed)
    })
    .await;
}

/// The lease may have begun a body by the hint alone.
#[tokio::test]
async fn the_child_of_a_grant_that_was_told_is_not_replaced() {
    let servers = ZooKeepers::shared().await;
    let (other, own) = (
        store(&servers.url(SESSION)).await,
        store(&servers.url(SESSION)).await,
    );
    let operator = client(servers).await;
    eventually(2 * LIMIT, "a request that fails", async || {
        let (client, mut heard) = listen(&own);
        let (key, holder, waiter) = (key("told-once"), owner(), OwnerId::new(client, 1));
        hold(&other, &key, holder, EXCLUSIVE).await;
        wait(&own, &key, waiter, EXCLUSIVE).await;
        release(&other, &key, holder, EXCLUSIVE).await;
        let hint = within(Duration::from_secs(6), heard.recv()).await.flatten();
        let Some((_, granted)) = hint.filter(|(told, fence)| *told == waiter && *fence > 0) else {
            release(&own, &key, waiter, EXCLUSIVE).await;
            return false;
        };
        for child in children(servers, "dlock", key.as_str()).await {
            operator.delete(&child, None).await.ok();
        }
        let request = AcquireRequest::new(&key, waiter, TTL).queue(Queue::ForLease);
        let mut answer = own.acquire(request).await;
        // Until its server has heard of the deletion.
        while matches!(answer, Ok(AcquireOutcome::Granted { fence, .. }) if fence == granted) {
            answer = own.acquire(request).await;
        }
        release(&own, &key, waiter, EXCLUSIVE).await;
        answer.is_err()
    })
    .await;
}
