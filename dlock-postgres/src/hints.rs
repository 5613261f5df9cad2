//! The messages by which PostgreSQL tells a waiter of its grant.
//!
//! A client listens on a channel of its own. [`message`](crate::message) says how it knows a message of the server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::store::{ClientId, HintSink};
use tokio::sync::mpsc;
use tokio_postgres::{Client, Notification};

use crate::{config::Listen, message, session::News, worker::Worker};

/// The managers that wait for messages, by their channels.
type Sinks = HashMap<String, (ClientId, HintSink)>;

/// The managers that wait for messages.
pub(crate) struct Hints {
    sinks: Arc<Mutex<Sinks>>,
    orders: mpsc::UnboundedSender<Order>,
}

/// A change of what is listened to.
enum Order {
    Listen(ClientId),
    Unlisten(ClientId),
}

impl Hints {
    /// Starts to pass on messages, on the thread of `worker`.
    pub(crate) fn start(
        worker: &Worker,
        listen: Listen,
        news: mpsc::UnboundedReceiver<News>,
    ) -> Self {
        let sinks = Arc::<Mutex<Sinks>>::default();
        let (orders, ordered) = mpsc::unbounded_channel();
        let listener = Listener {
            sinks: sinks.clone(),
            listen,
            client: None,
        };
        worker.handle().spawn(listener.run(ordered, news));
        Self { sinks, orders }
    }

    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        locked(&self.sinks).insert(message::channel(client), (client, sink));
        self.orders.send(Order::Listen(client)).ok();
    }

    pub(crate) fn detach(&self, client: ClientId) {
        locked(&self.sinks).remove(&message::channel(client));
        self.orders.send(Order::Unlisten(client)).ok();
    }
}

fn locked(sinks: &Mutex<Sinks>) -> MutexGuard<'_, Sinks> {
    // Every change is complete before any code can panic.
    sinks.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Listener {
    sinks: Arc<Mutex<Sinks>>,
    listen: Listen,
    /// The connection on which messages come, if any do.
    client: Option<Arc<Client>>,
}

impl Listener {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut news: mpsc::UnboundedReceiver<News>,
    ) {
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Listen(client)) => self.listen_to(client).await,
                    Some(Order::Unlisten(client)) => self.execute("UNLISTEN", client).await,
                    None => return,
                },
                news = news.recv() => match news {
                    Some(News::Connected { client, is_pooled }) => self.connected(client, is_pooled).await,
                    Some(News::Notified(notification)) => self.pass_on(&notification),
                    None => return,
                },
            }
        }
    }

    async fn connected(&mut self, client: Arc<Client>, is_pooled: bool) {
        // A pooler gives the messages of a connection to whoever uses it next.
        let may_listen = match self.listen {
            Listen::Always => true,
            Listen::Never => false,
            Listen::Direct => !is_pooled,
        };
        self.client = may_listen.then_some(client);
        let clients: Vec<_> = locked(&self.sinks).values().map(|it| it.0).collect();
        for client in clients {
            self.listen_to(client).await;
        }
    }

    async fn listen_to(&self, client: ClientId) {
        self.execute("LISTEN", client).await;
        // Messages that were sent before are lost.
        let channel = message::channel(client);
        let sink = locked(&self.sinks).get(&channel).cloned();
        if sink.is_some_and(|(_, sink)| !sink.look_again()) {
            locked(&self.sinks).remove(&channel);
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

    fn pass_on(&self, notification: &Notification) {
        let channel = notification.channel();
        let Some((client, sink)) = locked(&self.sinks).get(channel).cloned() else {
            return;
        };
        let Some(hint) = message::read(client, notification.payload()) else {
            tracing::debug!(target: "dlock::store", channel, "a message that the server did not write was left out");
            return;
        };
        if !sink.hint(&hint) {
            locked(&self.sinks).remove(channel);
        }
    }
}
