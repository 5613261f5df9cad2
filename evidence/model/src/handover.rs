//! The claim of one process that its tasks hand to each other, while another process wants the lock.
//!
//! Questions are asked and answered in one step here, see [`lease`](crate::lease). Renewals and
//! releases are under way for any time, and their answers as well. A task may be dropped at any moment, and
//! one that was picked may not look for any time. Tasks come again and again; what is bounded is how
//! many leases the store grants. An operator may end one lease, and the process is told at once: the section that goes
//! on is not judged any more, but all that begin after it are.

mod checks;
mod state;
mod steps;
mod tasks;

pub use self::{
    checks::checks,
    state::{Action, State},
};

/// The hand-over, but for the rules that are left out, within bounds.
#[derive(Clone, Debug)]
pub struct Handover {
    /// The rules that are not kept.
    pub without: &'static [Rule],
    /// How many tasks there are, at most 3.
    pub tasks: usize,
    /// How many leases the store grants.
    pub grants: u8,
    /// How often a lease may be handed over.
    pub longest_sequence: u8,
}

/// A rule that something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A lease whose deadline has passed is given back, not handed over.
    HandsOverInTime,
    /// A task that was picked looks at the deadline before it begins.
    LooksAtTheDeadline,
    /// Each section under a lease has a greater token.
    TokenGrows,
    /// The numbers below a fence end before they meet the next one.
    SequenceEnds,
    /// A lease is handed over for a time only, and then released.
    TurnEnds,
    /// A lease that is confirmed by another answer is no younger for that.
    AnswersMakeNoYounger,
    /// Who was picked and is dropped passes the lease on.
    PickedPassesOn,
    /// Who hands over does not release.
    OneReleases,
    /// A lease that was handed to a task which does not look is not renewed.
    UnseenIsNotRenewed,
    /// A task that has begun its section is not passed over, whatever it does meanwhile.
    BegunIsNotPassedOver,
    /// Each claim has an owner id of its own, also that of a task whose first claim others have borne.
    NoOwnerTwice,
    /// A lease that an operator has ended is given back, not handed over.
    DoubtedIsNotHandedOver,
    /// A task that was picked asks if an operator has ended its lease.
    DoubtedIsAskedFor,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::HandsOverInTime,
        Self::LooksAtTheDeadline,
        Self::TokenGrows,
        Self::SequenceEnds,
        Self::TurnEnds,
        Self::AnswersMakeNoYounger,
        Self::PickedPassesOn,
        Self::OneReleases,
        Self::UnseenIsNotRenewed,
        Self::BegunIsNotPassedOver,
        Self::NoOwnerTwice,
        Self::DoubtedIsNotHandedOver,
        Self::DoubtedIsAskedFor,
    ];
}

impl Handover {
    fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }
}
