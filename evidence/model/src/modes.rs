//! The modes of a lock in one store: an exclusive holder, shared holders, or at most so many of them.
//!
//! No time is counted: [`lease`](crate::lease) checks deadlines. A lease ends in the store at any moment at which its
//! process does not believe in it. Each process has a connection that keeps the order, and a request is sent,
//! carried out and answered in three steps. Messages of grants come at any time, or never.

mod checks;
mod client;
mod properties;
mod server;
mod state;
mod steps;

pub use self::{
    checks::checks,
    state::{Action, Mode, State},
};

/// The protocol without the rules that are left out, within bounds.
#[derive(Clone, Debug)]
pub struct Modes {
    /// The rules that are left out.
    pub without: &'static [Rule],
    /// How much may happen.
    pub bounds: Bounds,
}

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The mode of each process; there are at most 4 processes.
    pub modes: &'static [Mode],
    /// How many attempts each process makes.
    pub rounds: u8,
    /// How many leases the store grants.
    pub grants: u8,
    /// Whether leases are renewed.
    pub renews: bool,
    /// Whether processes write to a resource, also after their lease.
    pub writes: bool,
    /// Whether the store returns once to an earlier state: a replica that was behind takes over. The old store ends in
    /// that moment.
    pub rolls_back: bool,
}

/// A rule that something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// An exclusive lease is granted only without a living holder.
    ExclusiveIsAlone,
    /// A shared lease is granted only without a living exclusive holder.
    SharedExcludesExclusive,
    /// A permit is granted only while fewer than `n` holders are alive.
    PermitsAreCounted,
    /// A lease that has ended is removed before another one is granted.
    EndedAreRemoved,
    /// The key of the lock lasts as long as the last of its leases.
    KeyLastsForAll,
    /// A release removes the lease of its owner only.
    ReleaseKeepsOthers,
    /// One queue serves all modes, first come, first served.
    OneQueue,
    /// A release grants all waiters at the head of the queue that may hold together.
    ReleaseGrantsAll,
    /// The first shared holder gets a new fence, the epoch.
    EpochIsNew,
    /// All that hold together carry the same epoch.
    EpochIsShared,
    /// Each grant to a waiter has a number of its own, by which the waiter dates it.
    GrantsAreNumbered,
    /// Fences are not below the store's clock, so that they grow although the store has returned to an earlier state.
    FenceFollowsTheClock,
    /// The resource refuses a token that is smaller than the greatest it has seen.
    ResourceRefuses,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ExclusiveIsAlone,
        Self::SharedExcludesExclusive,
        Self::PermitsAreCounted,
        Self::EndedAreRemoved,
        Self::KeyLastsForAll,
        Self::ReleaseKeepsOthers,
        Self::OneQueue,
        Self::ReleaseGrantsAll,
        Self::EpochIsNew,
        Self::EpochIsShared,
        Self::GrantsAreNumbered,
        Self::FenceFollowsTheClock,
        Self::ResourceRefuses,
    ];
}

impl Modes {
    fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }
}
