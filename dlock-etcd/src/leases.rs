//! Leases of etcd that no claim uses now, kept for the next claim with the same TTL.
//!
//! A claim has a lease of its own, so it ends by itself and no other claim ends with it. Making a lease costs etcd as
//! much as a lock does, and keeping one alive costs a message; so a lease is used again while it lasts.
//!
//! # Rules
//!
//! The model `leases` in `evidence/model` searches the first three in every order of requests. It leaves out that
//! a key exchanges its lease for another one.
//!
//! - **Safety.** A lease is used again only if etcd has answered each request that gives it to a key, and the deletion of
//!   its last key. A late request could otherwise create the key of a claim that is over, and the next claim would keep it
//!   alive. (`a_request_that_arrives_after_the_release_has_no_effect`)
//! - **Safety.** It names keys, see `names.rs`. So it is not used again after a deletion of its key that compares no create
//!   revision, nor while its key has another lease. (`a_deletion_that_compares_nothing_ends_no_later_claim`)
//! - **Safety.** A lease is that of one claim at a time, so the end of a lease ends no key of another claim.
//!   (`a_key_keeps_its_lease_when_its_label_changes`)
//! - **Safety.** A lease that was made or kept alive in the last 0.1 s is used as it is. The drift of the store is longer by
//!   as much, so the deadline of the claim is before the end of the lease. Both clocks are read.
//!   (`a_fresh_lease_outlasts_the_deadline_of_its_claim`)
//! - A keep-alive of an earlier claim that arrives late only makes a lease longer. A claim counts from a keep-alive
//!   that was answered, so neither that nor a clock that jumps changes a deadline.
//! - A lease that has ended, or that a restored ensemble does not know, is refused, and the claim takes another one.
//! - A claim is known by the name and the create revision of its key, and never by its lease. Releases, renewals and
//!   `dlock unlock` compare these, so they cannot hit the next claim with the same lease. A release in a full database of an old
//!   version compares nothing, and a lease that names its key is not used again.
//! - A lease is not used again when the connection over which it was made has been replaced. A restored snapshot may bring
//!   back the lease together with the key of an earlier claim. This key would last for as long as later claims keep the lease alive.
//!   (`a_lease_of_before_a_restore_keeps_no_restored_key_alive`)
//! - A forked child sends no requests, so it uses none of them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_runtime::{
    clock::Moment,
    store::{Drift, StoreError},
};

use crate::conn::Conn;

const FRESH_MILLIS: u64 = 100;

/// A lease that was made or kept alive so recently is used without a keep-alive.
const FRESH: Duration = Duration::from_millis(FRESH_MILLIS);

/// The drift that dlock has for every store, and the time that a fresh lease has already lost.
pub(crate) const DRIFT: Drift = Drift::new(10, Duration::from_millis(2 + FRESH_MILLIS));

/// Idle leases of one TTL. Those beyond are left to end by themselves.
const MOST_IDLE: usize = 64;

/// A lease of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// The TTL; 0 if it is not known.
    pub(crate) seconds: i64,
    /// `true` for the lease that all waiters of a process have, see `places.rs`. It is not that of one claim.
    pub(crate) is_shared: bool,
    /// The number of the connection over which it was made; 0 if it is not known.
    pub(crate) conn: u64,
}

/// A lease for a request.
pub(crate) struct Taken {
    pub(crate) lease: Lease,
    /// `true` if it was made for this request.
    pub(crate) is_new: bool,
    /// `true` if it is worth its TTL already. Any other is to be kept alive beside the request.
    pub(crate) is_fresh: bool,
    /// Before the last request that made it or kept it alive, which may be the one that it is for.
    pub(crate) since: Moment,
}

impl Taken {
    fn new(lease: Lease, since: Moment) -> Self {
        Self {
            lease,
            is_new: true,
            is_fresh: true,
            since,
        }
    }

    /// A lease that was kept alive after `since`, for a request at `asked`.
    fn idle(lease: Lease, since: Moment, asked: Moment) -> Self {
        let is_fresh = since.elapsed(asked) <= FRESH;
        Self {
            lease,
            is_new: false,
            is_fresh,
            since: if is_fresh { since } else { asked },
        }
    }
}

/// The idle leases of a store.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    /// The number of the connection over which all of them were made.
    conn: u64,
    by_seconds: HashMap<i64, Vec<(i64, Moment)>>,
}

impl Leases {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a lease of this TTL that no claim uses, for a request at the moment `asked`, which is now.
    pub(crate) async fn take(
        &self,
        conn: &Conn,
        seconds: i64,
        asked: Moment,
    ) -> Result<Taken, StoreError> {
        let lease = |id| Lease {
            id,
            seconds,
            is_shared: false,
            conn: conn.number(),
        };
        Ok(match self.take_idle(conn.number(), seconds, asked) {
            Some((id, since)) => Taken::idle(lease(id), since, asked),
            None => Taken::new(lease(conn.grant(seconds).await?), asked),
        })
    }

    fn take_idle(&self, conn: u64, seconds: i64, now: Moment) -> Option<(i64, Moment)> {
        let mut idle = self.idle();
        if conn > idle.conn {
            idle.conn = conn;
            idle.by_seconds.clear();
        }
        if conn < idle.conn {
            // A request over it is about to fail.
            return None;
        }
        let leases = idle.by_seconds.get_mut(&seconds)?;
        // One that is about to end would have to be replaced at once.
        let half = Duration::from_millis(u64::try_from(seconds).unwrap_or(0) * 500);
        let (id, since) = leases.pop()?;
        if since.elapsed(now) < half {
            return Some((id, since));
        }
        // All others have been there for longer.
        leases.clear();
        None
    }

