//! The facts about servers, in a form that tests can make up.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use dlock::{
    StoreError, StoreErrorKind,
    admin::{ClockReading, LockInfo, ProcessInfo, ServerReport},
};

/// The relation of the servers to each other, by the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Single,
    Sentinel,
    Cluster,
    Quorum,
}

impl Layout {
    pub(crate) fn of(url: &str) -> Self {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            "redlock" | "redlocks" => Self::Quorum,
            _ if scheme.ends_with("-sentinel") => Self::Sentinel,
            _ if scheme.ends_with("-cluster") => Self::Cluster,
            _ => Self::Single,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "one server",
            Self::Sentinel => "Sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
        }
    }
}

/// The user name for the servers, by the URL or else by `DLOCK_USER`; never the password.
pub(crate) fn user(url: &str, environment: Option<String>) -> String {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let login = authority.rsplit_once('@').map(|(login, _)| login);
    let in_query = || query.split('&').find_map(|pair| pair.strip_prefix("user="));
    let named = login
        .and_then(|it| it.split(':').next())
        .or_else(in_query)
        .filter(|it| !it.is_empty());
    match (named, login) {
        (Some(named), _) => named.to_owned(),
        // A password without a user is that of the default one.
        (None, Some(_)) => "default".to_owned(),
        (None, None) => environment.unwrap_or_else(|| "default".to_owned()),
    }
}

/// The number of hosts that the URL names.
pub(crate) fn hosts(url: &str) -> usize {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.split(',').filter(|it| !it.is_empty()).count()
}

/// The number of replicas that have to confirm, by the URL.
pub(crate) fn min_replicas(url: &str) -> u32 {
    let (_, query) = url.split_once('?').unwrap_or_default();
    let named = query
        .split('&')
        .find_map(|it| it.strip_prefix("min_replicas="));
    named.and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// All that is judged.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) layout: Layout,
    /// The shortest TTL that the user's locks have.
    pub(crate) ttl: Duration,
    /// The number of replicas that have to confirm a lease, by the URL.
    pub(crate) min_replicas: u32,
    /// The number of hosts that the URL names, which are Sentinels if it is one of those.
    pub(crate) sentinels: usize,
    /// The user name for the servers.
    pub(crate) user: String,
    pub(crate) raw_keys: bool,
    pub(crate) servers: Vec<ServerFacts>,
    /// The locks in them, or why they could not be looked at.
    pub(crate) locks: Result<LockFacts, String>,
}

/// The facts about one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFacts {
    pub(crate) server: String,
    pub(crate) failure: Option<String>,
    /// `true` if it failed by not answering at all.
    pub(crate) is_silent: bool,
    pub(crate) info: BTreeMap<String, String>,
    /// The setting after which its append-only file is flushed.
    pub(crate) appendfsync: Option<String>,
    pub(crate) clock: Option<Reading>,
    pub(crate) round_trips: Vec<Duration>,
    pub(crate) denied: Vec<Missing>,
    /// The reason why scripts cannot publish, if clients can.
    pub(crate) unpublished: Option<String>,
    /// The clocks of its replicas, by their addresses, or why they are unknown.
    pub(crate) replica_clocks: Vec<(String, Result<Reading, String>)>,
}

/// The state of a replica, as its master reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replica<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: &'a str,
    pub(crate) state: &'a str,
    /// In seconds, since it was heard of.
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

/// A clock beside this machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Negative if it is behind.
    pub(crate) ahead_us: i64,
    pub(crate) uncertainty: Duration,
}

/// A right that the user lacks.
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
    /// Locks that end never, by their keys.
    pub(crate) without_ttl: Vec<String>,
    /// Locks of clients of another make, by their keys.
    pub(crate) foreign: Vec<String>,
    /// Locks that a minority of a quorum has, by their keys.
    pub(crate) at_a_minority: Vec<String>,
    /// The number of processes of each version of dlock.
    pub(crate) versions: BTreeMap<String, usize>,
}

impl ServerFacts {
    /// The same server after this has happened.
    pub(crate) fn failed(self, failure: &StoreError) -> Self {
        use StoreErrorKind::{Disconnected, TimedOut, Unreachable};
        Self {
            failure: Some(failure.to_string()),
            is_silent: matches!(failure.kind(), Disconnected | TimedOut | Unreachable),
            ..self
        }
    }

    /// The value of `name` in `INFO`.
    pub(crate) fn told(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// The same as a number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.told(name)?.parse().ok()
    }

    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.told(name) == Some(value)
    }

    /// The replicas that the server counts as its own.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = Replica<'_>> {
        (0..)
            .map_while(|index| self.told(&format!("slave{index}")))
            .map(Replica::read)
    }

    /// `true` if it has answered.
    pub(crate) fn answers(&self) -> bool {
        self.failure.is_none()
    }

    /// `true` if locks are written here.
    pub(crate) fn is_master(&self) -> bool {
        self.answers() && !self.is("role", "slave")
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
    pub(crate) fn of(locks: &[LockInfo], processes: &[ProcessInfo]) -> Self {
        let mut facts = Self::default();
        for lock in locks {
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
        for process in processes {
            *facts.versions.entry(process.version.clone()).or_default() += 1;
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_says_how_servers_belong_together() {
        for (url, layout) in [
            ("redis://h", Layout::Single),
            ("rediss://h", Layout::Single),
            ("redis+unix:///s", Layout::Single),
            ("valkey-sentinel://h/s", Layout::Sentinel),
            ("rediss-cluster://h", Layout::Cluster),
            ("redlock://a,b,c", Layout::Quorum),
            ("redlocks://a,b,c", Layout::Quorum),
        ] {
            assert_eq!(Layout::of(url), layout, "{url}");
        }
    }

    #[test]
    fn the_url_says_who_we_are() {
        for (url, environment, name) in [
            ("redis://h", None, "default"),
            ("redis://h", Some("env"), "env"),
            ("redis://app:s3cret@h/0", Some("env"), "app"),
            ("redis://:s3cret@h/0", Some("env"), "default"),
            ("redlock://app:s3cret@a,b,c", None, "app"),
            ("redis+unix:///s?db=1&user=app&pass=s3cret", None, "app"),
            ("redis://h/?ca=/a@b", None, "default"),
        ] {
            assert_eq!(user(url, environment.map(str::to_owned)), name, "{url}");
        }
    }

    #[test]
    fn the_url_says_how_many_hosts_there_are() {
        assert_eq!(
            hosts("redis-sentinel://:pw@a:1,b,c/service/0?min_replicas=1"),
            3
        );
        assert_eq!(hosts("redis+unix:///s"), 0);
    }

    #[test]
    fn the_url_says_how_many_replicas_confirm() {
        assert_eq!(min_replicas("redis://h"), 0);
        assert_eq!(
            min_replicas("redis-sentinel://h/s?protocol=resp2&min_replicas=2"),
            2
        );
    }
}
