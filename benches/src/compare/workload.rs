//! The workloads, and the peers that take part in each.

use clap::ValueEnum;
use serde::Serialize;

use crate::arguments::Peer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
pub(crate) enum Workload {
    /// One task, an uncontended lock
    #[value(name = "W1")]
    W1,
    /// The same on a runtime of one thread
    #[value(name = "W1t")]
    W1t,
    /// 64 tasks, each with a key of its own
    #[value(name = "W2")]
    W2,
    /// 64 tasks of one process, one key
    #[value(name = "W3")]
    W3,
    /// 4 processes with a task each, one key
    #[value(name = "W4a")]
    W4a,
    /// 4 processes with 16 tasks each, one key
    #[value(name = "W4b")]
    W4b,
    /// 2 processes, one key that is held for 20 ms
    #[value(name = "W4h")]
    W4h,
    /// 100 tasks that wait for a key that is held
    #[value(name = "W5")]
    W5,
    /// One task, an uncontended lock in five servers
    #[value(name = "W6")]
    W6,
    /// One task, a lock inside the process
    #[value(name = "memory")]
    #[serde(rename = "memory")]
    Memory,
}

/// How a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One process.
    Single(&'static [&'static str]),
    /// Several processes on one key, for so many times the usual length.
    Fleet {
        processes: usize,
        times: u32,
        words: &'static [&'static str],
    },
    /// One process, and a quorum of so many servers.
    Quorum {
        servers: usize,
        words: &'static [&'static str],
    },
    /// One process holds a key, and so many tasks of another wait for it.
    Waiting { tasks: usize },
}

/// A peer, and its words in a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) peer: Peer,
    /// Words beside those of the workload.
    pub(super) words: &'static [&'static str],
}

pub(super) const RAW: &str = "raw";
pub(super) const SCRIPTS: &str = "scripts";
pub(super) const RSLOCK: &str = "rslock";
pub(super) const DLOCK: &str = "dlock";
pub(super) const DLOCK_EACH: &str = "dlock, handover off";
pub(super) const DLOCK_ALONE: &str = "dlock, one server";
pub(super) const PUBLISH: &str = "publish";
pub(super) const MUTEX: &str = "tokio mutex";
pub(super) const MEMORY: &str = "dlock in memory";

const RAW_LOCK: Contender = plain(RAW, Peer::Raw);
const BY_HAND: Contender = plain(SCRIPTS, Peer::Scripts);
const OF_RSLOCK: Contender = plain(RSLOCK, Peer::Rslock);
const OF_DLOCK: Contender = plain(DLOCK, Peer::Dlock);
const EACH_BY_REDIS: Contender = special(DLOCK_EACH, Peer::Dlock, &["handover=off"]);
/// On the first of the servers.
const ON_ONE: Contender = plain(DLOCK_ALONE, Peer::Dlock);
const MESSAGE: Contender = plain(PUBLISH, Peer::Publish);
const COLD_MESSAGE: Contender = special(PUBLISH, Peer::Publish, &["think_us=20000"]);
const TOKIO: Contender = plain(MUTEX, Peer::Mutex);
const IN_MEMORY: Contender = plain(MEMORY, Peer::Memory);

const fn plain(name: &'static str, peer: Peer) -> Contender {
    special(name, peer, &[])
}

const fn special(name: &'static str, peer: Peer, words: &'static [&'static str]) -> Contender {
    Contender { name, peer, words }
}

impl Workload {
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.expect("no workload is hidden").get_name().to_owned()
    }

    pub(super) fn shape(self) -> Shape {
        let fleet = |processes, times, words| Shape::Fleet {
            processes,
            times,
            words,
        };
        match self {
            Self::W1 | Self::Memory => Shape::Single(&["tasks=1"]),
            Self::W1t => Shape::Single(&["tasks=1", "rt=ct"]),
            Self::W2 => Shape::Single(&["tasks=64", "keys=distinct"]),
            Self::W3 => Shape::Single(&["tasks=64"]),
            Self::W4a => fleet(4, 1, &["tasks=1"]),
            Self::W4b => fleet(4, 1, &["tasks=16"]),
            // Few hand-offs a second.
            Self::W4h => fleet(2, 2, &["tasks=1", "hold_us=20000", "think_us=5000"]),
            Self::W5 => Shape::Waiting { tasks: 100 },
            Self::W6 => Shape::Quorum {
                servers: 5,
                words: &["tasks=1"],
            },
        }
    }

    pub(super) fn contenders(self) -> &'static [Contender] {
        match self {
            Self::W1 | Self::W1t | Self::W2 => &[RAW_LOCK, BY_HAND, OF_RSLOCK, OF_DLOCK],
            Self::W3 => &[OF_RSLOCK, OF_DLOCK, EACH_BY_REDIS],
            Self::W4a => &[MESSAGE, OF_RSLOCK, OF_DLOCK],
            Self::W4b | Self::W5 => &[OF_RSLOCK, OF_DLOCK],
            Self::W4h => &[COLD_MESSAGE, OF_RSLOCK, OF_DLOCK],
            Self::W6 => &[BY_HAND, OF_RSLOCK, OF_DLOCK, ON_ONE],
            Self::Memory => &[TOKIO, IN_MEMORY],
        }
    }

    /// The peer that cannot be outrun.
    pub(super) fn limit(self) -> Option<&'static str> {
        match self {
            Self::W1 | Self::W1t | Self::W2 => Some(RAW),
            Self::W4a | Self::W4h => Some(PUBLISH),
            Self::W6 => Some(SCRIPTS),
            Self::Memory => Some(MUTEX),
            Self::W3 | Self::W4b | Self::W5 => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Settings;

    #[test]
    fn what_processes_are_told_can_be_read() {
        for workload in Workload::value_variants() {
            let words = match workload.shape() {
                Shape::Single(words) | Shape::Fleet { words, .. } | Shape::Quorum { words, .. } => {
                    words
                }
                Shape::Waiting { .. } => &[],
            };
            for contender in workload.contenders() {
                let all = words.iter().chain(contender.words);
                for word in all {
                    Settings::read(&[(*word).to_owned()]).unwrap();
                }
            }
            if let Some(limit) = workload.limit() {
                let mut names = workload.contenders().iter().map(|it| it.name);
                assert!(names.any(|name| name == limit), "{workload:?}");
            }
        }
    }
}
