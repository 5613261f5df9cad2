//! `min_replicas`: a lease counts only when replicas have confirmed it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{
    ConnectError, LockError, LockManager, LostCause, StoreError, Wait,
    store::{
        LockStore, QuorumNode, RaiseRequest, RenewBatch, Renewal, StoreErrorKind,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{RedisServer, Sentinels, eventually};
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::common::{ANSWER, OneKey, is_lost, soon};
use crate::sentinel::{LONG, manager_with};

const LOCK: &str = "dlock:{order:42}";

pub(crate) async fn confirmed(all: &Sentinels, replicas: u32) -> LockManager {
    manager_with(all, |it| it.response_timeout(ANSWER).min_replicas(replicas)).await
}

/// What the store said, of a lock that is unavailable.
#[track_caller]
pub(crate) fn too_few(error: &LockError) -> String {
    let LockError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::TooFewReplicas, "{error}");
    reason.to_string()
}

#[tokio::test]
async fn with_too_few_replicas_a_lock_is_unavailable_and_nothing_is_left() {
    let all = Sentinels::start_small().await;
    let manager = confirmed(&all, 2).await;
    let lock = manager.lock("order:42").wait(Duration::from_secs(5));
    let error = soon(lock.acquire()).await.unwrap_err();
    let text = too_few(&error);
    let expected = "1 of 2 replicas confirmed within 1.5s; check the server's replicas";
    assert!(text.starts_with(expected), "{text}");
    assert!(error.retry_after().is_some(), "they may come back");
    let nothing_is_left =
        async || manager.active_keys() == 0 && all.servers()[0].keys("dlock:{*").await.is_empty();
    eventually(LONG, "nothing is left", nothing_is_left).await;
    let error = soon(manager.lock("order:42").try_acquire()).await;
    too_few(&error.unwrap_err());
    eventually(LONG, "nothing is left", nothing_is_left).await;
}

#[tokio::test]
async fn a_lock_waits_for_a_replica_that_comes_back() {
    let all = Sentinels::start_small().await;
    let manager = confirmed(&all, 1).await;
    let [master, replica] = all.servers() else {
        panic!("there are two");
    };
    replica.pause();
    let waits = master.command_count("wait").await;
    let waiting = tokio::spawn(manager.lock("order:42").wait(Wait::Forever).acquire());
    eventually(LONG, "it has asked for a confirmation twice", async || {
        master.command_count("wait").await >= waits + 2
    })
    .await;
    assert!(!waiting.is_finished());
    replica.resume();
    let guard = soon(waiting).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
}

