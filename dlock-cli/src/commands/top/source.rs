//! Reads the locks at intervals, receives the messages about grants, and reconnects after an outage.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    future::pending,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock::{StoreError, StoreErrorKind};
use dlock_admin::Inspect;
use dlock_admin_web::Server;
use tokio::{
    sync::mpsc::Sender,
    time::{Instant, MissedTickBehavior, interval, interval_at, sleep},
};

use super::{board::Board, model::Message};
use crate::{follow::PATIENCE, global::Global, progress::percent};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The interval of requests for name and version of the server, which open connections.
const ASK: Duration = Duration::from_secs(600);

/// The keys of the grants since the last reading.
#[derive(Default)]
struct Heard(Mutex<BTreeSet<String>>);

impl Heard {
    fn add(&self, key: String) {
        lock(&self.0).insert(key);
    }

    fn take(&self) -> BTreeSet<String> {
        mem::take(&mut lock(&self.0))
    }
}

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
        let heard = Heard::default();
        tokio::select! {
            Err(error) = self.take_pictures(&*inspector, &heard) => error,
            never = self.count(&*inspector, &heard) => match never {},
            never = self.tell_progress(&*inspector) => match never {},
        }
    }

    async fn take_pictures(
        &self,
        inspector: &dyn Inspect,
        heard: &Heard,
    ) -> Result<Infallible, StoreError> {
        let board = Mutex::default();
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut server = Server::default();
        loop {
            server = server.after(&inspector.servers().await);
            self.tell(Message::Server(server.clone())).await;
            let asked = Instant::now();
            while asked.elapsed() < ASK {
                ticks.tick().await;
                self.scan(inspector, heard, &board, &server).await?;
                self.show(&board).await;
            }
        }
    }

    /// Scans all keys, and shows meanwhile what is known.
    async fn scan(
        &self,
        inspector: &dyn Inspect,
        heard: &Heard,
        board: &Mutex<Board>,
        server: &Server,
    ) -> Result<(), StoreError> {
        let began = Instant::now();
        lock(board).begin();
        let mut part = |locks| lock(board).see(locks, server.now());
        let rest = tokio::select! {
            rest = inspector.overview_in_parts(&mut part) => rest?,
            Err(error) = self.read_known(inspector, heard, board, server) => return Err(error),
        };
        lock(board).end(rest.process_count, began.elapsed());
        Ok(())
    }

    /// Reads known locks at intervals, while a scan takes longer, and shows all locks each time.
    async fn read_known(
        &self,
        inspector: &dyn Inspect,
        heard: &Heard,
        board: &Mutex<Board>,
        server: &Server,
    ) -> Result<Infallible, StoreError> {
        let mut ticks = interval_at(Instant::now() + self.patience(), self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let keys = lock(board).keys_to_read(heard.take());
            let locks = inspector.locks_of(&keys).await?;
            lock(board).replace(&keys, locks, server.now());
            self.show(board).await;
        }
    }

    async fn show(&self, board: &Mutex<Board>) {
        let picture = lock(board).picture(self.patience());
        self.tell(Message::Picture(picture)).await;
    }

    fn patience(&self) -> Duration {
        self.interval.max(PATIENCE)
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
            match inspector.grants().await {
                Ok(mut grants) => {
                    self.tell(Message::Seeing).await;
                    while let Some(grant) = grants.next().await {
                        self.grants.fetch_add(1, Ordering::Relaxed);
                        heard.add(grant.key);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
