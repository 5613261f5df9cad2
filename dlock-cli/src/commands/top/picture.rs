//! The locks at one time, in a form that tests can construct.

use std::time::{Duration, SystemTime};

use dlock::{
    StoreError,
    admin::{
        HolderInfo, Inspect, LockInfo, ProcessInfo, WaiterInfo,
        web::{Server, mode_of},
    },
    store::{ClientId, OwnerId},
};

use crate::view::wish;

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
    pub(crate) handle: Option<String>,
    pub(crate) fence: u64,
    pub(crate) held: Option<Duration>,
    /// `None` if the lease never expires.
    pub(crate) ttl: Option<Duration>,
    pub(crate) process: Option<Process>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) name: String,
    pub(crate) handle: String,
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
        handle: info.owner.map(|it| it.handle().to_string()),
        fence: info.fence,
        // The server's clock may have been set back since.
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
        handle: info.owner.handle().to_string(),
        waiting: info.waiting,
        is_alive: info.is_alive,
        process: info.process.map(described),
    }
}

fn nameless(client: ClientId) -> String {
    const TOLD: usize = 8;
    let id: String = client.handle().to_string().chars().take(TOLD).collect();
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
