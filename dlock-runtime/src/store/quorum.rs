//! Locks in several independent stores, of which a majority decides: Redlock with fences.
//!
//! # Guarantees
//!
//! Each request goes to all stores, the *nodes*, at the same time, with the same owner id, TTL and proposed
//! fence. A lock is held when a majority of the nodes holds it. A minority may be unreachable, hang, answer
//! late or have lost its data. The time limit of a node is much shorter than the TTL, and callers do not wait
//! for answers that no longer matter.
//!
//! **Fences.** The client proposes a number: its clock in units of 10 µs, but always more than every fence that
//! it has seen. A node counts `max(last + 1, proposal)`. The fence of the lock is the greatest one that a
//! majority has counted. Usually all nodes have counted the proposal. If not, the client writes the greatest
//! fence back to the nodes that counted less, only where the lock is still held. The lock is granted when a
//! majority has confirmed this fence. Two critical sections therefore never have the same token, and a section
//! that begins after another was granted has a greater one. Neither depends on a clock.
//!
//! **Clocks.** Mutual exclusion depends on clocks that run at about the same rate, as with one store: see
//! [`Drift`]. The absolute time of a clock does not matter, as long as it does not jump: a node whose clock is
//! set forward may expire a lock that is still held.
//!
//! # Data loss
//!
//! A node that restarts without its data forgets its grants. If exactly a majority held a lock, other clients
//! can then acquire another majority. Two critical sections overlap until the first holder notices. Keep such a
//! node out of the quorum for one maximal TTL, or let it write to disk before it answers
//! (`appendfsync always`). A renewal restores the lock on nodes that have lost it, which makes an overlap less
//! likely, but not impossible.
//!
//! Such a node has lost its count of fences as well. The clock in the proposal then makes the next fence
//! greater, as long as the clocks of the clients agree within the restart time. If a late section must not
//! write data, protect the data by the token, however many stores there are.
//!
//! # Waiting
//!
//! A node only notifies a waiter that the lock is free on this node. It does not make a waiter the holder,
//! because different nodes would choose different waiters. A notified waiter sends requests to all nodes, in
//! competition with all other claims at that time. Locks are therefore granted in no particular order. If
//! several claims compete and none gets a majority, all of them release their grants, and try again after a
//! random pause.
//!
//! A process in which several tasks want the lock releases it after 10 ms. Its tasks request it again only
//! after about two round trips and 5 ms more, so that a notified waiter can acquire it. The process does so in
//! any case, because it cannot know whether other processes wait. There is no further guarantee of fairness.
//! Among competing processes, the one nearest to the nodes wins more often. A task that requests the lock as
//! soon as its own release is answered can win every time.
//!
//! Waiters of a quorum and waiters of other clients must not share a queue of a node. A quorum waiter at the
//! head of the queue is not granted the lock, and the waiters behind it must poll. Only the quorum should
//! therefore lock its keys on its nodes. If other clients lock on the same servers, give the quorum a namespace
//! of its own.
//!
//! # Rules
//!
//! - **Safety.** The fence of a grant is one that a majority has *while holding the lock for this claim*.
//!   Confirmed where the lock is gone or was acquired anew, or by a node that has counted further by
//!   itself, a fence could be given twice. (`five_nodes_that_answer_late_never_give_one_fence_twice`)
//! - Clients propose the fence; a proposal is always greater than every fence that the client has seen.
//! - **Safety.** A node that was sent a release is never asked again under the same id. Hints reach the attempt
//!   under the id of any of its rounds. After an abandoned question, only the latest question says what
//!   becomes of the claim.
//! - A split vote is not held up by a node that hangs. Grants of a round that failed are released at once,
//!   and the release is repeated in the background until each node has answered or its TTL is over. If the
//!   runtime ends meanwhile, the release goes on where the latest manager was made. Places in queues are
//!   kept.
//! - **Safety.** A renewal acquires the lock again on nodes that say "not yours" while a majority renews. That
//!   never outlives the release: both look at the claim after they have sent.
//! - A node never makes a waiter the holder. A second notification by the same node is a new one.
//!
//! # Shared locks
//!
//! A lock is shared when a majority of the nodes has the claim among its sharers. No node has sharers beside an
//! exclusive holder, and two majorities meet in a node, so no claim shares the lock while another one holds it
//! exclusively. An exclusive waiter in a node's queue keeps new sharers out there, also after it was
//! notified, so they do not starve it.
//!
//! Sharers may have different tokens: each of them has the greatest fence that its majority has counted. All of them
//! are greater than those of exclusive holders before, and less than those after. A sharer whose writes a resource
//! compares by their tokens may therefore be fenced off by another sharer.
//!
//! # Rounds
//!
//! - `acquire` sends the rounds, `tally` decides the outcome of one round, and `outcome` names the conflicting
//!   holder. If there is no other majority, the other nodes are raised to the fence of a node that answered
//!   late and counted further.
//! - If a majority has answered and the vote looks split, a hanging node does not delay the round. The
//!   remaining answers are awaited for as long as after a refusal, twice as long in each round, because some
//!   nodes may only have a long round trip.
//! - Grants of a failed round are released at once. The release is repeated in the background until each node
//!   has answered or its TTL has ended (`owed`). If the runtime ends in the meantime, the release continues on
//!   the runtime where the latest manager was created. Places in queues are kept.
//! - All nodes count the client's proposal instead of their own clocks; otherwise they would never agree
//!   (`proposals`).
//! - A node's queue holds `owner!` members, which receive a hint with the fence 0 and keep their places for a
//!   second, until their requests arrive. The state does not accept a hint with the fence 0 as a grant; it sends
//!   a request.

