//! The connection over which hints come where RESP2 is spoken: the one of the requests can carry
//! nothing there that was not asked for.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use redis::{
    RedisConnectionInfo, RedisResult, Value,
    aio::{PubSub, PubSubSink},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
};

use super::{
    errors,
    hints::Hints,
    link::Health,
    socket::{Socket, Stream},
    url::Endpoint,
};
use crate::store::{StoreError, StoreErrorKind};

/// The connection, and the task that listens.
pub(super) struct Subscriber {
    sink: PubSubSink,
    listener: JoinHandle<()>,
}

impl Subscriber {
    /// Connects and logs in, within about `limit`. When the connection breaks, `health` fails.
    pub(super) async fn open(
        endpoint: &Endpoint,
        name: &str,
        hints: Arc<Hints>,
        health: Arc<Health>,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let login = endpoint.login_now(limit / 2).await?;
        let (mut stream, omen) = Socket::connect(endpoint, limit).await?.parts();
        introduce(&mut stream, &login, name)
            .await
            .map_err(|error| omen.explain(errors::of_request(&error.into(), limit)))?;
        let (sink, mut messages) = PubSub::new(&login, stream)
            .await
            .map_err(|error| omen.explain(errors::of_login(&error, limit, login.db())))?
            .split();
        let listener = tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                hints.hear(message.get_payload_bytes());
            }
            let broken = StoreError::new(StoreErrorKind::Disconnected, errors::BROKEN);
            health.fail(broken);
        });
        Ok(Self { sink, listener })
    }

    /// Returns when the server has confirmed every channel.
    pub(super) async fn subscribe(&mut self, channels: &[String]) -> RedisResult<()> {
        self.sink.subscribe(channels).await
    }

    pub(super) async fn ping(&mut self) -> RedisResult<Value> {
        self.sink.ping().await
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Says how the connection is to be called, which the library cannot on such a one.
///
/// That may be refused, and so may the login, which the library repeats; then it says why.
async fn introduce(
    stream: &mut (impl Stream + Unpin),
    login: &RedisConnectionInfo,
    name: &str,
) -> std::io::Result<()> {
    let mut words = Vec::new();
    let mut answers = 1;
    if let Some(password) = login.password() {
        let mut request = redis::cmd("AUTH");
        request.arg(login.username()).arg(password);
        words.extend(request.get_packed_command());
        answers += 1;
    }
    let mut request = redis::cmd("CLIENT");
    words.extend(request.arg("SETNAME").arg(name).get_packed_command());
    stream.write_all(&words).await?;
    stream.flush().await?;
    // Each is one line, be it an error, and nothing comes after them.
    while answers > 0 {
        if stream.read_u8().await? == b'\n' {
            answers -= 1;
        }
    }
    Ok(())
}
