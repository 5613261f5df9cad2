//! Asks the server at intervals, listens for hand-offs, and goes on when it was down.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock::{StoreError, admin::Inspector, store::redis::RedisConfig};
use tokio::{
    sync::mpsc::Sender,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    model::Message,
    picture::{Picture, Server},
};

/// After a failure the server is asked again so much later.
const PAUSE: Duration = Duration::from_secs(1);

/// So often it is asked which server it is, besides after a failure: that opens connections.
const ASK: Duration = Duration::from_secs(600);

pub(crate) struct Source {
    pub(crate) config: RedisConfig,
    pub(crate) interval: Duration,
    /// Counted here and taken away by whoever shows them.
    pub(crate) hand_offs: Arc<AtomicU64>,
    pub(crate) messages: Sender<Message>,
}

impl Source {
    /// Runs until nobody wants its messages.
    pub(crate) async fn run(self, first: Inspector) {
        let mut inspector = Some(first);
        while !self.messages.is_closed() {
            let reason = match inspector.take() {
                Some(inspector) => self.follow(&inspector).await.to_string(),
                None => match Inspector::connect(self.config.clone()).await {
                    Ok(again) => {
                        inspector = Some(again);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
            };
            self.tell(Message::Outage(reason)).await;
            sleep(PAUSE).await;
        }
    }

    /// Tells of one server until it fails.
    async fn follow(&self, inspector: &Inspector) -> StoreError {
        tokio::select! {
            Err(error) = self.take_pictures(inspector) => error,
            never = self.count(inspector) => match never {},
        }
    }

    async fn take_pictures(&self, inspector: &Inspector) -> Result<Infallible, StoreError> {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let server = Server::ask(inspector).await;
            self.tell(Message::Server(server.clone())).await;
            let asked = Instant::now();
            while asked.elapsed() < ASK {
                ticks.tick().await;
                let picture = Picture::take(inspector, &server).await?;
                self.tell(Message::Picture(picture)).await;
            }
        }
    }

    async fn count(&self, inspector: &Inspector) -> Infallible {
        loop {
            match inspector.hand_offs().await {
                Ok(mut hand_offs) => {
                    self.tell(Message::Seeing).await;
                    while hand_offs.next().await.is_some() {
                        self.hand_offs.fetch_add(1, Ordering::Relaxed);
                    }
                    self.tell(Message::Blind("the connection is gone".to_owned()))
                        .await;
                }
                Err(error) => self.tell(Message::Blind(error.to_string())).await,
            }
            sleep(PAUSE).await;
        }
    }

    async fn tell(&self, message: Message) {
        // Nobody listens any more when the program ends.
        drop(self.messages.send(message).await);
    }
}
