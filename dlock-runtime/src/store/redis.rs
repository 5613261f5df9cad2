//! Locks in Redis or Valkey.
//!
//! The heads of the scripts in `protocol/` say what is stored, and why it is safe. Here
//! they are called over connections that tasks of the store keep alive, so that the requests
//! of one owner reach a server in the order in which they were made.

mod admin;
mod config;
#[cfg(test)]
mod fake;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod live_tests;
mod net;
mod protocol;
mod topology;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ::redis::Value;
use tokio::{runtime, time::Instant};

#[cfg(feature = "admin")]
pub(crate) use self::admin::{
    inspect::{HolderSnapshot, LeaseIdentity, LockSnapshot, Pace, Survey, Wanted},
    presence::Presence,
    report::Facts,
};
pub use self::config::{
    credentials::{Credentials, CredentialsProvider},
    settings::RedisConfig,
};
#[cfg(feature = "admin")]
pub(crate) use self::net::listen::Listener;
#[cfg(feature = "tls")]
pub use self::net::tls::Tls;
use self::{
    admin::presence::PresenceTasks,
    config::url::Layout,
    net::{events::Events, hints::Hints, node::Node},
    protocol::{answers, command::Command, errors, slot},
    topology::{
        cluster::Cluster,
        lane::{self, Connections, Way},
        replicas::Confirmer,
        sentinel::Sentinels,
        servers::Servers,
        source::Source,
        wake_ups::WakeUps,
    },
};
pub(crate) use self::{
    config::{env::without_password, scheme::names as schemes},
    topology::independent::Independent,
};
use super::{
    AcquireOutcome, AcquireRequest, Detaching, HintSink, LockStore, Proposal, QuorumNode,
    RaiseRequest, Raised, ReleaseRequest, Released, RenewBatch, RenewRequest, Renewal, StoreError,
    StoreHooks, StoreProperties,
};
use crate::{error::ConnectError, options::MAX_TTL, owner::ClientId};

/// A [`LockStore`] in Redis (6.2 or newer) or Valkey: one server, the master that Sentinels name,
/// or a cluster.
///
/// It keeps one connection to each master, for requests and hints alike, and makes a new one when
/// that fails. Renewals have one more, from the first on. With `?protocol=resp2` hints have a connection of
/// their own, and so have leases that replicas confirm.
///
/// # In a cluster
///
/// Each lock lies on the master of its slot, and follows the slot when that moves. While it does,
/// leases are renewed and released as ever, and who wants the lock waits for some milliseconds,
/// since a lock and its fence are at two nodes then. A slot that is left half moved is named in the
/// error. When a master dies, its replica takes over what it had been told: replication is
/// asynchronous, so a lease that was granted in the last moment may be lost, and somebody else may
/// get the lock. The holder is told at the next renewal, and tokens grow also then, as long as
/// the clocks of the nodes agree better than a fail-over takes.
///
/// # Permissions
///
/// On a server with access control lists, this user can do all that locks in the namespace
/// `dlock` need; one in a database other than 0 needs `+select` as well, and raw keys a pattern for
/// the locks themselves, such as `~order:*`:
///
/// ```text
#[doc = include_str!("redis/permissions.txt")]
/// ```
///
/// With `+info` as well, the log warns of a server that may evict locks.
///
/// With [`min_replicas`](RedisConfig::min_replicas) it needs `+wait` too. A user of the Sentinels needs
/// `&+switch-master +subscribe +sentinel|master +sentinel|get-master-addr-by-name`.
///
/// In a cluster it needs these as well, on every node:
///
/// ```text
#[doc = include_str!("redis/permissions_cluster.txt")]
/// ```
///
/// ```no_run
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
/// use dlock::{LockManager, store::redis::{RedisConfig, RedisStore}};
///
/// let store = RedisStore::connect(RedisConfig::new("redis://127.0.0.1:6379")).await?;
/// let manager = LockManager::builder().application("billing").store(store)?;
/// # drop(manager);
/// # Ok(()) }
/// ```
pub struct RedisStore {
    shown: String,
    config: Arc<RedisConfig>,
    hints: Arc<Hints>,
    servers: Arc<Servers>,
    presences: PresenceTasks,
    wake_ups: WakeUps,
    min_replicas: u32,
    /// For `min_replicas`.
    confirmer: Option<Arc<Confirmer>>,
    /// The connections of the store itself, for renewals that the lane cannot send.
    renewals: Connections,
    way: Way,
    /// The connections for renewals, from the first on.
    lane: OnceLock<Connections>,
    /// The pace of all inspections.
    #[cfg(feature = "admin")]
    pace: Pace,
}

