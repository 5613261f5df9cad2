//! The messages by which PostgreSQL tells a waiter of its grant.
//!
//! A client listens on a channel of its own, `dlock_<client>`. A message is `owner fence number key`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::store::{ClientId, Hint, HintSink, OwnerId};
use tokio::sync::mpsc;
use tokio_postgres::{Client, Notification};

use crate::{config::Listen, worker::Worker};

/// The managers that wait for messages, and the task that listens for them.
pub(crate) struct Hints {
    sinks: Sinks,
    orders: mpsc::UnboundedSender<Order>,
}

/// The managers that wait for messages.
#[derive(Clone, Default)]
pub(crate) struct Sinks(Arc<Mutex<HashMap<ClientId, HintSink>>>);

/// The connection on which the messages come, as its session sees it.
pub(crate) struct Messages {
    sinks: Sinks,
    connected: mpsc::UnboundedSender<Connected>,
}

/// A new connection, to a pooler or directly.
struct Connected {
    client: Arc<Client>,
    is_pooled: bool,
}

/// A change of what is listened to.
enum Order {
    Listen(ClientId),
    Unlisten(ClientId),
}

impl Hints {
    /// Starts to listen on the connections of the session that gets the returned messages. The thread of `worker` tells
    /// the server what to listen to.
    pub(crate) fn start(worker: &Worker, listen: Listen) -> (Self, Messages) {
        let sinks = Sinks::default();
        let (orders, ordered) = mpsc::unbounded_channel();
        let (connected, connections) = mpsc::unbounded_channel();
        let listener = Listener {
            sinks: sinks.clone(),
            listen,
            client: None,
        };
        worker.handle().spawn(listener.run(ordered, connections));
        let messages = Messages {
            sinks: sinks.clone(),
            connected,
        };
        (Self { sinks, orders }, messages)
    }

    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        self.sinks.locked().insert(client, sink);
        self.orders.send(Order::Listen(client)).ok();
    }

    pub(crate) fn detach(&self, client: ClientId) {
        self.sinks.locked().remove(&client);
        self.orders.send(Order::Unlisten(client)).ok();
    }
}

impl Messages {
    pub(crate) fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// From now on the messages come on this connection.
    pub(crate) fn come_on(&self, client: Arc<Client>, is_pooled: bool) {
        // Without a listener, the store is closed.
        self.connected.send(Connected { client, is_pooled }).ok();
    }
}

impl Sinks {
    fn locked(&self) -> MutexGuard<'_, HashMap<ClientId, HintSink>> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pass_on(&self, notification: &Notification) {
        let Some((owner, hint)) = read(notification.payload()) else {
            return;
        };
        let sink = self.locked().get(&owner.client()).cloned();
        if sink.is_some_and(|sink| !sink.hint(&hint)) {
            self.locked().remove(&owner.client());
        }
    }
}

struct Listener {
    sinks: Sinks,
    listen: Listen,
    /// The connection on which messages come, if any do.
    client: Option<Arc<Client>>,
}

impl Listener {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut connections: mpsc::UnboundedReceiver<Connected>,
    ) {
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Listen(client)) => self.listen_to(client).await,
                    Some(Order::Unlisten(client)) => self.execute("UNLISTEN", client).await,
                    None => return,
                },
                connected = connections.recv() => match connected {
                    Some(connected) => self.connected(connected).await,
                    None => return,
                },
            }
        }
    }

    async fn connected(&mut self, Connected { client, is_pooled }: Connected) {
        // A pooler gives the messages of a connection to whoever uses it next.
        let may_listen = match self.listen {
            Listen::Always => true,
            Listen::Never => false,
            Listen::Direct => !is_pooled,
        };
        self.client = may_listen.then_some(client);
        let clients: Vec<_> = self.sinks.locked().keys().copied().collect();
        for client in clients {
            self.listen_to(client).await;
        }
    }

    async fn listen_to(&self, client: ClientId) {
        self.execute("LISTEN", client).await;
        // Messages that were sent before are lost.
        let sink = self.sinks.locked().get(&client).cloned();
        if sink.is_some_and(|sink| !sink.look_again()) {
            self.sinks.locked().remove(&client);
        }
    }

    /// A failure ends the connection or is the pooler's, and waiters poll in both cases.
    async fn execute(&self, command: &str, client: ClientId) {
        if let Some(connection) = &self.client {
            let statement = format!("{command} dlock_{client}");
            if let Err(error) = connection.batch_execute(&statement).await {
                tracing::debug!(target: "dlock::store", %error, command, "waiters poll");
            }
        }
    }
}

/// Reads `owner fence number key`. Anybody who may connect can send messages: what cannot be read is left out.
fn read(payload: &str) -> Option<(OwnerId, Hint<'_>)> {
    let mut parts = payload.splitn(4, ' ');
    let owner: OwnerId = parts.next()?.parse().ok()?;
    let fence = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    let key = parts.next()?;
    Some((owner, Hint::new(key, owner, fence).number(number)))
}

#[cfg(test)]
mod tests {
    use dlock_runtime::testing::SystemRandom;

    use super::*;

    #[test]
    fn a_message_is_read_or_left_out() {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 3);
        let payload = format!("{owner} 7 9 order:42 and a blank");
        let (told, hint) = read(&payload).unwrap();
        assert_eq!(
            (told, hint.key, hint.fence, hint.number),
            (owner, "order:42 and a blank", 7, 9)
        );
        for bad in [
            "",
            "x 7 9 k",
            &format!("{owner} 7 9"),
            &format!("{owner} -7 9 k"),
        ] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
