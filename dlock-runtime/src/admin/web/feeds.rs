//! The documents of the list and of one lock, once and as they change.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::{sync::watch, time::timeout};

use super::{
    attention::Looker,
    desk::{Shown, State},
    events::Feed,
    looks::Seen,
    query::Query,
    reply,
    room::{Room, cannot},
    views::LockView,
};
use crate::key::LockKey;

/// The time for which a single request waits for the first picture.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns what is shown after the first picture, or soon.
pub(super) async fn shown(room: &Room) -> Shown {
    let (_looker, mut shown) = room.desk.look();
    first(&mut shown).await;
    shown.borrow().clone()
}

async fn first(shown: &mut watch::Receiver<Shown>) {
    let is_there = |shown: &Shown| !matches!(shown.state, State::Reading(_));
    // A reading that takes longer is shown as such.
    drop(timeout(PATIENCE, shown.wait_for(is_there)).await);
}

/// The list of locks.
pub(super) struct List {
    room: Arc<Room>,
    query: Query,
    shown: watch::Receiver<Shown>,
    _looker: Looker,
}

/// One lock.
pub(super) struct One {
    room: Arc<Room>,
    key: LockKey,
    shown: watch::Receiver<Shown>,
    seen: watch::Receiver<Option<Seen>>,
    _lookers: [Looker; 2],
}

impl List {
    pub(super) fn new(room: Arc<Room>, query: Query) -> Self {
        let (looker, shown) = room.desk.look();
        Self {
            room,
            query,
            shown,
            _looker: looker,
        }
    }

    /// Returns the document after the first picture, or soon.
    pub(super) async fn once(mut self) -> String {
        first(&mut self.shown).await;
        self.document()
    }
}

impl Feed for List {
    const NAME: &'static str = "picture";

    async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.shown.changed() => changed.is_ok(),
            () = self.room.ended() => false,
        }
    }

    fn document(&mut self) -> String {
        let shown = self.shown.borrow_and_update().clone();
        self.room.listing(&shown, &self.query)
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
            _lookers: [looker, of_lock],
        })
    }

    /// Returns the document after the first reading, or soon.
    pub(super) async fn once(mut self) -> String {
        drop(timeout(PATIENCE, self.seen.wait_for(Option::is_some)).await);
        self.document()
    }
}

impl Feed for One {
    const NAME: &'static str = "lock";

    async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.seen.changed() => changed.is_ok(),
            changed = self.shown.changed() => changed.is_ok(),
            () = self.room.ended() => false,
        }
    }

    fn document(&mut self) -> String {
        let shown = self.shown.borrow_and_update().clone();
        let seen = self.seen.borrow_and_update().clone();
        let taken = seen.as_ref().map(|seen| (seen.read_ms, seen.at));
        let mut picture = self.room.age(&shown, taken);
        // The lock is read long before a picture of many locks.
        if let (State::Reading(_), Some(_)) = (&shown.state, &seen) {
            picture.state = "live";
            picture.progress = None;
        }
        let lock = seen.as_ref().and_then(|seen| {
            let lock = seen.lock.as_ref()?;
            Some(LockView::of(lock, seen.read_ms))
        });
        reply::text(&json!({
            "server": &shown.server,
            "picture": picture,
            "can_unlock": self.room.can_unlock(),
            "cannot": cannot(&shown),
            "key": self.key.as_str(),
            "lock": lock,
            "history": self.room.desk.history_of(self.key.as_str()),
        }))
    }
}
