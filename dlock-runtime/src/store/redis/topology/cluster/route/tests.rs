//! Tests with nodes that redirect requests or never answer, with a timing that real nodes cannot provide.

mod maps;

use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{
        AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal,
        redis::{
            RedisConfig, RedisStore,
            fake::{Fake, courtesy},
        },
    },
};

/// Longer than anything here takes on a busy machine, unless there is no answer.
const LONG: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(60);

/// The answer of a node to a script for one of the keys, or `None` for no answer.
type Answer = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The scripts that nodes have received, by their keys, with the word before some of them and before the name of a
/// client.
type Seen = Arc<Mutex<Vec<String>>>;

/// Starts a node that reports `owner` as the owner of all slots.
async fn node(owner: &Arc<OnceLock<u16>>, seen: &Seen, answer: Arc<Answer>) -> Fake {
    let owner = owner.clone();
    let told = move || {
        let port = owner.get().expect("it is known before the first request");
        slots(&[(0, 16_383, *port)])
    };
    node_that_tells(told, seen, answer).await
}

/// Starts a node with this answer to `CLUSTER SLOTS`.
async fn node_that_tells(
    told: impl Fn() -> String + Send + Sync + 'static,
    seen: &Seen,
    answer: Arc<Answer>,
) -> Fake {
    let (told, seen) = (Arc::new(told), seen.clone());
    Fake::start(move |words| {
        let (told, seen, answer) = (told.clone(), seen.clone(), answer.clone());
        let note = move |what: &str| seen.lock().unwrap().push(what.to_owned());
        async move {
            match words[0].as_str() {
                "CLUSTER" => told(),
                // Without a key, it is a request of the connection itself.
                "EVALSHA" if words.len() > 3 => {
                    note(&words[3]);
                    match answer(&words[3]) {
                        Some(answer) => answer,
                        None => std::future::pending().await,
                    }
                }
                word => {
                    if matches!(word, "ASKING" | "CLIENT") {
                        note(word);
                    }
                    courtesy(&words)
                }
            }
        }
    })
    .await
}

/// Builds the answer to `CLUSTER SLOTS`: the first slot, the last slot, and the node that serves them.
fn slots(masters: &[(u16, u16, u16)]) -> String {
    let master = |(from, to, port): &(u16, u16, u16)| {
        format!("*3\r\n:{from}\r\n:{to}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
    };
    let told: String = masters.iter().map(master).collect();
    format!("*{}\r\n{told}", masters.len())
}

fn config_at(port: u16, response_timeout: Duration) -> RedisConfig {
    RedisConfig {
        response_timeout,
        connect_timeout: LONG,
        ..RedisConfig::new(format!("redis-cluster://127.0.0.1:{port}"))
    }
}

async fn store_at(port: u16, response_timeout: Duration) -> RedisStore {
    let config = config_at(port, response_timeout);
    RedisStore::connect(config).await.unwrap()
}

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

fn renewals(keys: &[LockKey], owner: OwnerId) -> Vec<RenewRequest<'_>> {
    let renewal = |key| RenewRequest::new(key, owner, TTL);
    keys.iter().map(renewal).collect()
}

fn keys(names: &[&str]) -> Vec<LockKey> {
    let key = |name: &&str| LockKey::new(*name).unwrap();
    names.iter().map(key).collect()
}

/// If the request counted as one that was never sent, nothing would be released.
#[tokio::test]
async fn a_request_without_an_answer_in_time_may_have_been_carried_out() {
    let port = Arc::new(OnceLock::new());
    let silent = node(&port, &Seen::default(), Arc::new(|_: &str| None)).await;
    port.set(silent.port).unwrap();
    // A machine that stands still for a second sends it in time.
    let limit = Duration::from_secs(2);
    let keys = keys(&["a", "b"]);

    let store = store_at(silent.port, limit).await;
    let asks = AcquireRequest::new(&keys[0], owner(), TTL);
    let error = store.acquire(asks).await.expect_err("no server answers");
    assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
    assert!(!error.left_nothing(), "{error}");

    // The same applies to requests that were sent together.
    let store = store_at(silent.port, limit).await;
    let renewals = renewals(&keys, owner());
    for answer in store.renew(RenewBatch::new(&renewals).limit(limit)).await {
        let error = answer.expect_err("no server answers");
        assert_eq!(error.kind(), StoreErrorKind::TimedOut, "{error}");
        assert!(!error.left_nothing(), "{error}");
    }
}

