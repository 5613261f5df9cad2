//! The findings of an examination.

use clap::ValueEnum;
use serde::Serialize;

/// The severity of a finding, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// As it should be.
    Ok,
    /// Worth knowing, and right for many.
    Note,
    /// Could not be asked, so nothing is claimed. It may be a risk, and counts as one.
    Unknown,
    /// Locks work, and under some fault they will not hold or not be had.
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
    Rights,
    Eviction,
    Memory,
    Persistence,
    Replicas,
    Sentinel,
    Cluster,
    Quorum,
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
            Self::Rights => "rights",
            Self::Eviction => "eviction",
            Self::Memory => "memory",
            Self::Persistence => "persistence",
            Self::Replicas => "replicas",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
            Self::Quorum => "quorum",
            Self::Clock => "clock",
            Self::Latency => "latency",
            Self::Load => "load",
            Self::Locks => "locks",
        }
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) topic: Topic,
    /// The server that it is about, `None` for all of them together.
    pub(crate) server: Option<String>,
    pub(crate) what: String,
    /// The reason why that matters.
    pub(crate) why: Option<String>,
    /// Advice: a command or a setting.
    #[serde(rename = "do")]
    pub(crate) advice: Option<String>,
    /// `true` if the user has accepted it.
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

    /// `true` if it lets a check fail.
    pub(crate) fn counts(&self) -> bool {
        self.severity >= Severity::Unknown && !self.accepted
    }

    /// Takes it as known, if that is possible and is one of the things that the user has said to know.
    pub(crate) fn accept(&mut self, known: &[Known]) {
        let topic = known.contains(&Known::Topic(self.topic));
        self.accepted = match self.severity {
            Severity::Unknown => topic || known.contains(&Known::Unknown),
            Severity::Risk => topic,
            // A user that only inspects locks needs no permission to lock.
            Severity::Broken => topic && self.topic == Topic::Rights,
            Severity::Note | Severity::Ok => false,
        };
    }
}

/// A finding that the user accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Topic(Topic),
    /// All that could not be asked.
    Unknown,
}

impl Known {
    const UNKNOWN: &str = "unknown";

    /// All that it can be, by name.
    pub(crate) fn names() -> Vec<&'static str> {
        let topics = Topic::value_variants().iter().map(|it| it.name());
        topics.chain([Self::UNKNOWN]).collect()
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        if name == Self::UNKNOWN {
            return Ok(Self::Unknown);
        }
        Topic::from_str(name, false).map(Self::Topic)
    }
}
