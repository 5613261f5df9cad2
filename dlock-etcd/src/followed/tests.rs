//! Tests of one key that is followed, without a server.

use dlock_runtime::{
    clock::{Clock, SystemClock},
    random::SystemRandom,
    store::ClientId,
};

use super::*;
use crate::{
    keys::Value,
    leases::Lease,
    proto::{Event, KeyValue},
};

const NAMESPACE: &str = "n";
const KEY: &str = "order:42";
const SHARED: i64 = 7;

fn owners() -> [OwnerId; 2] {
    let client = ClientId::new(&SystemRandom);
    [OwnerId::new(client, 1), OwnerId::new(client, 2)]
}

fn claim(owner: OwnerId, create: i64) -> KeyValue {
    let value = Value::plain(100, keys::Stage::waits_now(None));
    KeyValue {
        key: keys::claim(NAMESPACE, KEY, owner),
        create_revision: create,
        mod_revision: create,
        value: value.to_bytes(),
        lease: SHARED,
    }
}

fn put(kv: KeyValue) -> Event {
    Event {
        kind: EventType::Put as i32,
        kv: Some(kv),
    }
}

fn deleted(owner: OwnerId, revision: i64) -> Event {
    let kv = KeyValue {
        key: keys::claim(NAMESPACE, KEY, owner),
        mod_revision: revision,
        ..KeyValue::default()
    };
    Event {
        kind: EventType::Delete as i32,
        kv: Some(kv),
    }
}

fn events(events: Vec<Event>) -> WatchResponse {
    WatchResponse {
        events,
        ..WatchResponse::default()
    }
}

/// The claims of two owners, the second of which waits.
fn followed([first, second]: [OwnerId; 2]) -> Followed {
    let queue = Queue::read(&[claim(first, 4), claim(second, 5)]);
    let now = SystemClock.now();
    let mut followed = Followed::new((queue, 5), now);
    let handle = tokio::spawn(async {}).abort_handle();
    followed.task = Some(Task { number: 0, handle });
    followed.ask(second, SHARED, now);
    followed
}

fn place(create: i64) -> Place {
    let lease = Lease {
        id: SHARED,
        seconds: 5,
        is_shared: true,
        conn: 0,
    };
    Place {
        create,
        base: 100,
        mode: LockMode::Exclusive,
        lease,
        held: None,
        label: None,
        function: None,
        since: SystemClock.now(),
    }
}

fn view(followed: &Followed, owner: OwnerId, create: i64) -> View {
    let name = keys::claim(NAMESPACE, KEY, owner);
    let now = SystemClock.now();
    followed.view(&name, &place(create), LockMode::Exclusive, now)
}

fn told(followed: &mut Followed) -> Vec<(OwnerId, u64)> {
    let news = followed.news(NAMESPACE, KEY, false);
    news.into_iter().map(|it| (it.owner, it.fence)).collect()
}

#[tokio::test]
async fn a_waiter_is_told_once_and_asks_while_the_database_is_full() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    assert!(told(&mut all).is_empty());
    assert!(
        matches!(view(&all, second, 5), View::Waits { holder, .. } if holder.position == Some(0))
    );
    all.apply(&events(vec![deleted(first, 6)]));
    assert!(!all.has_told_all(NAMESPACE, KEY));
    assert_eq!(told(&mut all), [(second, 105)]);
    assert!(all.has_told_all(NAMESPACE, KEY));
    assert!(told(&mut all).is_empty());
    assert!(matches!(view(&all, second, 5), View::Changed), "it holds");

    let mut all = followed([first, second]);
    all.apply(&events(vec![deleted(first, 6)]));
    assert_eq!(all.news(NAMESPACE, KEY, true)[0].fence, 0);

    let mut all = followed([first, second]);
    all.quit(second);
    all.apply(&events(vec![deleted(first, 6)]));
    assert!(told(&mut all).is_empty(), "it is leaving");
}

#[tokio::test]
async fn a_claim_is_seen_to_hold_when_it_is_the_first() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let name = keys::claim(NAMESPACE, KEY, second);
    assert!(!all.has_seen_held(&name, 5), "it waits");
    all.apply(&events(vec![deleted(first, 6)]));
    assert!(all.has_seen_held(&name, 5));
    assert!(!all.has_seen_held(&name, 4), "that was an earlier claim");
}

