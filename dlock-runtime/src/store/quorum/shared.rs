//! The state that the clones of a quorum and its background tasks share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::{Duration, SystemTime},
};

use tokio::runtime::Handle;

use super::{
    claims::Claims,
    node_set::NodeSet,
    nodes::{Nodes, Reply},
    proposals::Proposals,
};
use crate::{fence::fence_at, random::Random, store::AcquireOutcome};

/// The state that all clones and background tasks share.
pub(super) struct Shared {
    pub(super) nodes: Nodes,
    pub(super) claims: Claims,
    pub(super) proposals: Proposals,
    /// The number of releases that are being repeated.
    pub(super) owed: AtomicUsize,
    home: Mutex<Option<Handle>>,
    pub(super) random: Arc<dyn Random>,
    time_of_day: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

/// Returns the limit of one node's answer.
pub(super) fn limit_of_one(node_timeout: Duration, ttl: Duration) -> Duration {
    node_timeout.min(ttl / 4)
}

/// Returns the limit of a request with all its rounds.
pub(super) fn in_all(node_timeout: Duration) -> Duration {
    2 * node_timeout
}

impl Shared {
    pub(super) fn new(
        nodes: Nodes,
        time_of_day: impl Fn() -> SystemTime + Send + Sync + 'static,
        random: impl Random,
    ) -> Self {
        Self {
            nodes,
            claims: Claims::default(),
            proposals: Proposals::default(),
            owed: AtomicUsize::new(0),
            home: Mutex::default(),
            random: Arc::new(random),
            time_of_day: Box::new(time_of_day),
        }
    }

    pub(super) fn propose(&self) -> u64 {
        self.proposals.next(fence_at((self.time_of_day)()))
    }

    pub(super) fn all(&self) -> NodeSet {
        NodeSet::all(self.nodes.len())
    }

    /// Records the counted fences of a reply, so that later proposals are greater.
    pub(super) fn saw(&self, reply: &Reply<AcquireOutcome>) {
        match &reply.answer {
            Ok(AcquireOutcome::Granted { fence, .. }) => self.proposals.saw(*fence),
            Ok(AcquireOutcome::Busy(holder)) => self.proposals.saw(holder.last_fence),
            Err(_) => {}
        }
    }

    /// Returns the runtime where the latest manager was created. The quorum's own work continues there.
    pub(super) fn home(&self) -> MutexGuard<'_, Option<Handle>> {
        // Every change under the mutex is complete before a panic is possible.
        self.home.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So that a lease is not used up by the requests for it.
    #[test]
    fn a_node_may_take_its_time_or_a_quarter_of_the_lease_whichever_is_less() {
        let seconds = Duration::from_secs;
        assert_eq!(limit_of_one(seconds(1), seconds(40)), seconds(1));
        assert_eq!(limit_of_one(seconds(10), seconds(8)), seconds(2));
        assert_eq!(in_all(seconds(3)), seconds(6));
    }
}
