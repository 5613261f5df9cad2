//! The knowledge of etcd and the tasks, the requests under way, and the possible actions.

use crate::list::List;

/// The most tasks.
pub(super) const TASKS: usize = 3;
/// The most leases.
pub(super) const LEASES: usize = 4;

/// All of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The leases in etcd that were made: `true` until they end.
    pub(super) leases: List<bool, LEASES>,
    /// The keys in etcd.
    pub(super) keys: List<Key, 4>,
    /// The leases that no claim uses, of each process.
    pub(super) idle: [List<u8, LEASES>; 2],
    pub(super) tasks: [Task; TASKS],
    /// In no order.
    pub(super) requests: List<Request, 8>,
}

/// The key of a claim, and its lease, by which it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// The claim that has created it, as the create revision tells.
    pub(super) claim: Claim,
    pub(super) lease: u8,
}

/// A claim of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Claim {
    pub(super) task: u8,
    pub(super) round: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) round: u8,
    pub(super) phase: Phase,
    /// That of the claim.
    pub(super) lease: u8,
    /// Whether the lease was made or kept alive since the claim asked.
    pub(super) is_kept: bool,
    /// Whether a deletion by name alone was sent for the claim.
    pub(super) is_bare: bool,
}

/// The state of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// Waits for these answers.
    Asking {
        creates: bool,
        keeps: bool,
    },
    /// Believes that it holds.
    Holding,
    /// To be released. It has a key, or nothing is known of the request that creates one.
    Ending {
        is_known: bool,
    },
    /// Waits until its key is deleted.
    Deleting {
        is_known: bool,
    },
    /// Waits until its lease has ended.
    Revoking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) claim: Claim,
    pub(super) what: What,
    pub(super) lease: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Create,
    KeepAlive,
    /// Compares the create revision.
    Delete,
    /// Compares nothing: a key that was created by a request without an answer, or in a full database.
    DeleteName,
    Revoke,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A task takes or makes a lease, and sends the request of its next claim.
    Ask(usize),
    /// etcd carries out a request. If the task still waits for the answer, it gets it.
    Serve(usize),
    /// A task waits no longer for an answer, or believes no longer that it holds.
    GiveUp(usize),
    /// A task sends the deletion of its key, or the end of its lease, perhaps again.
    Release(usize),
    /// A task sends the deletion of its key as one that a full database accepts.
    ReleaseBare(usize),
    /// A lease ends in etcd.
    End(usize),
}
