//! The places of waiters: one lease for all of a process, and answers that cost no request.
//!
//! All waiters of a process have one lease of etcd. While there are any, a task on the store's thread sends a *beat* every
//! 1.5 s: it keeps that lease alive, and reads the queues that are followed. A waiter that repeats its request is answered
//! from the last beat and the events since. It costs no request, however many waiters there are.
//!
//! # Rules
//!
//! - **Safety.** A waiter that is notified of its grant trusts the lease of its key for 3 s from its last request, before it has a
//!   lease of its own. So a request is answered from a beat only if the lease lasts for these 3 s and the drift: it counts
//!   from before the keep-alive that a majority has confirmed, by both clocks. Otherwise the request waits for the next
//!   beat. (`a_request_is_covered_for_as_long_as_a_grant_is_trusted`)
//! - **Safety.** A place is deleted for silence only when its last request is longer ago than a grant is trusted. Both
//!   happen under the lock of the claim. (`a_waiter_that_is_silent_loses_its_place_although_others_wait`) A deletion that
//!   arrives later finds another key, see `release.rs`.
//! - **Safety.** The shared lease does not end with a claim, so it cannot end a late request that creates a place. Such a
//!   request therefore compares the *gate*, a key with the same lease. A release whose claim has a request without an
//!   answer deletes the gate in its own transaction: from then on that request has no effect, and new waiters get another
//!   lease with another gate. (`a_place_that_is_requested_late_is_not_created_although_others_wait`)
//! - A restored snapshot may bring back places of claims that are over. The lease of other waiters would keep them in front of
//!   their queues, so places that no claim knows are deleted once a connection has been replaced.
//!   (`waiters_of_before_a_restore_keep_no_restored_place_alive`)
//! - A grant is trusted for what the lease is worth, and not for when its event came: a claim that holds does so until its
//!   key is gone. So a watch that is late, was away, or listens to a member that lags behind costs time alone, and the beat
//!   bounds it. A leader that was deposed cannot confirm a beat, see `calls.rs`.
//! - The lease of a killed process ends after 5 s, and its waiters are passed over. One that is alive, but has a waiter that
//!   asks no more, deletes the place of that waiter after 4 s.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_runtime::{
    clock::{Clock, Moment, SystemClock},
    store::{Drift, GRANT_TTL, StoreError},
};
use tokio::sync::{Notify, watch};

use crate::leases::Lease;

/// The TTL of the lease that waiters have, in seconds.
pub(crate) const WAITING: i64 = 5;

const LASTS: Duration = Duration::from_secs(5);

/// A lease is forgotten so long after it was last kept alive.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The lease that new waiters get, and the key that their requests compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) lease: i64,
    /// The create revision of the key.
    pub(crate) create: i64,
}

/// The leases of waiters.
pub(crate) struct Places {
    state: Mutex<State>,
    /// Asks for a beat now.
    kick: Notify,
    beats: watch::Sender<Beat>,
}

#[derive(Default)]
struct State {
    /// Each lease that was made here, and the moment before it was last kept alive.
    leases: HashMap<i64, Moment>,
    open: Option<Gate>,
    is_wanted: bool,
    /// The number of the connection after which all unknown places were deleted.
    searched: u64,
}

/// How a beat ended.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    /// The leases are alive, and the queues were read.
    pub(crate) kept: Result<(), StoreError>,
    /// A gate was opened, if one was wanted.
    pub(crate) opened: Result<(), StoreError>,
}

impl Default for Places {
    fn default() -> Self {
        let none_yet = Beat {
            kept: Ok(()),
            opened: Ok(()),
        };
        Self {
            state: Mutex::default(),
            kick: Notify::new(),
            beats: watch::Sender::new(none_yet),
        }
    }
}