mod acquire;
mod claims;
mod node_set;
mod nodes;
mod notices;
mod outcome;
mod owed;
mod proposals;
mod release;
mod renew;
mod shared;
mod tally;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use tokio::runtime::Handle;

use self::{
    node_set::{NodeSet, majority},
    nodes::Nodes,
    notices::Notices,
    shared::{Shared, in_all},
};
use super::{
    AcquireOutcome, AcquireRequest, Detaching, Drift, DynNode, HintSink, LockMode, LockModes,
    LockStore, QuorumNode, ReleaseRequest, Released, RenewBatch, Renewal, StoreError,
    StoreErrorKind, StoreHooks, StoreProperties,
};
use crate::{
    error::ConnectError,
    owner::ClientId,
    random::{Random, SystemRandom},
};

/// A [`LockStore`] over several stores, of which a majority decides.
///
/// The stores must be independent of each other: servers without replication between them, on different
/// machines. Three or five are usual; an even number tolerates no more failures than one less. Every process
/// must name the same stores, and each of them once. A store that is named twice has two votes, and dlock
/// cannot detect this. The [module](self) lists the guarantees.
///
/// Clones share their knowledge of the held locks.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dlock::{LockManager, store::{memory::MemoryStore, quorum::Quorum}};
///
/// let quorum = Quorum::of([(); 3].map(|()| MemoryStore::new()))?;
/// let manager = LockManager::builder().build_with_store(quorum)?;
/// manager.lock("order:42").run(async |_lease| ()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Quorum {
    shared: Arc<Shared>,
    node_timeout: Duration,
}

impl Quorum {
    /// Creates a quorum of these stores.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] for fewer than three stores, which tolerate no failure, or for more than
    /// 31.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::{memory::MemoryStore, quorum::Quorum};
    ///
    /// assert!(Quorum::of([(); 3].map(|()| MemoryStore::new())).is_ok());
    /// assert!(Quorum::of([(); 2].map(|()| MemoryStore::new())).is_err());
    /// ```
    pub fn of<S: QuorumNode>(stores: impl IntoIterator<Item = S>) -> Result<Self, ConnectError> {
        let boxed = |store| Box::new(store) as Box<dyn DynNode>;
        let nodes: Nodes = stores.into_iter().map(boxed).collect();
        if !(3..=NodeSet::MOST).contains(&nodes.len()) {
            return Err(ConnectError::InvalidOption {
                option: "stores",
                reason: "a quorum needs 3 to 31 stores".into(),
            });
        }
        Ok(Self {
            shared: Arc::new(Shared::new(nodes, SystemTime::now, SystemRandom)),
            node_timeout: Duration::from_millis(500),
        })
    }

    /// Sets the time limit of one node, at most a quarter of the TTL; 500 ms if not set. A request to the
    /// quorum takes up to twice as long. A renewal waits as long as its lease allows.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::store::{memory::MemoryStore, quorum::Quorum};
    ///
    /// let stores = [(); 5].map(|()| MemoryStore::new());
    /// let quorum = Quorum::of(stores)?.node_timeout(Duration::from_millis(200));
    /// # drop(quorum);
    /// # Ok::<(), dlock::ConnectError>(())
    /// ```
    #[must_use]
    pub fn node_timeout(mut self, limit: Duration) -> Self {
        self.node_timeout = limit.max(Duration::from_millis(1));
        self
    }

