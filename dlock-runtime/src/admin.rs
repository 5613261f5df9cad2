//! The locks in a server, for operators: who holds and waits for them, and how to release one by
//! force.
//!
//! An [`Inspector`] looks at a server and takes no locks. Other clients do not have to wait for it:
//! it goes through the keys in small steps that take at most 5 % of the server's time, and looks at
//! each lock by a script that only reads.
//!
//! # Permissions
//!
//! On a server with access control lists, a user that may lock can [look at a lock](Inspector::lock)
//! and [take it away](Inspector::unlock) with the permissions that it has. It needs `+scan` as well to
//! list locks and processes, `+psubscribe` to watch grants, and `+info` to read how a server is set
//! up. Without raw keys, this user can do all of it and nothing else:
//!
//! ```text
#![doc = include_str!("admin/permissions.txt")]
//! ```
//!
//! In a cluster it needs these too, on every node:
//!
//! ```text
#![doc = include_str!("store/redis/permissions_cluster.txt")]
//! ```

mod deployment;
mod hand_offs;
mod inspector;
mod merge;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

pub use self::{
    deployment::{Deployment, Layout},
    hand_offs::HandOffs,
    inspector::Inspector,
};
use crate::{
    owner::{ClientId, OwnerId},
    store::{StoreError, redis::LeaseIdentity},
};

/// A lock that is held or waited for.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::LockInfo;
///
/// /// One line for each lock.
/// fn row(lock: &LockInfo) -> String {
///     let holder = lock.holder.as_ref().and_then(|holder| holder.label.as_deref());
///     format!("{} {} {} wait", lock.key, holder.unwrap_or("-"), lock.waiter_count)
/// }
/// # let _ = row;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The lock.
    pub key: String,
    /// The holder; of a quorum the one that holds the lock at most servers. `None` if there are
    /// only waiters.
    pub holder: Option<HolderInfo>,
    /// The waiters, the next one first: of each server at most the first 4096.
    pub waiters: Vec<WaiterInfo>,
    /// The number of waiters, including those that are not among [`waiters`](Self::waiters).
    pub waiter_count: usize,
    /// The last fence of the lock's slot, 0 if there was none.
    pub last_fence: u64,
    /// The number of servers at which the holder has the lock.
    pub held_at: usize,
    /// The number of servers that answered: 1, unless this is a quorum.
    pub servers: usize,
    /// The identity of the holder's lease, at each server that has it.
    seen: Vec<(usize, LeaseIdentity)>,
}

/// The holder of a lock.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::HolderInfo;
///
/// /// Returns `true` if only an operator can free this lock.
/// fn is_stuck(holder: &HolderInfo) -> bool {
///     holder.ttl.is_none() // only a third-party client leaves such a lock behind
/// }
/// # let _ = is_stuck;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// The owner id, `None` for a third-party client's lock.
    pub owner: Option<OwnerId>,
    /// The label that the process writes into the lock: `billing@host-3/4711`. `None` for a
    /// third-party client, and for a lease that the store granted a moment ago.
    pub label: Option<String>,
    /// The function under the attribute that took it, if one did.
    pub function: Option<String>,
    /// The process, if it has published what it is.
    pub process: Option<ProcessInfo>,
    /// The fence of the lease, 0 for a third-party client.
    pub fence: u64,
    /// The time when the process got the lease, by the server's clock, to which fences are tied;
    /// `None` for a third-party client. The tasks of a process may have handed it over since, for some
    /// milliseconds.
    pub since: Option<SystemTime>,
    /// The time after which the lease ends unless it is renewed; `None` if it never does.
    pub ttl: Option<Duration>,
}

/// A waiter for a lock.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::admin::WaiterInfo;
///
/// /// The time for which the first waiter that is alive has waited.
/// fn longest(waiters: &[WaiterInfo]) -> Option<Duration> {
///     waiters.iter().find(|waiter| waiter.is_alive).map(|waiter| waiter.waiting)
/// }
/// # let _ = longest;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// The owner id. Other tasks of the same process may wait behind it, unknown to the server.
    pub owner: OwnerId,
    /// The process, if it has published what it is.
    pub process: Option<ProcessInfo>,
    /// The time that it has been in the queue.
    pub waiting: Duration,
    /// `true` if it has given a sign of life in time. Dead waiters are passed over.
    pub is_alive: bool,
}

/// A process that takes locks, as its manager has published it.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::ProcessInfo;
///
/// /// The place of the process.
/// fn place(process: &ProcessInfo) -> String {
///     format!("process {} on {}, dlock {}", process.pid, process.host, process.version)
/// }
/// # let _ = place;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// The manager.
    pub client: ClientId,
    /// The label that it writes into its locks: `billing@host-3/4711`.
    pub label: String,
    /// The name given to [`LockManagerBuilder::application`](crate::LockManagerBuilder::application).
    pub application: Option<String>,
    /// The host's name.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The time when the manager was made, by the clock of its host.
    pub started: SystemTime,
    /// The version of dlock in it.
    pub version: String,
}