/// The lease of waiters with this id.
pub(crate) fn shared(id: i64) -> Lease {
    Lease {
        id,
        seconds: WAITING,
        is_shared: true,
        conn: 0,
    }
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before any code can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lease with this id, which a key was found to have.
    pub(crate) fn lease(&self, id: i64) -> Lease {
        if self.state().leases.contains_key(&id) {
            return shared(id);
        }
        Lease {
            id,
            seconds: 0,
            is_shared: false,
            conn: 0,
        }
    }

    /// Notes that a lease was kept alive by a request that was sent after `asked`.
    pub(crate) fn kept(&self, lease: i64, asked: Moment) {
        if let Some(since) = self.state().leases.get_mut(&lease) {
            *since = since.later(asked);
        }
    }

    /// Gives new waiters another lease than this one, which is gone or has no gate.
    pub(crate) fn close(&self, lease: i64) {
        let mut state = self.state();
        if state.open.is_some_and(|gate| gate.lease == lease) {
            state.open = None;
        }
    }

    /// Returns the leases that may have places which no claim knows, if they were not searched since this connection is there.
    pub(crate) fn to_search(&self, conn: u64) -> Vec<i64> {
        let state = self.state();
        if state.searched == conn {
            return Vec::new();
        }
        state.leases.keys().copied().collect()
    }

    pub(crate) fn searched(&self, conn: u64) {
        self.state().searched = conn;
    }

    /// Returns `true` if the lease lasts for as long as a waiter that asked at this moment would trust a grant.
    pub(crate) fn covers(&self, lease: i64, asked: Moment) -> bool {
        let since = self.state().leases.get(&lease).copied();
        since.is_some_and(|since| is_covered(since, asked))
    }

    /// Returns the gate for a new waiter. Its lease covers a request of now.
    pub(crate) async fn gate(&self) -> Result<Gate, StoreError> {
        let mut beats = self.beats();
        loop {
            {
                let now = SystemClock.now();
                let mut state = self.state();
                let open = state.open.filter(|gate| {
                    let since = state.leases.get(&gate.lease);
                    since.is_some_and(|since| is_covered(*since, now))
                });
                if let Some(gate) = open {
                    return Ok(gate);
                }
                state.is_wanted = true;
            }
            self.next_beat(&mut beats).await?;
            beats.borrow().opened.clone()?;
        }
    }

    /// Sees the beats that end from now on.
    pub(crate) fn beats(&self) -> watch::Receiver<Beat> {
        self.beats.subscribe()
    }

    /// Asks for a beat, and waits until one has ended.
    pub(crate) async fn next_beat(
        &self,
        beats: &mut watch::Receiver<Beat>,
    ) -> Result<(), StoreError> {
        self.kick.notify_one();
        // The sender lives as long as this value.
        beats.changed().await.ok();
        beats.borrow().kept.clone()
    }

    /// Waits until a beat is asked for.
    pub(crate) async fn kicked(&self) {
        self.kick.notified().await;
    }

    pub(crate) fn ended(&self, beat: Beat) {
        self.beats.send_replace(beat);
    }

    /// Returns `true`, once, if a new waiter needs a gate and none is open.
    pub(crate) fn wants_gate(&self) -> bool {
        let mut state = self.state();
        std::mem::take(&mut state.is_wanted) && state.open.is_none()
    }

    /// The leases to keep alive: those in use, and the open one if a waiter is to come.
    pub(crate) fn to_keep(&self, mut used: HashSet<i64>) -> Vec<i64> {
        let mut state = self.state();
        let now = SystemClock.now();
        state
            .leases
            .retain(|lease, since| used.contains(lease) || since.elapsed(now) < FORGOTTEN);
        if state.is_wanted {
            used.extend(state.open.map(|gate| gate.lease));
        }
        used.into_iter().collect()
    }

    pub(crate) fn opened(&self, gate: Gate, since: Moment, conn: u64) {
        let mut state = self.state();
        if state.leases.is_empty() {
            // No snapshot of before has this one.
            state.searched = conn;
        }
        state.leases.insert(gate.lease, since);
        state.open = Some(gate);
    }
}

