//! The answers of inspectors: locks with their holders and waiters, processes, and servers.

use std::{
    collections::BTreeMap,
    str::FromStr,
    time::{Duration, SystemTime},
};

#[cfg(feature = "redis")]
use dlock_runtime::admin::LeaseIdentity;
use dlock_runtime::store::{ClientId, LockMode, OwnerId, StoreError, StoreErrorKind};

/// A lock that has a holder or waiters.
///
/// ```
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
    /// The key of the lock.
    pub key: String,
    /// The mode in which the lock is held: [`Exclusive`](LockMode::Exclusive) or [`Shared`](LockMode::Shared). A lock
    /// with permits is `Shared`, because the server does not store their number. `None` if there are only waiters.
    pub mode: Option<LockMode>,
    /// The holder; in a quorum, the one that holds the lock on most servers. `None` if there are only waiters.
    pub holder: Option<HolderInfo>,
    /// The other holders of a shared lock, in the order of their owner ids; at most the first 4096 of all.
    /// [`holders`](Self::holders) lists them with the first one.
    pub others: Vec<HolderInfo>,
    /// The number of holders, including those that [`others`](Self::others) does not list.
    pub holder_count: usize,
    /// The waiters, the next one first; at most the first 4096 of each server.
    pub waiters: Vec<WaiterInfo>,
    /// The number of waiters, including those that [`waiters`](Self::waiters) does not list.
    pub waiter_count: usize,
    /// The last fence of the lock's slot, 0 if there is none.
    pub last_fence: u64,
    /// The number of servers on which the holder has the lock.
    pub held_at: usize,
    /// The number of servers that answered; 1, unless this is a quorum.
    pub servers: usize,
    /// `true` if more than half of the numbers that ZooKeeper has for claims on a key are used. At the end, the key lets in no more
    /// until it was free for a moment.
    pub is_half_used_up: bool,
    /// The identity of each holder's lease in Redis, in the order of [`holders`](Self::holders), on each server that
    /// has it. Other stores recognize a lease by its owner and its fence.
    #[cfg(feature = "redis")]
    pub(crate) seen: Vec<Vec<(usize, LeaseIdentity)>>,
}

impl LockInfo {
    /// Returns all holders: none, one, or those that share the lock.
    ///
    /// ```
    /// use dlock::admin::LockInfo;
    ///
    /// /// The labels of all holders.
    /// fn labels(lock: &LockInfo) -> Vec<&str> {
    ///     lock.holders().filter_map(|holder| holder.label.as_deref()).collect()
    /// }
    /// # let _ = labels;
    /// ```
    pub fn holders(&self) -> impl Iterator<Item = &HolderInfo> {
        self.holder.iter().chain(&self.others)
    }
}

/// A holder of a lock.
///
/// ```
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
    /// The owner id; `None` for the lock of a third-party client.
    pub owner: Option<OwnerId>,
    /// The label that the process writes into the lock, such as `billing@host-3/4711`. `None` for a third-party
    /// client, and for a lease that the store granted a moment ago.
    pub label: Option<String>,
    /// The annotated function that acquired the lock, if any.
    pub function: Option<String>,
    /// The process, if it has published a record of itself.
    pub process: Option<ProcessInfo>,
    /// The fence of the lease; 0 for a third-party client. All holders of a shared lock have the same.
    pub fence: u64,
    /// The time when the process acquired the lease, by the server's clock, on which fences are based. `None`
    /// for a third-party client. Tasks of the process may have handed the lease over since then, within some
    /// milliseconds. Of a shared lock, it is the time of the first of its holders, which may have left since.
    pub since: Option<SystemTime>,
    /// The time until the lease ends if it is not renewed; `None` if it never ends.
    pub ttl: Option<Duration>,
    /// A number that tells apart the leases of third-party clients, which have neither an owner id nor a fence; 0 if the store
    /// has none.
    pub mark: u64,
}

impl HolderInfo {
    /// Returns the label of the lease, or else that of the process.
    #[must_use]
    pub fn known_label(&self) -> Option<&str> {
        known(self.label.as_ref(), self.process.as_ref())
    }
}

