//! The facts about servers, in a form that tests can construct.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use crate::{
    admin::{ClockReading, Overview, ServerReport},
    store::{StoreError, StoreErrorKind},
};

/// How the servers work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One server, also of another product than Redis.
    Single,
    Sentinel,
    Cluster,
    Quorum,
    /// Members that decide together, of etcd or ZooKeeper.
    Ensemble,
}

#[cfg(feature = "redis")]
impl From<crate::admin::Layout> for Arrangement {
    fn from(layout: crate::admin::Layout) -> Self {
        match layout {
            crate::admin::Layout::Sentinel => Self::Sentinel,
            crate::admin::Layout::Cluster => Self::Cluster,
            crate::admin::Layout::Quorum => Self::Quorum,
            crate::admin::Layout::Single => Self::Single,
        }
    }
}

/// The name of a layout, as reports show it.
pub fn name(layout: Arrangement) -> &'static str {
    match layout {
        Arrangement::Sentinel => "Sentinel",
        Arrangement::Cluster => "cluster",
        Arrangement::Quorum => "quorum",
        Arrangement::Ensemble => "ensemble",
        Arrangement::Single => "one server",
    }
}

/// The input of all checks.
#[derive(Clone, Debug)]
pub struct Facts {
    pub layout: Arrangement,
    /// The shortest TTL of the user's locks.
    pub ttl: Duration,
    /// The number of replicas that must confirm a lease, from the URL.
    pub min_replicas: u32,
    /// The number of servers in the URL, which are the Sentinels of a Sentinel URL.
    pub sentinels: usize,
    /// `true` if the configuration has no password: a server that answers asks for none.
    pub is_open: bool,
    /// The user name on the servers.
    pub user: String,
    pub raw_keys: bool,
    pub servers: Vec<ServerFacts>,
    /// The locks on the servers, or the reason why they could not be read.
    pub locks: Result<LockFacts, String>,
}

/// The facts about one server.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    pub server: String,
    pub failure: Option<String>,
    /// `true` if the server did not answer at all.
    pub is_silent: bool,
    pub info: BTreeMap<String, String>,
    /// The setting `appendfsync`.
    pub appendfsync: Option<String>,
    pub clock: Option<Reading>,
    pub round_trips: Vec<Duration>,
    pub denied: Vec<Missing>,
    /// The reason why scripts cannot publish although clients can.
    pub unpublished: Option<String>,
    /// The clocks of its replicas by address, or the reason why a clock is unknown.
    pub replica_clocks: Vec<(String, Result<Reading, String>)>,
}

/// The state of a replica, as its master reports it.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    pub host: &'a str,
    pub port: &'a str,
    pub state: &'a str,
    /// The seconds since the replica last reported to its master.
    pub lag: Option<u64>,
}

impl<'a> Replica<'a> {
    /// Reads `ip=10.0.0.2,port=6379,state=online,offset=14,lag=0`.
    fn read(text: &'a str) -> Self {
        let field = |name: &str| {
            let mut pairs = text.split(',');
            pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        Self {
            host: field("ip").unwrap_or("?"),
            port: field("port").unwrap_or("?"),
            state: field("state").unwrap_or("unknown"),
            lag: field("lag").and_then(|it| it.parse().ok()),
        }
    }

    pub fn is_online(&self) -> bool {
        self.state == "online"
    }
}

/// A clock compared with this machine's.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Negative if it is behind.
    pub ahead_us: i64,
    pub uncertainty: Duration,
}

/// A permission that the user lacks.
#[derive(Clone, Debug)]
pub struct Missing {
    pub rule: String,
    pub purpose: String,
    pub is_required: bool,
}

/// The time after which a lock is held for long.
pub const LONG: Duration = Duration::from_secs(3600);

/// The facts about locks.
#[derive(Clone, Debug, Default)]
pub struct LockFacts {
    pub held: usize,
    pub waiters: usize,
    pub dead_waiters: usize,
    /// The keys of locks that one holder has held for longer than [`LONG`], each with the time.
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
    /// Returns facts that say nothing yet, about a single server and locks of 30 s.
    pub fn unknown() -> Self {
        Self {
            layout: Arrangement::Single,
            ttl: Duration::from_secs(30),
            min_replicas: 0,
            sentinels: 0,
            is_open: false,
            user: "default".to_owned(),
            raw_keys: false,
            servers: Vec::new(),
            locks: Err("no server could be read".to_owned()),
        }
    }

