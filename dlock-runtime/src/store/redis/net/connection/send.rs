//! Sends several commands in one write, also to a server that has forgotten their scripts.

use std::iter;

use redis::{
    Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use crate::store::redis::protocol::command::Command;

/// Sends `commands` in one write, followed by `last`. If the server has forgotten the script, a second write follows.
/// The answers have this order; an error of the whole call is an error of the connection.
pub(super) async fn send_commands(
    commands: &[&Command],
    last: &[&Cmd],
    connection: &mut MultiplexedConnection,
) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
    let last = || last.iter().map(|&cmd| cmd.clone());
    let cmds = commands.iter().map(|command| command.cmd().clone());
    let cmds = cmds.chain(last()).collect();
    let mut answers = send_all(cmds, connection).await?;
    let mut forgotten: Vec<_> = (0..commands.len())
        .filter(|&at| answers[at].as_ref().is_err_and(is_forgotten))
        .collect();
    let Some((&first, rest)) = forgotten.split_first() else {
        return Ok(answers);
    };
    // The first command teaches the server the script for the others.
    let rest = rest.iter().map(|&at| commands[at].cmd().clone());
    let cmds = iter::once(commands[first].whole()).chain(rest);
    // The previous answers to `last` did not apply to these commands.
    let cmds = cmds.chain(last()).collect();
    forgotten.extend(commands.len()..answers.len());
    let again = send_all(cmds, connection).await?;
    for (at, answer) in forgotten.into_iter().zip(again) {
        answers[at] = answer;
    }
    Ok(answers)
}

/// Returns `true` if the server no longer has the script.
pub(super) fn is_forgotten(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Sends commands in one write and returns one answer for each.
pub(super) async fn send_all(
    cmds: Vec<Cmd>,
    connection: &mut MultiplexedConnection,
) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
    let count = cmds.len();
    let mut pipeline = Pipeline::with_capacity(count);
    for cmd in cmds {
        pipeline.add_command(cmd);
    }
    let answers = connection.send_packed_commands(&pipeline, 0, count).await?;
    Ok(answers.into_iter().map(Value::extract_error).collect())
}
