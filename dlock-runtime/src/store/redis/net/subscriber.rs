//! The connection for hints with RESP2, where the connection of the requests cannot carry unsolicited messages.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use redis::{
    Value,
    aio::{PubSub, PubSubSink},
};
use tokio::task::JoinHandle;

use super::{
    activity::Activity, connection::Health, hints::Hints, resp2_auth::introduce, socket::Socket,
};
use crate::{
    process::here,
    store::{
        StoreError, StoreErrorKind,
        redis::{
            config::{secrets::hidden, url::Endpoint},
            protocol::errors,
        },
    },
};

/// The connection, and the task that listens.
pub(crate) struct Subscriber {
    sink: PubSubSink,
    activity: Activity,
    listener: JoinHandle<()>,
}

/// Makes the supervisor replace the connection when its listener ends for any reason.
struct FailOnDrop(Arc<Health>);

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        let broken = StoreError::new(StoreErrorKind::Disconnected, errors::BROKEN);
        self.0.fail(broken);
    }
}

impl Subscriber {
    /// Connects and logs in, within about `limit`. When the connection breaks, `health` fails.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        name: &str,
        hints: Arc<Hints>,
        health: Arc<Health>,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let login = endpoint.login_now(limit / 2).await?;
        let (mut stream, activity, omen) = Socket::connect(endpoint, limit).await?.parts();
        let opened = async {
            introduce(&mut stream, &login, Some(name), limit).await?;
            let opened = PubSub::new(&login, stream).await;
            opened.map_err(|error| errors::of_login(&error, limit, login.db()))
        };
        let (sink, mut messages) = match opened.await {
            Ok(opened) => opened.split(),
            Err(error) => return Err(hidden(omen.explain(error, limit / 4).await, &login)),
        };
        let fail_on_drop = FailOnDrop(health);
        let listener = tokio::spawn(here(async move {
            let _fail_on_drop = fail_on_drop;
            while let Some(message) = messages.next().await {
                hints.hear(message.get_payload_bytes());
            }
        }));
        Ok(Self {
            sink,
            activity,
            listener,
        })
    }

    /// Returns when the server has confirmed every channel.
    pub(crate) async fn subscribe(
        &mut self,
        channels: &[String],
        limit: Duration,
    ) -> Result<(), StoreError> {
        let confirmed = self.sink.subscribe(channels);
        self.activity.answered(limit, confirmed).await
    }

    /// Returns when the server answers.
    pub(crate) async fn ping(&mut self, limit: Duration) -> Result<(), StoreError> {
        let answer = self.sink.ping::<Value>();
        self.activity.answered(limit, answer).await.map(drop)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.listener.abort();
    }
}
