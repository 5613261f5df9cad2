//! A Redis Cluster: several masters, each with its own slots and its own connection.
//!
//! This module routes requests to nodes itself and does not use the client library's routing. The library
//! repeats a command after its reply was lost, although a lock must then report an unknown outcome. It also
//! keeps requests whose callers have cancelled them, and may send two requests of one owner over two
//! connections. Here every master is a [`Node`], like a single server: requests of an owner arrive in order, a
//! broken connection is closed before the next one is used, and a request without an answer is reported as an
//! error. A request goes to another node only after an answer that it was not carried out.
//!
//! - `route.rs` sends a request to the master of its slot. **[S]** It goes on to another node only after an
//!   answer that the request was not carried out: MOVED (the map is changed for that slot, with one
//!   more request), ASK (the request follows `ASKING` in one write), TRYAGAIN (after a pause);
//!   `protocol/redirect.rs` reads them. A broken connection or no answer is an error, as with one server. All of it ends within the time limit of one request.
//!   (`a_lost_reply_is_told_and_nothing_is_sent_twice`)
//! - `refresh.rs` maintains the map; `refresh/round.rs` requests it. Nodes are identified only by their
//!   addresses, which are trusted. A node that is no longer a master is dropped with its connection; the
//!   outcome of requests in progress there is unknown.
//! - While a slot moves, its keys are on two nodes. **[S]** An acquire needs the lock and its fence on one
//!   node, so that no fence comes from an abandoned counter; it waits for the end of the move. A renewal needs
//!   only the lock, and continues. A release that meets TRYAGAIN deletes the lock alone (`drop.lua`), if the owner
//!   still holds it; waiters find it free at their next poll.
//!   (`a_slot_left_half_moved_is_named_and_keeps_no_lock`)
//! - Every client subscribes at every master. The cluster's bus forwards a hint to all of them, so a hint
//!   arrives once for each master, first from the one that granted. A repeated hint is an old one, which no
//!   waiter accepts.
//! - Replication is asynchronous: writes that a crashing master had not forwarded are lost, possibly including
//!   a lease. The holder notices at its next renewal. **[S]** Tokens still increase, by the clock in the fence,
//!   as long as the nodes' clocks agree within the time of a failover.
//!   (`a_lease_that_no_replica_has_is_lost_and_tokens_grow`, chaos)

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
        net::{events::Events, hints::Hints, home::Home, service::Service},
        protocol::errors,
    },
};

/// A cluster. Its connections are kept open while this value lives.
pub(crate) struct Cluster {
    shared: Arc<ClusterState>,
    /// The task that maintains the map.
    watcher: Service<Watcher>,
}

impl Cluster {
    /// Starts to request the slots from the servers of the URL, in the background in `home`.
    pub(crate) fn start(
        location: Location,
        config: &Arc<RedisConfig>,
        hints: &Arc<Hints>,
        home: &Arc<Home>,
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

    /// Returns the time limit of one request.
    pub(crate) fn limit(&self) -> Duration {
        self.shared.config.response_timeout
    }

    /// Waits until some master is ready and none is known to refuse this client permanently.
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
    /// Returns the nodes that have slots, in the order of their addresses.
    pub(crate) fn masters(&self) -> Vec<Arc<Member>> {
        self.shared.read(Map::masters)
    }
}
