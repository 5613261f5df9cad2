//! The facts that are judged, in a form that tests can construct.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Overview, ServerReport};

/// The input of all checks.
///
/// ```
/// use std::time::Duration;
/// use dlock::admin::{Inspect, doctor::{Facts, Finding, LockFacts, findings}};
///
/// /// Returns what `dlock doctor` finds about the servers and the locks of a store.
/// async fn examined(inspector: &dyn Inspect) -> Vec<Finding> {
///     let mut facts = Facts::unknown();
///     facts.ttl = Duration::from_secs(10);
///     facts.servers = inspector.servers().await;
///     let seen = inspector.overview().await;
///     facts.locks = seen.map(|it| LockFacts::of(&it)).map_err(|error| error.to_string());
///     findings(&*inspector.judge(), &facts)
/// }
/// # let _ = examined;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// The shortest TTL of the user's locks.
    pub ttl: Duration,
    /// The reports of the servers.
    pub servers: Vec<ServerReport>,
    /// The locks on the servers, or the reason why they could not be read.
    pub locks: Result<LockFacts, String>,
}

/// The time after which a lock is held for long.
const LONG: Duration = Duration::from_secs(3600);

/// A summary of the locks in a store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LockFacts {
    /// The number of locks with a holder.
    pub held: usize,
    /// The number of waiters.
    pub waiters: usize,
    /// The number of waiters that sent no request recently enough.
    pub dead_waiters: usize,
    /// The keys of locks that one holder has held for longer than an hour, each with the time.
    pub held_long: Vec<(String, Duration)>,
    /// The keys of locks without a TTL.
    pub without_ttl: Vec<String>,
    /// The keys of locks that third-party clients hold.
    pub foreign: Vec<String>,
    /// The keys of locks that are held at a minority of a quorum.
    pub at_a_minority: Vec<String>,
    /// The keys that have used more than half of the store's numbers for claims.
    pub half_used_up: Vec<String>,
    /// The number of processes, if the store can tell.
    pub processes: Option<usize>,
    /// The number of processes of each version of dlock, of those whose version is known.
    pub versions: BTreeMap<String, usize>,
}

impl Facts {
    /// Returns facts that say nothing yet, about locks with a TTL of 30 s.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            servers: Vec::new(),
            locks: Err("no server could be read".to_owned()),
        }
    }
}

impl LockFacts {
    /// Returns the summary of these locks.
    ///
    /// ```
    /// use dlock::admin::{Overview, doctor::LockFacts};
    ///
    /// assert_eq!(LockFacts::of(&Overview::default()).held, 0);
    /// ```
    #[must_use]
    pub fn of(seen: &Overview) -> Self {
        let mut facts = Self {
            processes: seen.process_count,
            ..Self::default()
        };
        for lock in &seen.locks {
            facts.waiters += lock.waiter_count;
            facts.dead_waiters += lock.waiters.iter().filter(|it| !it.is_alive).count();
            if lock.is_half_used_up {
                facts.half_used_up.push(lock.key.clone());
            }
            let Some(holder) = &lock.holder else { continue };
            facts.held += 1;
            let held = holder.since.and_then(|it| it.elapsed().ok());
            if let Some(held) = held.filter(|it| *it > LONG) {
                facts.held_long.push((lock.key.clone(), held));
            }
            if holder.ttl.is_none() {
                facts.without_ttl.push(lock.key.clone());
            }
            if holder.owner.is_none() {
                facts.foreign.push(lock.key.clone());
            }
            if lock.held_at * 2 <= lock.servers {
                facts.at_a_minority.push(lock.key.clone());
            }
        }
        for process in &seen.processes {
            *facts.versions.entry(process.version.clone()).or_default() += 1;
        }
        facts
    }
}
