//! The children of claims in ZooKeeper, and when they go.

use std::{sync::Arc, time::Duration};

use dlock::{LockError, LockKey, LockMode};
use dlock_runtime::{
    StoreErrorKind,
    random::SystemRandom,
    store::{
        ALIVE, AcquireOutcome, AcquireRequest, ClientId, LockStore, OwnerId, Queue, ReleaseRequest,
        Released, RenewBatch, RenewRequest, Renewal,
    },
};
use dlock_testkit::{Proxy, ZooKeepers, eventually};
use dlock_zookeeper::ZooKeeperStore;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};
use zookeeper_client::{Acls, CreateMode};

use crate::world::{
    LIMIT, SESSION, TTL, children, client, hold, key, manager, owner, release, store, wait,
};

#[tokio::test]
async fn two_stores_see_each_others_locks_and_wake_each_others_waiters() {
    let servers = ZooKeepers::shared().await;
    let url = servers.url(SESSION);
    let (one, other) = tokio::join!(manager(&url), manager(&url));
    let first = one.lock("two-stores").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("two-stores").wait(LIMIT).acquire().await });
    eventually(LIMIT, "the waiter has a child", async || {
        children(servers, "dlock", "two-stores").await.len() == 2
    })
    .await;
    let token = first.fencing_token();
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    assert!(
        second.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    second.release().await.unwrap();
    assert!(children(servers, "dlock", "two-stores").await.is_empty());
}

#[tokio::test]
async fn a_child_that_an_operator_deletes_ends_the_lease() {
    let servers = ZooKeepers::shared().await;
    let locks = manager(&servers.url(SESSION)).await;
    let held = locks
        .lock("operator")
        .ttl(Duration::from_secs(3))
        .acquire()
        .await
        .unwrap();
    let client = client(servers).await;
    for child in children(servers, "dlock", "operator").await {
        client.delete(&child, None).await.unwrap();
    }
    eventually(LIMIT, "the lease is lost", async || held.is_lost()).await;
    assert!(matches!(held.release().await, Err(LockError::Lost { .. })));
}

#[tokio::test]
async fn a_lease_that_is_renewed_for_a_shorter_time_ends_then() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let (key, [owner, later]) = (key("shortened"), [owner(), owner()]);
    hold(&store, &key, owner, LockMode::Exclusive).await;
    // When the later child is deleted, as its waiter is silent, the timer has looked at the lease, too, and looks again at its
    // end.
    wait(&store, &key, later, LockMode::Exclusive).await;
    eventually(LIMIT, "the timer has looked at both", async || {
        children(servers, "dlock", key.as_str()).await.len() == 1
    })
    .await;
    let renewal = RenewRequest::new(&key, owner, Duration::from_secs(2));
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    eventually(TTL / 2, "the child is deleted", async || {
        children(servers, "dlock", key.as_str()).await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_renewal_without_an_answer_ends_at_its_limit() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let (store, key) = behind(&proxy, "silent").await;
    let owner = owner();
    hold(&store, &key, owner, LockMode::Exclusive).await;
    let requests = [RenewRequest::new(&key, owner, TTL)];
    proxy.freeze();
    let batch = RenewBatch::new(&requests).limit(Duration::from_millis(300));
    let answers = store.renew(batch).await;
    proxy.thaw();
    let answers = answers.into_iter();
    let kinds: Vec<_> = answers
        .map(|answer| answer.map_err(|error| error.kind()))
        .collect();
    assert!(
        matches!(kinds[..], [Err(StoreErrorKind::TimedOut)]),
        "{kinds:?}"
    );
    eventually(LIMIT, "it is renewed", async || {
        store.renew_one(requests[0]).await == Ok(Renewal::Renewed)
    })
    .await;
    release(&store, &key, owner, LockMode::Exclusive).await;
}

#[tokio::test]
async fn a_child_that_was_granted_is_not_replaced() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let (key, owner) = (key("replaced"), owner());
    let first = hold(&store, &key, owner, LockMode::Exclusive).await;
    let client = client(servers).await;
    for child in children(servers, "dlock", key.as_str()).await {
        client.delete(&child, None).await.unwrap();
    }
    // Its request may come before the server has heard of the deletion.
    let ask = AcquireRequest::new(&key, owner, TTL);
    let mut answer = store.acquire(ask).await;
    eventually(LIMIT, "the request fails", async || {
        let is_old = matches!(answer, Ok(AcquireOutcome::Granted { fence, .. }) if fence == first);
        if is_old {
            answer = store.acquire(ask).await;
        }
        !is_old
    })
    .await;
    let error = answer.expect_err("another child in its place");
    assert!(!error.has_no_effect(), "{error}");
    assert_eq!(children(servers, "dlock", key.as_str()).await.len(), 0);
    let renewal = RenewRequest::new(&key, owner, TTL);
    assert_eq!(
        store.renew_one(renewal).await,
        Ok(Renewal::NotOwner),
        "broken promise: a waiter has renewed"
    );
    // The caller knows now, and may ask again.
    assert!(
        hold(&store, &key, owner, LockMode::Exclusive).await > first,
        "broken promise: the token did not grow"
    );
    release(&store, &key, owner, LockMode::Exclusive).await;
}