    /// Adds what the servers report. The user of some stores is known to the server alone.
    pub fn add_reports(&mut self, reports: Vec<ServerReport>) {
        self.servers
            .extend(reports.into_iter().map(ServerFacts::from));
        let told = self.servers.iter().find_map(|it| it.told("user"));
        if let Some(user) = told.map(str::to_owned) {
            self.user = user;
        }
    }

    /// Concludes from the reports how the servers work together, where no configuration says it.
    pub fn guess_layout(&mut self) {
        let any = |is: fn(&ServerFacts) -> bool| self.servers.iter().any(is);
        self.layout = if any(|it| it.is_etcd() || it.is_zookeeper()) {
            Arrangement::Ensemble
        } else if any(|it| it.is("redis_mode", "cluster")) {
            Arrangement::Cluster
        } else if self.servers.len() > 1 {
            Arrangement::Quorum
        } else {
            Arrangement::Single
        };
    }
}

impl ServerFacts {
    /// Returns the same server with this failure.
    pub fn failed(self, failure: &StoreError) -> Self {
        use StoreErrorKind::{Disconnected, TimedOut, Unreachable};
        Self {
            failure: Some(failure.to_string()),
            is_silent: matches!(failure.kind(), Disconnected | TimedOut | Unreachable),
            ..self
        }
    }

    /// Returns `true` if it is a server of PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        self.is("product", "PostgreSQL")
    }

    /// Returns `true` if it is a member of etcd.
    pub fn is_etcd(&self) -> bool {
        self.is("product", "etcd")
    }

    /// Returns `true` if it is a server of ZooKeeper.
    pub fn is_zookeeper(&self) -> bool {
        self.is("product", "ZooKeeper")
    }

    /// Returns `true` if the user may lock and lacks the permission to list locks.
    pub fn lists_no_locks(&self) -> bool {
        let lacks = |rule: &str| self.denied.iter().any(|it| it.rule == rule);
        self.is("reads_tables", "false") || lacks("+scan")
    }

    /// Returns `true` if a member of an ensemble is among a majority, or refuses the login.
    pub fn has_majority(&self) -> bool {
        !self.is_silent && !self.is("has_leader", "false")
    }

    /// Returns the value of `name` in `INFO`.
    pub fn told(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// Returns the value as a number.
    pub fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.told(name)?.parse().ok()
    }

    pub fn is(&self, name: &str, value: &str) -> bool {
        self.told(name) == Some(value)
    }

    /// Returns the replicas that `INFO` of the server lists.
    pub fn replicas(&self) -> impl Iterator<Item = Replica<'_>> {
        (0..)
            .map_while(|index| self.told(&format!("slave{index}")))
            .map(Replica::read)
    }

    /// Returns `true` if the server answered.
    pub fn answers(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns `true` if the server accepts writes of locks.
    pub fn is_master(&self) -> bool {
        self.answers() && !self.is("role", "slave") && !self.is("in_recovery", "on")
    }
}

impl From<ClockReading> for Reading {
    fn from(told: ClockReading) -> Self {
        Self {
            ahead_us: told.ahead_us,
            uncertainty: told.uncertainty,
        }
    }
}

impl From<ServerReport> for ServerFacts {
    fn from(report: ServerReport) -> Self {
        let denied = report.denied.into_iter().map(|it| Missing {
            rule: it.rule,
            purpose: it.purpose,
            is_required: it.is_required,
        });
        let replica_clocks = report.replicas.into_iter().map(|it| {
            let clock = it.clock.map(Reading::from);
            (it.address, clock.map_err(|error| error.to_string()))
        });
        let server = Self {
            server: report.server,
            info: report.info,
            appendfsync: report.appendfsync,
            clock: report.clock.map(Reading::from),
            round_trips: report.round_trips,
            denied: denied.collect(),
            unpublished: report.unpublished,
            replica_clocks: replica_clocks.collect(),
            ..Self::default()
        };
        match &report.failure {
            Some(failure) => server.failed(failure),
            None => server,
        }
    }
}

impl LockFacts {
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
