//! The leases of etcd that a process keeps for its next claim: who uses them, and what arrives late.
//!
//! Claims of two processes want one key. A claim creates its key in etcd, if there is none, with a lease: one made for it, or
//! one that an earlier claim of its process has left, which is kept alive beside that request. The lease is the name of the key,
//! so a later claim may create the same key again. Requests are carried out in
//! any order, at any time or never. A claim may give up waiting for each answer. Its release then deletes the key, and
//! ends the lease that was named by a request without an answer.
//!
//! No time is counted: [`lease`](crate::lease) checks deadlines. A lease ends in etcd at any moment, but for one that was
//! made or kept alive since its holder asked: the holder stops to believe in it before. Members and terms are left out.

mod checks;
mod claim;
mod properties;
mod state;
mod steps;

pub use self::{
    checks::checks,
    state::{Action, State},
};

/// The protocol without the rules that are left out, within bounds.
#[derive(Clone, Debug)]
pub struct Leases {
    /// The rules that are left out.
    pub without: &'static [Rule],
    /// How much may happen.
    pub bounds: Bounds,
}

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The claims that each task makes, one after the other. The last task is another process, which has leases of its
    /// own. There are at most 3 tasks.
    pub rounds: &'static [u8],
    /// How many leases are made, at most 4.
    pub leases: u8,
}

/// A rule that something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A lease that was named by a request of unknown outcome is ended by the release, and not used again.
    UnknownIsEnded,
    /// A lease is that of one claim at a time.
    OneClaimALease,
    /// A lease is used again only when the deletion of its last key was answered.
    DeletedBeforeItIsUsed,
    /// A lease that is used again counts only when its keep-alive was answered as well.
    KeptAliveBeside,
    /// etcd refuses a request that names a lease which has ended.
    EndedIsRefused,
    /// A lease is not used again after a deletion that compares no create revision: it may arrive late.
    BareIsTheLast,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::UnknownIsEnded,
        Self::OneClaimALease,
        Self::DeletedBeforeItIsUsed,
        Self::KeptAliveBeside,
        Self::EndedIsRefused,
        Self::BareIsTheLast,
    ];
}

impl Leases {
    fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    /// The process of a task.
    fn process(&self, task: usize) -> usize {
        usize::from(task + 1 == self.bounds.rounds.len())
    }
}
