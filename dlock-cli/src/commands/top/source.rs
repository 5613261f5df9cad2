//! Passes pictures of the locks and the messages about grants on, and reconnects after an outage.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock::StoreError;
use dlock_admin::Inspect;
use tokio::{
    sync::mpsc::Sender,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::model::Message;
use crate::{
    follow::{Follower, Listener, News},
    global::Global,
    pages::Wanted,
    progress::percent,
};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The interval of requests for name and version of the server, which open connections.
const ASK: Duration = Duration::from_secs(600);

pub(crate) struct Source {
    pub(crate) global: Global,
    pub(crate) interval: Duration,
    /// The number of grants, which the reader resets.
    pub(crate) grants: Arc<AtomicU64>,
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
        let follower = Follower::new(inspector.clone(), Wanted::Everything, self.interval);
        let listener = follower.listener();
        tokio::select! {
            Err(error) = self.take_pictures(&*inspector, follower) => error,
            never = self.listen(listener) => match never {},
            never = self.tell_progress(&*inspector) => match never {},
        }
    }

    async fn take_pictures(
        &self,
        inspector: &dyn Inspect,
        mut follower: Follower,
    ) -> Result<Infallible, StoreError> {
        loop {
            follower.server = follower.server.after(&inspector.servers().await);
            self.tell(Message::Server(follower.server.clone())).await;
            let asked = Instant::now();
            while asked.elapsed() < ASK {
                let picture = follower.next().await?;
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

    async fn listen(&self, mut listener: Listener) -> Infallible {
        loop {
            match listener.next().await {
                News::Hears => self.tell(Message::Seeing).await,
                News::Grant => {
                    self.grants.fetch_add(1, Ordering::Relaxed);
                }
                News::Deaf(reason) => self.tell(Message::Blind(reason)).await,
            }
        }
    }

    async fn tell(&self, message: Message) {
        // The receiver is dropped when the program ends.
        drop(self.messages.send(message).await);
    }
}