/// The node is known by its slots, but has not accepted a connection yet.
#[tokio::test]
async fn a_request_that_no_connection_took_was_never_sent() {
    let port = Arc::new(OnceLock::new());
    let closed = Fake::silent_at_first(usize::MAX, |words| async move { courtesy(&words) }).await;
    let open = node(&port, &Seen::default(), Arc::new(|_: &str| None)).await;
    port.set(closed.port).unwrap();
    let config = RedisConfig {
        response_timeout: Duration::from_millis(200),
        ..RedisConfig::new(format!("redis-cluster://127.0.0.1:{}", open.port))
    };
    let store = RedisStore::connect_lazy(config).unwrap();
    let keys = keys(&["a"]);
    for _ in 0..3 {
        let asks = AcquireRequest::new(&keys[0], owner(), TTL);
        let error = store.acquire(asks).await.expect_err("no server listens");
        assert!(error.left_nothing(), "{error}");
    }
}

/// The node reports why it refuses clients. The reason says nothing about the request.
#[tokio::test]
async fn a_request_to_a_node_that_refuses_the_connection_was_never_sent() {
    let port = Arc::new(OnceLock::new());
    let refusing = Fake::start(|words| async move {
        match words[0].as_str() {
            "ASKING" => "-NOPERM User me has no permissions to run the 'asking' command\r\n".into(),
            _ => courtesy(&words),
        }
    })
    .await;
    let open = node(&port, &Seen::default(), Arc::new(|_: &str| None)).await;
    port.set(refusing.port).unwrap();
    let store = RedisStore::connect_lazy(config_at(open.port, LONG)).unwrap();
    let keys = keys(&["a"]);
    let asks = AcquireRequest::new(&keys[0], owner(), TTL);
    let error = store.acquire(asks).await.expect_err("clients are refused");
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    assert!(error.left_nothing(), "{error}");
}

/// Of several requests to one node, each gets an answer; a redirected one continues alone.
#[tokio::test]
async fn renewals_that_go_together_follow_their_redirects_one_by_one() {
    let port = Arc::new(OnceLock::new());
    let [at_first, at_other] = [Seen::default(), Seen::default()];
    let is_mine = |key: &str| u8::from(key != "dlock:{gone}" && key != "dlock:{moved:gone}");
    let other = move |key: &str| Some(format!(":{}\r\n", is_mine(key)));
    let other = node(&port, &at_other, Arc::new(other)).await;
    let (elsewhere, again) = (other.port, AtomicUsize::new(0));
    let first = move |key: &str| {
        let place = format!("1 127.0.0.1:{elsewhere}");
        Some(match key {
            "dlock:{moved}" | "dlock:{moved:gone}" => format!("-MOVED {place}\r\n"),
            "dlock:{asked}" => format!("-ASK {place}\r\n"),
            "dlock:{again}" if again.fetch_add(1, Ordering::Relaxed) == 0 => {
                "-TRYAGAIN Multiple keys request during rehashing of slot\r\n".to_owned()
            }
            key => format!(":{}\r\n", is_mine(key)),
        })
    };
    let first = node(&port, &at_first, Arc::new(first)).await;
    port.set(first.port).unwrap();
    let store = store_at(first.port, LONG).await;
    let keys = keys(&["here", "moved", "gone", "asked", "again", "moved:gone"]);
    let renewals = renewals(&keys, owner());
    let answers = store.renew(RenewBatch::new(&renewals).limit(LONG)).await;
    let (mine, gone) = (Ok(Renewal::Renewed), Ok(Renewal::NotOwner));
    let expected = [&mine, &mine, &gone, &mine, &mine, &gone];
    assert_eq!(answers.iter().collect::<Vec<_>>(), expected);
    let [at_first, at_other] = [at_first, at_other].map(|seen| seen.lock().unwrap().clone());
    let times = |seen: &[String], key: &str| seen.iter().filter(|it| *it == key).count();
    assert_eq!(times(&at_first, "dlock:{here}"), 1, "{at_first:?}");
    assert_eq!(times(&at_first, "dlock:{again}"), 2, "{at_first:?}");
    assert_eq!(times(&at_other, "dlock:{moved}"), 1, "{at_other:?}");
    assert_eq!(times(&at_other, "dlock:{asked}"), 1, "{at_other:?}");
    let is_asked_as_after_ask = |key| at_other.windows(2).any(|it| it == ["ASKING", key]);
    assert!(is_asked_as_after_ask("dlock:{asked}"), "{at_other:?}");
    for owned in ["dlock:{moved}", "dlock:{moved:gone}"] {
        assert!(!is_asked_as_after_ask(owned), "{at_other:?}");
    }
}

