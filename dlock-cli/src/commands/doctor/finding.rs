//! The findings of `dlock doctor`.

use clap::ValueEnum;
use serde::Serialize;

/// The severity of a finding, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
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
    pub(crate) fn name(self) -> &'static str {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Topic {
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
    pub(crate) fn name(self) -> &'static str {
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
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) topic: Topic,
    /// The server of the finding, `None` for all servers together.
    pub(crate) server: Option<String>,
    pub(crate) what: String,
    /// Why it matters.
    pub(crate) why: Option<String>,
    /// The remedy: a command or a setting.
    #[serde(rename = "do")]
    pub(crate) advice: Option<String>,
    /// `true` if the user accepted the finding.
    pub(crate) accepted: bool,
}

impl Finding {
    pub(crate) fn new(severity: Severity, topic: Topic, what: impl Into<String>) -> Self {
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

    pub(crate) fn ok(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Ok, topic, what)
    }

    pub(crate) fn unknown(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Unknown, topic, what)
    }

    pub(crate) fn note(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Note, topic, what)
    }

    pub(crate) fn risk(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Risk, topic, what)
    }

    pub(crate) fn broken(topic: Topic, what: impl Into<String>) -> Self {
        Self::new(Severity::Broken, topic, what)
    }

    pub(crate) fn why(self, why: impl Into<String>) -> Self {
        let why = Some(why.into());
        Self { why, ..self }
    }

    pub(crate) fn advice(self, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { advice, ..self }
    }

    pub(crate) fn of(self, server: &str) -> Self {
        let server = Some(server.to_owned());
        Self { server, ..self }
    }

    /// Returns `true` if the finding makes the exit code 1.
    pub(crate) fn counts(&self) -> bool {
        self.severity >= Severity::Unknown && !self.accepted
    }

    /// Marks the finding as accepted, if it can be accepted and is in `known`.
    pub(crate) fn accept(&mut self, known: &[Known]) {
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
pub(crate) enum Known {
    Topic(Topic),
    /// All checks that could not run.
    Unknown,
}

impl Known {
    const UNKNOWN: &str = "unknown";

    /// Returns the names of all values.
    pub(crate) fn names() -> Vec<&'static str> {
        let topics = Topic::value_variants().iter().map(|it| it.name());
        topics.chain([Self::UNKNOWN]).collect()
    }

    /// Returns the value with this name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        if name == Self::UNKNOWN {
            return Ok(Self::Unknown);
        }
        Topic::from_str(name, false).map(Self::Topic)
    }
}