/// Nobody else may be told that it is free, whatever the promoted replica had heard.
#[tokio::test]
async fn a_lease_outlives_a_fail_over_right_after_it_was_got() {
    let all = Sentinels::start_small().await;
    let holder = confirmed(&all, 1).await;
    // The new master has no replica, so this one asks for none.
    let other = manager_with(&all, |it| it.ttl(Duration::from_secs(20))).await;
    let first = all.master().await;
    let lock = holder.lock("order:42").ttl(Duration::from_secs(60));
    let guard = soon(lock.acquire()).await.unwrap();
    first.kill();
    let second = all.master_after(first).await;
    // It is at the new master before it asks for what is held there.
    let elsewhere = other.lock("order:43").acquire().await.unwrap();
    soon(elsewhere.release()).await.unwrap();
    let refused = other
        .lock("order:42")
        .wait(Duration::from_secs(3))
        .acquire()
        .await;
    assert!(
        matches!(refused, Err(LockError::Busy { .. })),
        "broken promise: two hold the key: {refused:?}"
    );
    assert_eq!(second.keys(LOCK).await.len(), 1);
    assert!(!guard.is_lost());
    let token = guard.fencing_token();
    // It would say so if the lease had not been there.
    soon(guard.release()).await.unwrap();
    let next = soon(other.lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_no_replica_confirms_does_not_count() {
    let all = Sentinels::start_small().await;
    let manager = manager_with(&all, |it| it.min_replicas(1)).await;
    let lock = manager.lock("order:42").ttl(Duration::from_secs(3));
    let guard = soon(lock.acquire()).await.unwrap();
    all.servers()[1].pause();
    let told = soon(guard.run_while_held(std::future::pending::<()>())).await;
    let unconfirmed = |cause: &LostCause| match cause {
        LostCause::NotRenewed { reason } => reason.kind() == StoreErrorKind::TooFewReplicas,
        _ => false,
    };
    assert!(is_lost(&told, unconfirmed), "{told:?}");
    all.servers()[1].resume();
}

/// The hint comes, and is not believed: who was handed the lease asks, and is confirmed.
#[tokio::test]
async fn a_lease_that_is_handed_on_is_confirmed_too() {
    let all = Sentinels::start_small().await;
    let managers = [confirmed(&all, 1).await, confirmed(&all, 1).await];
    let [master, replica] = all.servers() else {
        panic!("there are two");
    };
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    let waiting = tokio::spawn(managers[1].lock("order:42").wait(Wait::Forever).acquire());
    let queue = format!("{LOCK}:q");
    eventually(LONG, "it waits", async || {
        master.keys(&queue).await.len() == 1
    })
    .await;
    replica.pause();
    let waits = master.command_count("wait").await;
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    eventually(LONG, "it is asked whether replicas know", async || {
        master.command_count("wait").await >= waits + 2
    })
    .await;
    assert!(!waiting.is_finished(), "no replica knows of its lease");
    replica.resume();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

#[tokio::test]
async fn many_leases_are_confirmed_by_few_waits() {
    const LOCKS: u64 = 200;
    let all = Sentinels::start_small().await;
    let manager = confirmed(&all, 1).await;
    let master = &all.servers()[0];
    let before = master.command_count("wait").await;
    let acquired = (0..LOCKS).map(|id| manager.lock(format!("order:{id}")).acquire());
    let guards = soon(futures_util::future::join_all(acquired)).await;
    let waits = master.command_count("wait").await - before;
    println!("{LOCKS} leases were confirmed by {waits} times WAIT");
    assert!((1..=LOCKS / 4).contains(&waits), "{waits}");
    for guard in guards {
        soon(guard.unwrap().release()).await.unwrap();
    }
}

/// However they are sent: alone, together, or as the raise of a fence.
#[tokio::test]
async fn no_renewal_and_no_raise_counts_that_no_replica_has_confirmed() {
    let server = RedisServer::start().await;
    let config = |min_replicas| {
        let config = RedisConfig::new(server.url()).response_timeout(ANSWER);
        config.min_replicas(min_replicas)
    };
    let connect = async |replicas| RedisStore::connect(config(replicas)).await.unwrap();
    let confirmed = connect(1).await;
    let owner = OneKey::<RedisStore>::owner();
    let (mut keys, mut fences) = (Vec::new(), Vec::new());
    for key in ["a", "b", "c"] {
        let key = OneKey::new(connect(0).await, key);
        fences.push(key.granted(owner, LONG).await);
        keys.push(key);
    }
    let renewals: Vec<_> = keys.iter().map(|key| key.renewal(owner)).collect();
    let is_refused = |error: StoreError| {
        assert_eq!(error.kind(), StoreErrorKind::TooFewReplicas, "{error}");
    };
    for together in 1..=keys.len() {
        let answers =
            soon(confirmed.renew(RenewBatch::new(&renewals[..together]).limit(LONG))).await;
        assert_eq!(answers.len(), together);
        for answer in answers {
            is_refused(answer.expect_err("there is no replica"));
        }
    }
    is_refused(soon(confirmed.renew_one(renewals[0])).await.unwrap_err());
    let (key, fence) = (&keys[0].key, fences[0]);
    let raised = soon(confirmed.raise(RaiseRequest::new(key, owner, fence, fence + 1))).await;
    is_refused(raised.unwrap_err());
    // The same without replicas, as nobody asks for any.
    let answers = soon(keys[0].store.renew(RenewBatch::new(&renewals).limit(LONG))).await;
    assert_eq!(answers, [(); 3].map(|()| Ok(Renewal::Renewed)));
}

#[tokio::test]
async fn the_right_to_wait_is_asked_for_at_once() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let rights = "on >secret resetkeys ~dlock:* resetchannels &dlock:wake:* -@all +hello +ping \
                  +eval +evalsha +subscribe +publish +time +exists +get +getex +set +del +pexpire \
                  +pttl +zadd +zrange +zrank +zrem +zscore";
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("app");
    set.arg(rights.split(' ').collect::<Vec<_>>());
    set.query_async::<()>(&mut connection).await.unwrap();
    let url = format!(
        "redis://app:secret@127.0.0.1:{}?min_replicas=1",
        server.port()
    );
    let error = soon(LockManager::connect(&url)).await.unwrap_err();
    let ConnectError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("`WAIT`"), "{error}");

    redis::cmd("ACL")
        .arg(&["SETUSER", "app", "+wait"])
        .query_async::<()>(&mut connection)
        .await
        .unwrap();
    let patient = LockManager::builder().response_timeout(ANSWER);
    let manager = soon(patient.connect(&url)).await.unwrap();
    let error = soon(manager.lock("order:42").try_acquire()).await;
    let text = too_few(&error.unwrap_err());
    assert!(text.starts_with("0 of 1 replicas"), "{text}");
}

#[tokio::test]
async fn a_server_that_cannot_wait_for_replicas_is_told_of() {
    let server = RedisServer::start_with(&["--rename-command", "WAIT", ""]).await;
    let url = format!("{}?min_replicas=1", server.url());
    let error = soon(LockManager::connect(&url)).await.unwrap_err();
    let ConnectError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("`WAIT`"), "{error}");

    let lazy = LockManager::builder().connect_lazy(&url).unwrap();
    let error = soon(lazy.lock("order:42").acquire()).await.unwrap_err();
    let LockError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Unsupported, "{error}");
    eventually(LONG, "nothing is left", async || {
        lazy.active_keys() == 0 && server.keys("dlock:{*").await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_server_that_forgot_its_scripts_is_taught_them_again() {
    let all = Sentinels::start_small().await;
    let manager = confirmed(&all, 1).await;
    let mut connection = all.servers()[0].connection().await;
    for _ in 0..2 {
        redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async::<()>(&mut connection)
            .await
            .unwrap();
        let locks = ["order:1", "order:2", "order:3"].map(|key| manager.lock(key).acquire());
        for guard in soon(futures_util::future::join_all(locks)).await {
            soon(guard.unwrap().release()).await.unwrap();
        }
    }
}

/// The one replica has confirmed every lease, so whoever is told by the next master that the lock is
/// free is told the truth.
async fn sections_do_not_overlap(break_down: impl AsyncFnOnce(&Sentinels)) {
    let all = Sentinels::start_small().await;
    let spans = Arc::new(Mutex::new(Vec::new()));
    let (stop, stopped) = watch::channel(false);
    let mut running = JoinSet::new();
    for _ in 0..3 {
        // No lease ends during a fail-over: a body that has not noticed yet would seem to be a second one.
        let ttl = Duration::from_secs(30);
        let manager = manager_with(&all, |it| it.min_replicas(1).ttl(ttl)).await;
        let (spans, stopped) = (spans.clone(), stopped.clone());
        running.spawn(async move {
            while !*stopped.borrow() {
                let body = manager.lock("order:42").run(async |lease| {
                    let _span = Span {
                        spans: spans.clone(),
                        token: lease.fencing_token(),
                        entered: Instant::now(),
                    };
                    tokio::time::sleep(Duration::from_millis(20)).await;
                });
                match body.await {
                    Ok(()) | Err(LockError::Lost { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    let sections = |after: Instant| {
        let spans = spans.lock().unwrap();
        spans
            .iter()
            .filter(|(_, entered, _)| *entered > after)
            .count()
    };
    let started = Instant::now();
    eventually(LONG, "all are at work", async || sections(started) > 20).await;
    let broken = Instant::now();
    break_down(&all).await;
    let whole = Instant::now();
    eventually(LONG, "all are at work again", async || sections(whole) > 20).await;
    stop.send(true).unwrap();
    while let Some(ended) = soon(running.join_next()).await {
        ended.unwrap();
    }
    let mut spans = spans.lock().unwrap();
    spans.sort_by_key(|(_, entered, _)| *entered);
    for pair in spans.windows(2) {
        let [(token, _, left), (next, entered, _)] = pair else {
            unreachable!()
        };
        assert!(token < next, "broken promise: the token did not grow");
        assert!(
            left <= entered,
            "broken promise: two sections at the same time"
        );
    }
    let gaps = spans.windows(2).map(|pair| pair[1].1 - pair[0].2);
    println!(
        "with min_replicas: whole again after {:.1?}, no section for {:.1?}",
        whole - broken,
        gaps.max().unwrap()
    );
}

type Spans = Vec<(dlock::FencingToken, Instant, Instant)>;

/// A section from its first step until it ends or is dropped.
struct Span {
    spans: Arc<Mutex<Spans>>,
    token: dlock::FencingToken,
    entered: Instant,
}

impl Drop for Span {
    fn drop(&mut self) {
        let span = (self.token, self.entered, Instant::now());
        self.spans.lock().unwrap().push(span);
    }
}

#[tokio::test]
async fn sections_do_not_overlap_when_the_master_is_killed() {
    sections_do_not_overlap(async |all| {
        let first = all.master().await;
        first.kill();
        all.master_after(first).await;
        // Empty, and for a while it may take itself for the master.
        first.restart().await;
        all.until_in_sync(&[first]).await;
    })
    .await;
}

#[tokio::test]
async fn sections_do_not_overlap_when_the_master_stands_still() {
    sections_do_not_overlap(async |all| {
        let first = all.master().await;
        first.pause();
        all.master_after(first).await;
        first.resume();
        all.until_in_sync(&[first]).await;
    })
    .await;
}
