//! Logs in on a RESP2 connection before the library does.
//!
//! The library also logs in over RESP2, but hides the reason of a failure, and cannot name a connection that
//! only subscribes.

use std::{io, time::Duration};

use redis::{RedisConnectionInfo, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stream::Stream;
use crate::store::{StoreError, redis::protocol::errors};

/// Answers to these requests are much shorter.
const LONGEST_LINE: usize = 1024;

/// Logs in, if there is a password, and sets the name, if there is one.
///
/// The name is optional: the server may refuse it.
pub(crate) async fn introduce(
    stream: &mut (impl Stream + Unpin),
    login: &RedisConnectionInfo,
    name: Option<&str>,
    limit: Duration,
) -> Result<(), StoreError> {
    let failed = |error: io::Error| errors::of_request(&error.into(), limit);
    let mut words = Vec::new();
    if let Some(password) = login.password() {
        let mut request = redis::cmd("AUTH");
        request.arg(login.username()).arg(password);
        words.extend(request.get_packed_command());
    }
    if let Some(name) = name {
        let mut request = redis::cmd("CLIENT");
        words.extend(request.arg("SETNAME").arg(name).get_packed_command());
    }
    stream.write_all(&words).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    if login.password().is_some() {
        let line = line(stream).await.map_err(failed)?;
        redis::parse_redis_value(&line)
            .and_then(Value::extract_error)
            .map_err(|error| errors::of_login(&error, limit, login.db()))?;
    }
    if name.is_some() {
        line(stream).await.map_err(failed)?;
    }
    Ok(())
}

/// Reads one answer, which is one line, possibly an error. Reads nothing after it.
async fn line(stream: &mut (impl Stream + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < LONGEST_LINE {
        line.push(stream.read_u8().await?);
    }
    Ok(line)
}