#[tokio::test]
async fn a_creation_without_an_answer_is_found_again_and_released() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let hosts = format!("127.0.0.1:{}", proxy.port());
    let store = Arc::new(store(&ZooKeepers::url_of(&hosts, SESSION)).await);
    let key = LockKey::new("no-answer").unwrap();
    let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    let ask = || AcquireRequest::new(&key, owner, Duration::from_secs(30));

    // The directory is there before, so the next request with this text creates the child.
    assert!(matches!(
        store.acquire(ask()).await,
        Ok(AcquireOutcome::Granted { .. })
    ));
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
    let child = format!("lock:no-answer/{owner}");
    proxy.cut_before_reply_to(&child);
    let error = store.acquire(ask()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Disconnected, "{error}");
    assert!(!error.has_no_effect());
    // The answer to an earlier ping ends the connection as well, before the answer to the request.
    eventually(LIMIT, "the child is there", async || {
        children(servers, "dlock", "no-answer").await.len() == 1
    })
    .await;
    assert_eq!(
        store.release(ReleaseRequest::new(&key, owner)).await,
        Ok(Released::WasHeld)
    );
    assert!(children(servers, "dlock", "no-answer").await.is_empty());

    // The repeated request has the child of the first one.
    let owner = OwnerId::new(owner.client(), 2);
    let ask = || AcquireRequest::new(&key, owner, Duration::from_secs(30));
    proxy.cut_before_reply_to(&format!("lock:no-answer/{owner}"));
    store.acquire(ask()).await.unwrap_err();
    eventually(LIMIT, "the owner holds the key", async || {
        matches!(
            store.acquire(ask()).await,
            Ok(AcquireOutcome::Granted { .. })
        )
    })
    .await;
    assert_eq!(children(servers, "dlock", "no-answer").await.len(), 1);

    // If nothing comes after it, its time ends.
    let owner = OwnerId::new(owner.client(), 3);
    let key = LockKey::new("nothing-after").unwrap();
    let ask = || AcquireRequest::new(&key, owner, Duration::from_secs(30));
    store.acquire(ask()).await.unwrap();
    store
        .release(ReleaseRequest::new(&key, owner))
        .await
        .unwrap();
    proxy.cut_before_reply_to(&format!("lock:nothing-after/{owner}"));
    store.acquire(ask()).await.unwrap_err();
    eventually(LIMIT, "the child is there", async || {
        children(servers, "dlock", "nothing-after").await.len() == 1
    })
    .await;
    eventually(LIMIT, "the child is deleted", async || {
        children(servers, "dlock", "nothing-after").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_waiter_renews_nothing() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let key = LockKey::new("waiter-renews").unwrap();
    let [holder, waiter] = [1, 2].map(|it| OwnerId::new(ClientId::new(&SystemRandom), it));
    let ttl = Duration::from_secs(30);
    let ask = |owner| AcquireRequest::new(&key, owner, ttl).queue(Queue::ForLease);
    let renewal = RenewRequest::new(&key, waiter, ttl);
    let granted = store.acquire(ask(holder)).await;
    assert!(matches!(granted, Ok(AcquireOutcome::Granted { .. })));
    let busy = store.acquire(ask(waiter)).await;
    assert!(
        matches!(busy, Ok(AcquireOutcome::Busy(_))),
        "broken promise: two hold the key"
    );
    assert_eq!(
        store.renew_one(renewal).await,
        Ok(Renewal::NotOwner),
        "broken promise: a waiter has renewed"
    );
    let release = ReleaseRequest::new(&key, holder);
    assert_eq!(store.release(release).await, Ok(Released::WasHeld));
    // From now on it is the holder.
    assert_eq!(store.renew_one(renewal).await, Ok(Renewal::Renewed));
    let release = ReleaseRequest::new(&key, waiter);
    assert_eq!(store.release(release).await, Ok(Released::WasHeld));
}

/// A wait ends by a release, and not by such a request.
#[tokio::test]
async fn a_waiter_that_asks_without_waiting_keeps_its_place() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let (key, holder, waiter) = (key("asks-once"), owner(), owner());
    hold(&store, &key, holder, LockMode::Exclusive).await;
    wait(&store, &key, waiter, LockMode::Exclusive).await;
    let asked = store.acquire(AcquireRequest::new(&key, waiter, TTL)).await;
    let Ok(AcquireOutcome::Busy(seen)) = asked else {
        panic!("broken promise: two hold the key: {asked:?}");
    };
    assert_eq!(seen.position, None);
    let left = children(servers, "dlock", key.as_str()).await;
    assert_eq!(left.len(), 2, "{left:?}");
    release(&store, &key, holder, LockMode::Exclusive).await;
    hold(&store, &key, waiter, LockMode::Exclusive).await;
    release(&store, &key, waiter, LockMode::Exclusive).await;
}

