//! The messages by which PostgreSQL tells a waiter of its grant.
//!
//! A client listens on a channel of its own. [`message`](crate::message) says how it knows a message of the server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dlock_net::Worker;
use dlock_runtime::store::{ClientId, HintSink};
use tokio::sync::mpsc;
use tokio_postgres::{Client, Notification};

use crate::{config::Listen, message};

/// The managers that wait for messages, and the task that listens for them.
pub(crate) struct Hints {
    sinks: Sinks,
    orders: mpsc::UnboundedSender<Order>,
}

/// The managers that wait for messages, by their channels.
#[derive(Clone, Default)]
pub(crate) struct Sinks(Arc<Mutex<HashMap<String, (ClientId, HintSink)>>>);

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
        let channel = message::channel(client);
        self.sinks.locked().insert(channel, (client, sink));
        self.orders.send(Order::Listen(client)).ok();
    }

    pub(crate) fn detach(&self, client: ClientId) {
        self.sinks.locked().remove(&message::channel(client));
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
    fn locked(&self) -> MutexGuard<'_, HashMap<String, (ClientId, HintSink)>> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pass_on(&self, notification: &Notification) {
        let channel = notification.channel();
        let Some((client, sink)) = self.locked().get(channel).cloned() else {
            return;
        };
        let Some(hint) = message::read(client, notification.payload()) else {
            tracing::debug!(target: "dlock::store", channel, "a message that the server did not write was left out");
            return;
        };
        if !sink.hint(&hint) {
            self.locked().remove(channel);
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
            let work = tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => vec![order],
                    None => return,
                },
                connected = connections.recv() => match connected {
                    Some(connected) => self.connected(connected),
                    None => return,
                },
            };
            // A connection that does not answer is ended, and these requests with it.
            self.carry_out(work).await;
        }
    }

    /// Returns the orders for a new connection.
    fn connected(&mut self, Connected { client, is_pooled }: Connected) -> Vec<Order> {
        // A pooler gives the messages of a connection to whoever uses it next.
        let may_listen = match self.listen {
            Listen::Always => true,
            Listen::Never => false,
            Listen::Direct => !is_pooled,
        };
        self.client = may_listen.then_some(client);
        let sinks = self.sinks.locked();
        sinks.values().map(|it| Order::Listen(it.0)).collect()
    }

    async fn carry_out(&self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Listen(client) => self.listen_to(client).await,
                Order::Unlisten(client) => self.execute("UNLISTEN", client).await,
            }
        }
    }

    async fn listen_to(&self, client: ClientId) {
        self.execute("LISTEN", client).await;
        // Messages that were sent before are lost.
        let channel = message::channel(client);
        let sink = self.sinks.locked().get(&channel).cloned();
        if sink.is_some_and(|(_, sink)| !sink.look_again()) {
            self.sinks.locked().remove(&channel);
        }
    }

    /// A failure ends the connection or is the pooler's, and waiters poll in both cases.
    async fn execute(&self, command: &str, client: ClientId) {
        if let Some(connection) = &self.client {
            let statement = format!("{command} {}", message::channel(client));
            if let Err(error) = connection.batch_execute(&statement).await {
                tracing::debug!(target: "dlock::store", %error, command, "waiters poll");
            }
        }
    }
}
