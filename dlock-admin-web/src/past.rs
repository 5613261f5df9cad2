//! The history, as threads share it.
//!
//! A picture of many locks is compared with the one before for many milliseconds. Threads of the runtime do not wait for that:
//! they leave notes, which the next one that has the history reads first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::{mem, time::Duration};

use dlock_admin::Grant;
use dlock_runtime::store::OwnerId;

use super::{
    history::{History, HistoryView},
    picture::Picture,
};

#[derive(Debug)]
pub(super) struct Past {
    history: Mutex<History>,
    notes: Mutex<Vec<Note>>,
}

/// Something that has happened, at a time by the clock of the store.
#[derive(Debug)]
enum Note {
    Granted(Grant, u64),
    /// This page has ended a lease.
    Forced {
        key: String,
        owner: Option<OwnerId>,
        fence: u64,
        at_ms: u64,
        by: Arc<str>,
    },
}

impl Past {
    /// Creates the history of pictures that follow each other at this interval.
    pub(super) fn every(interval: Duration) -> Self {
        Self {
            history: Mutex::new(History::every(interval)),
            notes: Mutex::default(),
        }
    }

    /// Notes a grant.
    pub(super) fn heard(&self, grant: Grant, at_ms: u64) {
        self.note(Note::Granted(grant, at_ms));
    }

    /// Notes that the page has ended a lease, for `by`.
    pub(super) fn forced(
        &self,
        key: &str,
        owner: Option<OwnerId>,
        fence: u64,
        at_ms: u64,
        by: Arc<str>,
    ) {
        let key = key.to_owned();
        self.note(Note::Forced {
            key,
            owner,
            fence,
            at_ms,
            by,
        });
    }

    /// Takes a picture into the history, which may take long.
    pub(super) fn see(&self, picture: Picture, is_gap: bool) -> Arc<Picture> {
        self.history().see(picture, is_gap)
    }

    /// Returns what the last minutes have shown of a lock. It may wait for a picture that is taken into the history.
    pub(super) fn view(&self, key: &str, now_ms: u64, is_away: bool) -> HistoryView {
        let mut history = self.history();
        history.watch(key, now_ms);
        history.view(key, now_ms, is_away)
    }

    fn note(&self, note: Note) {
        self.notes().push(note);
        // Otherwise the notes of a page that takes no pictures would become more and more.
        match self.history.try_lock() {
            Ok(mut history) => self.read_notes(&mut history),
            Err(TryLockError::Poisoned(broken)) => self.read_notes(&mut broken.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn read_notes(&self, history: &mut History) {
        let notes = mem::take(&mut *self.notes());
        for note in notes {
            match note {
                Note::Granted(grant, at_ms) => {
                    history.heard(&grant.key, grant.owner, grant.fence, at_ms);
                }
                Note::Forced {
                    key,
                    owner,
                    fence,
                    at_ms,
                    by,
                } => history.forced(&key, owner, fence, at_ms, by),
            }
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // A change that panics leaves events out, and no others wrong.
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_notes(&mut history);
        history
    }

    fn notes(&self) -> MutexGuard<'_, Vec<Note>> {
        // Every change is complete.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use dlock_runtime::{random::SystemRandom, store::ClientId};

    use super::*;

    #[test]
    fn nothing_waits_for_a_picture_that_is_taken_into_the_history() {
        let past = Arc::new(Past::every(Duration::from_secs(2)));
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let picture = past.history();
        let (noted, is_noted) = mpsc::channel();
        let noting = past.clone();
        thread::spawn(move || {
            noting.heard(Grant::new("k", owner, 7), 1000);
            noting.forced("k", Some(owner), 7, 1001, "op".into());
            noted.send(()).expect("the test waits");
        });
        let patience = Duration::from_secs(60);
        is_noted.recv_timeout(patience).expect("it does not wait");
        drop(picture);
        let told = serde_json::to_value(past.view("k", 2000, false)).expect("it is JSON");
        assert_eq!(told["holds"][0]["handle"], owner.handle().to_string());
        assert!(past.notes().is_empty());
    }

    #[test]
    fn notes_are_read_without_a_picture() {
        let past = Past::every(Duration::from_secs(2));
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        past.heard(Grant::new("k", owner, 7), 1000);
        assert!(past.notes().is_empty());
    }
}
