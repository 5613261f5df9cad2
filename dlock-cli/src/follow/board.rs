//! The locks as they are read: part by part in a scan of all keys, and one by one in between.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use dlock::LockKey;
use dlock_admin::{LockInfo, view::LockView};
use tokio::time::Instant;

/// With more known locks than this, a reading of all of them takes as long as a scan, and none is read between scans but
/// those with a grant.
pub(super) const FEW: usize = 1000;

/// The locks at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// In the order of their keys.
    pub(crate) locks: Vec<Arc<Seen>>,
    /// `None` if the store cannot tell, or was not asked.
    pub(crate) processes: Option<usize>,
    pub(crate) pace: Pace,
}

/// A lock, and when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) lock: LockView,
    pub(crate) at: Instant,
}

/// How a picture came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// By one reading of all locks.
    #[default]
    Whole,
    /// By a part of the first scan.
    First,
    /// By a scan that takes so long, and readings of the known locks.
    Known(Duration),
    /// By scans that take so long. The locks are too many to be read between them.
    Scans(Duration),
}

/// All locks that were read, and the number of the scan that is under way.
#[derive(Debug, Default)]
pub(super) struct Board {
    known: BTreeMap<String, Known>,
    scan: u64,
    /// The number of processes at the last complete scan, if the store can tell.
    processes: Option<usize>,
    /// The time of the last complete scan.
    took: Option<Duration>,
}

#[derive(Debug, Default)]
struct Known {
    /// `None` while it is free.
    seen: Option<Arc<Seen>>,
    /// The last scan in which it was held or awaited, or a message named it.
    scan: u64,
    /// The time when it was last read by itself.
    read: Option<Instant>,
}

impl Board {
    /// Begins a scan of all keys.
    pub(super) fn begin(&mut self) {
        self.scan += 1;
    }

    /// Adds locks that the scan has read after `since`, and until `now` by the clock of the store. Of a lock that was read by
    /// itself meanwhile, that reading may be the later one, and counts.
    pub(super) fn add(&mut self, locks: &[LockInfo], since: Instant, now: SystemTime) {
        for lock in locks {
            let known = self.known.entry(lock.key.clone()).or_default();
            known.scan = self.scan;
            if known.read.is_none_or(|read| read <= since) {
                known.see(lock, now);
            }
        }
    }

    /// Ends the scan. Locks that it has not shown are free, and are known for one more scan.
    pub(super) fn end(&mut self, processes: Option<usize>, took: Duration) {
        let scan = self.scan;
        self.known.retain(|_, known| known.scan + 1 >= scan);
        for known in self.known.values_mut().filter(|it| it.scan < scan) {
            known.seen = None;
        }
        self.processes = processes;
        self.took = Some(took);
    }

    /// Remembers locks that messages have named, and returns their keys.
    pub(super) fn named(&mut self, keys: BTreeSet<String>) -> Vec<LockKey> {
        let keys = keys.into_iter();
        let keys: Vec<_> = keys.filter_map(|key| LockKey::new(&key).ok()).collect();
        for key in &keys {
            self.known.entry(key.as_str().to_owned()).or_default().scan = self.scan;
        }
        keys
    }

    /// Returns all keys that are known, if they are few.
    pub(super) fn all(&self) -> Option<Vec<LockKey>> {
        let keys = self.known.keys();
        let keys = keys.filter_map(|key| LockKey::new(key).ok());
        self.reads_all().then(|| keys.collect())
    }

    /// Replaces what is known of these locks by what was read of them: it began at `began`, and ended at `now` by the clock of
    /// the store.
    pub(super) fn replace(
        &mut self,
        keys: &[LockKey],
        locks: &[LockInfo],
        began: Instant,
        now: SystemTime,
    ) {
        for key in keys {
            if let Some(known) = self.known.get_mut(key.as_str()) {
                known.seen = None;
                known.read = Some(began);
            }
        }
        self.add(locks, began, now);
    }

    fn reads_all(&self) -> bool {
        self.known.len() <= FEW
    }

    /// Returns the locks that are known now. A scan that takes no longer than `patience` counts as one reading.
    pub(super) fn picture(&self, patience: Duration) -> Picture {
        let pace = match self.took {
            None => Pace::First,
            Some(took) if took <= patience => Pace::Whole,
            Some(took) if self.reads_all() => Pace::Known(took),
            Some(took) => Pace::Scans(took),
        };
        let locks = self.known.values().filter_map(|known| known.seen.clone());
        Picture {
            locks: locks.collect(),
            processes: self.processes,
            pace,
        }
    }
}

