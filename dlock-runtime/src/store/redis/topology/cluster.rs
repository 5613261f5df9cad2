//! A Redis Cluster: several masters, each with slots of its own, and a connection to each.
//!
//! Requests are sent to where they belong by this module and not by the client library. That one
//! sends a command again whose reply was lost, where a lock has to report that nobody knows; it
//! keeps requests that nobody polls; and it may send two requests of one owner over two connections.
//! Here every master is a [`Node`] as a single server is: requests of an owner arrive in order,
//! a broken connection is closed before the next serves, and what was sent without an answer
//! is an error that says so. Only an answer that nothing was done leads to another node.

mod map;
mod redirect;
mod refresh;
mod route;
mod topology;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures_util::future::{pending, select_all};
use tokio::{
    runtime,
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

#[cfg(any(test, fuzzing))]
pub(in crate::store::redis) use self::topology::Topology;
use self::{map::Map, refresh::Watcher};
pub(in crate::store::redis) use self::{map::Member, redirect::Redirect};
use super::source::Source;
use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        RedisConfig,
        config::url::{Address, Location},
        net::{events::Events, hints::Hints, node::Node, service::Service, supervisor::State},
        protocol::errors,
    },
};

/// A cluster, for as long as this lives.
pub(in crate::store::redis) struct Cluster {
    shared: Arc<Shared>,
    /// Keeps up with which node has which slots.
    watcher: Service<Watcher>,
}

struct Shared {
    location: Location,
    /// The URL without its password.
    shown: String,
    config: Arc<RedisConfig>,
    hints: Arc<Hints>,
    /// Whether other connections to the same nodes tell of their outages.
    is_second: bool,
    /// Where nodes have their tasks, whoever has heard of them first.
    home: runtime::Handle,
    map: RwLock<Map>,
    knowledge: watch::Sender<Knowledge>,
    /// Somebody has seen that the map may be wrong.
    is_doubted: Notify,
}

/// What is known of who has which slots.
enum Knowledge {
    /// The outcome of the first question is not there yet.
    Asking,
    /// Nobody has told so far.
    Failed(StoreError),
    /// Perhaps not the latest.
    Known,
}

impl Cluster {
    /// Starts to ask the servers of the URL who has which slots, in the background of `home`.
    pub(in crate::store::redis) fn start(
        location: Location,
        config: &Arc<RedisConfig>,
        hints: &Arc<Hints>,
        home: &runtime::Handle,
        events: Events,
    ) -> Self {
        let shared = Arc::new(Shared {
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

    /// Waits until some master is ready and none is known to refuse us for good.
    pub(in crate::store::redis) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
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
    /// Who has slots, in the order of their addresses.
    pub(in crate::store::redis) fn masters(&self) -> Vec<Arc<Member>> {
        self.shared.read(Map::masters)
    }
}

impl Shared {
    fn read<T>(&self, look: impl FnOnce(&Map) -> T) -> T {
        look(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Map) -> T) -> T {
        change(&mut self.map.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The map is to be made anew.
    fn doubt(&self) {
        self.is_doubted.notify_one();
    }

    /// The same, if the failure of a request may come from going to the wrong node. One that is busy,
    /// out of memory or refuses us is the right one all the same, and everybody's requests fail
    /// there: the others must not be flooded with questions.
    fn doubt_after(&self, error: &StoreError) {
        if casts_doubt(error) {
            self.doubt();
        }
    }

    /// Begins to connect to a master.
    fn start_node(&self, address: &Address) -> Member {
        let endpoint = self.location.endpoint(address.clone());
        let shown = endpoint.to_string();
        let events = Events::of_part(self.is_second, shown.clone());
        let source = Source::Fixed(endpoint);
        let node = Node::start(source, &self.config, &self.hints, events, &self.home);
        Member::new(address.clone(), shown, node)
    }

    fn no_connection(&self, limit: Duration) -> StoreError {
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

/// The masters at one moment, and how their connections are.
struct Members(Vec<(Arc<Member>, watch::Receiver<State>)>);

/// What is to be seen of some masters.
struct Seen {
    some_ready: bool,
    some_connecting: bool,
    /// The one that says most, which is one that will not go away by itself.
    failure: Option<StoreError>,
}

impl Members {
    fn of(shared: &Shared) -> Self {
        shared.read(|map| {
            let members = map.members();
            let watched = members.map(|it| {
                it.node.revive();
                (it.clone(), it.node.state())
            });
            Self(watched.collect())
        })
    }

    /// How they are now; [`change`](Self::change) waits for what comes after that.
    fn look(&mut self) -> Seen {
        let mut seen = Seen {
            some_ready: false,
            some_connecting: false,
            failure: None,
        };
        for (member, state) in &mut self.0 {
            match &*state.borrow_and_update() {
                State::Ready(_) => seen.some_ready = true,
                State::Connecting { .. } => seen.some_connecting = true,
                State::Failed(error) => {
                    if seen.failure.is_none() || error.is_final() {
                        seen.failure = Some(error.clone().at(&member.shown));
                    }
                }
            }
        }
        seen
    }

    async fn change(&mut self) {
        // A closed channel is that of a node which has gone, and then there is another map.
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
