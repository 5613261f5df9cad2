//! The locks as they are read: part by part in a scan of all keys, and one by one in between.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use dlock::{
    LockKey,
    store::{ClientId, OwnerId},
};
use dlock_admin::{
    HolderInfo, LockInfo, ProcessInfo, WaiterInfo,
    view::{NOT_KNOWN, THIRD_PARTY, mode_name, moment, token},
};

use super::picture::{Holder, Lock, Pace, Picture, Process, Waiter};
use crate::text::wish;

/// With more known locks than this, a reading of all of them takes as long as a scan, and none is read between scans but
/// those with a grant.
const FEW: usize = 1000;

/// All locks that were read, and the number of the scan that is under way.
#[derive(Debug, Default)]
pub(crate) struct Board {
    known: BTreeMap<Arc<str>, Known>,
    scan: u64,
    names: Names,
    /// The number of processes at the last complete scan, if the store can tell.
    processes: Option<usize>,
    /// The time of the last complete scan.
    took: Option<Duration>,
}

#[derive(Debug)]
struct Known {
    /// `None` while it is free.
    lock: Option<Arc<Lock>>,
    /// The last scan in which it was held or awaited, or a message named it.
    scan: u64,
}

/// Names that many locks have in common, each stored once.
#[derive(Debug, Default)]
struct Names {
    texts: HashSet<Arc<str>>,
    processes: HashMap<ClientId, Arc<Process>>,
}

impl Board {
    /// Begins a scan of all keys.
    pub(crate) fn begin(&mut self) {
        self.scan += 1;
        // Names of processes that have ended are forgotten.
        self.names = Names::default();
    }

    /// Adds locks that were read at `now`, by the clock of the store.
    pub(crate) fn see(&mut self, locks: Vec<LockInfo>, now: SystemTime) {
        for info in locks {
            let lock = self.names.lock(info, now);
            let (key, scan) = (lock.key.clone(), self.scan);
            let lock = Some(Arc::new(lock));
            self.known.insert(key, Known { lock, scan });
        }
    }

    /// Ends the scan. Locks that it has not shown are free, and are known for one more scan.
    pub(crate) fn end(&mut self, processes: Option<usize>, took: Duration) {
        let scan = self.scan;
        self.known.retain(|_, known| known.scan + 1 >= scan);
        for known in self.known.values_mut().filter(|it| it.scan < scan) {
            known.lock = None;
        }
        self.processes = processes;
        self.took = Some(took);
    }

    /// Returns the keys to read during a scan: all that are known if they are few, and those that messages have named.
    pub(crate) fn keys_to_read(&mut self, heard: BTreeSet<String>) -> Vec<LockKey> {
        let keys = heard.into_iter().take(FEW);
        let heard: Vec<_> = keys.filter_map(|key| LockKey::new(&key).ok()).collect();
        for key in &heard {
            let scan = self.scan;
            let none = Known { lock: None, scan };
            let known = self.known.entry(key.as_str().into()).or_insert(none);
            known.scan = scan;
        }
        if self.follows() {
            let known = self.known.keys();
            known.filter_map(|key| LockKey::new(&**key).ok()).collect()
        } else {
            heard
        }
    }

    /// Replaces what is known of these locks by what was read of them at `now`.
    pub(crate) fn replace(&mut self, keys: &[LockKey], locks: Vec<LockInfo>, now: SystemTime) {
        for key in keys {
            if let Some(known) = self.known.get_mut(key.as_str()) {
                known.lock = None;
            }
        }
        self.see(locks, now);
    }

    /// Returns `true` if all known locks are read during a scan.
    fn follows(&self) -> bool {
        self.known.len() <= FEW
    }

    /// Returns the locks that are known now. A scan that takes no longer than `patience` counts as one reading.
    pub(crate) fn picture(&self, patience: Duration) -> Picture {
        let pace = match self.took {
            None => Pace::First,
            Some(took) if took <= patience => Pace::Whole,
            Some(took) if self.follows() => Pace::Known(took),
            Some(took) => Pace::Scans(took),
        };
        let locks = self.known.values().filter_map(|known| known.lock.clone());
        Picture {
            locks: locks.collect(),
            processes: self.processes,
            pace,
        }
    }
}

