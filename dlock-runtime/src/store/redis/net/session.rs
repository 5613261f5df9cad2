//! A logged-in connection to one server.

use std::{future::Future, time::Duration};

use redis::{AsyncConnectionConfig, Cmd, RedisError, Value, aio::MultiplexedConnection};
use tokio::{
    runtime::{self, Handle},
    time::{Instant, timeout},
};

use super::{activity::Activity, resp2_auth::introduce, socket::Socket, task::Task};
use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        config::{secrets::hidden, url::Endpoint},
        protocol::errors,
    },
};

/// The connection, and its own task that reads and writes.
pub(crate) struct Session {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) driver: Task,
    /// The runtime of the driver.
    runtime: runtime::Id,
    pub(crate) activity: Activity,
}

impl Session {
    /// Connects and logs in, within about `limit`.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        settings: AsyncConnectionConfig,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let begun = Instant::now();
        let login = endpoint.login_now(limit / 2).await?;
        let (mut stream, activity, omen) = Socket::connect(endpoint, limit).await?.parts();
        // Less than the caller's limit, so that the caller learns about the connection.
        let left = limit.saturating_sub(begun.elapsed()) / 10 * 9;
        let logged_in = async {
            if !endpoint.pushes() && login.password().is_some() {
                introduce(&mut stream, &login, None, limit).await?;
            }
            // Each caller has its own timer.
            let settings = settings.set_response_timeout(None);
            MultiplexedConnection::new_with_config(&login, stream, settings)
                .await
                .map_err(|error| errors::of_login(&error, limit, login.db()))
        };
        let (connection, driver) = match timeout(left, logged_in).await {
            Ok(Ok(logged_in)) => logged_in,
            Ok(Err(error)) => return Err(hidden(omen.explain(error, limit / 4).await, &login)),
            Err(_) => return Err(errors::silent(endpoint, limit)),
        };
        let runtime = Handle::current();
        Ok(Self {
            connection,
            driver: Task::spawn(driver, &runtime),
            runtime: runtime.id(),
            activity,
        })
    }

    /// Returns `true` if its driver runs whenever the caller does.
    pub(crate) fn is_on_this_runtime(&self) -> bool {
        Handle::try_current().is_ok_and(|current| current.id() == self.runtime)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.end().end();
    }
}

/// Sends one request to one server over a new connection.
///
/// # Errors
///
/// Every error names the server.
pub(crate) async fn ask(
    endpoint: &Endpoint,
    question: &Cmd,
    limit: Duration,
) -> Result<Value, StoreError> {
    let asked = async {
        let mut session = Session::open(endpoint, AsyncConnectionConfig::new(), limit).await?;
        let answer = session.connection.send_packed_command(question);
        let answer = answered(limit, answer).await?;
        answer
            .extract_error()
            .map_err(|error| errors::of_request(&error, limit))
    };
    named(endpoint, limit, asked).await
}

/// Returns the outcome of `attempt` in time, or the reason for its failure. The attempt sends no caller's request, so
/// every failure means that nothing was sent.
pub(crate) async fn named<T>(
    endpoint: &Endpoint,
    limit: Duration,
    attempt: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let unreachable = |cause: &str| {
        let message = errors::cannot_connect(endpoint, cause);
        StoreError::new(StoreErrorKind::Unreachable, message)
    };
    let Ok(outcome) = timeout(limit, attempt).await else {
        return Err(unreachable(&format!("no answer within {limit:.0?}")));
    };
    outcome.map_err(|error| match error.kind() {
        StoreErrorKind::Disconnected => unreachable(error.message()),
        StoreErrorKind::TimedOut => errors::silent(endpoint, limit),
        _ => error,
    })
}

/// Returns the answer to one of the connection's own requests, or an error if there is none within `limit`.
pub(crate) async fn answered<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, StoreError> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| errors::of_request(&error, limit)),
        Err(_) => Err(StoreError::timed_out(limit)),
    }
}
