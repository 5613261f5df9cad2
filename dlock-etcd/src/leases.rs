//! Leases of etcd that no claim uses now, kept for the next claim with the same TTL.
//!
//! A claim has a lease of its own, so it ends by itself and no other claim ends with it. Making a lease costs etcd as
//! much as a lock does, and keeping one alive costs a message; so a lease is used again while it lasts.
//!
//! # Rules
//!
//! The model `leases` in `evidence/model` searches the first two in every order of requests.
//!
//! - **Safety.** A lease is used again only if etcd has answered each request that gives it to a key, and the deletion of
//!   its last key. A late request could otherwise create the key of a claim that is over, and the next claim would keep it
//!   alive. (`a_request_that_arrives_after_the_release_has_no_effect`)
//! - **Safety.** A lease is that of one claim at a time, so the end of a lease ends no key of another claim.
//!   (`a_key_keeps_its_lease_when_its_label_changes`)
//! - A keep-alive of an earlier claim that arrives late only makes a lease longer. A claim counts from its own keep-alive,
//!   see `settle.rs`, so neither that nor a clock that jumps changes a deadline.
//! - A lease that has ended, or that a restored ensemble does not know, is refused, and the claim takes another one.
//! - A claim is known by the name and the create revision of its key, and never by its lease. Releases, renewals and
//!   `dlock unlock` compare these, so they cannot hit the next claim with the same lease.
//! - A forked child sends no requests, so it uses none of them.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_runtime::store::StoreError;
use tokio::time::Instant;

use crate::conn::Conn;

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
}

/// A lease for a request.
pub(crate) struct Taken {
    pub(crate) lease: Lease,
    /// `true` if it was made for this request. Any other is to be kept alive beside the request.
    pub(crate) is_fresh: bool,
}

/// The idle leases of a store.
#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<i64, Vec<(i64, Instant)>>>);

impl Leases {
    fn idle(&self) -> MutexGuard<'_, HashMap<i64, Vec<(i64, Instant)>>> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a lease of this TTL that no claim uses.
    pub(crate) async fn take(&self, conn: &Conn, seconds: i64) -> Result<Taken, StoreError> {
        let (id, is_fresh) = match self.take_idle(seconds) {
            Some(id) => (id, false),
            None => (conn.grant(seconds).await?, true),
        };
        let lease = Lease {
            id,
            seconds,
            is_shared: false,
        };
        Ok(Taken { lease, is_fresh })
    }

    fn take_idle(&self, seconds: i64) -> Option<i64> {
        let mut idle = self.idle();
        let leases = idle.get_mut(&seconds)?;
        // One that is about to end would have to be replaced at once.
        let half = Duration::from_millis(u64::try_from(seconds).unwrap_or(0) * 500);
        let (id, since) = leases.pop()?;
        if since.elapsed() < half {
            return Some(id);
        }
        // All others have been there for longer.
        leases.clear();
        None
    }

    /// Takes back a lease that has no keys, and that was kept alive after `since`. No request that names it may be under
    /// way.
    pub(crate) fn give(&self, lease: Lease, since: Instant) {
        if lease.seconds == 0 || lease.is_shared {
            return;
        }
        let mut idle = self.idle();
        let leases = idle.entry(lease.seconds).or_default();
        if leases.len() < MOST_IDLE {
            let place = leases.partition_point(|(_, other)| *other <= since);
            leases.insert(place, (lease.id, since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_used_again_in_the_first_half_of_its_ttl() {
        let leases = Leases::default();
        let give = |id, seconds| {
            let is_shared = false;
            let lease = Lease {
                id,
                seconds,
                is_shared,
            };
            leases.give(lease, Instant::now());
        };
        give(1, 10);
        tokio::time::advance(Duration::from_secs(4)).await;
        give(2, 10);
        give(3, 0);
        let shared = Lease {
            id: 9,
            seconds: 10,
            is_shared: true,
        };
        leases.give(shared, Instant::now());
        assert_eq!(leases.take_idle(30), None);
        assert_eq!(leases.take_idle(0), None);
        assert_eq!(leases.take_idle(10), Some(2));
        assert_eq!(leases.take_idle(10), Some(1));
        give(4, 10);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(leases.take_idle(10), None, "half of its TTL has passed");
    }
}
