//! Creates the data about locks, for inspectors of any store.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dlock_runtime::store::{ClientId, LockMode, OwnerId, StoreError};

use crate::model::{
    ClockReading, Denied, Grant, HolderInfo, LockInfo, ProcessInfo, ReplicaReport, ServerReport,
    WaiterInfo,
};

/// The time from which fences count: the beginning of 2024.
const FENCE_EPOCH: Duration = Duration::from_secs(1_704_067_200);

impl LockInfo {
    /// Creates a lock on one server, without holders and waiters.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use dlock::{LockMode, admin::{HolderInfo, LockInfo}, store::{ClientId, OwnerId}, random::SystemRandom};
    ///
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let mut lock = LockInfo::new("order:42");
    /// lock.mode = Some(LockMode::Exclusive);
    /// lock.add_holder(HolderInfo::new(Some(owner), 9_125_516_004_109, SystemTime::now()));
    /// assert_eq!(lock.holder_count, 1);
    /// ```
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            mode: None,
            holder: None,
            others: Vec::new(),
            holder_count: 0,
            waiters: Vec::new(),
            waiter_count: 0,
            last_fence: 0,
            held_at: 0,
            is_half_used_up: false,
            servers: 1,
            #[cfg(feature = "redis")]
            seen: Vec::new(),
        }
    }

    /// Adds a holder behind those that are there, and counts it.
    pub fn add_holder(&mut self, holder: HolderInfo) {
        self.holder_count += 1;
        self.held_at = self.held_at.max(1);
        match self.holder {
            None => self.holder = Some(holder),
            Some(_) => self.others.push(holder),
        }
    }

    /// Adds a waiter at the end of the queue, and counts it.
    pub fn add_waiter(&mut self, waiter: WaiterInfo) {
        self.waiter_count += 1;
        self.waiters.push(waiter);
    }
}

impl HolderInfo {
    /// Creates a holder whose lease has the fence `fence` and never ends. Its time [`since`](Self::since) is that of the
    /// fence, but not after `now`, which is the time by the server's clock.
    ///
    /// The owner and the fence identify the lease: [`Inspect::unlock`](crate::Inspect::unlock) ends a lease only if it
    /// still has both.
    #[must_use]
    pub fn new(owner: Option<OwnerId>, fence: u64, now: SystemTime) -> Self {
        Self {
            owner,
            label: None,
            function: None,
            process: None,
            fence,
            since: owner.and_then(|_| since(fence, now)),
            ttl: None,
            mark: 0,
        }
    }
}

impl WaiterInfo {
    /// Creates a waiter that is alive and has just entered the queue.
    #[must_use]
    pub fn new(owner: OwnerId, mode: LockMode) -> Self {
        Self {
            owner,
            label: None,
            mode,
            process: None,
            waiting: Duration::ZERO,
            is_alive: true,
        }
    }
}

impl ProcessInfo {
    /// Creates the record of a process, with the parts of its label: `application@host/pid`, or `host/pid`.
    #[must_use]
    pub fn new(
        client: ClientId,
        label: impl Into<String>,
        started: SystemTime,
        version: impl Into<String>,
    ) -> Self {
        let label = label.into();
        // A store that was created directly may have any label.
        let (place, pid) = label
            .rsplit_once('/')
            .and_then(|(place, pid)| Some((place, pid.parse().ok()?)))
            .unwrap_or((&label, 0));
        let (application, host) = match place.rsplit_once('@') {
            Some((application, host)) => (Some(application.to_owned()), host),
            None => (None, place),
        };
        Self {
            client,
            application,
            host: host.to_owned(),
            pid,
            started,
            version: version.into(),
            label,
        }
    }
}

impl Grant {
    /// Creates the grant of `key` to `owner`.
    #[must_use]
    pub fn new(key: impl Into<String>, owner: OwnerId, fence: u64) -> Self {
        Self {
            key: key.into(),
            owner,
            fence,
        }
    }
}