/// An answer that is read late, and the first one after a restore, look alike.
#[tokio::test]
async fn an_older_queue_replaces_none_and_has_the_queue_read_before_a_watch() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    all.apply(&events(vec![deleted(first, 6)]));
    let older = Queue::read(&[claim(first, 4), claim(second, 5)]);
    all.read(older.clone(), 5, SystemClock.now());
    assert!(all.has_seen_held(&keys::claim(NAMESPACE, KEY, second), 5));
    assert!(all.is_ahead(5) && !all.is_ahead(6));
    all.wrote(8);
    assert!(all.is_ahead(7) && !all.is_ahead(8));

    // A restore. The claim has been told, and waits again.
    assert_eq!(told(&mut all), [(second, 105)]);
    all.begin_again(older, 5, SystemClock.now());
    assert!(!all.has_told_all(NAMESPACE, KEY));
    assert!(matches!(view(&all, second, 5), View::Waits { .. }));
    all.stop();
    assert!(
        matches!(view(&all, second, 5), View::Changed),
        "no watch says that it waits still"
    );
}

#[tokio::test]
async fn an_event_that_is_older_than_a_read_is_left_out() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let now = SystemClock.now();
    // The first has left and come back, behind the second; then the second was created again, behind the first.
    let queue = Queue::read(&[claim(first, 7), claim(second, 9)]);
    all.read(queue, 9, now);
    all.apply(&events(vec![
        deleted(first, 6),
        put(claim(first, 7)),
        deleted(second, 8),
        put(claim(second, 9)),
    ]));
    assert!(told(&mut all).is_empty());
    assert!(matches!(view(&all, second, 9), View::Waits { .. }));
    assert!(
        matches!(view(&all, second, 5), View::Changed),
        "another key"
    );
    // Nor does an old read undo an event.
    all.apply(&events(vec![deleted(first, 10)]));
    all.read(Queue::read(&[claim(first, 7), claim(second, 9)]), 9, now);
    assert_eq!(told(&mut all), [(second, 109)]);
    // A restored snapshot has smaller revisions.
    all.begin_again(Queue::read(&[claim(first, 3)]), 3, now);
    assert_eq!(all.revision(), 3);
}

#[tokio::test]
async fn a_change_of_this_process_is_waited_for() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    all.wrote(6);
    assert!(matches!(view(&all, second, 5), View::IsBehind));
    all.apply(&events(vec![deleted(first, 6)]));
    assert!(matches!(view(&all, second, 5), View::Changed));
    // The key of the second is gone, so it waits no more.
    all.apply(&events(vec![deleted(second, 7)]));
    assert!(all.is_empty());
}

#[tokio::test]
async fn rests_are_asked_for_by_one_and_run_out() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let now = SystemClock.now();
    let later = |seconds| now.plus(Duration::from_secs(seconds));
    assert_eq!(all.unknown_rests(now), [SHARED]);
    assert_eq!(all.unknown_rests(now), [0; 0], "another caller asks");
    let millis = |millis| now.plus(Duration::from_millis(millis));
    assert_eq!(all.unknown_rests(millis(1000)), [0; 0], "it may be late");
    assert_eq!(all.unknown_rests(millis(1001)), [SHARED], "it has failed");
    all.note_rests(&[(SHARED, Duration::from_secs(9))], now);
    assert_eq!(all.unknown_rests(later(8)), [0; 0]);
    assert_eq!(all.unknown_rests(later(9)), [SHARED]);
    all.note_rests(&[(SHARED, Duration::from_millis(500))], now);
    assert_eq!(all.unknown_rests(millis(700)), [0; 0], "once each second");
    // That of a lease without a holder is not kept.
    all.note_rests(&[(SHARED, Duration::from_secs(9))], now);
    all.begin_again(Queue::default(), 6, now);
    assert_eq!(all.unknown_rests(now), [0; 0]);
    all.begin_again(Queue::read(&[claim(first, 4)]), 7, now);
    assert_eq!(all.unknown_rests(now), [SHARED]);
}

#[tokio::test]
async fn the_rest_of_a_lease_runs_out_while_its_waiters_wait() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let now = SystemClock.now();
    all.note_rests(&[(SHARED, Duration::from_secs(2))], now);
    let name = keys::claim(NAMESPACE, KEY, second);
    for (seconds, expected) in [(0, Some(2)), (1, Some(1)), (2, None), (3, None)] {
        let at = now.plus(Duration::from_secs(seconds));
        let View::Waits { holder, .. } = all.view(&name, &place(5), LockMode::Exclusive, at) else {
            panic!("the second waits");
        };
        assert_eq!(holder.ttl, expected.map(Duration::from_secs), "{seconds}");
    }
}

#[tokio::test]
async fn a_place_with_another_lease_is_looked_at_again() {
    let [first, second] = owners();
    let all = followed([first, second]);
    let name = keys::claim(NAMESPACE, KEY, second);
    let mut other = place(5);
    other.lease.id += 1;
    let view = all.view(&name, &other, LockMode::Exclusive, SystemClock.now());
    assert!(matches!(view, View::Changed));
}

