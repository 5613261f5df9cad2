//! A reading that panics, and one whose runtime ends.

use std::sync::atomic::Ordering::SeqCst;

use dlock_runtime::LockKey;
use futures_util::FutureExt as _;

use super::{
    super::{
        events::{Feed as _, Streams},
        examine::Examination,
        feeds::{List, One},
        hosts::Hosts,
        looks::Looks,
        query::Query,
        room::Room,
        tests::fake::Fake,
    },
    *,
};

fn room(store: Arc<Fake>) -> Arc<Room> {
    let desk = Desk::new(
        InspectorSource::Connected(store),
        None,
        Duration::from_secs(2),
    );
    Arc::new(Room {
        desk: Arc::new(desk),
        looks: Looks::default(),
        examination: Examination::by(None),
        streams: Streams::default(),
        hosts: Hosts::default(),
        token: None,
        end: None,
    })
}

fn state_of(document: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    document["picture"]["state"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_panics_is_shown_and_replaced() {
    let store = Fake::that_panics([Some(2), None]);
    let room = room(store.clone());
    let mut list = List::new(room.clone(), Query::read("").unwrap());
    let mut states: Vec<String> = Vec::new();
    while states.iter().filter(|it| *it == "live").count() < 2 {
        let state = state_of(&list.document().await);
        if states.last() != Some(&state) {
            states.push(state);
        }
        assert!(list.changed().await);
    }
    assert_eq!(
        states,
        ["reading", "live", "away", "live"],
        "the picture stays"
    );
    assert!(store.looks.load(SeqCst) >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_reading_of_one_lock_that_panics_is_replaced() {
    let store = Fake::that_panics([None, Some(3)]);
    let key = LockKey::new("k").unwrap();
    let mut one = One::new(room(store.clone()), key).expect("there is room");
    let mut states = Vec::new();
    while store.looks_at_one.load(SeqCst) < 10 {
        let state = state_of(&one.document().await);
        if states.last() != Some(&state) {
            states.push(state);
        }
        assert!(one.changed().await);
    }
    assert_eq!(states, ["reading", "live", "away", "live"]);
}

#[test]
fn a_reading_whose_runtime_has_ended_is_shown_and_replaced() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    };
    let store = Fake::with(Vec::new());
    let room = room(store.clone());
    let first = runtime();
    let (_looker, mut shown) = first.block_on(async {
        let (looker, mut shown) = room.desk.look();
        let live = shown.wait_for(|shown| matches!(shown.state, DeskState::Live));
        drop(live.await.unwrap());
        (looker, shown)
    });
    let second = runtime();
    let mut list = second.block_on(async { List::new(room.clone(), Query::read("").unwrap()) });
    drop(first);
    assert!(matches!(
        shown.borrow_and_update().state,
        DeskState::Away { .. }
    ));
    second.block_on(async {
        while state_of(&list.document().await) != "live" {
            let changed = tokio::time::timeout(Duration::from_secs(60), list.changed());
            assert!(changed.await.expect("it goes on"));
        }
    });
    assert!(list.changed().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn findings_have_their_age_and_those_of_a_failure_are_not_kept() {
    let store = Fake::with(Vec::new());
    let room = room(store.clone());
    let examined = async || {
        let before = store.reports.load(SeqCst);
        let shown = room.desk.shown();
        let text = room.examination.document(&room.desk, &shown);
        let told: serde_json::Value = serde_json::from_str(&text.await).unwrap();
        (
            told["age_ms"].as_u64().unwrap(),
            store.reports.load(SeqCst) > before,
        )
    };
    // There is no picture yet.
    assert!(examined().await.1);
    sleep(Duration::from_secs(2)).await;
    assert!(examined().await.1, "it was not complete");
    let (_looker, mut shown) = room.desk.look();
    let live = shown.wait_for(|shown| matches!(shown.state, DeskState::Live));
    drop(live.await.unwrap());
    sleep(Duration::from_secs(2)).await;
    assert!(examined().await.1);
    sleep(Duration::from_secs(7)).await;
    let (age_ms, is_new) = examined().await;
    assert!((7000..9000).contains(&age_ms) && !is_new, "{age_ms}");
    sleep(Duration::from_secs(4)).await;
    assert!(examined().await.1);
}
