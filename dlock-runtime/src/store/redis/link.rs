//! One connection to the server: how it is opened, used, judged and closed.
//!
//! The connection's own task is kept here rather than with the client library, because a broken
//! connection has to be closed while callers still wait on it. They get an error at once, and
//! nothing they have sent can be carried out after what they will send on the next connection,
//! as far as that is up to this side.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::try_join;
use redis::{
    AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisError, Value, aio::MultiplexedConnection,
};
use tokio::sync::Notify;

use super::{
    RedisConfig,
    cluster::Redirect,
    errors, hello,
    hints::Hints,
    script::{self, Call},
    session::{self, Session, answered},
    subscriber::Subscriber,
    url::Endpoint,
};
use crate::{
    owner::ClientId,
    store::{StoreError, StoreErrorKind},
};

/// More callers than this wait until earlier requests are written.
const QUEUED_REQUESTS: usize = 1024;

/// What a caller needs of a connection.
#[derive(Clone)]
pub(super) struct Handle {
    connection: MultiplexedConnection,
    health: Arc<Health>,
    limit: Duration,
}

/// What is known of the state of a connection, from those who use it.
#[derive(Default)]
pub(super) struct Health {
    fault: OnceLock<StoreError>,
    suspected: AtomicBool,
    changed: Notify,
}

impl Health {
    /// The connection is to be replaced.
    pub(super) fn fail(&self, error: StoreError) {
        // The first error is the cause of the others.
        self.fault.set(error).ok();
        self.changed.notify_one();
    }

    /// What a request learns that was under way when the connection went.
    ///
    /// Always this kind, whatever the cause: another request may have been refused, but this one
    /// may have been carried out.
    fn broken(&self) -> StoreError {
        let message = match self.fault.get() {
            Some(cause) if cause.kind() != StoreErrorKind::Disconnected => {
                format!(
                    "the connection to the server was given up: {}",
                    cause.message()
                )
            }
            _ => errors::BROKEN.to_owned(),
        };
        StoreError::new(StoreErrorKind::Disconnected, message)
    }

    /// A request got no answer; perhaps the connection is dead.
    fn suspect(&self) {
        self.suspected.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Waits for news: a fault, or a suspicion.
    pub(super) async fn news(&self) -> Result<(), StoreError> {
        loop {
            if let Some(fault) = self.fault.get() {
                return Err(fault.clone());
            }
            if self.suspected.swap(false, Ordering::Relaxed) {
                return Ok(());
            }
            self.changed.notified().await;
        }
    }
}

impl Handle {
    /// Runs a script. An error means that it may or may not have been carried out.
    ///
    /// It waits as long as the connection lives: whoever calls limits that, and dropping it raises
    /// a suspicion.
    pub(super) async fn run(self, call: &Call) -> Result<Value, StoreError> {
        let answer = self.run_unless_redirected(call, false).await;
        answer.map_err(Stop::into_error)
    }

    /// The same, on request where the slot is only being moved to.
    pub(super) async fn run_unless_redirected(
        mut self,
        call: &Call,
        asking: bool,
    ) -> Result<Value, Stop> {
        let unanswered = Unanswered(Some(&self.health));
        let answer = call.run(&mut self.connection, asking).await;
        unanswered.has_ended(answer.as_ref().err());
        answer.map_err(|error| self.judge(call, &error))
    }

    /// Runs a script several times in one write; the answers are in the order of the calls.
    pub(super) async fn run_all(self, calls: &[&Call]) -> Vec<Result<Value, StoreError>> {
        let answers = self.run_all_unless_redirected(calls).await.into_iter();
        answers
            .map(|answer| answer.map_err(Stop::into_error))
            .collect()
    }

    pub(super) async fn run_all_unless_redirected(
        self,
        calls: &[&Call],
    ) -> Vec<Result<Value, Stop>> {
        self.run_group(calls, None).await.0
    }

    /// As [`run_all`](Self::run_all), and then `last`, whose answer is about all of them.
    pub(super) async fn run_all_then(
        self,
        calls: &[&Call],
        last: &Cmd,
    ) -> (Vec<Result<Value, StoreError>>, Result<Value, StoreError>) {
        let (answers, of_last) = self.run_group(calls, Some(last)).await;
        let answers = answers.into_iter();
        let answers = answers.map(|answer| answer.map_err(Stop::into_error));
        (answers.collect(), of_last.expect("it was asked for"))
    }

    /// The answers to the calls, and the one to `last`.
    async fn run_group(
        mut self,
        calls: &[&Call],
        last: Option<&Cmd>,
    ) -> (Vec<Result<Value, Stop>>, Option<Result<Value, StoreError>>) {
        let unanswered = Unanswered(Some(&self.health));
        let answers = Call::run_all(calls, last, &mut self.connection).await;
        unanswered.has_ended(answers.as_ref().err());
        let judge_last = |last: &Cmd, error: &RedisError| {
            let explained = errors::of_command(last, error, self.limit);
            self.weigh(error, explained)
        };
        match answers {
            Ok(mut answers) => {
                let of_last = last.map(|last| {
                    let answer = answers.pop().expect("there is one for the last command");
                    answer.map_err(|error| judge_last(last, &error))
                });
                let judged = |(call, answer): (&&Call, Result<Value, RedisError>)| {
                    answer.map_err(|error| self.judge(call, &error))
                };
                (calls.iter().zip(answers).map(judged).collect(), of_last)
            }
            Err(error) => {
                let failed = |call: &&Call| Err(self.judge(call, &error));
                let answers = calls.iter().map(failed).collect();
                (answers, last.map(|last| Err(judge_last(last, &error))))
            }
        }
    }