impl Seen {
    /// Returns a lock that was read until `now`, by the clock of the store.
    pub(crate) fn of(lock: &LockInfo, now: SystemTime) -> Self {
        Self {
            lock: LockView::of(lock, now),
            at: Instant::now(),
        }
    }
}

impl Known {
    fn see(&mut self, lock: &LockInfo, now: SystemTime) {
        self.seen = Some(Arc::new(Seen::of(lock, now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn locks(keys: &[&str]) -> Vec<LockInfo> {
        keys.iter().copied().map(LockInfo::new).collect()
    }

    fn shown(board: &Board) -> Vec<String> {
        let picture = board.picture(Duration::ZERO);
        let keys = picture.locks.iter().map(|it| it.lock.key.clone());
        keys.collect()
    }

    fn add(board: &mut Board, keys: &[&str]) {
        board.add(&locks(keys), Instant::now(), SystemTime::now());
    }

    fn replace(board: &mut Board, keys: &[LockKey], found: &[&str]) {
        board.replace(keys, &locks(found), Instant::now(), SystemTime::now());
    }

    fn scan(board: &mut Board, keys: &[&str]) {
        board.begin();
        add(board, keys);
        board.end(None, LONG);
    }

    #[test]
    fn a_part_of_the_first_scan_is_shown_at_once_and_a_later_scan_takes_nothing_away_before_its_end()
     {
        let mut board = Board::default();
        board.begin();
        add(&mut board, &["b"]);
        assert_eq!(shown(&board), ["b"]);
        assert_eq!(board.picture(LONG).pace, Pace::First);
        add(&mut board, &["a"]);
        board.end(Some(3), LONG);
        assert_eq!(shown(&board), ["a", "b"]);
        assert_eq!(board.picture(LONG).pace, Pace::Whole);
        assert_eq!(board.picture(LONG / 2).pace, Pace::Known(LONG));
        board.begin();
        add(&mut board, &["c"]);
        assert_eq!(shown(&board), ["a", "b", "c"]);
        board.end(Some(1), LONG);
        assert_eq!(shown(&board), ["c"]);
    }

    #[test]
    fn a_free_lock_is_read_during_one_more_scan() {
        let mut board = Board::default();
        scan(&mut board, &["a"]);
        scan(&mut board, &[]);
        let mut read = Vec::new();
        for _ in 0..2 {
            let keys = board.all().expect("they are few");
            read.push(keys.len());
            replace(&mut board, &keys, &[]);
            scan(&mut board, &[]);
        }
        assert_eq!(read, [1, 0]);
    }

    #[test]
    fn between_two_scans_known_locks_are_read_if_they_are_few_and_always_those_with_a_grant() {
        let mut board = Board::default();
        scan(&mut board, &["a", "b"]);
        board.begin();
        let named = board.named(BTreeSet::from(["c".to_owned()]));
        assert_eq!(named, [LockKey::new("c").expect("it is valid")]);
        let keys = board.all().expect("they are few");
        let read: Vec<_> = keys.iter().map(LockKey::as_str).collect();
        assert_eq!(read, ["a", "b", "c"]);
        replace(&mut board, &keys, &["b", "c"]);
        assert_eq!(shown(&board), ["b", "c"]);

        let many: Vec<_> = (0..=FEW).map(|it| format!("n:{it}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        add(&mut board, &many);
        board.end(None, LONG);
        assert_eq!(board.all(), None);
        let keys = board.named(BTreeSet::from(["n:7".to_owned(), "{".to_owned()]));
        assert_eq!(keys, [LockKey::new("n:7").expect("it is valid")]);
        replace(&mut board, &keys, &[]);
        assert_eq!(
            shown(&board).len(),
            many.len() + 1,
            "two others, and one less"
        );
        assert_eq!(board.picture(LONG / 2).pace, Pace::Scans(LONG));
    }

    #[test]
    fn an_older_reading_replaces_no_later_one() {
        let mut board = Board::default();
        scan(&mut board, &["a"]);
        board.begin();
        let before = Instant::now();
        let keys = board.all().expect("they are few");
        let later = before + LONG;
        board.replace(&keys, &[], later, SystemTime::now());
        board.add(&locks(&["a"]), before, SystemTime::now());
        assert_eq!(shown(&board), [""; 0], "it was read before it was free");
        board.add(&locks(&["a"]), later, SystemTime::now());
        assert_eq!(shown(&board), ["a"]);
    }
}