#[tokio::test]
async fn a_waiter_that_asks_in_time_keeps_its_place() {
    eventually(LIMIT, "a place that lasts", is_place_kept).await;
}

/// Returns `false` also if the machine was so slow that the waiter was silent for too long.
async fn is_place_kept() -> bool {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let (key, holder, waiter) = (key("asks-in-time"), owner(), owner());
    let own = async || {
        let all = children(servers, "dlock", key.as_str()).await;
        all.into_iter().find(|it| it.contains(&waiter.to_string()))
    };
    hold(&store, &key, holder, LockMode::Exclusive).await;
    wait(&store, &key, waiter, LockMode::Exclusive).await;
    let (before, begun) = (own().await, Instant::now());
    while begun.elapsed() < ALIVE + ALIVE / 3 {
        // After the end of another claim on the key, the process asks the server again.
        let other = owner();
        wait(&store, &key, other, LockMode::Exclusive).await;
        let released = store.release(ReleaseRequest::new(&key, other)).await;
        assert_eq!(released, Ok(Released::WasGone));
        wait(&store, &key, waiter, LockMode::Exclusive).await;
        // Often enough for a waiter, whose place lasts so long after its last request.
        sleep(ALIVE / 6).await;
    }
    let is_kept = before.is_some() && own().await == before;
    for owner in [waiter, holder] {
        store
            .release(ReleaseRequest::new(&key, owner))
            .await
            .unwrap();
    }
    is_kept
}

#[tokio::test]
async fn a_waiter_whose_child_an_operator_deletes_gets_another_one() {
    let servers = ZooKeepers::shared().await;
    let store = store(&servers.url(SESSION)).await;
    let (key, holder, waiter) = (key("deleted-waiter"), owner(), owner());
    hold(&store, &key, holder, LockMode::Exclusive).await;
    wait(&store, &key, waiter, LockMode::Exclusive).await;
    let all = children(servers, "dlock", key.as_str()).await;
    let own = all.iter().find(|it| it.contains(&waiter.to_string()));
    let operator = client(servers).await;
    operator.delete(own.unwrap(), None).await.unwrap();
    release(&store, &key, holder, LockMode::Exclusive).await;
    hold(&store, &key, waiter, LockMode::Exclusive).await;
    release(&store, &key, waiter, LockMode::Exclusive).await;
}