    /// Takes back a lease that has no keys, and that was kept alive after `since`. No request that names it may be under
    /// way.
    pub(crate) fn give(&self, lease: Lease, since: Moment) {
        if lease.seconds == 0 || lease.is_shared {
            return;
        }
        let mut idle = self.idle();
        if lease.conn != idle.conn {
            return;
        }
        let leases = idle.by_seconds.entry(lease.seconds).or_default();
        if leases.len() < MOST_IDLE {
            let place = leases.partition_point(|(_, other)| other.monotonic <= since.monotonic);
            leases.insert(place, (lease.id, since));
        }
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::clock::{Clock, SystemClock};

    use super::*;

    #[test]
    fn a_fresh_lease_outlasts_the_deadline_of_its_claim() {
        let since = SystemClock.now();
        let later = |millis, asleep| {
            let awake = since.plus(Duration::from_millis(millis));
            Moment {
                boot: awake.boot + Duration::from_millis(asleep),
                ..awake
            }
        };
        for (millis, asleep, fresh) in [
            (0, 0, true),
            (100, 0, true),
            (101, 0, false),
            // The machine slept, which one of the clocks does not see.
            (0, 101, false),
        ] {
            let asked = later(millis, asleep);
            let lease = Lease {
                id: 1,
                seconds: 10,
                is_shared: false,
                conn: 1,
            };
            let taken = Taken::idle(lease, since, asked);
            assert_eq!(taken.is_fresh, fresh, "{millis} {asleep}");
            // It grows no younger by being used.
            assert_eq!(taken.since, if fresh { since } else { asked });
            for seconds in [1, 10, 3600] {
                let ttl = Duration::from_secs(seconds);
                // The deadline is earlier than the end by the usual drift.
                let deadline = since.elapsed(asked) + ttl;
                let is_safe = deadline + Drift::USUAL.of(ttl) <= ttl + DRIFT.of(ttl);
                assert_eq!(is_safe, fresh, "{millis} {asleep} {seconds}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_used_again_in_the_first_half_of_its_ttl() {
        let leases = Leases::default();
        let give = |id, seconds| {
            let (is_shared, conn) = (false, 0);
            let lease = Lease {
                id,
                seconds,
                is_shared,
                conn,
            };
            leases.give(lease, SystemClock.now());
        };
        give(1, 10);
        tokio::time::advance(Duration::from_secs(4)).await;
        give(2, 10);
        give(3, 0);
        let shared = Lease {
            id: 9,
            seconds: 10,
            is_shared: true,
            conn: 0,
        };
        leases.give(shared, SystemClock.now());
        let take = |seconds| leases.take_idle(0, seconds, SystemClock.now());
        assert_eq!(take(30), None);
        assert_eq!(take(0), None);
        assert_eq!(take(10).map(|it| it.0), Some(2));
        assert_eq!(take(10).map(|it| it.0), Some(1));
        give(4, 10);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(take(10), None, "half of its TTL has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_with_the_connection_over_which_it_was_made() {
        let leases = Leases::default();
        let now = SystemClock.now();
        let lease = |id, conn| Lease {
            id,
            seconds: 10,
            is_shared: false,
            conn,
        };
        let take = |conn| leases.take_idle(conn, 10, now).map(|it| it.0);
        assert_eq!(take(1), None);
        for id in [1, 2] {
            leases.give(lease(id, 1), now);
        }
        assert_eq!(take(1), Some(2));
        assert_eq!(take(2), None, "the other one is forgotten");
        leases.give(lease(2, 1), now);
        assert_eq!(take(2), None, "its claim was there before");
        leases.give(lease(3, 2), now);
        assert_eq!(take(1), None, "the connection has a successor");
        assert_eq!(take(2), Some(3));
    }

    const NOTHING: [Option<i64>; 2] = [None; 2];

    fn lease(id: i64) -> Lease {
        Lease {
            id,
            seconds: 10,
            is_shared: false,
            conn: 0,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_that_was_kept_alive_last_is_used_first() {
        let leases = Leases::default();
        let begin = SystemClock.now();
        let later = |seconds| begin.plus(Duration::from_secs(seconds));
        for (id, seconds) in [(1, 1), (3, 3), (2, 2)] {
            leases.give(lease(id), later(seconds));
        }
        let take = |seconds| leases.take_idle(0, 10, later(seconds));
        assert_eq!(take(3), Some((3, later(3))));
        assert_eq!(take(3), Some((2, later(2))));
        // With one that has lost half of its TTL, those before it go as well.
        leases.give(lease(2), later(2));
        assert_eq!([take(7), take(3)].map(|it| it.map(|it| it.0)), NOTHING);
        leases.give(lease(4), later(2));
        let almost = later(2).plus(Duration::from_millis(4999));
        assert_eq!(leases.take_idle(0, 10, almost).map(|it| it.0), Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_leases_beyond_64_are_left_to_end() {
        let leases = Leases::default();
        let now = SystemClock.now();
        for id in 1..=70 {
            leases.give(lease(id), now);
        }
        let taken: Vec<_> = (0..70)
            .filter_map(|_| leases.take_idle(0, 10, now))
            .collect();
        assert_eq!(taken.len(), 64);
    }
}
