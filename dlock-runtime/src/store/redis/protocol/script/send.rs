//! How calls reach the server, also one that has forgotten the scripts.

use std::iter;

use redis::{
    Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use super::Call;

impl Call {
    /// Runs the script, also on a server that has forgotten it.
    ///
    /// `asking` is for a server to which the slot is only being moved yet.
    pub(crate) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        asking: bool,
    ) -> Result<Value, RedisError> {
        match send(&self.command, connection, asking).await {
            Err(error) if is_forgotten(&error) => send(&self.whole(), connection, asking).await,
            answer => answer,
        }
    }

    /// Runs one script several times in one write, or in two if the server has forgotten it, and
    /// `last` after all of them. The answers are in this order; an error of all is one of the
    /// connection.
    pub(crate) async fn run_all(
        calls: &[&Self],
        last: Option<&Cmd>,
        connection: &mut MultiplexedConnection,
    ) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
        let commands = calls.iter().map(|call| call.command.clone());
        let commands = commands.chain(last.cloned()).collect();
        let mut answers = send_all(commands, connection).await?;
        let mut forgotten: Vec<_> = (0..calls.len())
            .filter(|&at| answers[at].as_ref().is_err_and(is_forgotten))
            .collect();
        let Some((&first, rest)) = forgotten.split_first() else {
            return Ok(answers);
        };
        // By the first the server remembers the script for the rest.
        let rest = rest.iter().map(|&at| calls[at].command.clone());
        let commands = iter::once(calls[first].whole()).chain(rest);
        // What it told was not about these.
        let commands = commands.chain(last.cloned()).collect();
        forgotten.extend(last.map(|_| calls.len()));
        let again = send_all(commands, connection).await?;
        for (at, answer) in forgotten.into_iter().zip(again) {
            answers[at] = answer;
        }
        Ok(answers)
    }

    /// The same with the script's source, which runs it and makes the server remember it, in one
    /// round trip. Where only that was missing nothing has been done yet, so nothing is done twice.
    fn whole(&self) -> Cmd {
        let Some(script) = self.script else {
            return self.command.clone();
        };
        let mut command = redis::cmd("EVAL");
        command.arg(script.source);
        for argument in self.arguments().skip(2) {
            command.arg(argument);
        }
        command
    }
}

/// Whether the server no longer has the script.
fn is_forgotten(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Sends one command, on request right behind the word that it may be answered.
async fn send(
    command: &Cmd,
    connection: &mut MultiplexedConnection,
    asking: bool,
) -> Result<Value, RedisError> {
    if !asking {
        let answer = connection.send_packed_command(command).await;
        return answer.and_then(Value::extract_error);
    }
    // Adjacent, as the word holds for the next command of the connection.
    let both = vec![redis::cmd("ASKING"), command.clone()];
    let mut last = Ok(Value::Nil);
    for answer in send_all(both, connection).await? {
        last = Ok(answer?);
    }
    last
}

/// Sends commands in one write; each has an answer of its own.
async fn send_all(
    commands: Vec<Cmd>,
    connection: &mut MultiplexedConnection,
) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
    let count = commands.len();
    let mut pipeline = Pipeline::with_capacity(count);
    for command in commands {
        pipeline.add_command(command);
    }
    let answers = connection.send_packed_commands(&pipeline, 0, count).await?;
    Ok(answers.into_iter().map(Value::extract_error).collect())
}
