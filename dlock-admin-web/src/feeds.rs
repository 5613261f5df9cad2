//! The documents of the list and of one lock, once and as they change.

use std::{sync::Arc, time::Duration};

use dlock_admin::view::LockView;
use dlock_runtime::LockKey;
use serde_json::json;
use tokio::{sync::watch, time::timeout};

use super::{
    attention::Looker,
    desk::{DeskState, Shown},
    events::Feed,
    looks::LookResult,
    moment,
    query::Query,
    reply,
    room::{Room, cannot},
};

/// The time for which a single request waits for the first picture.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns what is shown after the first picture, or soon.
pub(super) async fn shown(room: &Room) -> Shown {
    let (_looker, mut shown) = room.desk.look();
    first(&mut shown).await;
    shown.borrow().clone()
}

async fn first(shown: &mut watch::Receiver<Shown>) {
    let is_there = |shown: &Shown| !matches!(shown.state, DeskState::Reading(_));
    // A reading that takes longer is shown as such.
    drop(timeout(PATIENCE, shown.wait_for(is_there)).await);
}

/// The list of locks.
pub(super) struct List {
    room: Arc<Room>,
    query: Query,
    shown: watch::Receiver<Shown>,
    looker: Looker,
}

/// One lock.
pub(super) struct One {
    room: Arc<Room>,
    key: LockKey,
    shown: watch::Receiver<Shown>,
    seen: watch::Receiver<LookResult>,
    looker: Looker,
    of_lock: Looker,
}

impl List {
    pub(super) fn new(room: Arc<Room>, query: Query) -> Self {
        let (looker, shown) = room.desk.look();
        Self {
            room,
            query,
            shown,
            looker,
        }
    }

    /// Returns the document after the first picture, or soon.
    pub(super) async fn once(mut self) -> String {
        first(&mut self.shown).await;
        self.document().await
    }
}

impl Feed for List {
    const NAME: &'static str = "picture";

    async fn changed(&mut self) -> bool {
        loop {
            tokio::select! {
                changed = self.shown.changed() => return changed.is_ok(),
                () = self.looker.forsaken() => self.looker = self.room.desk.look().0,
                () = self.room.ended() => return false,
            }
        }
    }

    async fn document(&mut self) -> String {
        let shown = self.shown.borrow_and_update().clone();
        let count = shown.count();
        let (room, query) = (self.room.clone(), self.query.clone());
        let listing = move || room.listing(&shown, &query);
        self.room.desk.work.about(count, listing).await
    }
}

impl One {
    /// Returns `None` if too many locks are looked at.
    pub(super) fn new(room: Arc<Room>, key: LockKey) -> Option<Self> {
        let (looker, shown) = room.desk.look();
        let (of_lock, seen) = room.looks.look(&room.desk, &key)?;
        Some(Self {
            room,
            key,
            shown,
            seen,
            looker,
            of_lock,
        })
    }

    /// Returns the document after the first reading, or soon.
    pub(super) async fn once(mut self) -> String {
        let is_read = |known: &LookResult| known.seen.is_some() || known.failure.is_some();
        drop(timeout(PATIENCE, self.seen.wait_for(is_read)).await);
        self.document().await
    }
}

impl Feed for One {
    const NAME: &'static str = "lock";

    async fn changed(&mut self) -> bool {
        loop {
            tokio::select! {
                changed = self.seen.changed() => return changed.is_ok(),
                changed = self.shown.changed() => return changed.is_ok(),
                () = self.looker.forsaken() => self.looker = self.room.desk.look().0,
                () = self.of_lock.forsaken() => {
                    let Some(again) = self.room.looks.look(&self.room.desk, &self.key) else {
                        return false;
                    };
                    (self.of_lock, self.seen) = again;
                }
                () = self.room.ended() => return false,
            }
        }
    }

    async fn document(&mut self) -> String {
        let shown = self.shown.borrow_and_update().clone();
        let known = self.seen.borrow_and_update().clone();
        let count = shown.count();
        let (room, key) = (self.room.clone(), self.key.clone());
        // The history of one lock waits while all locks are compared.
        let document = move || document_of(&room, &key, &shown, &known);
        self.room.desk.work.about(count, document).await
    }
}

/// Returns the document of one lock.
fn document_of(room: &Room, key: &LockKey, shown: &Shown, known: &LookResult) -> String {
    let LookResult { seen, failure } = known;
    let taken = seen.as_ref().map(|seen| (seen.read_ms, seen.at));
    let mut picture = room.age(shown, taken);
    // The lock is read long before a picture of many locks, or cannot be read although others can.
    if let Some(failure) = failure {
        picture.state = "away";
        picture.reason = Some(failure);
    } else if !matches!(shown.state, DeskState::Away { .. }) {
        picture.state = if seen.is_some() { "live" } else { "reading" };
        picture.progress = None;
    }
    let lock = seen.as_ref().and_then(|seen| {
        let lock = seen.lock.as_ref()?;
        Some(LockView::of(lock, moment::time(seen.read_ms)))
    });
    reply::text(&json!({
        "server": &shown.server,
        "picture": picture,
        "can_unlock": room.can_unlock(),
        "cannot": cannot(shown),
        "key": key.as_str(),
        "lock": lock,
        "history": room.desk.history_of(key.as_str()),
    }))
}
