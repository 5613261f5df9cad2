//! The facts about servers, in a form that tests can construct.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use dlock::{
    StoreError, StoreErrorKind,
    admin::{self, ClockReading, Overview, ServerReport},
};

/// How the servers work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One server, also of another product than Redis.
    Single,
    Sentinel,
    Cluster,
    Quorum,
    /// Members that decide together, of etcd or ZooKeeper.
    Ensemble,
}

impl From<admin::Layout> for Layout {
    fn from(layout: admin::Layout) -> Self {
        match layout {
            admin::Layout::Sentinel => Self::Sentinel,
            admin::Layout::Cluster => Self::Cluster,
            admin::Layout::Quorum => Self::Quorum,
            _ => Self::Single,
        }
    }
}

/// The name of a layout, as reports show it.
pub(crate) fn name(layout: Layout) -> &'static str {
    match layout {
        Layout::Sentinel => "Sentinel",
        Layout::Cluster => "cluster",
        Layout::Quorum => "quorum",
        Layout::Ensemble => "ensemble",
        Layout::Single => "one server",
    }
}

/// The input of all checks.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) layout: Layout,
    /// The shortest TTL of the user's locks.
    pub(crate) ttl: Duration,
    /// The number of replicas that must confirm a lease, from the URL.
    pub(crate) min_replicas: u32,
    /// The number of servers in the URL, which are the Sentinels of a Sentinel URL.
    pub(crate) sentinels: usize,
    /// The user name on the servers.
    pub(crate) user: String,
    pub(crate) raw_keys: bool,
    pub(crate) servers: Vec<ServerFacts>,
    /// The locks on the servers, or the reason why they could not be read.
    pub(crate) locks: Result<LockFacts, String>,
}

/// The facts about one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFacts {
    pub(crate) server: String,
    pub(crate) failure: Option<String>,
    /// `true` if the server did not answer at all.
    pub(crate) is_silent: bool,
    pub(crate) info: BTreeMap<String, String>,
    /// The setting `appendfsync`.
    pub(crate) appendfsync: Option<String>,
    pub(crate) clock: Option<Reading>,
    pub(crate) round_trips: Vec<Duration>,
    pub(crate) denied: Vec<Missing>,
    /// The reason why scripts cannot publish although clients can.
    pub(crate) unpublished: Option<String>,
    /// The clocks of its replicas by address, or the reason why a clock is unknown.
    pub(crate) replica_clocks: Vec<(String, Result<Reading, String>)>,
}

/// The state of a replica, as its master reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replica<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: &'a str,
    pub(crate) state: &'a str,
    /// The seconds since the replica last reported to its master.
    pub(crate) lag: Option<u64>,
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

    pub(crate) fn is_online(&self) -> bool {
        self.state == "online"
    }
}

/// A clock compared with this machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Negative if it is behind.
    pub(crate) ahead_us: i64,
    pub(crate) uncertainty: Duration,
}

/// A permission that the user lacks.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) rule: String,
    pub(crate) purpose: String,
    pub(crate) is_required: bool,
}

/// The facts about locks.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockFacts {
    pub(crate) held: usize,
    pub(crate) waiters: usize,
    pub(crate) dead_waiters: usize,
    /// The keys of locks without a TTL.
    pub(crate) without_ttl: Vec<String>,
    /// The keys of locks that third-party clients hold.
    pub(crate) foreign: Vec<String>,
    /// The keys of locks that are held at a minority of a quorum.
    pub(crate) at_a_minority: Vec<String>,
    /// The number of processes, if the store can tell.
    pub(crate) processes: Option<usize>,
    /// The number of processes of each version of dlock, of those whose version is known.
    pub(crate) versions: BTreeMap<String, usize>,
}

impl ServerFacts {
    /// Returns the same server with this failure.
    pub(crate) fn failed(self, failure: &StoreError) -> Self {
        use StoreErrorKind::{Disconnected, TimedOut, Unreachable};
        Self {
            failure: Some(failure.to_string()),
            is_silent: matches!(failure.kind(), Disconnected | TimedOut | Unreachable),
            ..self
        }
    }

    /// Returns `true` if it is a server of PostgreSQL.
    pub(crate) fn is_postgres(&self) -> bool {
        self.is("product", "PostgreSQL")
    }

    /// Returns `true` if it is a member of etcd.
    pub(crate) fn is_etcd(&self) -> bool {
        self.is("product", "etcd")
    }

    /// Returns `true` if it is a server of ZooKeeper.
    pub(crate) fn is_zookeeper(&self) -> bool {
        self.is("product", "ZooKeeper")
    }

    /// Returns `true` if a member of an ensemble is among a majority, or refuses the login.
    pub(crate) fn has_majority(&self) -> bool {
        !self.is_silent && !self.is("has_leader", "false")
    }

    /// Returns the value of `name` in `INFO`.
    pub(crate) fn told(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// Returns the value as a number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.told(name)?.parse().ok()
    }

    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.told(name) == Some(value)
    }

    /// Returns the replicas that `INFO` of the server lists.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = Replica<'_>> {
        (0..)
            .map_while(|index| self.told(&format!("slave{index}")))
            .map(Replica::read)
    }

    /// Returns `true` if the server answered.
    pub(crate) fn answers(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns `true` if the server accepts writes of locks.
    pub(crate) fn is_master(&self) -> bool {
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
    pub(crate) fn of(seen: &Overview) -> Self {
        let mut facts = Self {
            processes: seen.process_count,
            ..Self::default()
        };
        for lock in &seen.locks {
            facts.waiters += lock.waiter_count;
            facts.dead_waiters += lock.waiters.iter().filter(|it| !it.is_alive).count();
            let Some(holder) = &lock.holder else { continue };
            facts.held += 1;
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
