//! Receives the wake-up messages of servers, on separate connections.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use futures_util::StreamExt;
use redis::{
    ProtocolVersion,
    aio::{PubSub, PubSubSink, PubSubStream},
};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{hints, resp2_auth::introduce, session, socket::Socket};
use crate::{
    owner::OwnerId,
    process::here,
    store::{
        Hint, StoreError, StoreErrorKind,
        redis::{
            RedisConfig,
            admin::{inspect, reader::RedisReader},
            config::{secrets::hidden, url::Endpoint},
            protocol::{errors, names},
        },
    },
};

/// With more messages than this, the rest waits in the server's output buffer.
const MOST_UNHEARD: usize = 1024;

/// After this time without a message, the connection is checked with a ping.
const IDLE: Duration = Duration::from_secs(5);

/// The same message within this time is a copy from another server.
const ECHO: Duration = Duration::from_secs(1);

/// A wake-up message for one waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeardWakeUp {
    /// The key of the lock.
    pub key: String,
    /// The waiter.
    pub owner: OwnerId,
    /// The fence of its lease; 0 if it is only notified.
    pub fence: u64,
}

/// All wake-up messages for waiters, until a connection breaks.
pub struct Listener {
    /// The messages; `None` from a connection that has broken.
    words: Receiver<Option<HeardWakeUp>>,
    is_over: bool,
    tasks: Vec<JoinHandle<()>>,
    recent: Recent,
}

impl Listener {
    /// Subscribes to the servers of all `readers`.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when it cannot subscribe to one of them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn open(readers: &[RedisReader]) -> Result<Self, StoreError> {
        let (sender, words) = mpsc::channel(MOST_UNHEARD);
        let mut listener = Self {
            words,
            is_over: false,
            tasks: Vec::new(),
            recent: Recent::default(),
        };
        for reader in readers {
            let store = &reader.store;
            for master in reader.masters()? {
                let endpoint = master.place().await?;
                let (sink, stream) = subscribe(&endpoint, &store.config).await?;
                let reader = ChannelReader {
                    sink,
                    stream,
                    limit: store.config.response_timeout,
                    words: sender.clone(),
                };
                listener.tasks.push(tokio::spawn(here(reader.run())));
            }
        }
        Ok(listener)
    }

    /// Returns the next message, or `None` when a connection has broken: messages may be missed from then on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    pub async fn next(&mut self) -> Option<HeardWakeUp> {
        while !self.is_over {
            match self.words.recv().await.flatten() {
                Some(heard) if self.recent.is_news(&heard, Instant::now()) => return Some(heard),
                Some(_) => {}
                None => self.is_over = true,
            }
        }
        None
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Returns the pattern for all channels of a namespace.
pub(crate) fn pattern(config: &RedisConfig) -> String {
    let prefix = names::channel_prefix(&config.namespace);
    format!("{}*", inspect::escaped(&prefix))
}

/// Opens a connection for listening. No channel is subscribed yet.
pub(crate) async fn open(
    endpoint: &Endpoint,
    config: &RedisConfig,
) -> Result<(PubSubSink, PubSubStream), StoreError> {
    let limit = config.connect_timeout;
    let login = endpoint.login_now(limit / 2).await?;
    // The library can subscribe with either protocol; this login uses RESP2.
    let login = login.set_protocol(ProtocolVersion::RESP2);
    let (mut stream, _, omen) = Socket::connect(endpoint, limit).await?.parts();
    let opened = async {
        introduce(&mut stream, &login, Some(&config.connection_name()), limit).await?;
        let opened = PubSub::new(&login, stream).await;
        opened.map_err(|error| errors::of_login(&error, limit, login.db()))
    };
    match opened.await {
        Ok(connection) => Ok(connection.split()),
        Err(error) => Err(hidden(omen.explain(error, limit / 4).await, &login)),
    }
}

/// Subscribes all channels over a new connection.
async fn subscribe(
    endpoint: &Endpoint,
    config: &RedisConfig,
) -> Result<(PubSubSink, PubSubStream), StoreError> {
    let attempt = async {
        let (mut sink, stream) = open(endpoint, config).await?;
        let asked = sink.psubscribe(pattern(config));
        session::answered(config.response_timeout, asked)
            .await
            .map_err(|error| match error.kind() {
                StoreErrorKind::Denied => {
                    let prefix = names::channel_prefix(&config.namespace);
                    let message = format!("{} (`PSUBSCRIBE` to `{prefix}*`)", error.message());
                    StoreError::new(StoreErrorKind::Denied, message)
                }
                _ => error,
            })?;
        Ok((sink, stream))
    };
    session::named(endpoint, config.connect_timeout, attempt).await
}

/// The reader of one connection.
struct ChannelReader {
    sink: PubSubSink,
    stream: PubSubStream,
    limit: Duration,
    words: Sender<Option<HeardWakeUp>>,
}

impl ChannelReader {
    async fn run(mut self) {
        loop {
            let message = tokio::select! {
                message = self.stream.next() => message,
                () = sleep(IDLE) => {
                    let asked = timeout(self.limit, self.sink.ping::<redis::Value>()).await;
                    if matches!(asked, Ok(Ok(_))) {
                        continue;
                    }
                    None
                }
            };
            let Some(message) = message else {
                break;
            };
            let Some(Hint {
                key, owner, fence, ..
            }) = hints::parse(message.get_payload_bytes())
            else {
                continue;
            };
            let heard = HeardWakeUp {
                key: key.to_owned(),
                owner: owner.in_any_round(),
                fence,
            };
            if self.words.send(Some(heard)).await.is_err() {
                return;
            }
        }
        // The listener may have been dropped.
        self.words.send(None).await.ok();
    }
}

/// The messages of the last second. In a cluster, each message comes from every master; in a quorum, from each server
/// that sends it.
#[derive(Default)]
struct Recent {
    order: VecDeque<(Instant, HeardWakeUp)>,
    known: HashSet<HeardWakeUp>,
}

impl Recent {
    fn is_news(&mut self, heard: &HeardWakeUp, now: Instant) -> bool {
        while let Some((when, _)) = self.order.front()
            && *when + ECHO <= now
        {
            let (_, old) = self.order.pop_front().expect("it was looked at");
            self.known.remove(&old);
        }
        let is_new = self.known.insert(heard.clone());
        if is_new {
            self.order.push_back((now, heard.clone()));
        }
        is_new
    }
}
