//! A reading that panics, and one whose runtime ends.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

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
    },
    *,
};
use crate::{
    admin::{Inspecting, LockInfo, Overview, ServerReport, Unlocked},
    key::LockKey,
};

/// A store without locks, of which some readings panic.
#[derive(Default)]
struct Broken {
    readings: AtomicUsize,
    of_one: AtomicUsize,
    /// The reading of all locks, and that of one, which panics.
    panics: Option<[usize; 2]>,
    servers: AtomicUsize,
}

impl Inspect for Broken {
    fn locks<'a>(
        &'a self,
        _: Option<&'a str>,
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn locks_of<'a>(
        &'a self,
        _: &'a [LockKey],
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn lock<'a>(&'a self, _: &'a LockKey) -> Inspecting<'a, Result<Option<LockInfo>, StoreError>> {
        Box::pin(async {
            let number = self.of_one.fetch_add(1, SeqCst);
            assert!(
                self.panics.is_none_or(|it| it[1] != number),
                "a mistake of this store"
            );
            Ok(None)
        })
    }

    fn overview(&self) -> Inspecting<'_, Result<Overview, StoreError>> {
        Box::pin(async {
            let number = self.readings.fetch_add(1, SeqCst);
            assert!(
                self.panics.is_none_or(|it| it[0] != number),
                "a mistake of this store"
            );
            Ok(Overview::default())
        })
    }

    fn unlock<'a>(
        &'a self,
        _: &'a LockInfo,
        _: Option<OwnerId>,
    ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
        Box::pin(async { Ok(Unlocked::Changed) })
    }

    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
        self.servers.fetch_add(1, SeqCst);
        Box::pin(async { vec![ServerReport::new("redis://h:1")] })
    }

    fn progress(&self) -> Option<f64> {
        None
    }

    fn lift_limit(&self) {}
}

fn room(store: Arc<Broken>) -> Arc<Room> {
    let desk = Desk::new(Source::Connected(store), None, Duration::from_secs(2));
    Arc::new(Room {
        desk: Arc::new(desk),
        looks: Looks::default(),
        examination: Examination::of(None),
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
    let store = Arc::new(Broken {
        panics: Some([2, usize::MAX]),
        ..Broken::default()
    });
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
    assert!(store.readings.load(SeqCst) >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_reading_of_one_lock_that_panics_is_replaced() {
    let store = Arc::new(Broken {
        panics: Some([usize::MAX, 3]),
        ..Broken::default()
    });
    let key = LockKey::new("k").unwrap();
    let mut one = One::new(room(store.clone()), key).expect("there is room");
    let mut states = Vec::new();
    while store.of_one.load(SeqCst) < 10 {
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
    let store = Arc::new(Broken::default());
    let room = room(store.clone());
    let first = runtime();
    let (_looker, mut shown) = first.block_on(async {
        let (looker, mut shown) = room.desk.look();
        let live = shown.wait_for(|shown| matches!(shown.state, State::Live));
        drop(live.await.unwrap());
        (looker, shown)
    });
    let second = runtime();
    let mut list = second.block_on(async { List::new(room.clone(), Query::read("").unwrap()) });
    drop(first);
    assert!(matches!(
        shown.borrow_and_update().state,
        State::Away { .. }
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
    let store = Arc::new(Broken::default());
    let room = room(store.clone());
    let examined = async || {
        let before = store.servers.load(SeqCst);
        let shown = room.desk.shown();
        let text = room.examination.document(&room.desk, &shown);
        let told: serde_json::Value = serde_json::from_str(&text.await).unwrap();
        (
            told["age_ms"].as_u64().unwrap(),
            store.servers.load(SeqCst) > before,
        )
    };
    // There is no picture yet.
    assert!(examined().await.1);
    sleep(Duration::from_secs(2)).await;
    assert!(examined().await.1, "it was not complete");
    let (_looker, mut shown) = room.desk.look();
    let live = shown.wait_for(|shown| matches!(shown.state, State::Live));
    drop(live.await.unwrap());
    sleep(Duration::from_secs(2)).await;
    assert!(examined().await.1);
    sleep(Duration::from_secs(7)).await;
    let (age_ms, is_new) = examined().await;
    assert!((7000..9000).contains(&age_ms) && !is_new, "{age_ms}");
    sleep(Duration::from_secs(4)).await;
    assert!(examined().await.1);
}