impl Names {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn lock(&mut self, info: LockInfo, now: SystemTime) -> Lock {
        let others = info.others.into_iter();
        Lock {
            key: info.key.into(),
            holder: info.holder.map(|it| self.holder(it, now)),
            others: others.map(|it| self.holder(it, now)).collect(),
            holder_count: info.holder_count,
            waiters: info.waiters.iter().map(|it| self.waiter(it)).collect(),
            waiter_count: info.waiter_count,
            last_token: token(info.last_fence),
            held_at: info.held_at,
            servers: info.servers,
        }
    }

    fn holder(&mut self, info: HolderInfo, now: SystemTime) -> Holder {
        let name = match (info.known_label(), info.owner) {
            (Some(label), _) => label,
            (None, Some(_)) => NOT_KNOWN,
            (None, None) => THIRD_PARTY,
        };
        let name = self.text(name);
        Holder {
            name,
            function: info.function.map(|it| self.text(&it)),
            handle: info.owner.map(OwnerId::handle),
            token: token(info.fence),
            // The server's clock may have been set back since.
            held: info
                .since
                .map(|it| now.duration_since(it).unwrap_or_default()),
            ttl: info.ttl,
            process: info.process.map(|it| self.process(it)),
        }
    }

    fn waiter(&mut self, info: &WaiterInfo) -> Waiter {
        let (mode, permits) = mode_name(info.mode);
        Waiter {
            wish: wish(mode, permits),
            name: match info.known_label() {
                Some(label) => self.text(label),
                None => info.owner.handle().to_string().into(),
            },
            waiting: info.waiting,
            is_alive: info.is_alive,
        }
    }

    fn process(&mut self, info: ProcessInfo) -> Arc<Process> {
        let known = self.processes.entry(info.client);
        known.or_insert_with(|| Arc::new(described(info))).clone()
    }
}

fn described(info: ProcessInfo) -> Process {
    Process {
        application: info.application,
        host: info.host,
        pid: info.pid,
        started: moment(info.started),
        version: info.version,
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
        picture.locks.iter().map(|it| it.key.to_string()).collect()
    }

    fn scan(board: &mut Board, keys: &[&str]) {
        board.begin();
        board.see(locks(keys), SystemTime::now());
        board.end(None, LONG);
    }

    #[test]
    fn a_part_of_the_first_scan_is_shown_at_once_and_a_later_scan_takes_nothing_away_before_its_end()
     {
        let mut board = Board::default();
        board.begin();
        board.see(locks(&["b"]), SystemTime::now());
        assert_eq!(shown(&board), ["b"]);
        assert_eq!(board.picture(LONG).pace, Pace::First);
        board.see(locks(&["a"]), SystemTime::now());
        board.end(Some(3), LONG);
        assert_eq!(shown(&board), ["a", "b"]);
        assert_eq!(board.picture(LONG).pace, Pace::Whole);
        assert_eq!(board.picture(LONG / 2).pace, Pace::Known(LONG));
        board.begin();
        board.see(locks(&["c"]), SystemTime::now());
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
            let keys = board.keys_to_read(BTreeSet::new());
            read.push(keys.len());
            board.replace(&keys, Vec::new(), SystemTime::now());
            scan(&mut board, &[]);
        }
        assert_eq!(read, [1, 0]);
    }

    #[test]
    fn between_two_scans_known_locks_are_read_if_they_are_few_and_always_those_with_a_grant() {
        let mut board = Board::default();
        scan(&mut board, &["a", "b"]);
        board.begin();
        let keys = board.keys_to_read(BTreeSet::from(["c".to_owned()]));
        let names: Vec<_> = keys.iter().map(LockKey::as_str).collect();
        assert_eq!(names, ["a", "b", "c"]);
        board.replace(&keys, locks(&["b", "c"]), SystemTime::now());
        assert_eq!(shown(&board), ["b", "c"]);

        let many: Vec<_> = (0..=FEW).map(|it| format!("n:{it}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        board.see(locks(&many), SystemTime::now());
        board.end(None, LONG);
        let keys = board.keys_to_read(BTreeSet::from(["n:7".to_owned(), "{".to_owned()]));
        assert_eq!(keys, [LockKey::new("n:7").expect("it is valid")]);
        board.replace(&keys, Vec::new(), SystemTime::now());
        assert_eq!(
            shown(&board).len(),
            many.len() + 1,
            "two others, and one less"
        );
        assert_eq!(board.picture(LONG / 2).pace, Pace::Scans(LONG));
    }
}