impl ServerReport {
    /// Creates the report of a server about which nothing else is known yet.
    ///
    /// ```
    /// use dlock::admin::ServerReport;
    ///
    /// let mut report = ServerReport::new("postgres://db.internal/shop");
    /// report.set("server_version", "15.4");
    /// assert!(report.failure.is_none());
    /// ```
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            product: None,
            version: None,
            failure: None,
            info: BTreeMap::new(),
            appendfsync: None,
            clock: None,
            round_trips: Vec::new(),
            denied: Vec::new(),
            unpublished: None,
            replicas: Vec::new(),
        }
    }
}

impl ReplicaReport {
    /// Creates the report of a replica.
    #[must_use]
    pub fn new(address: impl Into<String>, clock: Result<ClockReading, StoreError>) -> Self {
        Self {
            address: address.into(),
            clock,
        }
    }
}

impl ClockReading {
    /// Creates the reading of a clock that is ahead by a number of microseconds.
    #[must_use]
    pub fn new(ahead_us: i64, uncertainty: Duration) -> Self {
        Self {
            ahead_us,
            uncertainty,
        }
    }
}

impl Denied {
    /// Creates a missing permission.
    #[must_use]
    pub fn new(rule: impl Into<String>, purpose: impl Into<String>, is_required: bool) -> Self {
        Self {
            rule: rule.into(),
            purpose: purpose.into(),
            is_required,
        }
    }
}

/// Returns the time when a lease with this fence was granted. Fences run ahead of a clock that was set back.
pub(crate) fn since(fence: u64, now: SystemTime) -> Option<SystemTime> {
    let micros = fence.checked_mul(10)?;
    let since = FENCE_EPOCH.checked_add(Duration::from_micros(micros))?;
    Some(UNIX_EPOCH.checked_add(since)?.min(now))
}

#[cfg(test)]
mod tests {
    use dlock_runtime::random::SystemRandom;

    use super::*;

    #[test]
    fn a_label_has_parts() {
        let client = ClientId::new(&SystemRandom);
        for (label, application, host, pid) in [
            ("billing@host-3/4711", Some("billing"), "host-3", 4711),
            ("host-3/4711", None, "host-3", 4711),
            ("a@b@host/1", Some("a@b"), "host", 1),
            ("a/b@host/1", Some("a/b"), "host", 1),
            ("anything", None, "anything", 0),
            ("host/x", None, "host/x", 0),
        ] {
            let process = ProcessInfo::new(client, label, UNIX_EPOCH, "0");
            let parts = (process.application.as_deref(), &*process.host, process.pid);
            assert_eq!(parts, (application, host, pid), "{label}");
        }
    }

    #[test]
    fn a_fence_tells_when_it_was_given() {
        let now = UNIX_EPOCH + FENCE_EPOCH + Duration::from_secs(10);
        let at = |fence| since(fence, now);
        assert_eq!(at(500_000), Some(now - Duration::from_secs(5)));
        assert_eq!(at(9_000_000), Some(now), "it ran ahead");
        assert_eq!(at(u64::MAX), None);
    }

    #[test]
    fn holders_are_listed_in_order_and_counted() {
        let owner = |number| OwnerId::new(ClientId::new(&SystemRandom), number);
        let mut lock = LockInfo::new("k");
        assert_eq!((lock.held_at, lock.holder_count), (0, 0));
        for number in [1, 2] {
            lock.add_holder(HolderInfo::new(Some(owner(number)), number, UNIX_EPOCH));
        }
        lock.add_waiter(WaiterInfo::new(owner(3), LockMode::Shared));
        let fences: Vec<_> = lock.holders().map(|it| it.fence).collect();
        assert_eq!(fences, [1, 2]);
        let counts = (lock.held_at, lock.holder_count, lock.waiter_count);
        assert_eq!(counts, (1, 2, 1));
    }
}
