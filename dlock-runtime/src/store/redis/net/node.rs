//! One server. Requests use the connection that a separate task keeps open.
//!
//! When the task's runtime has ended, the task continues on the runtime of the next request; when it does not run, on
//! dlock's own thread (`home.rs`).

use std::{sync::Arc, time::Duration};

use ::redis::Value;
use tokio::{
    runtime,
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    connection::{Handle, Stop},
    events::Events,
    hints::Hints,
    home::Home,
    service::Service,
    supervisor::{ConnectionState, Supervisor},
};
#[cfg(feature = "admin")]
use crate::store::redis::config::url::Endpoint;
use crate::{
    process::Process,
    store::{
        StoreError, StoreErrorKind,
        redis::{
            RedisConfig,
            protocol::{command::Command, errors},
            topology::source::Source,
        },
    },
};

/// A server. Its connection is kept open while this value lives.
pub(crate) struct Node {
    shown: Box<str>,
    #[cfg(feature = "admin")]
    source: Source,
    response_timeout: Duration,
    state: watch::Sender<ConnectionState>,
    supervisor: Service<Supervisor>,
    process: Process,
}

impl Node {
    /// Starts to connect, in the background in `home`.
    pub(crate) fn start(
        source: Source,
        config: &Arc<RedisConfig>,
        hints: &Arc<Hints>,
        events: Events,
        home: &Arc<Home>,
    ) -> Self {
        let state = watch::Sender::new(ConnectionState::Connecting {
            after_silence: false,
        });
        let shown = events.server().into();
        #[cfg(feature = "admin")]
        let place = source.clone();
        let (config, hints) = (config.clone(), hints.clone());
        let response_timeout = config.response_timeout;
        let supervisor = Supervisor::new(source, config, hints, state.clone(), events);
        Self {
            shown,
            #[cfg(feature = "admin")]
            source: place,
            response_timeout,
            state,
            supervisor: Service::start(supervisor, home),
            process: Process::this(),
        }
    }

    /// Waits until the server is ready, or until it is known that an operator has to act.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        let decided = |state: &ConnectionState| match state {
            ConnectionState::Connecting { .. } => None,
            ConnectionState::Ready(_) => Some(Ok(())),
            ConnectionState::Failed(error) => error.is_final().then(|| Err(error.clone())),
        };
        match timeout(limit, self.wait_for(decided)).await {
            Ok(outcome) => outcome,
            Err(_) => match &*self.state.borrow() {
                ConnectionState::Connecting { .. } => Err(self.no_connection(limit)),
                // The last failure is more specific than a timeout.
                ConnectionState::Failed(error) => Err(errors::given_up(&self.shown, limit, error)),
                ConnectionState::Ready(_) => Ok(()),
            },
        }
    }

    /// Waits until `read` finds a value in the state.
    async fn wait_for<T>(
        &self,
        read: impl Fn(&ConnectionState) -> Option<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut state = self.state.subscribe();
        let found = async {
            loop {
                if let Some(found) = read(&state.borrow_and_update()) {
                    return found;
                }
                // The channel cannot be closed while `self` has the other end.
                state.changed().await.ok();
            }
        };
        tokio::select! {
            biased;
            found = found => found,
            error = self.supervisor.keep_going() => Err(error),
        }
    }

    /// Executes a command within the response timeout.
    pub(crate) async fn execute(&self, command: &Command) -> Result<Value, StoreError> {
        self.within(self.response_timeout, async {
            let handle = self.handle().await.map_err(StoreError::unsent)?;
            // From here on, a failed request may have been carried out.
            let answer = handle.execute(command, false).await;
            answer.map_err(Stop::into_error)
        })
        .await
    }

    /// Executes commands in one write, within `limit`. The answers have the order of the commands. Half of the limit
    /// is for getting a connection.
    pub(crate) async fn execute_all(
        &self,
        commands: &[&Command],
        limit: Duration,
    ) -> Vec<Result<Value, StoreError>> {
        let answers = self.within(limit, async {
            let handle = self.handle_within(limit / 2).await;
            let handle = handle.map_err(StoreError::unsent)?;
            Ok(handle.execute_all(commands).await)
        });
        match answers.await {
            Ok(answers) => {
                let answers = answers.into_iter();
                answers.map(|it| it.map_err(Stop::into_error)).collect()
            }
            Err(error) => vec![Err(error); commands.len()],
        }
    }

    /// Returns the outcome of `request` over the connection, within the response timeout.
    pub(crate) async fn over_connection<T>(
        &self,
        request: impl AsyncFnOnce(Handle) -> T,
    ) -> Result<T, StoreError> {
        self.within(self.response_timeout, async {
            let handle = self.handle().await.map_err(StoreError::unsent)?;
            Ok(request(handle).await)
        })
        .await
    }

    /// Returns the handle for requests as soon as it exists. An error means that nothing was sent.
    pub(crate) async fn handle(&self) -> Result<Handle, StoreError> {
        self.handle_within(self.response_timeout).await
    }

    /// The same for a caller that waits no longer than `limit`, and no longer than the response timeout.
    pub(crate) async fn handle_within(&self, limit: Duration) -> Result<Handle, StoreError> {
        self.process.check(Instant::now())?;
        if let Some(known) = known(&self.state.borrow()) {
            return known;
        }
        // A caller with the same limit should learn that nothing was sent.
        let limit = limit.min(self.response_timeout) / 10 * 9;
        let found = self.attend(Instant::now() + limit, self.wait_for(known));
        found
            .await
            .unwrap_or_else(|| Err(self.no_connection(limit)))
    }

    /// Returns the outcome of a request over the connection, or `None` at `until`.
    pub(crate) fn attend<F: Future>(
        &self,
        until: Instant,
        request: F,
    ) -> impl Future<Output = Option<F::Output>> {
        self.supervisor.attend(until, request)
    }

    /// Returns the outcome of a request, or an error if there is none within `limit`.
    async fn within<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // Without a runtime, a timer panics.
        if runtime::Handle::try_current().is_err() {
            return Err(errors::no_runtime("no tokio runtime is running here").unsent());
        }
        let outcome = self.attend(Instant::now() + limit, request).await;
        outcome.unwrap_or_else(|| Err(StoreError::timed_out(limit)))
    }

    /// Returns the answer to a command that is not a script.
    #[cfg(feature = "admin")]
    pub(crate) async fn ask(&self, question: &::redis::Cmd) -> Result<Value, StoreError> {
        self.over_connection(async |handle: Handle| handle.ask(question).await)
            .await?
    }

    /// Returns its URL without the password.
    #[cfg(feature = "admin")]
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the current address of the server, for an additional connection.
    #[cfg(feature = "admin")]
    pub(crate) async fn place(&self) -> Result<Endpoint, StoreError> {
        self.source.find(self.response_timeout).await
    }

    /// Returns the state of the connection, and its changes.
    pub(crate) fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Connects again if the runtime of the connection has ended.
    pub(crate) fn revive(&self) {
        self.supervisor.revive();
    }

    /// Ends the connection. Callers that wait for an answer get an error that it broke.
    pub(crate) fn close(&self) {
        self.supervisor.close();
    }

    fn no_connection(&self, limit: Duration) -> StoreError {
        if matches!(
            &*self.state.borrow(),
            ConnectionState::Connecting {
                after_silence: true
            }
        ) {
            return errors::silenced(&self.shown, limit);
        }
        StoreError::new(
            StoreErrorKind::Unreachable,
            format!("no connection to {} within {limit:.0?}", self.shown),
        )
    }
}