impl RedisStore {
    /// Starts to connect in the background and returns at once.
    ///
    /// The connection runs on the tokio runtime this is called in. When that has ended, the next request
    /// connects again, on the runtime of that request.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::{LockManager, store::redis::{RedisConfig, RedisStore}};
    ///
    /// let store = RedisStore::lazy(RedisConfig::new("redis://127.0.0.1:6379"))?;
    /// let manager = LockManager::builder().store(store)?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// When the URL or an option is wrong, or no tokio runtime runs here.
    pub fn lazy(config: RedisConfig) -> Result<Self, ConnectError> {
        Self::start(config, Events::new, Hints::new)
    }

    fn start(
        config: RedisConfig,
        events: fn(String) -> Events,
        hints: fn(bool) -> Hints,
    ) -> Result<Self, ConnectError> {
        let location = config.location()?;
        let shown = location.to_string();
        let home = current_runtime(&shown)?;

        let min_replicas = config.min_replicas.max(location.min_replicas());
        if min_replicas > 0 && *location.layout() == Layout::Cluster {
            return Err(ConnectError::InvalidOption {
                option: "min_replicas",
                reason: "it is not supported for clusters".into(),
            });
        }
        let config = Arc::new(config);
        let source = match location.layout() {
            Layout::Single => Source::Fixed(location.endpoint(location.addresses()[0].clone())),
            Layout::Sentinel(service) => {
                Source::Sentinel(Arc::new(Sentinels::new(&location, service)))
            }
            Layout::Cluster => {
                let hints = Arc::new(hints(false));
                let events = events(shown.clone());
                let way = Way::Cluster(location.clone());
                let cluster = Cluster::start(location, &config, &hints, &home, events);
                let servers = Servers::Cluster(cluster);
                return Ok(Self::assemble(shown, config, hints, servers, None, way, 0));
            }
            Layout::Independent => {
                return Err(ConnectError::InvalidUrl {
                    url: shown,
                    reason: "it is a quorum of stores: give it to a manager, or make a store of \
                             each server and `Quorum::of` them"
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
    fn over(
        source: Source,
        shown: String,
        config: Arc<RedisConfig>,
        min_replicas: u32,
        events: fn(String) -> Events,
        hints: fn(bool) -> Hints,
    ) -> Self {
        let home = runtime::Handle::current();
        let hints = Arc::new(hints(min_replicas > 0));
        let confirmer = (min_replicas > 0).then(|| {
            let events = events(format!("{shown} (for `min_replicas`)"));
            let node = Node::start(source.clone(), &config, &Arc::default(), events, &home);
            Confirmer::start(node, min_replicas, config.response_timeout, &home)
        });
        let way = Way::One(source.clone());
        let node = Node::start(source, &config, &hints, events(shown.clone()), &home);
        let servers = Servers::One(node);
        Self::assemble(shown, config, hints, servers, confirmer, way, min_replicas)
    }

    fn assemble(
        shown: String,
        config: Arc<RedisConfig>,
        hints: Arc<Hints>,
        servers: Servers,
        confirmer: Option<Confirmer>,
        way: Way,
        min_replicas: u32,
    ) -> Self {
        let (servers, confirmer) = (Arc::new(servers), confirmer.map(Arc::new));
        let renewals = match &confirmer {
            Some(confirmer) => Connections::Confirmed(confirmer.clone()),
            None => Connections::Plain(servers.clone()),
        };
        Self {
            shown,
            presences: PresenceTasks::new(&config, &servers),
            wake_ups: WakeUps::default(),
            config,
            hints,
            servers,
            confirmer,
            renewals,
            min_replicas,
            way,
            lane: OnceLock::new(),
            #[cfg(feature = "admin")]
            pace: Pace::default(),
        }
    }

    /// Connects, and waits until the server is ready.
    ///
    /// A server that cannot be reached yet is tried until the connect timeout has passed.
    ///
    /// # Errors
    ///
    /// As [`lazy`](Self::lazy), and with the last failure when there is no connection in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::redis::{RedisConfig, RedisStore}};
    ///
    /// let store = RedisStore::connect(RedisConfig::new("redis://localhost")).await?;
    /// let manager = LockManager::builder().store(store)?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub async fn connect(config: RedisConfig) -> Result<Self, ConnectError> {
        let limit = config.connect_timeout;
        let store = Self::start(config, Events::awaited, Hints::new)?;
        // Boxed: the layers of a connection would count against the recursion limit of the caller's crate.
        Box::pin(store.when_ready(limit)).await
    }

    async fn when_ready(self, limit: Duration) -> Result<Self, ConnectError> {
        match self.ready(limit).await {
            Ok(()) => Ok(self),
            Err(reason) => Err(ConnectError::Unavailable {
                url: self.shown.clone(),
                reason,
            }),
        }
    }

    async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        self.servers.ready(limit).await?;
        match &self.confirmer {
            Some(confirmer) => confirmer.ready(limit.saturating_sub(begun.elapsed())).await,
            None => Ok(()),
        }
    }

    async fn execute(&self, command: Command) -> Result<Value, StoreError> {
        self.presences.revive();
        let begun = Instant::now();
        let answer = self.servers.execute(&command).await?;
        if let Some(unsent) = answers::unsent_wake_up(&answer) {
            let limit = self.config.response_timeout;
            let limit = limit.saturating_sub(begun.elapsed());
            let (servers, shown) = (&*self.servers, &*self.shown);
            // Boxed: hardly a command needs it, and all would have room for it.
            let published = self
                .wake_ups
                .publish(servers, shown, &command, unsent, limit);
            Box::pin(published).await;
        }
        Ok(answer)
    }
}

/// Where the connections of the store called `shown` are to run.
fn current_runtime(shown: &str) -> Result<runtime::Handle, ConnectError> {
    slot::prepare();
    runtime::Handle::try_current().map_err(|_| ConnectError::Unavailable {
        url: shown.to_owned(),
        reason: errors::no_runtime("no tokio runtime runs here"),
    })
}

impl RedisStore {
    /// Sends `command`; what it grants for `request` counts once the replicas have it.
    async fn ask(
        &self,
        command: Command,
        request: AcquireRequest<'_>,
    ) -> Result<AcquireOutcome, StoreError> {
        let confirmer = self.confirmer.as_ref().map(|it| (it, Instant::now()));
        let answer = self.execute(command).await?;
        let acquisition = answers::read_acquisition(&answer)?;
        if let (Some((confirmer, begun)), AcquireOutcome::Granted { .. }) =
            (confirmer, &acquisition)
        {
            let left = self.config.response_timeout;
            let left = left.saturating_sub(begun.elapsed());
            let renewal = RenewRequest::new(request.key, request.owner, request.ttl);
            let renewal = renewal.label(request.label).function(request.function);
            let renewal = Command::renew(&self.config, &renewal);
            confirmer.granted(renewal, left).await?;
        }
        Ok(acquisition)
    }
}

impl LockStore for RedisStore {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.ask(Command::acquire(&self.config, &request), request)
            .await
    }

    /// All in one write to each server.
    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        if let Some(runtime) = batch.runtime {
            self.prepare_renewals(runtime);
        }
        if batch.requests.is_empty() {
            return Vec::new();
        }
        let limit = batch.limit.unwrap_or(self.config.response_timeout);
        let (config, own) = (&self.config, &self.renewals);
        lane::renew_all(config, batch.requests, limit, self.lane.get(), own).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        let answer = self
            .execute(Command::release(&self.config, &request))
            .await?;
        answers::read_release(&answer)
    }

    fn properties(&self) -> StoreProperties<'_> {
        StoreProperties::new()
            .grants(true)
            .gives_up_after(self.config.response_timeout)
            .ttls(Duration::from_millis(1), MAX_TTL)
            .hooks(self)
    }
}

