//! One server: requests to it go over the connection that a task of its own keeps.

use std::{sync::Arc, time::Duration};

use ::redis::Value;
use tokio::{runtime, sync::watch, task::JoinHandle, time::timeout};

#[cfg(feature = "admin")]
use super::url::Endpoint;
use super::{
    RedisConfig, errors,
    events::Events,
    hints::Hints,
    link::Handle,
    script::Call,
    source::Source,
    supervisor::{State, Supervisor},
};
use crate::store::{StoreError, StoreErrorKind};

const RUNTIME_ENDED: &str = "the tokio runtime in which the store was made has ended";

/// A server, for as long as this lives.
pub(super) struct Node {
    shown: String,
    #[cfg(feature = "admin")]
    source: Source,
    response_timeout: Duration,
    state: watch::Receiver<State>,
    supervisor: JoinHandle<()>,
}

impl Node {
    /// Starts to connect, in the background of the runtime this is called in.
    pub(super) fn start(
        source: Source,
        config: &Arc<RedisConfig>,
        hints: &Arc<Hints>,
        events: Events,
    ) -> Self {
        let (sender, state) = watch::channel(State::Connecting);
        let shown = events.server().to_owned();
        #[cfg(feature = "admin")]
        let place = source.clone();
        let supervisor = Supervisor {
            source,
            config: config.clone(),
            hints: hints.clone(),
            state: sender,
            events,
        };
        Self {
            shown,
            #[cfg(feature = "admin")]
            source: place,
            response_timeout: config.response_timeout,
            state,
            supervisor: tokio::spawn(supervisor.run()),
        }
    }

    /// Waits until the server is ready, or will not be without somebody's help.
    pub(super) async fn ready(&self, limit: Duration) -> Result<(), StoreError> {
        let mut state = self.state.clone();
        let decided = |state: &State| match state {
            State::Connecting => false,
            State::Ready(_) => true,
            State::Failed(error) => error.is_final(),
        };
        let failure = match timeout(limit, state.wait_for(decided)).await {
            Ok(Ok(state)) => failure(&state),
            Ok(Err(_)) => Some(no_runtime(RUNTIME_ENDED)),
            Err(_) => match &*self.state.borrow() {
                State::Connecting => Some(self.no_connection(limit)),
                // The last failure says more than that time is up.
                State::Failed(error) => Some(errors::given_up(&self.shown, limit, error)),
                State::Ready(_) => None,
            },
        };
        failure.map_or(Ok(()), Err)
    }

    /// Runs a script, in no more time than a request may take.
    pub(super) async fn run(&self, call: &Call) -> Result<Value, StoreError> {
        self.within_limit(async |handle: Handle| handle.run(call).await)
            .await?
    }

    /// Runs a script several times in one write, within `limit`; the answers are in the order of
    /// the calls. A connection is waited for in half of that.
    pub(super) async fn run_all(
        &self,
        calls: &[&Call],
        limit: Duration,
    ) -> Vec<Result<Value, StoreError>> {
        let answers = self.within(limit, limit / 2, async |handle: Handle| {
            handle.run_all(calls).await
        });
        match answers.await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); calls.len()],
        }
    }

    /// What `request` yields, in no more time than a request may take.
    pub(super) async fn within_limit<T>(
        &self,
        request: impl AsyncFnOnce(Handle) -> T,
    ) -> Result<T, StoreError> {
        let limit = self.response_timeout;
        self.within(limit, limit, request).await
    }

    /// What `request` yields within `limit`, of which the connection may take a part.
    async fn within<T>(
        &self,
        limit: Duration,
        for_connection: Duration,
        request: impl AsyncFnOnce(Handle) -> T,
    ) -> Result<T, StoreError> {
        // A timer panics without one.
        if runtime::Handle::try_current().is_err() {
            return Err(no_runtime("no tokio runtime runs here").unsent());
        }
        timeout(limit, async {
            let handle = self.handle_within(for_connection).await;
            let handle = handle.map_err(StoreError::unsent)?;
            // From here on nobody can say of a failed request that it did nothing.
            Ok(request(handle).await)
        })
        .await
        .unwrap_or_else(|_| Err(StoreError::timed_out(limit)))
    }

    /// What requests need, as soon as it is there; an error means that nothing can be sent.
    pub(super) async fn handle(&self) -> Result<Handle, StoreError> {
        self.handle_within(self.response_timeout).await
    }

    /// The same for a caller that waits no longer than `limit`, and no longer than for an answer.
    pub(super) async fn handle_within(&self, limit: Duration) -> Result<Handle, StoreError> {
        if self.state.has_changed().is_err() {
            return Err(no_runtime(RUNTIME_ENDED));
        }
        if let Some(known) = known(&self.state.borrow()) {
            return known;
        }
        let mut state = self.state.clone();
        // A caller whose own limit is the same shall learn that nothing was sent.
        let limit = limit.min(self.response_timeout) / 10 * 9;
        match timeout(limit, state.wait_for(|state| known(state).is_some())).await {
            Ok(Ok(state)) => known(&state).expect("it was waited for"),
            Ok(Err(_)) => Err(no_runtime(RUNTIME_ENDED)),
            Err(_) => Err(self.no_connection(limit)),
        }
    }

    /// The answer to a command that is no script.
    #[cfg(feature = "admin")]
    pub(super) async fn ask(&self, question: &::redis::Cmd) -> Result<Value, StoreError> {
        self.within_limit(async |handle: Handle| handle.ask(question).await)
            .await?
    }

    /// Its URL without the password.
    #[cfg(feature = "admin")]
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Where it is at this moment, for a connection besides the one that is kept.
    #[cfg(feature = "admin")]
    pub(super) async fn place(&self) -> Result<Endpoint, StoreError> {
        self.source.find(self.response_timeout).await
    }

    /// How the connection is, and how it changes.
    pub(super) fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Ends the connection; whoever waits for an answer learns that it broke.
    pub(super) fn close(&self) {
        self.supervisor.abort();
    }

    fn no_connection(&self, limit: Duration) -> StoreError {
        StoreError::new(
            StoreErrorKind::Unreachable,
            format!("no connection to {} within {limit:.0?}", self.shown),
        )
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

fn failure(state: &State) -> Option<StoreError> {
    match state {
        State::Failed(error) => Some(error.clone()),
        State::Connecting | State::Ready(_) => None,
    }
}

/// What a caller can do at once, if anything.
fn known(state: &State) -> Option<Result<Handle, StoreError>> {
    match state {
        State::Connecting => None,
        State::Ready(handle) => Some(Ok(handle.clone())),
        State::Failed(error) => Some(Err(error.clone())),
    }
}

pub(super) fn no_runtime(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NoRuntime, message)
}
