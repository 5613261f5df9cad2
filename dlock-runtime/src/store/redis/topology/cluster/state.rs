//! The state of a cluster: its map, the doubts about the map, and the connections to the masters.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures_util::future::{pending, select_all};
use tokio::sync::{Notify, watch};

use super::map::{Map, Member};
use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        config::{
            settings::RedisConfig,
            url::{Address, Location},
        },
        net::{events::Events, hints::Hints, home::Home, node::Node, supervisor::ConnectionState},
        topology::source::Source,
    },
};

pub(super) struct ClusterState {
    pub(super) location: Location,
    /// The URL without its password.
    pub(super) shown: String,
    pub(super) config: Arc<RedisConfig>,
    pub(super) hints: Arc<Hints>,
    /// `true` if other connections to the same nodes report their outages.
    pub(super) is_second: bool,
    /// The home of the tasks of all nodes.
    pub(super) home: Arc<Home>,
    pub(super) map: RwLock<Map>,
    pub(super) knowledge: watch::Sender<Knowledge>,
    /// Notified when the map may be wrong.
    pub(super) is_doubted: Notify,
}

/// The state of the map.
pub(super) enum Knowledge {
    /// The first request has no outcome yet.
    Asking,
    /// No node has answered so far.
    Failed(StoreError),
    /// The map is known, but may be outdated.
    Known,
}

impl ClusterState {
    pub(super) fn read<T>(&self, look: impl FnOnce(&Map) -> T) -> T {
        look(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Map) -> T) -> T {
        change(&mut self.map.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that the map may be wrong, so that it is refreshed.
    pub(super) fn doubt(&self) {
        self.is_doubted.notify_one();
    }

    /// Does the same if the request may have failed because it went to the wrong node. A node that is busy, out of
    /// memory or refuses this client may still be the right one. All requests to it then fail, and must not cause a
    /// flood of requests to the other nodes.
    pub(super) fn doubt_after(&self, error: &StoreError) {
        if casts_doubt(error) {
            self.doubt();
        }
    }

    /// Starts to connect to a master.
    pub(super) fn start_node(&self, address: &Address) -> Member {
        let endpoint = self.location.endpoint(address.clone());
        let shown = endpoint.to_string();
        let events = Events::of_part(self.is_second, shown.clone());
        let source = Source::Fixed(endpoint);
        let node = Node::start(source, &self.config, &self.hints, events, &self.home);
        Member::new(address.clone(), shown, node)
    }

    pub(super) fn no_connection(&self, limit: Duration) -> StoreError {
        let message = format!("no connection to {} within {limit:.0?}", self.shown);
        StoreError::new(StoreErrorKind::Unreachable, message)
    }
}

fn casts_doubt(error: &StoreError) -> bool {
    use StoreErrorKind::{Disconnected, ReadOnly, Refused, TimedOut, Unreachable};
    match error.kind() {
        Disconnected | ReadOnly | TimedOut | Unreachable => true,
        Refused => error.message().contains("CLUSTERDOWN"),
        _ => false,
    }
}

/// The masters at one moment, and the states of their connections.
pub(super) struct Members(Vec<(Arc<Member>, watch::Receiver<ConnectionState>)>);

/// A summary of the states of some masters.
pub(super) struct MembersState {
    pub(super) some_ready: bool,
    pub(super) some_connecting: bool,
    /// The most specific one: a failure that does not end by itself, if there is one.
    pub(super) failure: Option<StoreError>,
}

impl Members {
    pub(super) fn of(shared: &ClusterState) -> Self {
        shared.read(|map| {
            let members = map.members();
            let watched = members.map(|it| {
                it.node.revive();
                (it.clone(), it.node.state())
            });
            Self(watched.collect())
        })
    }

    /// Returns their current state; [`change`](Self::change) waits for later changes.
    pub(super) fn look(&mut self) -> MembersState {
        let mut seen = MembersState {
            some_ready: false,
            some_connecting: false,
            failure: None,
        };
        for (member, state) in &mut self.0 {
            match &*state.borrow_and_update() {
                ConnectionState::Ready(_) => seen.some_ready = true,
                ConnectionState::Connecting { .. } => seen.some_connecting = true,
                ConnectionState::Failed(error) => {
                    if seen.failure.is_none() || error.is_final() {
                        seen.failure = Some(error.clone().at(&member.shown));
                    }
                }
            }
        }
        seen
    }

    pub(super) async fn change(&mut self) {
        // A closed channel belongs to a node that was dropped, and then there is a new map.
        let changes = self.0.iter_mut().map(|(_, state)| {
            Box::pin(async {
                if state.changed().await.is_err() {
                    pending::<()>().await;
                }
            })
        });
        let changes: Vec<_> = changes.collect();
        if changes.is_empty() {
            pending::<()>().await;
        }
        select_all(changes).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_busy_or_refuses_us_is_the_right_node_all_the_same() {
        use StoreErrorKind as Kind;
        for (kind, text, is_doubted) in [
            (Kind::Disconnected, "broke", true),
            (Kind::TimedOut, "no answer", true),
            (Kind::Unreachable, "no connection", true),
            (Kind::ReadOnly, "a replica", true),
            (Kind::Refused, "CLUSTERDOWN the cluster is down", true),
            (Kind::Refused, "BUSY a script runs", false),
            (Kind::Refused, "MISCONF the disk is full", false),
            (Kind::OutOfMemory, "OOM", false),
            (Kind::Loading, "LOADING", false),
            (Kind::Denied, "NOPERM", false),
            (Kind::Unauthenticated, "WRONGPASS", false),
        ] {
            let error = StoreError::new(kind, text);
            assert_eq!(casts_doubt(&error), is_doubted, "{error}");
        }
    }
}
