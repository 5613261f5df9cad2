//! Reads the locks at intervals, receives the messages about grants, and reconnects after an outage.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::pending,
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock::{
    StoreError, StoreErrorKind,
    admin::{Inspect, web::Server},
};
use tokio::{
    sync::mpsc::Sender,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{model::Message, picture::Picture};
use crate::{
    follow::{Follower, Seen},
    global::Global,
    progress::percent,
};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The interval of requests for name and version of the server, which open connections.
const ASK: Duration = Duration::from_secs(600);

/// The keys of the grants since the last reading.
#[derive(Default)]
struct Heard(Mutex<BTreeSet<String>>);

impl Heard {
    fn add(&self, key: String) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(key);
    }

    fn take(&self) -> BTreeSet<String> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Source {
    pub(crate) global: Global,
    pub(crate) interval: Duration,
    /// The number of grants, which the reader resets.
    pub(crate) hand_offs: Arc<AtomicU64>,
    pub(crate) messages: Sender<Message>,
}

impl Source {
    /// Runs until the receiver of the messages is dropped.
    pub(crate) async fn run(self, first: Arc<dyn Inspect>) {
        let mut inspector = Some(first);
        while !self.messages.is_closed() {
            let reason = match inspector.take() {
                Some(inspector) => self.follow(inspector).await.to_string(),
                None => match self.global.inspector().await {
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

    /// Reports on one server until it fails.
    async fn follow(&self, inspector: Arc<dyn Inspect>) -> StoreError {
        let heard = Heard::default();
        tokio::select! {
            Err(error) = self.take_pictures(&inspector, &heard) => error,
            never = self.count(&*inspector, &heard) => match never {},
            never = self.tell_progress(&*inspector) => match never {},
        }
    }

    async fn take_pictures(
        &self,
        inspector: &Arc<dyn Inspect>,
        heard: &Heard,
    ) -> Result<Infallible, StoreError> {
        let mut follower = Follower::new(inspector.clone(), None);
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut server = Server::default();
        loop {
            server = server.after(&inspector.servers().await);
            self.tell(Message::Server(server.clone())).await;
            let asked = Instant::now();
            while asked.elapsed() < ASK {
                ticks.tick().await;
                for key in heard.take() {
                    follower.hear_of(&key);
                }
                let Seen {
                    locks,
                    processes,
                    lag,
                } = follower.look(self.interval, pending()).await?;
                let picture = Picture::of(locks, processes, lag, &server);
                self.tell(Message::Picture(picture)).await;
            }
        }
    }

    async fn tell_progress(&self, inspector: &dyn Inspect) -> Infallible {
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tell(Message::Progress(percent(inspector))).await;
        }
    }

    async fn count(&self, inspector: &dyn Inspect, heard: &Heard) -> Infallible {
        loop {
            match inspector.hand_offs().await {
                Ok(mut hand_offs) => {
                    self.tell(Message::Seeing).await;
                    while let Some(hand_off) = hand_offs.next().await {
                        self.hand_offs.fetch_add(1, Ordering::Relaxed);
                        heard.add(hand_off.key);
                    }
                    self.tell(Message::Blind("the connection was lost".to_owned()))
                        .await;
                }
                Err(error) => {
                    self.tell(Message::Blind(error.to_string())).await;
                    if error.kind() == StoreErrorKind::Unsupported {
                        // The store will never publish them.
                        return pending().await;
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn tell(&self, message: Message) {
        // The receiver is dropped when the program ends.
        drop(self.messages.send(message).await);
    }
}