/// A store behind a proxy, and a key whose directory is there: the next request with an owner of it creates a child.
async fn behind(proxy: &Proxy, name: &str) -> (ZooKeeperStore, LockKey) {
    let hosts = format!("127.0.0.1:{}", proxy.port());
    let (store, key) = (store(&ZooKeepers::url_of(&hosts, SESSION)).await, key(name));
    let before = owner();
    hold(&store, &key, before, LockMode::Exclusive).await;
    release(&store, &key, before, LockMode::Exclusive).await;
    (store, key)
}

#[tokio::test]
async fn a_child_of_an_earlier_session_is_never_held() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let (store, key) = behind(&proxy, "earlier-session").await;
    let owner = owner();
    // The process has given that session up, and the servers have not.
    let earlier = client(servers).await;
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let path = format!("/dlock/lock:{key}/{owner}-exclusive-");
    let bases = earlier.list_children("/dlock/fence").await.unwrap();
    let base = earlier
        .check_stat(&format!("/dlock/fence/{}", bases[0]))
        .await;
    let since = base.unwrap().unwrap().czxid;
    let text = format!("1 {} {since} 30000 - - - -", bases[0]);
    earlier
        .create(&path, text.as_bytes(), &options)
        .await
        .unwrap();
    proxy.cut_before_reply_to(&format!("lock:{key}/{owner}"));
    let ask = AcquireRequest::new(&key, owner, TTL).queue(Queue::ForLease);
    store.acquire(ask).await.unwrap_err();
    eventually(LIMIT, "the owner holds the key", async || {
        matches!(store.acquire(ask).await, Ok(AcquireOutcome::Granted { .. }))
    })
    .await;
    let left = children(servers, "dlock", key.as_str()).await;
    assert_eq!(left.len(), 1, "{left:?}");
    let stat = earlier.check_stat(&left[0]).await.unwrap().unwrap();
    assert_ne!(
        stat.ephemeral_owner,
        earlier.session_id().0,
        "the child ends with another session than the lease"
    );
    release(&store, &key, owner, LockMode::Exclusive).await;
}

#[tokio::test]
async fn a_release_that_fails_leaves_no_child() {
    let servers = ZooKeepers::shared().await;
    let proxy = Proxy::start(servers.port(0));
    let (store, key) = behind(&proxy, "no-timer").await;
    // If the machine is slow, a search has deleted the child before, and the trap is still set.
    eventually(LIMIT, "a release that fails", async || {
        let owner = owner();
        let child = format!("lock:{key}/{owner}");
        proxy.cut_before_reply_to(&child);
        let ask = AcquireRequest::new(&key, owner, TTL);
        store.acquire(ask).await.unwrap_err();
        // A deletion: its number in the protocol, and the length of the path.
        let path = format!("/dlock/{child}-exclusive-");
        let length = u8::try_from(path.len() + 10).unwrap();
        proxy.cut_before_request(&format!("\0\0\0\u{2}\0\0\0{}{path}", char::from(length)));
        let answer = store.release(ReleaseRequest::new(&key, owner)).await;
        answer.is_err() && !proxy.is_trap_set()
    })
    .await;
    eventually(LIMIT, "the child is deleted", async || {
        children(servers, "dlock", key.as_str()).await.is_empty()
    })
    .await;
}

/// ZooKeeper itself would remove them too, but not as fast as a service can make them.
#[tokio::test]
async fn directories_of_keys_that_are_always_new_do_not_pile_up() {
    const MADE: usize = 2300;
    let servers = ZooKeepers::start_keeping().await;
    let manager = manager(&servers.url(SESSION)).await;
    let calls = (0..MADE).map(|number| {
        let request = manager.lock(format!("order:{number}")).wait(LIMIT);
        async { request.acquire().await.unwrap().release().await.unwrap() }
    });
    let calls = stream::iter(calls).buffer_unordered(50);
    calls.for_each(|()| std::future::ready(())).await;
    let client = client(&servers).await;
    eventually(LIMIT, "only those of late keys are left", async || {
        client.sync("/dlock").await.unwrap();
        let names = client.list_children("/dlock").await.unwrap();
        let of_keys = names.iter().filter(|name| name.starts_with("lock:"));
        of_keys.count() == 2000
    })
    .await;
}