/// A waiter for a lock.
///
/// ```
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
    /// The owner id. Other tasks of the same process may wait behind it; the server does not know them.
    pub owner: OwnerId,
    /// The label of the process, if the store knows it.
    pub label: Option<String>,
    /// The mode in which it wants the lock.
    pub mode: LockMode,
    /// The process, if it has published a record of itself.
    pub process: Option<ProcessInfo>,
    /// The time since the waiter entered the queue.
    pub waiting: Duration,
    /// `true` if the waiter has sent a request recently enough. Dead waiters are skipped.
    pub is_alive: bool,
}

impl WaiterInfo {
    /// Returns the label that the store knows, or else that of the process.
    #[must_use]
    pub fn known_label(&self) -> Option<&str> {
        known(self.label.as_ref(), self.process.as_ref())
    }
}

fn known<'a>(label: Option<&'a String>, process: Option<&'a ProcessInfo>) -> Option<&'a str> {
    let published = || process.map(|process| &process.label);
    label.or_else(published).map(String::as_str)
}

/// A process that acquires locks, as published by its manager.
///
/// ```
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
    /// The client id of the manager.
    pub client: ClientId,
    /// The label that the process writes into its locks, such as `billing@host-3/4711`.
    pub label: String,
    /// The name given to [`LockManagerBuilder::application`](dlock_runtime::LockManagerBuilder::application).
    pub application: Option<String>,
    /// The name of the host.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The time when the manager was created, by the clock of its host.
    pub started: SystemTime,
    /// The version of dlock that the process uses.
    pub version: String,
}

/// All locks and all processes, as returned by [`Inspect::overview`](crate::Inspect::overview).
///
/// ```
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
    /// The locks that have a holder or waiters, in the order of their keys.
    pub locks: Vec<LockInfo>,
    /// The records of processes that have a manager, in the order of their labels. Empty if the store keeps none.
    pub processes: Vec<ProcessInfo>,
    /// The number of processes that have a manager. `None` if the store cannot tell.
    pub process_count: Option<usize>,
}

/// The outcome of an attempt to end a holder's lease.
///
/// ```
/// use dlock::admin::Unlocked;
///
/// fn say(unlocked: Unlocked) -> &'static str {
///     match unlocked {
///         Unlocked::Freed => "it is free",
///         Unlocked::Granted => "the first waiter holds it",
///         Unlocked::StillShared => "others share it",
///         Unlocked::Changed => "the lease has changed: inspect the lock again",
///         _ => "done",
///     }
/// }
/// # let _ = say;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unlocked {
    /// The lease was ended, and the lock is free.
    Freed,
    /// The lease was ended, and the lock was granted to the first waiter, or to all that may share it.
    Granted,
    /// The lease was ended, and others share the lock. They carry the same fencing token, so a resource that compares
    /// tokens does not refuse the writes of the old holder.
    StillShared,
    /// The inspected lease had already ended, and nothing was changed.
    Changed,
}

/// A grant of a lock to the next waiter. In a quorum, a notice to a waiter that it may request the lock.
///
/// ```
/// use dlock::admin::Grant;
///
/// fn line(grant: &Grant) -> String {
///     match grant.fence {
///         0 => format!("{} may request {}", grant.owner, grant.key),
///         fence => format!("{} holds {} with fence {fence}", grant.owner, grant.key),
///     }
/// }
/// # let _ = line;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The key of the lock.
    pub key: String,
    /// The new holder, or the waiter that was notified.
    pub owner: OwnerId,
    /// The fence of the new lease. It is 0 only in a quorum, where no lease is granted yet: waiters are
    /// notified that they may request the lock. A holder whose lock was force-released receives the same
    /// message.
    pub fence: u64,
}

