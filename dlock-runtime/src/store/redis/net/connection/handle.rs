//! Requests over a connection, and what their failures say of it.

use std::{pin::pin, sync::Arc, time::Duration};

use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::Health;
use crate::store::{
    StoreError, StoreErrorKind,
    redis::protocol::{errors, redirect::Redirect, script::Call},
};

/// What a caller needs of a connection.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(super) connection: MultiplexedConnection,
    pub(super) health: Arc<Health>,
    pub(super) limit: Duration,
}

impl Handle {
    /// Runs a script. An error means that it may or may not have been carried out.
    ///
    /// It waits as long as the connection lives: whoever calls limits that, and dropping it raises
    /// a suspicion.
    pub(crate) async fn run(self, call: &Call) -> Result<Value, StoreError> {
        let answer = self.run_unless_redirected(call, false).await;
        answer.map_err(Stop::into_error)
    }

    /// The same, on request where the slot is only being moved to.
    pub(crate) async fn run_unless_redirected(
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
    pub(crate) async fn run_all(self, calls: &[&Call]) -> Vec<Result<Value, StoreError>> {
        let answers = self.run_all_unless_redirected(calls).await.into_iter();
        answers
            .map(|answer| answer.map_err(Stop::into_error))
            .collect()
    }

    pub(crate) async fn run_all_unless_redirected(
        self,
        calls: &[&Call],
    ) -> Vec<Result<Value, Stop>> {
        self.run_group(calls, None).await.0
    }

    /// As [`run_all`](Self::run_all), and then `last`, whose answer is about all of them.
    pub(crate) async fn run_all_then(
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
        let answers = {
            let mut answers = pin!(Call::run_all(calls, last, &mut self.connection));
            if let Ok(answers) = timeout(self.limit, &mut answers).await {
                answers
            } else {
                // The caller may have more time than that, but a connection that is dead must not take it.
                self.health.suspect();
                answers.await
            }
        };
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
    pub(crate) async fn ask(mut self, question: &Cmd) -> Result<Value, StoreError> {
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
pub(crate) enum Stop {
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