/// Returns `true` if a lease that was kept alive after `since` lasts for as long as a waiter trusts a grant from `asked` on.
pub(crate) fn is_covered(since: Moment, asked: Moment) -> bool {
    since.elapsed(asked) + GRANT_TTL + Drift::USUAL.of(LASTS) <= LASTS
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const BRIEF: Duration = Duration::from_millis(1);

    fn after(begin: Moment, monotonic: u64, boot: u64) -> Moment {
        Moment {
            monotonic: begin.monotonic + Duration::from_millis(monotonic),
            boot: begin.boot + Duration::from_millis(boot),
        }
    }

    #[test]
    fn a_request_is_covered_for_as_long_as_a_grant_is_trusted() {
        let since = SystemClock.now();
        let drift = Drift::USUAL.of(LASTS);
        for (monotonic, boot, covered) in [
            (0, 0, true),
            (1940, 1940, true),
            (1960, 1960, false),
            // The machine slept, which one of the clocks does not see.
            (100, 1960, false),
            (1960, 100, false),
        ] {
            let asked = after(since, monotonic, boot);
            assert_eq!(is_covered(since, asked), covered, "{monotonic} {boot}");
            if covered {
                let trusted = since.elapsed(asked) + GRANT_TTL;
                assert!(trusted + drift <= LASTS, "{monotonic}");
            }
        }
        // A keep-alive of later covers it as well.
        assert!(is_covered(after(since, 900, 900), since));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_waiter_gets_an_open_gate_whose_lease_is_alive() {
        let places = Places::default();
        let since = SystemClock.now();
        let gate = Gate {
            lease: 7,
            create: 1,
        };
        places.opened(gate, since, 1);
        assert_eq!(places.gate().await, Ok(gate));
        assert!(places.lease(7).is_shared && !places.lease(8).is_shared);
        let idle = places.to_keep(HashSet::new());
        assert_eq!(idle, [0; 0], "no waiter uses it, and none is to come");
        tokio::time::advance(Duration::from_secs(2)).await;
        let mut waiter = Box::pin(places.gate());
        assert!(timeout(BRIEF, waiter.as_mut()).await.is_err());
        assert_eq!(places.to_keep(HashSet::new()), [7], "a waiter is to come");
        places.kept(7, SystemClock.now());
        assert!(!places.wants_gate(), "there is one");
        let beat = Beat {
            kept: Ok(()),
            opened: Ok(()),
        };
        places.ended(beat.clone());
        assert_eq!(waiter.await, Ok(gate));
        places.close(7);
        let mut waiter = Box::pin(places.gate());
        assert!(timeout(BRIEF, waiter.as_mut()).await.is_err());
        assert!(places.wants_gate());
        places.ended(Beat {
            kept: Err(StoreError::timed_out(BRIEF)),
            ..beat
        });
        assert!(waiter.await.is_err(), "the beat has failed");
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_open_gate_is_closed_with_its_lease() {
        let places = Places::default();
        let gate = Gate {
            lease: 7,
            create: 1,
        };
        places.opened(gate, SystemClock.now(), 1);
        places.close(8);
        assert_eq!(places.gate().await, Ok(gate));
        places.close(7);
        assert!(timeout(BRIEF, places.gate()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_gets_an_error_if_no_gate_could_be_opened() {
        let places = Places::default();
        let mut waiter = Box::pin(places.gate());
        assert!(timeout(BRIEF, waiter.as_mut()).await.is_err());
        assert!(timeout(BRIEF, places.kicked()).await.is_ok(), "it asks");
        assert!(places.wants_gate() && !places.wants_gate(), "for one gate");
        let failed = StoreError::timed_out(BRIEF);
        places.ended(Beat {
            kept: Ok(()),
            opened: Err(failed.clone()),
        });
        assert_eq!(waiter.await, Err(failed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_worth_what_its_last_keep_alive_says() {
        let places = Places::default();
        let now = SystemClock.now();
        let gate = Gate {
            lease: 7,
            create: 1,
        };
        places.opened(gate, now, 1);
        let asked = after(now, 2500, 2500);
        assert!(places.covers(7, now) && !places.covers(7, asked));
        assert!(!places.covers(8, now), "nothing is known of it");
        places.kept(7, after(now, 1000, 1000));
        assert!(places.covers(7, asked));
        // An answer that is read late.
        places.kept(7, after(now, 500, 500));
        assert!(places.covers(7, asked));
        places.kept(8, now);
        assert!(!places.covers(8, now), "it was not made here");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_forgotten_when_it_must_have_ended() {
        let places = Places::default();
        let begin = SystemClock.now();
        for lease in [7, 8] {
            places.opened(Gate { lease, create: 1 }, begin, 1);
        }
        tokio::time::advance(FORGOTTEN.saturating_sub(BRIEF)).await;
        assert_eq!(places.to_keep(HashSet::from([7])), [7]);
        assert!(places.lease(7).is_shared && places.lease(8).is_shared);
        tokio::time::advance(BRIEF).await;
        assert_eq!(places.to_keep(HashSet::from([7])), [7]);
        assert!(places.lease(7).is_shared, "a waiter has it");
        assert!(!places.lease(8).is_shared);
    }

    /// Each lease may be in a snapshot that was taken before the connection was made.
    #[tokio::test(start_paused = true)]
    async fn leases_are_searched_once_for_each_connection_after_them() {
        let places = Places::default();
        let now = SystemClock.now();
        let open = |lease, conn| places.opened(Gate { lease, create: 1 }, now, conn);
        let to_search = |conn| {
            let mut leases = places.to_search(conn);
            leases.sort_unstable();
            leases
        };
        assert_eq!(to_search(1), [0; 0]);
        open(7, 1);
        assert_eq!(to_search(1), [0; 0], "no snapshot of before has it");
        assert_eq!(to_search(2), [7]);
        open(8, 2);
        assert_eq!(to_search(2), [7, 8], "the first was not searched yet");
        places.searched(2);
        assert_eq!(to_search(2), [0; 0]);
        assert_eq!(to_search(3), [7, 8]);
    }
}
