//! A Redis Cluster: several masters, each with slots of its own, and a connection to each.
//!
//! This module sends requests to their nodes, not the client library. That library sends a command
//! again after its reply was lost, where a lock has to report that the outcome is unknown; it keeps
//! requests whose callers are gone; and it may send two requests of one owner over two connections.
//! Here every master is a [`Node`] as a single server is: requests of an owner arrive in order, a
//! broken connection is closed before the next serves, and a request without an answer is an error
//! that says so. Only an answer that nothing was done leads to another node.
//!
//! - `route.rs` sends a request to the master of its slot. **[S]** It goes on to another node only after an answer that nothing
//!   was done: MOVED (the map is changed for the slot, with one more request), ASK (the request follows `ASKING` in one
//!   write), TRYAGAIN (after a pause); `protocol/redirect.rs` reads them. A broken connection or no answer is an error, as with one
//!   server. All of it ends within the time for one request. (`a_lost_reply_is_told_and_nothing_is_sent_twice`)
//! - `refresh.rs` keeps the map; `refresh/round.rs` asks for it. Nodes are told apart by their addresses alone, which are trusted. A node that is no longer a
//!   master is dropped with its connection; the outcome of requests under way there is unknown.
//! - While a slot moves, its keys are on two nodes. **[S]** An acquire needs the lock and its fence at one node, so that no
//!   fence is counted by a counter that is left behind; it waits for the end of the move. A renewal needs the lock alone,
//!   and goes on. A release that meets TRYAGAIN deletes the lock alone (`drop.lua`), if the owner still holds it; waiters find it
//!   free at their next poll.
//! - Every client is subscribed at every master. The cluster's bus passes a hint on to all of them, so a hint arrives once for
//!   each master, first from the one that granted. A repeated hint is an old one, which no waiter believes.
//! - Replication is asynchronous: writes that a dying master had not passed on are lost, a lease among them. The holder learns
//!   of it at its next renewal. **[S]** Tokens grow all the same, by the clock in the fence, as long as the nodes' clocks
//!   agree better than a failover takes. (`a_lease_that_no_replica_has_is_lost_and_tokens_grow`, chaos)

pub(super) mod map;
mod refresh;
pub(super) mod route;
mod state;
mod topology;

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use tokio::{
    runtime,
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

#[cfg(feature = "admin")]
use self::map::{Map, Member};
#[cfg(any(test, fuzzing))]
pub(crate) use self::topology::Topology;
use self::{
    refresh::Watcher,
    state::{ClusterState, Knowledge, Members},
};
use crate::store::{
    StoreError,
    redis::{
        config::{settings::RedisConfig, url::Location},
        net::{events::Events, hints::Hints, service::Service},
        protocol::errors,
    },
};

/// A cluster, for as long as this lives.
pub(crate) struct Cluster {
    shared: Arc<ClusterState>,
    /// The task that keeps the map.
    watcher: Service<Watcher>,
}

impl Cluster {
    /// Starts to ask the servers of the URL for the slots of each node, in the background of `home`.
    pub(crate) fn start(
        location: Location,
        config: &Arc<RedisConfig>,
        hints: &Arc<Hints>,
        home: &runtime::Handle,
        events: Events,
    ) -> Self {
        let shared = Arc::new(ClusterState {
            shown: location.to_string(),
            location,
            config: config.clone(),
            hints: hints.clone(),
            is_second: events.are_of_second(),
            map: RwLock::default(),
            knowledge: watch::Sender::new(Knowledge::Asking),
            is_doubted: Notify::new(),
            home: home.clone(),
        });
        let watcher = Service::start(Watcher::new(shared.clone(), events), home);
        Self { shared, watcher }
    }

    /// The time that one request may take.
    pub(crate) fn limit(&self) -> Duration {
        self.shared.config.response_timeout
    }

    /// Waits until some master is ready and none is known to refuse us for good.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        let end = Instant::now() + limit;
        let mut knowledge = self.shared.knowledge.subscribe();
        loop {
            let failure = match &*knowledge.borrow_and_update() {
                Knowledge::Failed(error) => Some(error.clone()),
                Knowledge::Asking | Knowledge::Known => None,
            };
            let mut members = Members::of(&self.shared);
            let seen = members.look();
            let last = failure.or(seen.failure);
            if let Some(error) = last.as_ref().filter(|error| error.is_final()) {
                return Err(error.clone());
            }
            if seen.some_ready && !seen.some_connecting {
                return Ok(());
            }
            tokio::select! {
                Ok(()) = knowledge.changed() => {}
                () = members.change() => {}
                error = self.watcher.keep_going() => return Err(error),
                () = sleep_until(end) => {
                    return match last {
                        _ if seen.some_ready => Ok(()),
                        Some(error) => Err(errors::given_up(&self.shared.shown, limit, &error)),
                        None => Err(self.shared.no_connection(limit)),
                    };
                }
            }
        }
    }
}

#[cfg(feature = "admin")]
impl Cluster {
    /// The nodes that have slots, in the order of their addresses.
    pub(crate) fn masters(&self) -> Vec<Arc<Member>> {
        self.shared.read(Map::masters)
    }
}