    /// Sets the source of the time of day, from which fences are made, and the random numbers for pauses. Use
    /// it in a simulation that must be reproducible. If not set, the machine provides both.
    ///
    /// The result does not know existing locks: call it before the quorum is used.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::SystemTime;
    /// use dlock::{store::{memory::MemoryStore, quorum::Quorum}, random::SystemRandom};
    ///
    /// // A simulation uses its own clock and its own generator instead of these.
    /// let quorum = Quorum::of([(); 3].map(|()| MemoryStore::new()))?;
    /// let quorum = quorum.replayable(SystemTime::now, SystemRandom);
    /// # drop(quorum);
    /// # Ok::<(), dlock::ConnectError>(())
    /// ```
    #[must_use]
    pub fn replayable(
        self,
        time_of_day: impl Fn() -> SystemTime + Send + Sync + 'static,
        random: impl Random,
    ) -> Self {
        let nodes = self.shared.nodes.clone();
        Self {
            shared: Arc::new(Shared::new(nodes, time_of_day, random)),
            ..self
        }
    }
}

/// Returns the outcome if it is certain when `ready` of `count` stores are ready and others have failed.
#[cfg(feature = "redis")]
pub(crate) fn outcome_of_connecting(
    count: usize,
    ready: usize,
    failures: &[(usize, StoreError)],
) -> Option<Result<(), StoreError>> {
    if ready >= majority(count) {
        return Some(Ok(()));
    }
    let is_hopeless = failures.len() > count - majority(count);
    is_hopeless.then(|| Err(outcome::unavailable(count, failures)))
}

/// Checks for a runtime, because timers panic without one.
fn needs_runtime() -> Result<(), StoreError> {
    if Handle::try_current().is_ok() {
        return Ok(());
    }
    let message = "no tokio runtime is running here";
    Err(StoreError::new(StoreErrorKind::NoRuntime, message).unsent())
}

impl LockStore for Quorum {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        needs_runtime()?;
        acquire::acquire(&self.shared, request, self.node_timeout).await
    }

    /// Renews all leases in one request to each store.
    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        if let Err(error) = needs_runtime() {
            return vec![Err(error); batch.requests.len()];
        }
        // The limit is that of the leases: a majority that answers late has renewed them nevertheless.
        renew::renew_all(&self.shared, batch, self.node_timeout).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest {
            key, owner, mode, ..
        } = request;
        needs_runtime()?;
        release::release(&self.shared, key, mode, owner, self.node_timeout).await
    }

    /// Waiters are only notified. The drift is the greatest of all stores. There are no permits: of `N` nodes with
    /// `n` permits each, `N * n / majority` claims could have a majority, which may be more than `n`.
    fn properties(&self) -> StoreProperties<'_> {
        let nodes = self.shared.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| node.properties()).collect();
        let mut drift = Drift::NONE;
        for node in &nodes {
            drift = drift.max(node.drift);
        }
        let is_shared = nodes.iter().all(|it| it.modes.contains(LockMode::Shared));
        let modes = if is_shared {
            LockModes::EXCLUSIVE.with_shared()
        } else {
            LockModes::EXCLUSIVE
        };
        let shortest = nodes.iter().map(|it| it.shortest_ttl).max();
        let longest = nodes.iter().map(|it| it.longest_ttl).min();
        StoreProperties::new()
            .grants(false)
            .gives_up_after(in_all(self.node_timeout))
            .drift(drift)
            .modes(modes)
            .ttls(shortest.unwrap_or_default(), longest.unwrap_or_default())
            .hooks(self)
    }
}

impl StoreHooks for Quorum {
    fn attach(&self, client: ClientId, hints: HintSink) {
        if let Ok(home) = Handle::try_current() {
            *self.shared.home() = Some(home);
        }
        let majority = majority(self.shared.nodes.len());
        let notices = Notices::new(hints, majority, self.shared.random.clone());
        for (node, store) in self.shared.nodes.iter().enumerate() {
            if let Some(hooks) = store.hooks() {
                hooks.attach(client, notices.sink(node));
            }
        }
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        let hooks = self.shared.nodes.iter().filter_map(|node| node.hooks());
        let detaching = join_all(hooks.map(|hooks| hooks.detach(client)));
        Box::pin(async {
            detaching.await;
        })
    }

    /// Returns `true` if all stores released it.
    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let ReleaseRequest {
            key, owner, mode, ..
        } = request;
        let Some(standing) = self.shared.claims.release(owner, key) else {
            return true;
        };
        let release = |node: usize| {
            let store = self.shared.nodes[node].as_ref();
            let release = ReleaseRequest::new(key, standing.ids.at(node));
            store.release_at_once(release.mode(mode))
        };
        // Each node is tried: a node that has released stays released.
        let refused = standing
            .touched
            .iter()
            .filter(|node| !release(*node))
            .count();
        if refused == 0 {
            self.shared.claims.forget(owner, key, &standing);
        }
        refused == 0
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum")
            .field("stores", &self.shared.nodes.len())
            .field("node_timeout", &self.node_timeout)
            .finish_non_exhaustive()
    }
}