/// Returns the handle or failure, if either is known without waiting.
fn known(state: &ConnectionState) -> Option<Result<Handle, StoreError>> {
    match state {
        ConnectionState::Connecting { .. } => None,
        ConnectionState::Ready(handle) => Some(Ok(handle.clone())),
        ConnectionState::Failed(error) => Some(Err(error.clone())),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::time::sleep;

    use super::*;
    use crate::store::redis::{
        config::url::Location,
        fake::{Fake, courtesy},
    };

    /// Longer than a busy machine pauses a thread.
    const LIMIT: Duration = Duration::from_millis(1500);

    /// Each request is answered long after the previous one, but within the limit.
    const SLOWNESS: Duration = Duration::from_millis(400);

    async fn slow_server() -> Fake {
        Fake::start(|words| async move {
            match words[0].as_str() {
                "SET" => {
                    sleep(SLOWNESS).await;
                    "+OK\r\n".to_owned()
                }
                _ => courtesy(&words),
            }
        })
        .await
    }

    #[tokio::test]
    async fn a_connection_on_which_answers_keep_coming_is_kept() {
        for protocol in ["resp3", "resp2"] {
            let server = slow_server().await;
            let url = format!("redis://127.0.0.1:{}?protocol={protocol}", server.port);
            let location = Location::parse(&url).unwrap();
            let config = Arc::new(RedisConfig {
                response_timeout: LIMIT,
                ..RedisConfig::new(&url)
            });
            let node = Node::start(
                Source::Fixed(location.endpoint(location.addresses()[0].clone())),
                &config,
                &Arc::default(),
                Events::new(url.clone()),
                &Home::on(runtime::Handle::current(), LIMIT),
            );
            node.ready(LIMIT).await.unwrap();
            let connections = server.connections();

            // So many requests that the last ones, and the PING behind them, wait for several limits.
            let command = Command::plain(::redis::cmd("SET").arg("k").arg("x").to_owned(), None);
            let handle = node.handle().await.unwrap();
            let requests = (0..12).map(|_| node.execute(&command));
            let answers = join_all(requests).await;
            assert!(answers.iter().any(Result::is_err), "no request timed out");
            // It is answered after the others, and only if their connection is still open.
            handle.execute(&command, false).await.ok().unwrap();
            assert_eq!(server.connections(), connections, "{protocol}");
        }
    }
}
