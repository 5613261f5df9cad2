//! The knowledge of the store and of the process, and the possible actions.

use crate::list::List;

/// The most tasks.
pub(super) const MOST: usize = 3;
/// For how long the store keeps a lease, in ticks.
pub(super) const TTL: u8 = 2;
/// The longest turn, in ticks since the lease came from the store.
pub(super) const LONGEST_TURN: u8 = 1;
/// For how long the store may keep what no task uses: until its TTL ends, and as long again if a renewal
/// comes late that was sent while it was used.
pub(super) const LONGEST_UNUSED: u8 = 2 * TTL - 1;
/// The owner id of the other process.
pub(super) const OTHER: u8 = 0;

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) lock: Option<Lock>,
    /// The last fence.
    pub(super) last: u8,
    pub(super) other: Other,
    pub(super) front: Option<Front>,
    /// In the order of arrival.
    pub(super) behind: List<Waiter, MOST>,
    /// Releases under way, in no order.
    pub(super) releases: List<u8, 3>,
    pub(super) renewal: Option<Renewal>,
    /// The token of the last section.
    pub(super) token: u8,
    pub(super) token_fell: bool,
    /// The time for which each task trusts its lock, from its own moment on: it checks nothing else until the
    /// next tick. Whichever task bears the claim, exclusion is about this time.
    pub(super) sections: [Option<u8>; MOST],
    /// Whether an operator has ended a lease.
    pub(super) is_unlocked: bool,
    /// For how many ticks the store has kept the process's lease since a task was in a section.
    pub(super) unused: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub(super) owner: u8,
    pub(super) fence: u8,
    pub(super) left: u8,
}

/// The other process has one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Other {
    Idle,
    /// In the queue of the store; leases were handed over in so many ticks since.
    Waiting {
        turns: u8,
        is_counted: bool,
    },
    /// For so long.
    Holding(u8),
}

/// The bearer of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Front {
    pub(super) waiter: Waiter,
    /// By what id the store knows the process.
    pub(super) owner: u8,
    /// Whether an operator has ended the lease since it was confirmed.
    pub(super) is_doubted: bool,
    /// The fence of its last lease, and how many ticks ago that came from the store.
    pub(super) came: Option<(u8, u8)>,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) task: u8,
    /// The owner id of its first claim, if it makes one.
    pub(super) id: u8,
    /// Whether others have borne that claim.
    pub(super) was_passed_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Waiting,
    Holding {
        /// Until the deadline.
        left: u8,
        fence: u8,
        sequence: u8,
        /// Whether the task has looked.
        has_begun: bool,
    },
    /// The task was dropped unnoticed.
    Forsaken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) owner: u8,
    /// Sent so long ago.
    pub(super) age: u8,
    pub(super) answer: Option<bool>,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A task wants the lock.
    Enter(u8),
    /// The task in front asks the store.
    Ask,
    /// The task that was picked looks at its lease.
    Look,
    /// The task in front ends its section, or is dropped.
    Leave,
    /// A task that waits behind is dropped.
    Cancel(u8),
    /// A task behind goes ahead of the one in front, which does not look.
    PassOver(u8),
    /// The renewer renews the lease.
    Renew,
    /// The store carries out the renewal.
    ServeRenewal,
    /// Its answer arrives.
    HearRenewal,
    /// Its answer does not arrive.
    LoseRenewal,
    /// The store carries out a release.
    ServeRelease(usize),
    /// The other process asks.
    OtherAsks,
    /// The other process gives the lock back.
    OtherLeaves,
    /// An operator ends the lease of the process.
    Unlock,
    /// Time passes.
    Tick,
}