    /// The answer to a command that is no script, which may be an error.
    pub(super) async fn ask(mut self, question: &Cmd) -> Result<Value, StoreError> {
        let unanswered = Unanswered(Some(&self.health));
        let answer = self.connection.send_packed_command(question).await;
        let answer = answer.and_then(Value::extract_error);
        unanswered.has_ended(answer.as_ref().err());
        answer.map_err(|error| {
            let explained = errors::of_request(&error, self.limit);
            self.weigh(&error, explained)
        })
    }

    /// The failure of a call in words, after it has told whether the connection is still good.
    fn judge(&self, call: &Call, error: &RedisError) -> Stop {
        let explained = call.explain(error, self.limit);
        match Redirect::of(error) {
            Some(redirect) => Stop::Redirected(redirect, explained),
            None => Stop::Failed(self.weigh(error, explained)),
        }
    }

    fn weigh(&self, error: &RedisError, explained: StoreError) -> StoreError {
        if error.is_unrecoverable_error() || needs_new_connection(explained.kind()) {
            self.health.fail(explained.clone());
        }
        if explained.kind() == StoreErrorKind::Disconnected {
            return self.health.broken();
        }
        explained
    }
}

/// Why a server has not carried out a call.
pub(super) enum Stop {
    /// Another server will, or this one later; the error is for whoever knows one server only.
    Redirected(Redirect, StoreError),
    Failed(StoreError),
}

impl Stop {
    fn into_error(self) -> StoreError {
        let (Self::Redirected(_, error) | Self::Failed(error)) = self;
        error
    }
}

/// Whether the same server would answer better over a new connection, or another one in its place.
fn needs_new_connection(kind: StoreErrorKind) -> bool {
    use StoreErrorKind::{Disconnected, ReadOnly, Unauthenticated};
    matches!(kind, Disconnected | ReadOnly | Unauthenticated)
}

/// Raises a suspicion if it is dropped with its request unanswered: its time was up, or its caller
/// has gone.
struct Unanswered<'a>(Option<&'a Health>);

impl Unanswered<'_> {
    /// The request has ended, with this error if it failed; a limit of the network's own is no
    /// answer either.
    fn has_ended(mut self, error: Option<&RedisError>) {
        if !error.is_some_and(RedisError::is_timeout) {
            self.0 = None;
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(health) = self.0 {
            health.suspect();
        }
    }
}

/// A connection with all that has to end with it.
pub(super) struct Link {
    handle: Handle,
    session: Session,
    /// Where hints come from, if not over the same connection.
    subscriber: Option<Subscriber>,
    pushes: bool,
    namespace: String,
    /// What the server calls the connection.
    name: String,
    subscribed: HashSet<ClientId>,
    /// Whether it is known that channels may be subscribed at all.
    probed: bool,
    evicts: Option<String>,
}

impl Link {
    /// Connects, logs in, loads the scripts and subscribes everybody who wants hints.
    pub(super) async fn open(
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
        let (session, subscriber) = if endpoint.pushes() {
            let settings = settings.set_push_sender(pushed);
            (Session::open(endpoint, settings, limit).await?, None)
        } else if hints.are_unwanted() {
            (Session::open(endpoint, settings, limit).await?, None)
        } else {
            let session = Session::open(endpoint, settings, limit).await?;
            let (hints, health) = (hints.clone(), health.clone());
            let hears = Subscriber::open(endpoint, &name, hints, health, limit).await?;
            (session, Some(hears))
        };
        Ok(Self {
            handle: Handle {
                connection: session.connection.clone(),
                health,
                limit: config.response_timeout,
            },
            session,
            subscriber,
            pushes: endpoint.pushes(),
            namespace: config.namespace.clone(),
            name,
            subscribed: HashSet::new(),
            probed: false,
            evicts: None,
        })
    }

    /// Looks at who answers, and loads the scripts.
    async fn prepare(&mut self, in_cluster: bool, hints: &Hints) -> Result<(), StoreError> {
        let mut requests = redis::pipe();
        let hello = requests.cmd("HELLO");
        if self.pushes {
            hello.arg(3);
        }
        if in_cluster {
            // A user that may not say it would lose leases when a slot moves, and not before. It is
            // about the next command, which has no key.
            requests.cmd("ASKING");
        }
        requests.cmd("CLIENT").arg("SETNAME").arg(&self.name);
        for source in script::sources() {
            requests.cmd("SCRIPT").arg("LOAD").arg(source);
        }
        requests.cmd("INFO").arg("memory");
        let count = requests.len();
        let connection = &mut self.handle.connection;
        let answers = connection.send_packed_commands(&requests, 0, count);
        let answers = answered(self.handle.limit, answers).await?;
        // The rest may be refused: a name is a courtesy, as is advice, and a script that is not
        // loaded is sent whole when it is called. A refused HELLO tells nothing, but the login was
        // accepted.
        let mut answers = answers.into_iter();
        self.evicts = answers.next_back().and_then(|info| hello::evicts(&info));
        if let Some(hello) = answers.next() {
            hello::check_server(&hello, in_cluster)?;
        }
        // Who only looks may lack it.
        match answers
            .next()
            .filter(|_| in_cluster && !hints.are_unwanted())
        {
            Some(asking) => self.check_asking(asking),
            None => Ok(()),
        }
    }

