//! The locks at one time, in a form that tests can construct.

use std::time::{Duration, SystemTime};

use dlock::{
    StoreError,
    admin::{HolderInfo, Inspect, LockInfo, ProcessInfo, ServerReport, WaiterInfo},
    store::{ClientId, OwnerId},
};

use crate::view::{mode_of, wish};

/// The server or servers of the locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    /// The address, or the number of servers.
    pub(crate) name: String,
    /// Product and version, if the user has the permission for `INFO`.
    pub(crate) version: Option<String>,
    /// The time by which the server's clock is ahead of the local one; the times of leases are by the server's clock.
    pub(crate) ahead_us: i64,
}

/// The locks, their holders and their waiters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) locks: Vec<Lock>,
    /// `None` if the store cannot tell.
    pub(crate) processes: Option<usize>,
    /// The time of a scan of all keys, if it is longer than the interval.
    pub(crate) lag: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) key: String,
    pub(crate) holder: Option<Holder>,
    /// The other holders of a shared lock.
    pub(crate) others: Vec<Holder>,
    /// The number of all holders, including those that are not listed.
    pub(crate) holder_count: usize,
    pub(crate) waiters: Vec<Waiter>,
    /// The number of all waiters, including those that are not listed.
    pub(crate) waiter_count: usize,
    pub(crate) last_fence: u64,
    /// The number of servers at which it is held.
    pub(crate) held_at: usize,
    pub(crate) servers: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) function: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) fence: u64,
    pub(crate) held: Option<Duration>,
    /// `None` if the lease never expires.
    pub(crate) ttl: Option<Duration>,
    pub(crate) process: Option<Process>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) name: String,
    pub(crate) owner: String,
    /// The description of what it wants, unless it is an exclusive lock.
    pub(crate) wish: Option<String>,
    pub(crate) waiting: Duration,
    pub(crate) is_alive: bool,
    pub(crate) process: Option<Process>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) application: Option<String>,
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// In the form of RFC 3339.
    pub(crate) started: String,
    pub(crate) version: String,
}

impl Server {
    pub(crate) async fn ask(inspector: &dyn Inspect) -> Self {
        Self::of(&inspector.servers().await)
    }

    fn of(reports: &[ServerReport]) -> Self {
        let name = match reports {
            [one] => match one.server.split_once("://") {
                Some((_, place)) => place.to_owned(),
                None => one.server.clone(),
            },
            _ => format!("{} servers", reports.len()),
        };
        Self {
            name,
            version: reports.iter().find_map(version),
            ahead_us: reports
                .iter()
                .find_map(|it| it.clock)
                .map_or(0, |it| it.ahead_us),
        }
    }

    /// Returns the time on the server's clock.
    pub(crate) fn now(&self) -> SystemTime {
        let (now, by) = (
            SystemTime::now(),
            Duration::from_micros(self.ahead_us.unsigned_abs()),
        );
        let shifted = if self.ahead_us < 0 {
            now.checked_sub(by)
        } else {
            now.checked_add(by)
        };
        shifted.unwrap_or(now)
    }
}

fn version(report: &ServerReport) -> Option<String> {
    let told = |name| report.info.get(name);
    let valkey = told("valkey_version").map(|it| format!("Valkey {it}"));
    let redis = || told("redis_version").map(|it| format!("Redis {it}"));
    let postgres = || told("server_version").map(|it| format!("PostgreSQL {it}"));
    let etcd = || told("etcd_version").map(|it| format!("etcd {it}"));
    let zookeeper = || told("zookeeper_version").map(|it| format!("ZooKeeper {it}"));
    valkey
        .or_else(redis)
        .or_else(etcd)
        .or_else(zookeeper)
        .or_else(|| told("product").and_then(|_| postgres()))
}

impl Picture {
    pub(crate) async fn take(inspector: &dyn Inspect, server: &Server) -> Result<Self, StoreError> {
        let seen = inspector.overview().await?;
        Ok(Self::of(seen.locks, seen.process_count, None, server))
    }

    pub(crate) fn of(
        locks: Vec<LockInfo>,
        processes: Option<usize>,
        lag: Option<Duration>,
        server: &Server,
    ) -> Self {
        let now = server.now();
        Self {
            locks: locks.into_iter().map(|it| lock(it, now)).collect(),
            processes,
            lag,
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.locks.iter().filter(|it| it.holder.is_some()).count()
    }

    pub(crate) fn waiters(&self) -> usize {
        self.locks.iter().map(|it| it.waiter_count).sum()
    }
}

impl Lock {
    /// Returns all holders.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holder.iter().chain(&self.others)
    }

    /// Returns the longest wait of all waiters that are alive.
    pub(crate) fn longest_wait(&self) -> Option<Duration> {
        let living = self.waiters.iter().filter(|it| it.is_alive);
        living.map(|it| it.waiting).max()
    }
}

fn lock(info: LockInfo, now: SystemTime) -> Lock {
    Lock {
        key: info.key,
        holder: info.holder.map(|it| holder(it, now)),
        others: info.others.into_iter().map(|it| holder(it, now)).collect(),
        holder_count: info.holder_count,
        waiters: info.waiters.into_iter().map(waiter).collect(),
        waiter_count: info.waiter_count,
        last_fence: info.last_fence,
        held_at: info.held_at,
        servers: info.servers,
    }
}

fn holder(info: HolderInfo, now: SystemTime) -> Holder {
    let process = info.process.as_ref();
    let client = info.owner.map(OwnerId::client);
    let published = || process.map(|it| it.label.clone());
    let name = info.label.or_else(published);
    Holder {
        name: name
            .unwrap_or_else(|| client.map_or_else(|| "third-party client".to_owned(), nameless)),
        function: info.function,
        owner: info.owner.map(|it| it.to_string()),
        fence: info.fence,
        // The clock may have been set back since.
        held: info
            .since
            .map(|it| now.duration_since(it).unwrap_or_default()),
        ttl: info.ttl,
        process: info.process.map(described),
    }
}

fn waiter(info: WaiterInfo) -> Waiter {
    let (mode, permits) = mode_of(info.mode);
    Waiter {
        wish: wish(mode, permits),
        name: info.label.unwrap_or_else(|| nameless(info.owner.client())),
        owner: info.owner.to_string(),
        waiting: info.waiting,
        is_alive: info.is_alive,
        process: info.process.map(described),
    }
}

fn nameless(client: ClientId) -> String {
    const TOLD: usize = 8;
    let id: String = client.to_string().chars().take(TOLD).collect();
    format!("process {id}…")
}

fn described(info: ProcessInfo) -> Process {
    let started = jiff::Timestamp::try_from(info.started);
    Process {
        application: info.application,
        host: info.host,
        pid: info.pid,
        // Only a forged value is out of range.
        started: started.map_or_else(|_| "?".to_owned(), |it| format!("{it:.0}")),
        version: info.version,
    }
}
