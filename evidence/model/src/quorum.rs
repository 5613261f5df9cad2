//! The fenced quorum: three nodes that know nothing of each other, and clients that ask all of them.
//!
//! No time is counted. Messages come in any order, at any time later or never, and what was sent to a
//! node that was given up comes as well. A node's lock may end at any moment, or, where exclusion is
//! looked at, at any moment at which its client does not believe in the lock: that is what TTLs are for.

mod checks;
mod client;
mod node;
mod properties;
mod state;
mod steps;
mod tally;

pub use self::{
    checks::checks,
    state::{Action, State},
};

/// The quorum, but for the rules that are left out, within bounds.
#[derive(Clone, Debug)]
pub struct Quorum {
    /// The rules that are not kept.
    pub without: &'static [Rule],
    /// How much may happen.
    pub bounds: Bounds,
}

/// How much may happen.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How many clients there are, at most 3.
    pub clients: usize,
    /// How often each of them asks all nodes.
    pub rounds: u8,
    /// The fences that the nodes have counted before.
    pub counted: [u8; 3],
    /// When a node's lock ends by itself.
    pub ends: Ends,
    /// How often a node forgets everything.
    pub forgets: u8,
    /// How many questions come twice.
    pub repeats: u8,
    /// Whether answers take time; else they are heard as they are given.
    pub slow_answers: bool,
    /// Whether leases are renewed.
    pub renews: bool,
}

/// When a node's lock ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never.
    Never,
    /// While its client does not believe in the lock.
    InTime,
    /// At any moment.
    Anytime,
}

/// A rule that something depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// More than half of the nodes grant.
    MajorityGrants,
    /// A vote that its node may have ended before the others granted is no grant.
    CountsFromTheFirstQuestion,
    /// A fence that not all of them have is raised before it counts.
    FenceIsRaised,
    /// A fence is raised only where the lock is held.
    RaisedWhereHeld,
    /// It is raised only if it is still what was granted, not got anew.
    RaisedAsGranted,
    /// A grant that comes later confirms exactly the fence that it has counted.
    LateGrantIsExact,
    /// A node that was sent a release is not asked again under the same id.
    FreshId,
    /// A grant that comes when the attempt is over is released.
    LateGrantIsGivenBack,
    /// A retake that is answered when the lease is over is released.
    RetakeIsGivenBack,
    /// Clients propose fences by a clock that goes on when a node forgets.
    ProposedByTheClock,
    /// A node that has forgotten stays out while leases last.
    ForgetfulStaysOut,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::MajorityGrants,
        Self::CountsFromTheFirstQuestion,
        Self::FenceIsRaised,
        Self::RaisedWhereHeld,
        Self::RaisedAsGranted,
        Self::LateGrantIsExact,
        Self::FreshId,
        Self::LateGrantIsGivenBack,
        Self::RetakeIsGivenBack,
        Self::ProposedByTheClock,
        Self::ForgetfulStaysOut,
    ];
}

impl Quorum {
    fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }
}