    fn check_asking(&self, answer: Value) -> Result<(), StoreError> {
        let Err(error) = answer.extract_error() else {
            return Ok(());
        };
        let error = errors::of_request(&error, self.handle.limit);
        if error.kind() == StoreErrorKind::Denied {
            let message = format!("{} (`+asking`, for slots that move)", error.message());
            return Err(StoreError::new(StoreErrorKind::Denied, message));
        }
        Ok(())
    }

    /// The policy by which the server may delete locks to make room, if it has told of one.
    pub(super) fn evicts(&self) -> Option<&str> {
        self.evicts.as_deref()
    }

    /// Subscribes those who are not yet, and says who they were.
    ///
    /// The first time it subscribes something in any case: without a permission that hints need
    /// no lock would work, and one wants to know that before the first client is there.
    pub(super) async fn subscribe(&mut self, hints: &Hints) -> Result<Vec<ClientId>, StoreError> {
        if hints.are_unwanted() {
            return Ok(Vec::new());
        }
        let mut new = hints.clients();
        new.retain(|client| !self.subscribed.contains(client));
        let mut channels: Vec<_> = new
            .iter()
            .map(|client| script::channel(&self.namespace, *client))
            .collect();
        if !self.probed {
            channels.push(script::probe_channel(&self.namespace));
        }
        if channels.is_empty() {
            return Ok(new);
        }
        // It returns when the server has confirmed every channel.
        let confirmed = async {
            match &mut self.subscriber {
                Some(subscriber) => subscriber.subscribe(&channels).await,
                None => self.handle.connection.subscribe(&channels).await,
            }
        };
        answered(self.handle.limit, confirmed)
            .await
            .map_err(|error| {
                if error.kind() == StoreErrorKind::Denied {
                    let prefix = script::channel_prefix(&self.namespace);
                    let message = format!("{} (`SUBSCRIBE` to `{prefix}*`)", error.message());
                    return StoreError::new(StoreErrorKind::Denied, message);
                }
                error
            })?;
        self.probed = true;
        self.subscribed.extend(&new);
        Ok(new)
    }

    /// Whether the server still answers; what it answers does not matter.
    pub(super) async fn ping(&mut self) -> Result<(), StoreError> {
        let question = redis::cmd("PING");
        let answer = self.handle.connection.send_packed_command(&question);
        let answer = answered(self.handle.limit, answer);
        let Some(subscriber) = &mut self.subscriber else {
            return answer.await.map(drop);
        };
        let heard = answered(self.handle.limit, subscriber.ping());
        try_join(answer, heard).await.map(drop)
    }

    /// Returns when the connection of the requests has broken, and why.
    pub(super) async fn broken(&mut self) -> StoreError {
        (&mut self.session.driver).await.ok();
        let fault = self.handle.health.fault.get().cloned();
        fault.unwrap_or_else(|| StoreError::new(StoreErrorKind::Disconnected, errors::BROKEN))
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(super) fn health(&self) -> Arc<Health> {
        self.handle.health.clone()
    }

    /// Closes the socket; whoever still waits for an answer learns of the cause.
    pub(super) async fn close(mut self, error: StoreError) {
        self.handle.health.fail(error);
        drop(self.subscriber.take());
        // One that has ended by itself has been awaited.
        if !self.session.driver.is_finished() {
            self.session.driver.abort();
            (&mut self.session.driver).await.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_outlives_suspicions() {
        let health = Health::default();
        health.suspect();
        health.suspect();
        assert_eq!(health.news().await, Ok(()));
        let fault = StoreError::new(StoreErrorKind::ReadOnly, "it is a replica");
        health.fail(fault.clone());
        health.fail(StoreError::new(StoreErrorKind::Disconnected, "broken"));
        health.suspect();
        assert_eq!(health.news().await, Err(fault.clone()));
        assert_eq!(health.news().await, Err(fault));
    }

    #[test]
    fn a_request_under_way_is_never_called_harmless() {
        for cause in [
            StoreErrorKind::ReadOnly,
            StoreErrorKind::Unauthenticated,
            StoreErrorKind::Denied,
            StoreErrorKind::TimedOut,
        ] {
            let health = Health::default();
            health.fail(StoreError::new(cause, "the cause"));
            let error = health.broken();
            assert!(!error.left_nothing() && !error.is_final(), "{cause:?}");
            assert!(error.to_string().contains("the cause"), "{error}");
        }
    }
}
