//! Opens, uses and closes one connection to the server.
//!
//! The connection's own task is kept here and not in the client library, because a broken connection must be
//! closed while callers still wait on it. The callers get an error at once. As far as this side can ensure it,
//! their requests cannot be carried out after later requests on the next connection.

mod handle;
mod health;
mod role;
mod send;

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::try_join;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value};
use tokio::time::timeout;

pub(crate) use self::{
    handle::{Handle, Stop},
    health::Health,
};
use super::{
    hints::Hints,
    server_check,
    session::{self, Session, answered},
    subscriber::Subscriber,
    task::TaskEnd,
};
use crate::{
    owner::ClientId,
    store::{
        StoreError, StoreErrorKind,
        redis::{
            RedisConfig,
            config::url::Endpoint,
            protocol::{errors, names, scripts},
        },
    },
};

/// The hash of no script.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// More callers than this wait until earlier requests are written.
const QUEUED_REQUESTS: usize = 1024;

/// A connection, and everything that ends with it.
pub(crate) struct Connection {
    handle: Handle,
    session: Session,
    /// The connection that receives hints, if it is a separate one and could be opened.
    subscriber: Option<Subscriber>,
    endpoint: Endpoint,
    /// The time for opening a connection.
    limit: Duration,
    namespace: String,
    /// The name of the connection in the list of clients.
    name: String,
    subscribed: HashSet<ClientId>,
    /// `true` once the permission to subscribe channels is verified.
    probed: bool,
    /// The reason why a channel is not subscribed at the moment.
    unheard: Option<StoreError>,
    evicts: Option<String>,
}

