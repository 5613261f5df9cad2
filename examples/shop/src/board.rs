//! Who holds what, for the page.

use serde::Serialize;

/// Where this copy looks for locks.
#[derive(Debug)]
pub(crate) enum Board {
    /// There are none: `--without-lock`.
    Off,
    /// In this process, which no other copy sees.
    Memory,
    /// In a server, where all copies meet.
    Server,
}

/// What the page is told.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Locks {
    kind: Kind,
    /// For people.
    note: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Off,
    Memory,
    Server,
}

impl Board {
    pub(crate) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    pub(crate) fn locks(&self) -> Locks {
        let (kind, note) = match self {
            Self::Off => (
                Kind::Off,
                "Payments run without a lock: press Pay in two tabs, and the provider charges \
                 twice.",
            ),
            Self::Memory => (
                Kind::Memory,
                "Locks are in the memory of this one process. Several copies of the shop need a \
                 server to meet at, which DLOCK_URL names.",
            ),
            Self::Server => (Kind::Server, ""),
        };
        Locks { kind, note }
    }
}
