//! The findings of `dlock doctor`.

/// The severity of a finding, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The check passed.
    Ok,
    /// Information; no change is needed in most deployments.
    Note,
    /// The check could not run. It counts as a failure, because there may be a risk.
    Unknown,
    /// Locks work, but under some fault a lock is lost or cannot be acquired.
    Risk,
    /// Locks do not work.
    Broken,
}

impl Severity {
    /// Returns its name, such as `risk`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Note => "note",
            Self::Risk => "risk",
            Self::Broken => "broken",
        }
    }
}

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Topic {
    /// The connection to a server.
    Connection,
    /// The version of a server.
    Version,
    /// The role of a server, such as a replica.
    Role,
    /// The permissions of the user.
    Permissions,
    /// The eviction of keys from a full memory.
    Eviction,
    /// The memory of a server.
    Memory,
    /// The leases that survive a crash or a restart.
    Persistence,
    /// The replicas of a server.
    Replicas,
    /// The Sentinels that watch a server.
    Sentinel,
    /// The masters of a cluster.
    Cluster,
    /// The majority of servers that decide together.
    Quorum,
    /// The tables of dlock in a database.
    Schema,
    /// A pooler between clients and server.
    Pooler,
    /// Transactions that rely on leases.
    Transactions,
    /// Dead rows in the tables of dlock.
    Tables,
    /// The size of a database.
    Database,
    /// The sessions of clients.
    Sessions,
    /// The clocks of servers.
    Clock,
    /// The round trips of requests.
    Latency,
    /// How busy a server is.
    Load,
    /// The locks in the store.
    Locks,
}

impl Topic {
    /// All of them, in the order of reports.
    const ALL: [Self; 21] = [
        Self::Connection,
        Self::Version,
        Self::Role,
        Self::Permissions,
        Self::Eviction,
        Self::Memory,
        Self::Persistence,
        Self::Replicas,
        Self::Sentinel,
        Self::Cluster,
        Self::Quorum,
        Self::Schema,
        Self::Pooler,
        Self::Transactions,
        Self::Tables,
        Self::Database,
        Self::Sessions,
        Self::Clock,
        Self::Latency,
        Self::Load,
        Self::Locks,
    ];

    /// Returns its name, such as `replicas`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Version => "version",
            Self::Role => "role",
            Self::Permissions => "permissions",
            Self::Eviction => "eviction",
            Self::Memory => "memory",
            Self::Persistence => "persistence",
            Self::Replicas => "replicas",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
            Self::Schema => "schema",
            Self::Pooler => "pooler",
            Self::Transactions => "transactions",
            Self::Tables => "tables",
            Self::Database => "database",
            Self::Sessions => "sessions",
            Self::Clock => "clock",
            Self::Latency => "latency",
            Self::Load => "load",
            Self::Locks => "locks",
        }
    }
}

/// The result of one check.
///
/// ```
/// use dlock::admin::doctor::{Finding, Severity, Topic};
///
/// let finding = Finding::risk(Topic::Persistence, "`fsync` is off")
///     .why("after a crash of the machine two clients can hold the same key")
///     .advice("set `fsync = on`");
/// assert_eq!(finding.severity, Severity::Risk);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The subject.
    pub topic: Topic,
    /// The server of the finding, `None` for all servers together.
    pub server: Option<String>,
    /// The observation.
    pub what: String,
    /// Why it matters.
    pub why: Option<String>,
    /// The remedy: a command or a setting.
    pub advice: Option<String>,
    /// `true` if the user accepted the finding.
    pub accepted: bool,
}

impl Finding {
    /// Creates a finding about all servers together, without a remedy.
    #[must_use]
    pub fn new(severity: Severity, topic: Topic, what: impl Into<String>) -> Self {
        Self {
            severity,
            topic,
            server: None,
            what: what.into(),
            why: None,
            advice: None,
            accepted: false,
        }
    }

    /// Creates a finding that a check passed.
    #[must_use]
    pub fn ok(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Ok, topic, what)
    }

    /// Creates a finding that a check could not run.
    #[must_use]
    pub fn unknown(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Unknown, topic, what)
    }

    /// Creates a finding of information.
    #[must_use]
    pub fn note(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Note, topic, what)
    }

    /// Creates a finding of a risk.
    #[must_use]
    pub fn risk(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Risk, topic, what)
    }

    /// Creates a finding that locks do not work.
    #[must_use]
    pub fn broken(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Broken, topic, what)
    }

    /// Says why it matters.
    #[must_use]
    pub fn why(self, why: impl Into<String>) -> Self {
        let why = Some(why.into());
        Self { why, ..self }
    }

    /// Adds the remedy: a command or a setting.
    #[must_use]
    pub fn advice(self, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { advice, ..self }
    }

    /// Names the server of the finding.
    #[must_use]
    pub fn at(self, server: &str) -> Self {
        let server = Some(server.to_owned());
        Self { server, ..self }
    }

    /// Returns `true` if the finding makes the exit code of `dlock doctor` 1.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.severity >= Severity::Unknown && !self.accepted
    }

    /// Marks the finding as accepted, if it can be accepted and is in `known`.
    pub fn accept(&mut self, known: &[Known]) {
        let topic = known.contains(&Known::Topic(self.topic));
        self.accepted = match self.severity {
            Severity::Unknown => topic || known.contains(&Known::Unknown),
            Severity::Risk => topic,
            // A user that only inspects locks needs no permission to lock.
            Severity::Broken => topic && self.topic == Topic::Permissions,
            Severity::Note | Severity::Ok => false,
        };
    }
}

/// A kind of findings that the user accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Those about a topic.
    Topic(Topic),
    /// All checks that could not run.
    Unknown,
}

impl Known {
    const UNKNOWN: &str = "unknown";

    /// Returns the names of all values.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let topics = Topic::ALL.iter().map(|it| it.name());
        topics.chain([Self::UNKNOWN]).collect()
    }

    /// Returns the value with this name.
    ///
    /// # Errors
    ///
    /// A text that says that no value has it.
    pub fn named(name: &str) -> Result<Self, String> {
        if name == Self::UNKNOWN {
            return Ok(Self::Unknown);
        }
        let topic = Topic::ALL.into_iter().find(|it| it.name() == name);
        let topic = topic.ok_or_else(|| format!("there is no topic `{name}`"));
        topic.map(Self::Topic)
    }
}
