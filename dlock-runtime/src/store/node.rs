//! The contract between a quorum and its stores.

use std::{future::Future, sync::Arc};

use super::{AcquireOutcome, LockStore, Proposal, RaiseRequest, Raised, StoreError};

/// A store that can be a node of a [quorum](super::quorum).
///
/// A node must not choose the next holder by itself, and it counts the fences that the quorum proposes. A store
/// without these requests cannot be a node: a quorum of such stores does not compile.
///
/// ```compile_fail,E0277
/// # extern crate dlock_runtime as dlock;
/// use dlock::{StoreError, store::{LockStore, AcquireOutcome, AcquireRequest, ReleaseRequest, Released, RenewBatch, Renewal, StoreProperties, memory::MemoryStore, quorum::Quorum}};
///
/// /// A store of its own kind: it can do all that a store must.
/// struct Plain(MemoryStore);
///
/// impl LockStore for Plain {
///     async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
///         self.0.acquire(request).await
///     }
///
///     async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
///         self.0.renew(batch).await
///     }
///
///     async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
///         self.0.release(request).await
///     }
///
///     fn properties(&self) -> StoreProperties<'_> {
///         self.0.properties()
///     }
/// }
///
/// // error[E0277]: `Plain` cannot be a node of a quorum
/// let quorum = Quorum::of([(); 3].map(|()| Plain(MemoryStore::new())));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a node of a quorum",
    label = "this store is not a `QuorumNode`",
    note = "a node accepts proposed fences: implement `dlock::store::QuorumNode` in addition to `LockStore`"
)]
pub trait QuorumNode: LockStore {
    /// Requests a lease as [`acquire`](LockStore::acquire) does, with two differences.
    ///
    /// A new fence is the [proposed one](Proposal::fence), or one more than the last if that is greater. An
    /// owner that finds the key held may wait for a [notice](Proposal::notice) instead of the lease.
    ///
    /// A waiter for a lease precedes waiters for a notice. The first waiter for a notice is notified when the
    /// key is released, and leaves the queue at the same time.
    ///
    /// Errors and cancel safety are those of [`LockStore`](LockStore#errors).
    fn propose(
        &self,
        proposal: Proposal<'_>,
    ) -> impl Future<Output = Result<AcquireOutcome, StoreError>> + Send;

    /// Raises the fence of a key [from](RaiseRequest::from) one value [to](RaiseRequest::to) another, if the
    /// owner holds the key and its fence is one of the two values. All later grants have a greater fence. The
    /// TTL does not change.
    ///
    /// Any other fence means that the key was granted again in the meantime; then nothing changes.
    ///
    /// Errors and cancel safety are those of [`LockStore`](LockStore#errors).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireOutcome, AcquireRequest, QuorumNode, RaiseRequest, Raised, memory::MemoryStore}, random::SystemRandom};
    ///
    /// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let ttl = Duration::from_secs(30);
    ///
    /// let granted = store.acquire(AcquireRequest::new(&key, owner, ttl)).await?;
    /// let AcquireOutcome::Granted { fence, .. } = granted else {
    ///     panic!("it is free");
    /// };
    /// let raise = |from, to| store.raise(RaiseRequest::new(&key, owner, from, to));
    /// assert_eq!(raise(fence, fence + 5).await?, Raised::Raised);
    /// assert_eq!(raise(fence, fence + 9).await?, Raised::NotOwner);
    /// # Ok(()) }
    /// ```
    fn raise(
        &self,
        request: RaiseRequest<'_>,
    ) -> impl Future<Output = Result<Raised, StoreError>> + Send;
}

impl<S: QuorumNode> QuorumNode for Arc<S> {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        S::propose(self, proposal).await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        S::raise(self, request).await
    }
}