impl Connection {
    /// Connects, logs in, loads the scripts and subscribes every client that receives hints.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        config: &RedisConfig,
        hints: &Arc<Hints>,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let attempt = async {
            let mut link = Self::log_in(endpoint, config, hints, limit).await?;
            link.prepare(endpoint.is_in_cluster(), hints).await?;
            link.subscribe(hints).await?;
            Ok(link)
        };
        session::named(endpoint, limit, attempt).await
    }

    async fn log_in(
        endpoint: &Endpoint,
        config: &RedisConfig,
        hints: &Arc<Hints>,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let health = Arc::new(Health::default());
        let pushed = {
            let (hints, health) = (hints.clone(), health.clone());
            move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    health.fail(StoreError::new(
                        StoreErrorKind::Disconnected,
                        errors::BROKEN,
                    ));
                } else {
                    hints.take(&push);
                }
                Ok::<(), ()>(())
            }
        };
        let name = config.connection_name();
        let settings = AsyncConnectionConfig::new().set_pipeline_buffer_size(QUEUED_REQUESTS);
        let settings = if endpoint.pushes() {
            settings.set_push_sender(pushed)
        } else {
            settings
        };
        let session = Session::open(endpoint, settings, limit).await?;
        Ok(Self {
            handle: Handle {
                connection: session.connection.clone(),
                health,
                limit: config.response_timeout,
            },
            session,
            subscriber: None,
            endpoint: endpoint.clone(),
            limit,
            namespace: config.namespace.clone(),
            name,
            subscribed: HashSet::new(),
            probed: false,
            unheard: None,
            evicts: None,
        })
    }

    /// Checks the server, and loads the scripts.
    async fn prepare(&mut self, in_cluster: bool, hints: &Hints) -> Result<(), StoreError> {
        let mut requests = redis::pipe();
        let hello = requests.cmd("HELLO");
        if self.endpoint.pushes() {
            hello.arg(3);
        }
        if in_cluster {
            // Without this permission, leases would be lost when a slot moves, and the cause would be found only
            // then. `ASKING` applies to the next command, which has no key.
            requests.cmd("ASKING");
        }
        // No lock works without these commands. The error belongs here and not to the first lock.
        if !hints.are_unwanted() {
            requests.cmd("EVALSHA").arg(NO_SCRIPT).arg(0);
            requests.cmd("EVAL").arg("return 1").arg(0);
        }
        requests.cmd("CLIENT").arg("SETNAME").arg(&self.name);
        for source in scripts::sources() {
            requests.cmd("SCRIPT").arg("LOAD").arg(source);
        }
        requests.cmd("INFO").arg("memory");
        let count = requests.len();
        let role = self.handle.health.role.first_question();
        let connection = &mut self.handle.connection;
        let answers = connection.send_packed_commands(&requests, 0, count);
        let answers = answered(self.handle.limit, answers).await?;
        // The server may refuse every other request: the name and the advice are optional, and a script that is not
        // loaded is sent with its call. A refused HELLO contains no information, but the login was accepted.
        let mut answers = answers.into_iter();
        self.evicts = answers
            .next_back()
            .and_then(|info| server_check::evicts(&info));
        if let Some(hello) = answers.next() {
            server_check::check_server(&hello, in_cluster)?;
            if !in_cluster {
                self.handle.health.role.begin(&role, &hello);
            }
        }
        let asking = if in_cluster { answers.next() } else { None };
        // A user that only inspects locks may lack these permissions.
        if hints.are_unwanted() {
            return Ok(());
        }
        if let Some(asking) = asking {
            self.check_asking(asking)?;
        }
        for command in ["EVALSHA", "EVAL"] {
            if let Some(answer) = answers.next() {
                errors::refused_for_good(command, answer, self.handle.limit)?;
            }
        }
        Ok(())
    }

    fn check_asking(&self, answer: Value) -> Result<(), StoreError> {
        let Err(error) = answer.extract_error() else {
            return Ok(());
        };
        let error = errors::of_request(&error, self.handle.limit);
        if error.kind() == StoreErrorKind::Denied {
            let message = format!(
                "{} (`ASKING`, rule `+asking`, for moving slots)",
                error.message()
            );
            return Err(StoreError::new(StoreErrorKind::Denied, message));
        }
        Ok(())
    }

    /// Returns the policy by which the server may evict locks, if it is known.
    pub(crate) fn evicts(&self) -> Option<&str> {
        self.evicts.as_deref()
    }

    /// Returns the reason why the server sends no hints at the moment, if it sends none.
    pub(crate) fn unheard(&self) -> Option<&StoreError> {
        self.unheard.as_ref()
    }

    /// Returns the number of reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.session.activity.beats()
    }

    /// Subscribes the clients that are not subscribed yet, and returns them.
    ///
    /// The first call always subscribes something: without the permission for hints no waiter would be woken, and
    /// this should be known before the first client attaches. A server that refuses it only for a while is no error:
    /// requests need no hints, and waiters poll. [`unheard`](Self::unheard) has the reason, and the caller tries again.
    pub(crate) async fn subscribe(
        &mut self,
        hints: &Arc<Hints>,
    ) -> Result<Vec<ClientId>, StoreError> {
        if hints.are_unwanted() {
            return Ok(Vec::new());
        }
        let mut new = hints.clients();
        new.retain(|client| !self.subscribed.contains(client));
        let mut channels: Vec<_> = new
            .iter()
            .map(|client| names::channel(&self.namespace, *client))
            .collect();
        if !self.probed {
            channels.push(names::probe_channel(&self.namespace));
        }
        if channels.is_empty() {
            return Ok(new);
        }
        match self.subscribe_channels(&channels, hints).await {
            Err(error) if self.is_for_a_while(&error) => {
                self.unheard = Some(error);
                Ok(Vec::new())
            }
            Err(error) if error.kind() == StoreErrorKind::Denied => {
                let prefix = names::channel_prefix(&self.namespace);
                let message = format!("{} (`SUBSCRIBE` to `{prefix}*`)", error.message());
                Err(StoreError::new(StoreErrorKind::Denied, message))
            }
            Err(error) => Err(error),
            Ok(()) => {
                self.unheard = None;
                self.probed = true;
                self.subscribed.extend(&new);
                Ok(new)
            }
        }
    }

    /// Returns `true` for the failure of a subscription that may succeed later and says nothing about the connection for
    /// requests. A server without memory refuses `SUBSCRIBE`, and one with too many clients a further connection.
    fn is_for_a_while(&self, error: &StoreError) -> bool {
        use StoreErrorKind::{Loading, OutOfMemory, Refused};
        let is_of_second = !self.endpoint.pushes() && self.subscriber.is_none();
        matches!(error.kind(), Loading | OutOfMemory | Refused) || is_of_second && !error.is_final()
    }

    /// Returns when the server has confirmed every channel.
    async fn subscribe_channels(
        &mut self,
        channels: &[String],
        hints: &Arc<Hints>,
    ) -> Result<(), StoreError> {
        let limit = self.handle.limit;
        if self.endpoint.pushes() {
            let confirmed = self.handle.connection.subscribe(channels);
            return self.session.activity.answered(limit, confirmed).await;
        }
        if self.subscriber.is_none() {
            let (hints, health) = (hints.clone(), self.handle.health.clone());
            // Half of the time, so that there is an outcome within that of the whole connection.
            let share = self.limit / 2;
            let opened = Subscriber::open(&self.endpoint, &self.name, hints, health, share);
            let Ok(opened) = timeout(share, opened).await else {
                return Err(errors::silent(&self.endpoint, share));
            };
            self.subscriber = Some(opened?);
        }
        let subscriber = self.subscriber.as_mut().expect("it was opened");
        subscriber.subscribe(channels, limit).await
    }

    /// Returns when the server answers. Neither the answer nor the number of requests ahead of this one matters.
    pub(crate) async fn ping(&mut self) -> Result<(), StoreError> {
        let limit = self.handle.limit;
        let question = redis::cmd("PING");
        let answer = self.handle.connection.send_packed_command(&question);
        let answer = self.session.activity.answered(limit, answer);
        let Some(subscriber) = &mut self.subscriber else {
            return answer.await.map(drop);
        };
        try_join(answer, subscriber.ping(limit)).await.map(drop)
    }

    /// Returns the cause when the connection for requests has broken.
    pub(crate) async fn broken(&mut self) -> StoreError {
        self.session.driver.ended().await;
        let fault = self.handle.health.fault();
        fault.unwrap_or_else(|| StoreError::new(StoreErrorKind::Disconnected, errors::BROKEN))
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the task that reads and writes.
    pub(crate) fn driver(&self) -> TaskEnd {
        self.session.driver.end()
    }

    pub(crate) fn health(&self) -> Arc<Health> {
        self.handle.health.clone()
    }

    /// Closes the socket. Callers that still wait for an answer get `error`.
    pub(crate) async fn close(mut self, error: StoreError) {
        self.handle.health.fail(error);
        drop(self.subscriber.take());
        self.session.driver.close().await;
    }
}
