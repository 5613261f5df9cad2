//! The requests of a quorum to its nodes.

use super::AcquireRequest;
use crate::{key::LockKey, owner::OwnerId};

/// A request of a quorum to one of its nodes.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, OwnerId, AcquireOutcome, AcquireRequest, Proposal, QuorumNode, memory::MemoryStore}, testing::SystemRandom};
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
    /// The key, the owner and the lease. Its [`queue`](AcquireRequest::queue) does not count:
    /// [`notice`](Self::notice) takes its place.
    pub request: AcquireRequest<'a>,
    /// The least value of a new fence, in place of the node's own clock, so that several nodes count
    /// the same one. A node that has reached this value before counts a greater one.
    pub fence: u64,
    /// `true` if the owner waits for a notice when the key is held: a [`Hint`](crate::store::Hint) with a
    /// fence of 0 when the key is free and the owner is the first. It leaves the queue by that, and
    /// has no precedence: the next request gets the key, from any owner.
    pub notice: bool,
}

impl<'a> Proposal<'a> {
    /// A request whose fence, if it is a new one, is at least `fence`.
    #[must_use]
    pub const fn new(request: AcquireRequest<'a>, fence: u64) -> Self {
        Self {
            request,
            fence,
            notice: false,
        }
    }

    /// The same proposal with another request in it.
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

/// A request of a quorum to one of its nodes: the fence of a lease is to be raised.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockKey, store::{ClientId, OwnerId, QuorumNode, RaiseRequest, Raised, memory::MemoryStore}, testing::SystemRandom};
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
    /// The fence that the lease was granted with.
    pub from: u64,
    /// The fence that it is to have.
    pub to: u64,
}

impl<'a> RaiseRequest<'a> {
    /// The fence of this lease is to be raised from one value to another.
    #[must_use]
    pub const fn new(key: &'a LockKey, owner: OwnerId, from: u64, to: u64) -> Self {
        Self {
            key,
            owner,
            from,
            to,
        }
    }

    /// The same request for another key, for a node that keeps its locks elsewhere.
    #[must_use]
    pub const fn key(mut self, key: &'a LockKey) -> Self {
        self.key = key;
        self
    }

    /// The same request for another owner.
    #[must_use]
    pub const fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    /// The same request with another fence that the lease was granted with.
    #[must_use]
    pub const fn from(mut self, from: u64) -> Self {
        self.from = from;
        self
    }
}