/// The state of one server, as far as the user may read it.
///
/// ```
/// use dlock::admin::ServerReport;
///
/// /// Returns `true` if this server keeps locks when its memory is full.
/// fn keeps_locks(report: &ServerReport) -> Option<bool> {
///     report.info.get("maxmemory_policy").map(|policy| policy == "noeviction")
/// }
/// # let _ = keeps_locks;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerReport {
    /// The address of the server, without a password.
    pub server: String,
    /// The name of its product, such as `PostgreSQL`, if it is known.
    pub product: Option<String>,
    /// The version of that product, if the user may read it.
    pub version: Option<String>,
    /// The reason why the server could not be inspected.
    pub failure: Option<StoreError>,
    /// The state and the settings of the server, by name: all fields of `INFO` of Redis. Empty if the user may not read
    /// them.
    pub info: BTreeMap<String, String>,
    /// The setting `appendfsync` of the server's append-only file, if it has one and `CONFIG GET` is permitted.
    pub appendfsync: Option<String>,
    /// The difference between the server's clock and the clock of this machine.
    pub clock: Option<ClockReading>,
    /// The round-trip times of several small requests, such as `PING`.
    pub round_trips: Vec<Duration>,
    /// The permissions that locks need and that the user lacks.
    pub denied: Vec<Denied>,
    /// The reason why scripts cannot publish wake-up messages although clients can, for example because pub/sub
    /// is sharded. Each grant to another process then takes one more round trip.
    pub unpublished: Option<String>,
    /// The replicas that could replace this server behind Sentinels and in a cluster, as far as `INFO` lists
    /// them.
    pub replicas: Vec<ReplicaReport>,
}

impl ServerReport {
    /// Returns `true` if the server could be inspected.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns `true` if the server did not answer at all. One that refuses the login has answered.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        use StoreErrorKind::{Disconnected, TimedOut, Unreachable};
        let kind = self.failure.as_ref().map(StoreError::kind);
        matches!(kind, Some(Disconnected | TimedOut | Unreachable))
    }

    /// Returns a value of [`info`](Self::info).
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// Sets a value of [`info`](Self::info).
    ///
    /// ```
    /// use dlock::admin::ServerReport;
    ///
    /// let mut report = ServerReport::new("postgres://db.internal/shop");
    /// report.set("max_connections", 100);
    /// assert_eq!(report.field("max_connections"), Some("100"));
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers name a value of any type"
    )]
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.info.insert(name.to_owned(), value.to_string());
    }

    /// Returns a value of [`info`](Self::info) as a number.
    ///
    /// ```
    /// use dlock::admin::ServerReport;
    ///
    /// let mut report = ServerReport::new("postgres://db.internal/shop");
    /// report.set("max_connections", 100);
    /// assert_eq!(report.number("max_connections"), Some(100_u32));
    /// assert!(report.is("max_connections", "100"));
    /// ```
    #[must_use]
    pub fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.field(name)?.parse().ok()
    }

    /// Returns `true` if [`info`](Self::info) has this value.
    #[must_use]
    pub fn is(&self, name: &str, value: &str) -> bool {
        self.field(name) == Some(value)
    }
}

/// The state of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaReport {
    /// The host and port, as the master knows them.
    pub address: String,
    /// The difference between the replica's clock and the clock of this machine, or the reason why it is
    /// unknown.
    pub clock: Result<ClockReading, StoreError>,
}

/// The difference between a server's clock and the clock of this machine.
///
/// ```
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
    /// The number of microseconds by which the server's clock is ahead; negative if it is behind.
    pub ahead_us: i64,
    /// The possible error of this value: half of the round trip.
    pub uncertainty: Duration,
}

/// A permission that locks need and the user of the server lacks.
///
/// ```
/// use dlock::admin::Denied;
///
/// /// The command that grants the user `app` all missing permissions.
/// fn rule(denied: &[Denied]) -> String {
///     let rules: Vec<_> = denied.iter().map(|it| it.rule.as_str()).collect();
///     format!("ACL SETUSER app {}", rules.join(" "))
/// }
/// # let _ = rule;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Denied {
    /// The missing rule: in the syntax of `ACL SETUSER` for Redis, such as `+publish` or `~dlock:*`, and a statement
    /// such as `GRANT …` for a database.
    pub rule: String,
    /// The part of dlock that needs the permission.
    pub purpose: String,
    /// `true` if locks do not work at all without the permission.
    pub is_required: bool,
}
