//! The lease of one store: processes that ask, wait, renew and release over connections that may
//! break, a server with a queue that makes the first waiter the holder, and hints of that.
//!
//! Each request is sent, carried out and answered in three steps, with any time between them.
//! Connections keep the order, but a request may be left on an old one, or be carried out twice: then
//! it comes at any time later, and nobody hears the answer. Hints come at any time, any number of
//! times or never. A process may give up at any moment, crash, or do nothing for any time. All
//! times are what is left of them or what has passed, so there is no end of time; what is bounded is
//! how many leases the server grants, and how many attempts a process makes.

mod checks;
mod client;
mod monitor;
mod properties;
mod server;
mod state;
mod steps;
mod time;

pub use self::{
    checks::checks,
    state::{Action, State},
};

/// The protocol, but for the rule that is left out, within bounds.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The rules that are not kept.
    pub without: &'static [Rule],
    /// How much may happen.
    pub bounds: Bounds,
}

/// How much may happen.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How long things last.
    pub times: Times,
    /// How many processes there are, at most 3.
    pub clients: usize,
    /// How many attempts each of them makes.
    pub rounds: u8,
    /// How many leases the server grants.
    pub grants: u8,
    /// How many requests are left on an old connection, or come twice.
    pub late: u8,
    /// How many processes crash.
    pub crashes: u8,
    /// By how many ticks the clocks of the processes are late, all together.
    pub slow: u8,
    /// For how many ticks the machines of the processes sleep, all together.
    pub asleep: u8,
    /// How often the server forgets everything, and how many ticks there are then.
    pub forgets: Option<(u8, u8)>,
    /// How often a replica takes the server's place that has not all of its data, and how many ticks
    /// there are then.
    pub rolls_back: Option<(u8, u8)>,
    /// Whether a section writes to a resource.
    pub writes: bool,
    /// Whether a waiter polls in time; else it may be stopped.
    pub is_prompt: bool,
}

/// How long things last, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The TTL that a process asks for.
    pub ttl: u8,
    /// The time of a grant.
    pub grant: u8,
    /// By how much two clocks may differ meanwhile.
    pub drift: u8,
}

/// A rule that something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A deadline counts from before the request was sent, not from its answer.
    CountsFromTheSending,
    /// A section is over at its deadline.
    EndsAtTheDeadline,
    /// By how much two clocks may differ is taken off the time.
    DriftIsTakenOff,
    /// Time asleep counts.
    SleepCounts,
    /// A request without an answer moves no deadline.
    NoAnswerMovesNothing,
    /// A lease that was lost does not come back, whatever the server says.
    LostIsFinal,
    /// A request without an answer is released, as it may have been carried out.
    UnknownIsReleased,
    /// An owner id is for one attempt.
    IdForOneAttempt,
    /// All requests of a claim carry the same TTL.
    OneTtl,
    /// A question that finds its own lease starts the TTL anew.
    RepeatStartsAnew,
    /// A renewal is for its owner's lease only.
    RenewalCompares,
    /// A release is for its owner's lease only.
    ReleaseCompares,
    /// A hint is believed from a question on, not from when it arrives.
    HintCountsFromAQuestion,
    /// That question is one which knew a smaller fence, not simply the latest.
    HintCountsFromASmallerFence,
    /// It is believed for the time of a grant, not for the TTL.
    HintCountsForAGrant,
    /// A fence is greater than the last.
    FenceExceedsTheLast,
    /// A fence is not below the server's time.
    FenceFollowsTheClock,
    /// The resource refuses tokens that are smaller than the greatest it has seen.
    ResourceRefuses,
    /// A waiter polls, as hints may be lost.
    LooksAgain,
    /// A free lock goes to the longest waiter.
    FirstComesFirst,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::CountsFromTheSending,
        Self::EndsAtTheDeadline,
        Self::DriftIsTakenOff,
        Self::SleepCounts,
        Self::NoAnswerMovesNothing,
        Self::LostIsFinal,
        Self::UnknownIsReleased,
        Self::IdForOneAttempt,
        Self::OneTtl,
        Self::RepeatStartsAnew,
        Self::RenewalCompares,
        Self::ReleaseCompares,
        Self::HintCountsFromAQuestion,
        Self::HintCountsFromASmallerFence,
        Self::HintCountsForAGrant,
        Self::FenceExceedsTheLast,
        Self::FenceFollowsTheClock,
        Self::ResourceRefuses,
        Self::LooksAgain,
        Self::FirstComesFirst,
    ];
}

impl Lease {
    fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    /// How many ticks there are, if there is an end of time.
    fn ticks(&self) -> Option<u8> {
        let faults = self.bounds.forgets.or(self.bounds.rolls_back);
        faults.map(|(_, ticks)| ticks)
    }
}