#[tokio::test]
async fn a_waiter_that_joins_others_asks() {
    let [first, second] = owners();
    let shared = |owner, create| {
        let value = Value {
            mode: LockMode::Shared,
            ..Value::plain(100, keys::Stage::waits_now(None))
        };
        let value = value.to_bytes();
        KeyValue {
            value,
            ..claim(owner, create)
        }
    };
    let now = SystemClock.now();
    let mut all = followed([first, second]);
    all.begin_again(Queue::read(&[shared(first, 4), shared(second, 5)]), 6, now);
    assert_eq!(told(&mut all), [(second, 0)], "it has to write the epoch");
}

#[tokio::test]
async fn a_waiter_has_the_lease_of_its_last_request() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    assert_eq!(all.lease_of(second), Some(SHARED));
    all.ask(second, SHARED + 1, SystemClock.now());
    assert_eq!(all.lease_of(second), Some(SHARED + 1));
    all.ask(first, SHARED, SystemClock.now());
    let mut leases: Vec<_> = all.leases().collect();
    leases.sort_unstable();
    assert_eq!(leases, [SHARED, SHARED + 1]);
    assert!(!all.has_quit(first) && !all.has_quit(second));
    all.remove(second);
    assert_eq!((all.lease_of(second), all.has_quit(second)), (None, false));
    all.remove(first);
    assert!(all.is_empty());
}

#[tokio::test]
async fn each_change_of_a_queue_wakes_its_waiters() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let now = SystemClock.now();
    let queue = Queue::read(&[claim(first, 4), claim(second, 5)]);
    let mut changes = all.changes();
    all.read(queue.clone(), 6, now);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    all.begin_again(queue, 7, now);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    all.apply(&events(vec![deleted(first, 8)]));
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn only_the_last_task_of_a_key_changes_its_queue() {
    let mut all = followed(owners());
    assert!(all.is_watched_by(0) && !all.is_watched_by(1));
    all.stop();
    assert!(!all.is_watched() && !all.is_watched_by(0));
    let task = tokio::spawn(std::future::pending::<()>());
    let handle = task.abort_handle();
    all.task = Some(Task { number: 1, handle });
    assert!(all.is_watched_by(1) && !all.is_watched_by(0));
    all.stop();
    assert!(task.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn events_of_keys_without_an_owner_remove_no_waiter() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let mut unnamed = deleted(second, 6);
    unnamed.kv.as_mut().unwrap().key = b"n/order:42/by-hand".to_vec();
    let empty = Event {
        kv: None,
        ..deleted(second, 7)
    };
    all.apply(&events(vec![unnamed, empty, put(claim(second, 5))]));
    assert_eq!((all.lease_of(second), all.revision()), (Some(SHARED), 6));
    // Of several events, the last one counts, in whatever order they come.
    all.apply(&events(vec![deleted(first, 9), deleted(second, 8)]));
    assert_eq!(all.revision(), 9);
}

#[tokio::test]
async fn a_waiter_is_silent_when_it_has_not_asked_for_long() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let now = SystemClock.now();
    let limit = Duration::from_secs(4);
    let silent = |all: &Followed, seconds| {
        let now = now.plus(Duration::from_secs(seconds));
        all.silent(now, limit).collect::<Vec<_>>()
    };
    assert_eq!(silent(&all, 3), []);
    assert_eq!(silent(&all, 5), [second]);
    all.ask(second, SHARED, now.plus(Duration::from_secs(3)));
    assert_eq!(silent(&all, 5), []);
    all.quit(second);
    assert_eq!(silent(&all, 0), [second]);
}

#[tokio::test]
async fn a_waiter_that_asks_without_a_connection_is_not_silent() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let now = SystemClock.now();
    let later = |seconds| now.plus(Duration::from_secs(seconds));
    let silent = |all: &Followed| {
        let limit = Duration::from_secs(4);
        all.silent(later(5), limit).collect::<Vec<_>>()
    };
    all.ask_again(second, later(3));
    assert_eq!(silent(&all), []);
    all.ask_again(first, later(3));
    assert_eq!(all.lease_of(first), None, "it does not wait");
    // A release is not undone by a request that was on its way.
    all.quit(second);
    all.ask_again(second, later(4));
    assert!(all.has_quit(second));
    assert_eq!(silent(&all), [second]);
}

#[tokio::test]
async fn a_read_that_is_older_than_an_event_still_says_that_the_queue_is_known() {
    let [first, second] = owners();
    let mut all = followed([first, second]);
    let later = SystemClock.now().plus(Duration::from_secs(1));
    let mut renewed = claim(first, 4);
    renewed.mod_revision = 9;
    all.apply(&events(vec![put(renewed)]));
    all.read(Queue::read(&[claim(first, 4), claim(second, 5)]), 8, later);
    let View::Waits { seen, .. } = view(&all, second, 5) else {
        panic!("the second waits");
    };
    assert_eq!(seen, later);
    assert_eq!(all.revision(), 9);
}
