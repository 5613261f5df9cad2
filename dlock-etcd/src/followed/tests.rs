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
    all.note_rests(&[(SHARED, Duration::from_secs(9))], now);
    assert_eq!(all.unknown_rests(later(8)), [0; 0]);
    assert_eq!(all.unknown_rests(later(10)), [SHARED]);
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