/// All locks and all processes, as [`Inspector::overview`] finds them.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::Overview;
///
/// /// A summary in one line.
/// fn line(seen: &Overview) -> String {
///     let waiting: usize = seen.locks.iter().map(|lock| lock.waiter_count).sum();
///     format!("{} locks, {waiting} wait, {} processes", seen.locks.len(), seen.processes.len())
/// }
/// # let _ = line;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// The locks that are held or waited for, in the order of their keys.
    pub locks: Vec<LockInfo>,
    /// The processes that have a manager, in the order of their labels.
    pub processes: Vec<ProcessInfo>,
}

/// The outcome of an attempt to end a holder's lease.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::Unlocked;
///
/// fn say(unlocked: Unlocked) -> &'static str {
///     match unlocked {
///         Unlocked::Freed => "it is free",
///         Unlocked::HandedOn => "the next one has it",
///         Unlocked::Changed => "it is another lease by now: look again",
///         _ => "done",
///     }
/// }
/// # let _ = say;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unlocked {
    /// The lock was taken away and is free.
    Freed,
    /// The lock was taken away, and the first waiter has it now.
    HandedOn,
    /// The lease that was looked at had ended, and nothing was done.
    Changed,
}

/// A lock was granted to the next waiter; or, in a quorum, a waiter was notified that it may ask.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::HandOff;
///
/// fn line(hand_off: &HandOff) -> String {
///     match hand_off.fence {
///         0 => format!("{} may ask for {}", hand_off.owner, hand_off.key),
///         fence => format!("{} has {} with fence {fence}", hand_off.owner, hand_off.key),
///     }
/// }
/// # let _ = line;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOff {
    /// The lock.
    pub key: String,
    /// The new holder, or the waiter that was notified.
    pub owner: OwnerId,
    /// The fence of the new lease. It is 0 only in a quorum, where there is none yet: waiters are
    /// notified that they may ask, and a holder whose lock was taken away gets the same message.
    pub fence: u64,
}

/// The state of one server, as far as the user is allowed to read it.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::ServerReport;
///
/// /// Returns `true` if this server can be trusted with locks while its memory is full.
/// fn keeps_locks(report: &ServerReport) -> Option<bool> {
///     report.info.get("maxmemory_policy").map(|policy| policy == "noeviction")
/// }
/// # let _ = keeps_locks;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The server's address, without a password.
    pub server: String,
    /// The reason why nothing is known of it.
    pub failure: Option<StoreError>,
    /// All fields of `INFO`, by name; empty if that is not allowed.
    pub info: BTreeMap<String, String>,
    /// The setting `appendfsync` of its append-only file, if it has one and `CONFIG GET` is
    /// allowed.
    pub appendfsync: Option<String>,
    /// The difference of its clock from this machine's.
    pub clock: Option<ClockReading>,
    /// The round trips of some `PING`s.
    pub round_trips: Vec<Duration>,
    /// The permissions that locks need and the user does not have.
    pub denied: Vec<Denied>,
    /// The reason why scripts cannot publish wake-up messages although clients can, as where pub/sub
    /// is sharded. Each grant to another process then takes one round trip more.
    pub unpublished: Option<String>,
    /// The replicas that could take its place behind Sentinels and in a cluster, as far as `INFO`
    /// lists them.
    pub replicas: Vec<ReplicaReport>,
}

/// The state of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaReport {
    /// Host and port, as its master knows them.
    pub address: String,
    /// The difference of its clock from this machine's, or the reason why it is unknown.
    pub clock: Result<ClockReading, StoreError>,
}

/// The difference of a server's clock from this machine's.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::ClockReading;
///
/// /// Returns `true` if the clock is certainly wrong by more than a second.
/// fn is_off(clock: ClockReading) -> bool {
///     clock.ahead_us.unsigned_abs() > 1_000_000 + clock.uncertainty.as_micros() as u64
/// }
/// # let _ = is_off;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReading {
    /// The microseconds by which the server's clock is ahead, negative if it is behind.
    pub ahead_us: i64,
    /// The possible error of that: half of the round trip.
    pub uncertainty: Duration,
}

/// A permission that locks need and the user of the server lacks.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::admin::Denied;
///
/// /// The rule that would let the user `app` do all of it.
/// fn rule(denied: &[Denied]) -> String {
///     let rules: Vec<_> = denied.iter().map(|it| it.rule.as_str()).collect();
///     format!("ACL SETUSER app {}", rules.join(" "))
/// }
/// # let _ = rule;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// The rule that the user lacks, as `ACL SETUSER` takes it: `+publish`, `~dlock:*`.
    pub rule: String,
    /// The part of dlock that does not work without it.
    pub purpose: String,
    /// `true` if locks do not work at all without it.
    pub is_required: bool,
}