/// Nodes that redirect a request back and forth have carried out nothing, and the error says so in time.
#[tokio::test]
async fn a_request_that_is_sent_in_circles_ends_in_time_and_has_done_nothing() {
    let port = Arc::new(OnceLock::new());
    let itself = port.clone();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let answer = move |_: &str| {
        count.fetch_add(1, Ordering::Relaxed);
        let port = itself.get().expect("it is known");
        Some(format!("-MOVED 1 127.0.0.1:{port}\r\n"))
    };
    let circling = node(&port, &Seen::default(), Arc::new(answer)).await;
    port.set(circling.port).unwrap();
    let limit = Duration::from_secs(4);
    let store = store_at(circling.port, limit).await;
    let keys = keys(&["a"]);
    let asks = AcquireRequest::new(&keys[0], owner(), TTL);
    let error = store.acquire(asks).await.expect_err("it goes in circles");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    assert!(error.left_nothing(), "{error}");
    // Four redirections in a row, then a pause, each longer than the previous one.
    let asked = asked.load(Ordering::Relaxed);
    assert!((5..=600).contains(&asked), "{asked}");
}

const TRY_AGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";

/// Returns the outcome of a release within `limit`, and the number of scripts that its node has received. The node answers
/// each by its number.
async fn release_at(
    answer: impl Fn(usize) -> &'static str + Send + Sync + 'static,
    limit: Duration,
) -> (Result<Released, StoreError>, usize) {
    let (port, number) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
    let next = number.clone();
    let answer = move |_: &str| Some(answer(next.fetch_add(1, Ordering::Relaxed)).to_owned());
    let moving = node(&port, &Seen::default(), Arc::new(answer)).await;
    port.set(moving.port).unwrap();
    let store = store_at(moving.port, limit).await;
    let keys = keys(&["a"]);
    let released = store.release(ReleaseRequest::new(&keys[0], owner())).await;
    (released, number.load(Ordering::Relaxed))
}

/// The lock itself is deleted wherever the other keys are. If it was not found, its owner may be in the queue.
#[tokio::test]
async fn a_release_that_has_found_no_lock_while_the_slot_moves_is_made_again() {
    let answer = |number: usize| match number {
        0 => TRY_AGAIN,
        1 => ":0\r\n",
        _ => ":2\r\n",
    };
    let all_then_the_lock_then_all = (Ok(Released::WasHeld), 3);
    assert_eq!(release_at(answer, LONG).await, all_then_the_lock_then_all);
}

/// The waiters need not wait until the slot has moved.
#[tokio::test]
async fn a_release_that_has_found_its_lock_while_the_slot_moves_is_over() {
    let answer = |number: usize| match number {
        0 => TRY_AGAIN,
        1 => ":1\r\n",
        _ => ":0\r\n",
    };
    let all_then_the_lock = (Ok(Released::WasHeld), 2);
    assert_eq!(release_at(answer, LONG).await, all_then_the_lock);
}

/// The lease is gone, and a place in the queue is skipped. The caller does not need an error for that.
#[tokio::test]
async fn a_release_that_finds_no_lock_is_over_although_the_slot_moves_for_longer() {
    let answer = |number: usize| {
        let is_for_all = number.is_multiple_of(2);
        if is_for_all { TRY_AGAIN } else { ":0\r\n" }
    };
    let (released, scripts) = release_at(answer, Duration::from_secs(4)).await;
    assert_eq!(released, Ok(Released::WasGone));
    assert!(scripts > 2, "it was made again before: {scripts}");
}
