//! Shared locks and permits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dlock::{FencingToken, LockManager, LockMode};
use dlock_runtime::store::{AcquireOutcome, AcquireRequest, LockStore, Queue};
use dlock_testkit::{Proxy, ZooKeepers, eventually};
use dlock_zookeeper::ZooKeeperStore;
use tokio::task::JoinSet;

use crate::world::{
    LIMIT, SESSION, TTL, children, hold, key, manager, owner, release, store, wait,
};

const SHARED: LockMode = LockMode::Shared;

#[tokio::test]
async fn readers_that_come_and_go_have_one_token() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (one, other) = tokio::join!(store(&url), store(&url));
    let key = key("readers");
    let readers = [owner(), owner(), owner(), owner()];
    let first = hold(&one, &key, readers[0], SHARED).await;
    assert_eq!(
        hold(&other, &key, readers[1], SHARED).await,
        first,
        "broken promise: two tokens together"
    );
    // The first one leaves: those that come later have the token of those that stay.
    release(&one, &key, readers[0], SHARED).await;
    assert_eq!(
        hold(&one, &key, readers[2], SHARED).await,
        first,
        "broken promise: two tokens together"
    );
    release(&other, &key, readers[1], SHARED).await;
    assert_eq!(
        hold(&other, &key, readers[3], SHARED).await,
        first,
        "broken promise: two tokens together"
    );
    release(&one, &key, readers[2], SHARED).await;
    release(&other, &key, readers[3], SHARED).await;
    // When all have left, a new one begins.
    assert!(
        hold(&one, &key, readers[0], SHARED).await > first,
        "broken promise: the token did not grow"
    );
    release(&one, &key, readers[0], SHARED).await;
}

/// Has two readers be granted together, of which one confirms first. Returns `true` if both have the token of the one in
/// front; `false` also if the machine was so slow that one was silent for too long, and has another child.
async fn is_that_of_the_first(
    one: &ZooKeeperStore,
    other: &ZooKeeperStore,
    is_first_faster: bool,
) -> bool {
    let key = key("faster");
    let [writer, first, second] = [owner(), owner(), owner()];
    let before = hold(one, &key, writer, LockMode::Exclusive).await;
    let ask = AcquireRequest::new(&key, first, TTL).mode(SHARED);
    let answer = one.acquire(ask.queue(Queue::ForLease)).await.unwrap();
    let AcquireOutcome::Busy(seen) = answer else {
        panic!("broken promise: two hold the key: {answer:?}");
    };
    wait(other, &key, second, SHARED).await;
    release(one, &key, writer, LockMode::Exclusive).await;
    let mut readers = [(one, first), (other, second)];
    if !is_first_faster {
        readers.reverse();
    }
    let [(faster, early), (slower, late)] = readers;
    let fence = hold(faster, &key, early, SHARED).await;
    assert!(fence > before, "broken promise: the token did not grow");
    assert_eq!(
        hold(slower, &key, late, SHARED).await,
        fence,
        "broken promise: two tokens together"
    );
    release(one, &key, first, SHARED).await;
    release(other, &key, second, SHARED).await;
    // That of its own child is the next one that it may have.
    fence == seen.last_fence + 1
}

#[tokio::test]
async fn readers_that_are_granted_together_have_the_token_of_the_first_whoever_confirms_first() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (one, other) = tokio::join!(store(&url), store(&url));
    for is_first_faster in [false, true] {
        eventually(LIMIT, "the token of the first", async || {
            is_that_of_the_first(&one, &other, is_first_faster).await
        })
        .await;
    }
}

#[tokio::test]
async fn a_token_that_was_written_without_an_answer_is_kept() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", proxy.port()), SESSION);
    let (other, own) = (store(&servers.url(SESSION)).await, store(&url).await);
    let key = key("doubtful");
    let [writer, first, second] = [owner(), owner(), owner()];
    hold(&other, &key, writer, LockMode::Exclusive).await;
    wait(&other, &key, first, SHARED).await;
    wait(&own, &key, second, SHARED).await;
    release(&other, &key, writer, LockMode::Exclusive).await;
    let fence = hold(&other, &key, first, SHARED).await;
    let ask = AcquireRequest::new(&key, second, TTL).mode(SHARED);
    proxy.cut_before_reply_to(&format!("lock:{key}/{second}"));
    eventually(LIMIT, "the write of the fence has no answer", async || {
        // Until its server has heard of the release.
        own.acquire(ask.queue(Queue::ForLease)).await.is_err()
    })
    .await;
    // Another reader may have seen the fence, and have it now.
    release(&other, &key, first, SHARED).await;
    let mut granted = None;
    eventually(LIMIT, "an answer", async || {
        granted = own.acquire(ask.queue(Queue::ForLease)).await.ok();
        granted.is_some()
    })
    .await;
    let is_kept = matches!(granted, Some(AcquireOutcome::Granted { fence: it, .. }) if it == fence);
    assert!(is_kept, "{granted:?} instead of {fence}");
    release(&own, &key, second, SHARED).await;
}

/// How many are inside, and how many were at most.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Inside {
    async fn visit(&self, weight: usize) {
        let now = self.now.fetch_add(weight, Ordering::SeqCst) + weight;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.now.fetch_sub(weight, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn no_more_than_n_permits_are_held_and_none_beside_a_writer() {
    const WRITER: usize = 100;

    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let managers: Vec<LockManager> = vec![manager(&url).await, manager(&url).await];
    let inside = Arc::new(Inside::default());
    let name = key("permits").to_string();
    let mut tasks = JoinSet::new();
    for number in 0..16 {
        let lock = managers[number % 2].lock(&name).wait(LIMIT);
        let (inside, is_writer) = (inside.clone(), number % 5 == 4);
        tasks.spawn(async move {
            let (lock, weight) = if is_writer {
                (lock, WRITER)
            } else {
                (lock.permits(3), 1)
            };
            let body = async |_: &dlock::Lease| inside.visit(weight).await;
            lock.run(body).await.unwrap();
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let most = inside.most.load(Ordering::SeqCst);
    assert!(
        most <= 3 || most == WRITER,
        "broken promise: too many are inside: {most}"
    );
    assert!(children(servers, "dlock", &name).await.is_empty());
}

#[tokio::test]
async fn a_writer_after_readers_has_a_greater_token() {
    let servers = ZooKeepers::shared().await;
    let locks = manager(&servers.url(SESSION)).await;
    let name = key("tokens").to_string();
    let mut last: Option<FencingToken> = None;
    for is_shared in [false, true, false, true] {
        let lock = locks.lock(&name);
        let lock = if is_shared { lock.shared() } else { lock };
        let guard = lock.acquire().await.unwrap();
        assert!(
            last.is_none_or(|last| last < guard.fencing_token()),
            "broken promise: the token did not grow"
        );
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
    }
}
