//! Commands over a connection, and the reactions to their failures.

use std::{borrow::Cow, pin::pin, sync::Arc, time::Duration};

use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{
    health::Health,
    role::{QUESTION, RoleQuestion},
    send::{is_forgotten, send_all, send_commands},
};
use crate::store::{
    StoreError, StoreErrorKind,
    redis::protocol::{command::Command, errors, redirect::Redirect},
};

/// The part of a connection that its callers share.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(super) connection: MultiplexedConnection,
    pub(super) health: Arc<Health>,
    pub(super) limit: Duration,
}

impl Handle {
    /// Executes a command, also on a server that has forgotten its script. After an error, the command may have been
    /// carried out.
    ///
    /// Set `asking` for a server that is still importing the slot. The call waits for the answer as long as the
    /// connection lives: the caller limits it, and dropping the future makes the supervisor check the connection.
    pub(crate) async fn execute(mut self, command: &Command, asking: bool) -> Result<Value, Stop> {
        let unanswered = Unanswered(Some(&self.health));
        let mut cmd = Cow::Borrowed(command.cmd());
        let (answer, role) = loop {
            let (answer, role) = send(&mut self.connection, &self.health, &cmd, asking).await;
            match (answer, &cmd) {
                (Err(error), Cow::Borrowed(_)) if is_forgotten(&error) => {
                    cmd = Cow::Owned(command.whole());
                }
                (answer, _) => break (answer, role),
            }
        };
        unanswered.has_ended(answer.as_ref().err());
        let answer = answer.map_err(|error| self.judge(command, &error))?;
        role.map(|()| answer).map_err(Stop::Failed)
    }

    /// Executes several commands in one write. The answers have the order of the commands.
    pub(crate) async fn execute_all(self, commands: &[&Command]) -> Vec<Result<Value, Stop>> {
        self.execute_group(commands, None).await.0
    }

    /// Like [`execute_all`](Self::execute_all), followed by `last`, whose answer applies to all of them.
    pub(crate) async fn execute_all_then(
        self,
        commands: &[&Command],
        last: &Cmd,
    ) -> (Vec<Result<Value, StoreError>>, Result<Value, StoreError>) {
        let (answers, of_last) = self.execute_group(commands, Some(last)).await;
        let answers = answers.into_iter();
        let answers = answers.map(|answer| answer.map_err(Stop::into_error));
        (answers.collect(), of_last.expect("it was asked for"))
    }

    /// Returns the answers to the commands, and the one to `last`.
    async fn execute_group(
        mut self,
        commands: &[&Command],
        last: Option<&Cmd>,
    ) -> (Vec<Result<Value, Stop>>, Option<Result<Value, StoreError>>) {
        let unanswered = Unanswered(Some(&self.health));
        let question = self.health.role.question();
        let behind: Vec<_> = last
            .into_iter()
            .chain(question.as_ref().map(|_| &*QUESTION))
            .collect();
        let answers = {
            let mut answers = pin!(send_commands(commands, &behind, &mut self.connection));
            if let Ok(answers) = timeout(self.limit, &mut answers).await {
                answers
            } else {
                // The caller may wait longer than the response timeout, but a dead connection must be detected in
                // time.
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
                let role = take_role(&self.health, question.as_ref(), &mut answers);
                let of_last = last.map(|last| {
                    let answer = answers.pop().expect("the last command has an answer");
                    let answer = answer.map_err(|error| judge_last(last, &error))?;
                    role.clone().map(|()| answer)
                });
                let judged = |(command, answer): (&&Command, Result<Value, RedisError>)| {
                    let answer = answer.map_err(|error| self.judge(command, &error))?;
                    role.clone().map(|()| answer).map_err(Stop::Failed)
                };
                (commands.iter().zip(answers).map(judged).collect(), of_last)
            }
            Err(error) => {
                let failed = |command: &&Command| Err(self.judge(command, &error));
                let answers = commands.iter().map(failed).collect();
                (answers, last.map(|last| Err(judge_last(last, &error))))
            }
        }
    }

    /// Returns the answer to a command that is not a script. The answer may be an error.
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

    /// Describes the failure of a command, after it has recorded whether the connection is still usable.
    fn judge(&self, command: &Command, error: &RedisError) -> Stop {
        let explained = command.explain(error, self.limit);
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

/// Sends a command. Returns its answer, and an error if the server is a replica, which makes the answer void.
async fn send(
    connection: &mut MultiplexedConnection,
    health: &Health,
    cmd: &Cmd,
    asking: bool,
) -> (Result<Value, RedisError>, Result<(), StoreError>) {
    let question = health.role.question();
    if !asking && question.is_none() {
        let answer = connection.send_packed_command(cmd).await;
        return (answer.and_then(Value::extract_error), Ok(()));
    }
    // In one write, because `ASKING` applies to the next command of the connection.
    let before = asking.then(|| redis::cmd("ASKING"));
    let behind = question.as_ref().map(|_| QUESTION.clone());
    let all = before.into_iter().chain([cmd.clone()]).chain(behind);
    let mut answers = match send_all(all.collect(), connection).await {
        Ok(answers) => answers,
        Err(error) => return (Err(error), Ok(())),
    };
    let role = take_role(health, question.as_ref(), &mut answers);
    let answer = answers.into_iter().try_fold(Value::Nil, |_, answer| answer);
    (answer, role)
}

/// Takes the answer to `question`, which is the last one. Returns an error if the server is a replica.
fn take_role(
    health: &Health,
    question: Option<&RoleQuestion>,
    answers: &mut Vec<Result<Value, RedisError>>,
) -> Result<(), StoreError> {
    let Some(question) = question else {
        return Ok(());
    };
    let answer = answers.pop().expect("each command has an answer");
    health.role.heard(question, answer).map_err(|replica| {
        health.fail(replica.clone());
        // The requests before the question may have been carried out, by a replica that takes writes.
        replica.with_possible_effect()
    })
}

/// The reason why a server has not carried out a command.
pub(crate) enum Stop {
    /// Another server has to carry it out, or this one later. The error is for callers that know only one server.
    Redirected(Redirect, StoreError),
    Failed(StoreError),
}

impl Stop {
    pub(crate) fn into_error(self) -> StoreError {
        let (Self::Redirected(_, error) | Self::Failed(error)) = self;
        error
    }
}

/// Returns `true` if a new connection may help, to this server or to another one in its place.
fn needs_new_connection(kind: StoreErrorKind) -> bool {
    use StoreErrorKind::{Disconnected, ReadOnly, Unauthenticated};
    matches!(kind, Disconnected | ReadOnly | Unauthenticated)
}

/// Makes the supervisor check the connection if it is dropped before an answer: the time was up, or the caller was
/// dropped.
struct Unanswered<'a>(Option<&'a Health>);

impl Unanswered<'_> {
    /// Records that the request has ended, with this error if it failed. A timeout of the network layer does not
    /// count as an answer.
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
