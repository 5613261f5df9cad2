//! Locks in several independent stores, of which a majority decides: Redlock, with fences.
//!
//! # What holds
//!
//! All stores, the *nodes*, are asked at once, each with the same owner id, TTL and proposed fence.
//! A lock is held when a majority of them holds it; a minority that is down, hangs, answers late or
//! has lost its data does not hinder. A node gets far less time to answer than the TTL, and callers
//! do not wait for answers that no longer matter.
//!
//! **Fences.** The client proposes a number, its clock in units of 10 µs, but always more than every
//! fence it has seen, and a node counts `max(last + 1, proposal)`. The fence of the lock is the
//! greatest that a majority has counted. Usually they have all counted the proposal. If not, the
//! greatest is written back to the nodes that counted less, only where the lock is still held, and
//! the lock is granted when a majority has confirmed it. So two sections never have the same token,
//! and one that is begun after another was granted has a greater one. Neither depends on a clock.
//!
//! **Clocks.** That two sections do not overlap depends on clocks that tick at about the same rate,
//! as with one store: see [`Drift`]. What time they show does not matter, as long as it
//! does not jump: a node whose clock is set forward may forget a lock that is held.
//!
//! # What does not
//!
//! A node that restarts without its data forgets whom it has granted. If a lock was held on just a
//! majority, others can then get another majority, and two sections overlap until the first one
//! notices. Keep such a node out for one maximal TTL before it takes part again, or let it write to
//! disk before it answers (`appendfsync always`). A renewal gives the lock again to nodes that have
//! lost it, which makes this rarer, not impossible.
//!
//! Such a node has forgotten its count of fences as well. Then it is the clock in the proposal that
//! makes the next one greater, as long as the clocks of the clients agree better than the restart
//! takes. Data that must not be written by a late section has to be protected by the token, whatever
//! the number of stores.
//!
//! # Waiting
//!
//! A node only notifies a waiter that the lock is free there. It makes no waiter the holder, since
//! different nodes would choose different waiters. A notified waiter asks all nodes, in competition
//! with every other claim that asks at that time. So locks are given in no order. If several claims
//! ask at the same time and none gets a majority, all release what they have got, and try again
//! after a random pause.
//!
//! A process in which several tasks want the lock releases it after 10 ms, and they ask again only
//! after about two round trips and 5 ms more, so that a notified waiter can have it. It does so
//! whether there are other waiters or not, since it cannot know. Beyond that nothing is promised:
//! of several processes that ask at the same time the one that is nearest to the nodes wins more
//! often, and a task that asks as soon as its own release was answered can win each time.
//!
//! A waiter of a quorum at the head of a node's queue is not granted the lock, nor are those behind
//! it: they have to poll. So only the quorum should lock the same keys on its nodes. Servers that
//! others lock on as well need a namespace of their own for it.
//!
//! # Rounds
//!
//! - `acquire` asks round by round, `tally` decides about one round, and `outcome` names the holder that is in the way. A
//!   node that answers late and has counted further is what the others are raised to, if there is no other majority.
//! - A vote that looks split, when a majority has answered, is not held up by a node that hangs: the other answers are
//!   awaited for as long as after a refusal, twice as long in each round, since some nodes may only be far away.
//! - Grants of a round that failed are released at once, and the release is repeated in the background until each node has
//!   answered or its TTL is over (`owed`). If the runtime ends meanwhile, the release goes on where the latest manager was
//!   made. Places in queues are kept.
//! - All nodes count the client's proposal instead of their own clocks; otherwise they would never agree (`proposals`).
//! - A node's queue holds `owner!` members, which get a hint with the fence 0 and leave the queue. The state believes no hint
//!   with the fence 0; it asks.

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
    AcquireOutcome, AcquireRequest, Detaching, Drift, DynNode, HintSink, LockStore, QuorumNode,
    ReleaseRequest, Released, RenewBatch, Renewal, StoreError, StoreErrorKind, StoreHooks,
    StoreProperties,
};
use crate::{
    error::ConnectError,
    owner::ClientId,
    random::{Random, SystemRandom},
};

/// A [`LockStore`] of several others, of which a majority decides.
///
/// The stores have to be independent of each other: servers without replication between them, on
/// different machines. Three or five are usual; an even number tolerates no more failures than one
/// less. Every process has to name the same ones, and each of them once: a store that is named
/// twice has two votes, which cannot be detected from here. The [module](self) lists the
/// guarantees.
///
/// Clones share what they know of the locks that are held.
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
    /// A quorum of these stores.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] for fewer than three stores, which gain nothing, or more than
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
                reason: "a quorum is of 3 to 31 stores".into(),
            });
        }
        Ok(Self {
            shared: Arc::new(Shared::new(nodes, SystemTime::now, SystemRandom)),
            node_timeout: Duration::from_millis(500),
        })
    }

    /// Sets how long to wait for one store, at most a quarter of the TTL. If not set, 500 ms; a
    /// request to the quorum takes up to twice as long. A renewal waits as long as its lease
    /// allows.
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

    /// Where the time of day comes from, which fences are made of, and the randomness of pauses: for
    /// a simulation that is to be replayed. If not set, the machine's.
    ///
    /// The result knows of no lock: call it before the quorum is used.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::SystemTime;
    /// use dlock::{store::{memory::MemoryStore, quorum::Quorum}, testing::SystemRandom};
    ///
    /// // A simulation has a clock and a generator of its own in place of these.
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

/// The certain outcome when some of `count` stores are ready and others have failed.
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

/// Timers panic without a runtime.
fn needs_runtime() -> Result<(), StoreError> {
    if Handle::try_current().is_ok() {
        return Ok(());
    }
    let message = "no tokio runtime runs here";
    Err(StoreError::new(StoreErrorKind::NoRuntime, message).unsent())
}

impl LockStore for Quorum {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        needs_runtime()?;
        acquire::acquire(&self.shared, request, self.node_timeout).await
    }

    /// All in one request to each store.
    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        if let Err(error) = needs_runtime() {
            return vec![Err(error); batch.requests.len()];
        }
        // As long as the leases allow: a majority that answers late has renewed them all the same.
        renew::renew_all(&self.shared, batch, self.node_timeout).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let ReleaseRequest { key, owner, .. } = request;
        needs_runtime()?;
        release::release(&self.shared, key, owner, self.node_timeout).await
    }

    /// Waiters are only told. The drift is the greatest of the stores'.
    fn properties(&self) -> StoreProperties<'_> {
        let nodes = self.shared.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| node.properties()).collect();
        let mut drift = Drift::NONE;
        for node in &nodes {
            drift = drift.max(node.drift);
        }
        let shortest = nodes.iter().map(|it| it.shortest_ttl).max();
        let longest = nodes.iter().map(|it| it.longest_ttl).min();
        StoreProperties::new()
            .grants(false)
            .gives_up_after(in_all(self.node_timeout))
            .drift(drift)
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
                hooks.attach(client, notices.of(node));
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

    /// If all stores can.
    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool {
        let ReleaseRequest { key, owner, .. } = request;
        let Some(standing) = self.shared.claims.release(owner, key) else {
            return true;
        };
        let release = |node: usize| {
            let store = self.shared.nodes[node].as_ref();
            store.release_at_once(ReleaseRequest::new(key, standing.ids.at(node)))
        };
        // Each is tried: what one has done is done.
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
