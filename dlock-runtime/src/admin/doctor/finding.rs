//! The findings of `dlock doctor`.

use serde::Serialize;

/// The severity of a finding, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Topic {
    Connection,
    Version,
    Role,
    Permissions,
    Eviction,
    Memory,
    Persistence,
    Replicas,
    Sentinel,
    Cluster,
    Quorum,
    Schema,
    Pooler,
    Transactions,
    Tables,
    Database,
    Sessions,
    Clock,
    Latency,
    Load,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub topic: Topic,
    /// The server of the finding, `None` for all servers together.
    pub server: Option<String>,
    pub what: String,
    /// Why it matters.
    pub why: Option<String>,
    /// The remedy: a command or a setting.
    #[serde(rename = "do")]
    pub advice: Option<String>,
    /// `true` if the user accepted the finding.
    pub accepted: bool,
}

impl Finding {
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

    pub fn ok(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Ok, topic, what)
    }

    pub fn unknown(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Unknown, topic, what)
    }

    pub fn note(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Note, topic, what)
    }

    pub fn risk(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Risk, topic, what)
    }

    pub fn broken(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Broken, topic, what)
    }

    pub fn why(self, why: impl Into<String>) -> Self {
        let why = Some(why.into());
        Self { why, ..self }
    }

    pub fn advice(self, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { advice, ..self }
    }

    pub fn of(self, server: &str) -> Self {
        let server = Some(server.to_owned());
        Self { server, ..self }
    }

    /// Returns `true` if the finding makes the exit code 1.
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
    Topic(Topic),
    /// All checks that could not run.
    Unknown,
}

impl Known {
    const UNKNOWN: &str = "unknown";

    /// Returns the names of all values.
    pub fn names() -> Vec<&'static str> {
        let topics = Topic::ALL.iter().map(|it| it.name());
        topics.chain([Self::UNKNOWN]).collect()
    }

    /// Returns the value with this name.
    pub fn named(name: &str) -> Result<Self, String> {
        if name == Self::UNKNOWN {
            return Ok(Self::Unknown);
        }
        let topic = Topic::ALL.into_iter().find(|it| it.name() == name);
        let topic = topic.ok_or_else(|| format!("there is no topic `{name}`"));
        topic.map(Self::Topic)
    }
}