impl QuorumNode for RedisStore {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        self.ask(Command::propose(&self.config, &proposal), proposal.request)
            .await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        let command = Command::raise(&self.config, &request);
        let limit = self.config.response_timeout;
        let answer = match &self.confirmer {
            Some(confirmer) => confirmer.execute(command, limit).await,
            None => self.execute(command).await,
        };
        answers::read_raise(&answer?)
    }
}

impl StoreHooks for RedisStore {
    fn attach(&self, client: ClientId, hints: HintSink) {
        self.hints.attach(client, hints);
        self.presences.begin(client);
    }

    fn detach(&self, client: ClientId) -> Detaching<'_> {
        Box::pin(self.presences.end(client))
    }

    /// Nothing is sent without a runtime.
    fn release_at_once(&self, _request: ReleaseRequest<'_>) -> bool {
        false
    }
}

impl RedisStore {
    /// Begins to connect for renewals on `runtime`, once.
    fn prepare_renewals(&self, runtime: &runtime::Handle) {
        self.lane.get_or_init(|| {
            Connections::start(
                &self.way,
                &self.shown,
                &self.config,
                self.min_replicas,
                runtime,
            )
        });
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("url", &self.shown)
            .field("namespace", &self.config.namespace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replicas_of_a_cluster_are_not_asked() {
        let error = RedisStore::lazy(RedisConfig {
            min_replicas: 1,
            ..RedisConfig::new("redis-cluster://localhost")
        })
        .expect_err("it is refused");
        let option = "min_replicas";
        assert!(
            matches!(error, ConnectError::InvalidOption { option: it, .. } if it == option),
            "{error}"
        );
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        let error = RedisStore::lazy(RedisConfig::new("redis://:s3cret@localhost"))
            .expect_err("no runtime runs here");
        assert!(error.to_string().contains("no tokio runtime"), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}
