//! The base of fences: a number in ZooKeeper to which the transactions since its own are added.
//!
//! The numbers of transactions (zxids) grow, but a restored backup sets them back, and each new leader raises them by
//! 2^32. So a fence is not a zxid itself. The base is the name of a node, `fence/<base>`. The fence of a child is the base
//! and the difference between the zxids of both creations.
//!
//! # Rules
//!
//! - **Safety.** A child is created only while the node of its base is there: both are in one transaction. A base is
//!   replaced in one transaction, by one that is greater by [`RANGE`] or more. A fence is less than base and [`RANGE`]. So
//!   fences grow along each queue, whatever clocks say. (`fences_of_a_base_are_below_those_of_the_next`)
//! - **Safety.** Of several bases one is made, greater than all, in one transaction. A fault of ZooKeeper brings bases back, and
//!   children with different bases have no order. (`a_base_that_comes_back_stops_no_lock`) It is also greater than one that
//!   the leader does not have: that may have had children. (`the_base_that_replaces_several_is_above_one_that_the_leader_has_lost`)
//! - **Safety.** A new base reaches the clock, since zxids go back when a backup is restored. That is so with each new
//!   leader, and with each new connection. Fences are ahead of the clock by less than two ranges, unless the
//!   ensemble changes its leader more than once a second. (`tokens_grow_although_a_backup_was_restored`,
//!   `a_base_of_an_earlier_connection_makes_no_token`)

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use zookeeper_client::StateWatcher;

/// The fences of one base, and how far a base may lag behind the clock: a second of the clock. No ensemble has carried out
/// so many transactions in a second.
const RANGE: u64 = 100_000;

/// The base of fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) value: u64,
    /// The transaction that has created its node.
    pub(crate) since: i64,
}

/// The base that a session knows. It is dropped at each new connection: the next server may have other data.
#[derive(Debug)]
pub(crate) struct Known(Mutex<AtConnection>);

#[derive(Debug)]
struct AtConnection {
    noted: Noted,
    state: StateWatcher,
}

#[derive(Debug, Default)]
struct Noted {
    base: Option<Base>,
    /// The number of times that it was forgotten.
    forgotten: u64,
}

impl Known {
    pub(crate) fn new(state: StateWatcher) -> Self {
        let noted = Noted::default();
        Self(Mutex::new(AtConnection { noted, state }))
    }

    fn at_connection(&self) -> MutexGuard<'_, AtConnection> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.state.changed().now_or_never().is_some() {
            known.noted.forget();
        }
        known
    }

    pub(crate) fn get(&self) -> Option<Base> {
        self.at_connection().noted.base
    }

    /// Returns a number that is another one when the base was forgotten.
    pub(crate) fn forgotten(&self) -> u64 {
        self.at_connection().noted.forgotten
    }

    /// Notes a base that was read when [`forgotten`](Self::forgotten) was this number, unless a later one is known.
    pub(crate) fn note(&self, base: Base, forgotten: u64) {
        self.at_connection().noted.note(base, forgotten);
    }

    /// Forgets the base: it may have been replaced.
    pub(crate) fn forget(&self) {
        self.at_connection().noted.forget();
    }
}

impl Noted {
    fn note(&mut self, base: Base, forgotten: u64) {
        let is_later = self.base.is_none_or(|it| it.value < base.value);
        if self.forgotten == forgotten && is_later {
            self.base = Some(base);
        }
    }

    fn forget(&mut self) {
        self.base = None;
        self.forgotten += 1;
    }
}

impl Base {
    /// The fence of a child that was created by this transaction; `None` if it needs a new base.
    pub(crate) fn fence(self, czxid: i64) -> Option<u64> {
        let since = czxid.checked_sub(self.since)?;
        let since = u64::try_from(since).ok()?;
        let is_own = (1..RANGE).contains(&since);
        // Beyond the greatest there is no token, see `place`.
        is_own.then(|| self.value.saturating_add(since))
    }

    /// The value to follow, if this base must be replaced at a new connection.
    pub(crate) fn is_late(self, clock: u64) -> bool {
        self.value.saturating_add(RANGE) < clock
    }
}

/// The value of a base that replaces another one.
pub(crate) fn following(old: Option<u64>, clock: u64) -> u64 {
    let least = old.map_or(1, |old| old.saturating_add(RANGE));
    clock.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: u64 = 90_000_000_000;

    #[test]
    fn fences_of_a_base_are_below_those_of_the_next() {
        let base = Base {
            value: CLOCK,
            since: (7 << 32) + 5,
        };
        let range = i64::try_from(RANGE).unwrap();
        let last = base.fence(base.since + range - 1).unwrap();
        assert_eq!(base.fence(base.since + 1), Some(CLOCK + 1));
        assert_eq!(base.fence(base.since + range), None, "they are used up");
        assert_eq!(base.fence(8 << 32), None, "another leader");
        assert_eq!(base.fence(base.since), None);
        assert_eq!(base.fence(7 << 32), None, "restored data");
        let greatest = Base {
            value: u64::MAX,
            since: 1,
        };
        assert_eq!(
            greatest.fence(9),
            Some(u64::MAX),
            "no token, and no small one"
        );
        // The clock of the process that replaces it is behind.
        for clock in [0, CLOCK - 10, CLOCK + 1] {
            assert!(following(Some(base.value), clock) >= last, "{clock}");
        }
    }

    /// Several requests read it at once, and the data may be restored between two of them.
    #[test]
    fn the_latest_base_counts_that_was_read_since_the_last_was_forgotten() {
        let base = |value| Base { value, since: 1 };
        let mut noted = Noted::default();
        noted.note(base(7), 0);
        noted.note(base(9), 0);
        noted.note(base(8), 0);
        assert_eq!(noted.base, Some(base(9)));
        noted.forget();
        assert_eq!((noted.base, noted.forgotten), (None, 1));
        noted.note(base(9), 0);
        assert_eq!(noted.base, None, "it was read before");
        noted.note(base(5), 1);
        assert_eq!(noted.base, Some(base(5)));
    }

    #[test]
    fn a_base_reaches_the_clock() {
        assert_eq!(following(None, CLOCK), CLOCK);
        assert_eq!(following(Some(CLOCK - 3 * RANGE), CLOCK), CLOCK);
        let base = |value| Base { value, since: 1 };
        assert!(base(CLOCK - RANGE - 1).is_late(CLOCK));
        assert!(!base(CLOCK - RANGE).is_late(CLOCK));
        assert!(!base(CLOCK + 1).is_late(CLOCK));
    }
}
