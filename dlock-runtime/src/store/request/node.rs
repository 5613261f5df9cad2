//! The requests of a quorum to its nodes.

use super::AcquireRequest;
use crate::{key::LockKey, owner::OwnerId};

/// A request for a lease from a quorum to one of its nodes.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, OwnerId, AcquireOutcome, AcquireRequest, Proposal, QuorumNode, memory::MemoryStore}, random::SystemRandom};
///
/// let (node, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// let request = AcquireRequest::new(&key, owner, Duration::from_secs(30));
///
/// let far_ahead = 1 << 60;
/// let answer = node.propose(Proposal::new(request, far_ahead).notice(true)).await?;
/// assert_eq!(answer, AcquireOutcome::granted(far_ahead));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Proposal<'a> {
    /// The key, the owner and the lease. The node ignores its [`queue`](AcquireRequest::queue) and uses
    /// [`notice`](Self::notice) instead.
    pub request: AcquireRequest<'a>,
    /// The least value of a new fence. It replaces the node's own clock, so that several nodes count the same
    /// value. A node that has already reached this value counts a greater one.
    pub fence: u64,
    /// `true` if the owner waits for a notice when the key is held. A notice is a [`Hint`](crate::store::Hint)
    /// with a fence of 0, sent when the key is free and the owner is the first. With the notice the owner
    /// leaves the queue. It has no precedence: the next request of any owner gets the key.
    pub notice: bool,
}

impl<'a> Proposal<'a> {
    /// Creates a request whose fence, if it is a new one, is at least `fence`.
    #[must_use]
    pub const fn new(request: AcquireRequest<'a>, fence: u64) -> Self {
        Self {
            request,
            fence,
            notice: false,
        }
    }

    /// Replaces the request in the proposal.
    #[must_use]
    pub const fn request(mut self, request: AcquireRequest<'a>) -> Self {
        self.request = request;
        self
    }

    /// Sets whether the owner waits for a notice.
    #[must_use]
    pub const fn notice(mut self, notice: bool) -> Self {
        self.notice = notice;
        self
    }
}

/// A request from a quorum to one of its nodes to raise the fence of a lease.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockKey, store::{ClientId, OwnerId, QuorumNode, RaiseRequest, Raised, memory::MemoryStore}, random::SystemRandom};
///
/// let (node, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// assert_eq!(node.raise(RaiseRequest::new(&key, owner, 7, 9)).await?, Raised::NotOwner);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RaiseRequest<'a> {
    /// The lock.
    pub key: &'a LockKey,
    /// The owner of the lease.
    pub owner: OwnerId,
    /// The fence with which the lease was granted.
    pub from: u64,
    /// The new fence.
    pub to: u64,
}

impl<'a> RaiseRequest<'a> {
    /// Creates a request to raise the fence of this lease from one value to another.
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId, from: u64, to: u64) -> Self {
        Self {
            key,
            owner,
            from,
            to,
        }
    }

    /// Sets another key, for a node that keeps its locks under other names.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// Sets another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// Sets another fence with which the lease was granted.
    #[must_use]
    pub const fn from(mut self, from: u64) -> Self {
        self.from = from;
        self
    }
}
