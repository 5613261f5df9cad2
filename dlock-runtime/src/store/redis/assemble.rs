//! Creates a store: from its URL to its connections.

use std::{
    panic::catch_unwind,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    runtime,
    time::{Instant, sleep},
};

use super::{
    RedisConfig, RedisStore,
    admin::presence::PresenceTasks,
    config::url::UrlLayout,
    net::{events::Events, hints::Hints, home::Home, node::Node},
    protocol::{errors, slot},
    topology::{
        cluster::Cluster,
        lane::{Connections, Way},
        replicas::Confirmer,
        sentinel::Sentinels,
        servers::Servers,
        source::Source,
        wake_ups::WakeUps,
    },
};
use crate::{error::ConnectError, store::StoreError};

const NO_TIMERS: &str =
    "the tokio runtime that is running here has no timers: build it with `enable_all()`";

/// The parts of a store that every kind of servers has.
struct StoreParts {
    shown: String,
    config: Arc<RedisConfig>,
    hints: Arc<Hints>,
    home: Arc<Home>,
}

impl RedisStore {
    pub(super) fn start(
        config: RedisConfig,
        events: fn(String) -> Events,
        hints: fn(bool) -> Hints,
    ) -> Result<Self, ConnectError> {
        let location = config.location()?;
        let shown = location.to_string();
        let home = current_runtime(&shown)?;
        let home = Home::on(home, config.response_timeout);

        let min_replicas = config.min_replicas.max(location.min_replicas());
        if min_replicas > 0 && *location.layout() == UrlLayout::Cluster {
            return Err(ConnectError::InvalidOption {
                option: "min_replicas",
                reason: "clusters do not support it; set it to 0".into(),
            });
        }
        let config = Arc::new(config);
        let source = match location.layout() {
            UrlLayout::Single => Source::Fixed(location.endpoint(location.addresses()[0].clone())),
            UrlLayout::Sentinel(service) => {
                Source::Sentinel(Arc::new(Sentinels::new(&location, service)))
            }
            UrlLayout::Cluster => {
                let hints = Arc::new(hints(false));
                let events = events(shown.clone());
                let way = Way::Cluster(location.clone());
                let cluster = Cluster::start(location, &config, &hints, &home, events);
                let servers = Servers::Cluster(cluster);
                let parts = StoreParts {
                    shown,
                    config,
                    hints,
                    home,
                };
                return Ok(Self::assemble(parts, servers, None, way, 0));
            }
            UrlLayout::Independent => {
                return Err(ConnectError::InvalidUrl {
                    url: shown,
                    reason: "it names a quorum of stores; pass it to a manager, or create a store \
                             for each server and combine them with `Quorum::of`"
                        .to_owned(),
                });
            }
        };
        Ok(Self::over(
            source,
            shown,
            config,
            min_replicas,
            events,
            hints,
        ))
    }

    /// A store at a place that is known, and is called `shown`; a runtime runs here.
    pub(super) fn over(
        source: Source,
        shown: String,
        config: Arc<RedisConfig>,
        min_replicas: u32,
        events: fn(String) -> Events,
        hints: fn(bool) -> Hints,
    ) -> Self {
        let home = Home::on(runtime::Handle::current(), config.response_timeout);
        let hints = Arc::new(hints(min_replicas > 0));
        let confirmer = (min_replicas > 0).then(|| {
            let events = events(format!("{shown} (for `min_replicas`)"));
            let node = Node::start(source.clone(), &config, &Arc::default(), events, &home);
            Confirmer::start(node, min_replicas, config.response_timeout, &home)
        });
        let way = Way::One(source.clone());
        let node = Node::start(source, &config, &hints, events(shown.clone()), &home);
        let servers = Servers::One(Box::new(node));
        let parts = StoreParts {
            shown,
            config,
            hints,
            home,
        };
        Self::assemble(parts, servers, confirmer, way, min_replicas)
    }

    fn assemble(
        parts: StoreParts,
        servers: Servers,
        confirmer: Option<Confirmer>,
        way: Way,
        min_replicas: u32,
    ) -> Self {
        let StoreParts {
            shown,
            config,
            hints,
            home,
        } = parts;
        let (servers, confirmer) = (Arc::new(servers), confirmer.map(Arc::new));
        let renewals = match &confirmer {
            Some(confirmer) => Connections::Confirmed(confirmer.clone()),
            None => Connections::Plain(servers.clone()),
        };
        Self {
            shown,
            presences: PresenceTasks::new(&config, &servers, home),
            wake_ups: WakeUps::default(),
            config,
            hints,
            servers,
            confirmer,
            renewals,
            min_replicas,
            way,
            lane: OnceLock::new(),
        }
    }

    pub(super) async fn when_ready(self, limit: Duration) -> Result<Self, ConnectError> {
        match self.ready(limit).await {
            Ok(()) => Ok(self),
            Err(reason) => Err(ConnectError::Unavailable {
                url: self.shown.clone(),
                reason,
            }),
        }
    }

    pub(super) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        self.servers.ready(limit).await?;
        match &self.confirmer {
            Some(confirmer) => confirmer.ready(limit.saturating_sub(begun.elapsed())).await,
            None => Ok(()),
        }
    }
}

/// The runtime for the connections of the store called `shown`.
pub(super) fn current_runtime(shown: &str) -> Result<runtime::Handle, ConnectError> {
    slot::prepare();
    let unfit = |message| ConnectError::Unavailable {
        url: shown.to_owned(),
        reason: errors::no_runtime(message),
    };
    let current = runtime::Handle::try_current();
    let current = current.map_err(|_| unfit("no tokio runtime is running here"))?;
    // tokio tells it only by a panic. Without timers, each request would panic.
    match catch_unwind(|| drop(sleep(Duration::ZERO))) {
        Ok(()) => Ok(current),
        Err(_) => Err(unfit(NO_TIMERS)),
    }
}
