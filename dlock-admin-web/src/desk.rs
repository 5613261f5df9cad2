//! Reads the locks while a browser looks, once for all browsers.

use std::{
    convert::Infallible,
    fmt,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_admin::{Inspect, LockInfo};
use dlock_runtime::{
    clock::{Clock as _, Moment, SystemClock},
    store::{OwnerId, StoreError, StoreErrorKind},
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    attention::{Attention, Duty, Looker},
    history::HistoryView,
    past::Past,
    picture::{Draft, Picture},
    rate::Rate,
    server::Server,
    work::{MANY, PageWork},
};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The interval of requests for name, version and clock of the server, which open connections.
const ASK: Duration = Duration::from_secs(600);

/// The interval at which the progress of the first reading is shown.
const STEP: Duration = Duration::from_millis(500);

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn Inspect>, String>> + Send>>;

/// How the desk comes by its inspector.
pub(super) enum InspectorSource {
    Connected(Arc<dyn Inspect>),
    Connecting(Box<dyn Fn() -> Connecting + Send + Sync>),
}

/// The state that all browsers are shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) server: Server,
    pub(super) state: DeskState,
    /// The last one stays while the store is unreachable.
    pub(super) picture: Option<Arc<Picture>>,
    /// The reason why grants are not heard.
    pub(super) is_deaf: Option<Arc<str>>,
}

impl Shown {
    /// Returns the number of locks that are shown.
    pub(super) fn count(&self) -> usize {
        self.picture.as_ref().map_or(0, |picture| picture.len())
    }
}

#[derive(Clone, Debug)]
pub(super) enum DeskState {
    /// The first picture is being read; the completed part, if it is known.
    Reading(Option<f64>),
    Live,
    Away {
        reason: Arc<str>,
        /// By the clock of the store.
        since_ms: u64,
        since: Moment,
    },
}

#[derive(Default)]
struct KnownInspector {
    inspector: Option<Arc<dyn Inspect>>,
    /// `false` until there was an inspector.
    has_begun: bool,
}

pub(super) struct Desk {
    source: InspectorSource,
    pub(super) interval: Duration,
    attention: Arc<Attention>,
    shown: watch::Sender<Shown>,
    inspector: tokio::sync::Mutex<KnownInspector>,
    /// `None` while grants are not heard.
    rate: Mutex<Option<Rate>>,
    past: Arc<Past>,
    pub(super) work: PageWork,
    /// The time of the latest request for name, version and clock of the server.
    asked: Mutex<Option<Instant>>,
}

impl Desk {
    pub(super) fn new(
        source: InspectorSource,
        namespace: Option<String>,
        interval: Duration,
    ) -> Self {
        let shown = Shown {
            server: Server::unknown(namespace),
            state: DeskState::Reading(None),
            picture: None,
            is_deaf: None,
        };
        Self {
            source,
            interval,
            attention: Arc::default(),
            shown: watch::Sender::new(shown),
            inspector: tokio::sync::Mutex::default(),
            rate: Mutex::default(),
            past: Arc::new(Past::every(interval)),
            work: PageWork::default(),
            asked: Mutex::default(),
        }
    }

    /// Begins to look: the locks are read at least until the looker is dropped.
    pub(super) fn look(self: &Arc<Self>) -> (Looker, watch::Receiver<Shown>) {
        let (looker, duty) = self.attention.look(|| {
            *self.rate() = None;
            // An older picture says nothing about now.
            self.shown.send_modify(|shown| {
                shown.state = DeskState::Reading(None);
                shown.picture = None;
            });
        });
        if let Some(duty) = duty {
            let desk = self.clone();
            tokio::spawn(DeskReader { desk, duty }.go_on());
        }
        (looker, self.shown.subscribe())
    }

    pub(super) fn shown(&self) -> Shown {
        self.shown.borrow().clone()
    }

    /// Returns the number of grants in a second; `None` if it is not known.
    pub(super) fn grants_per_second(&self) -> Option<u64> {
        self.rate().as_ref()?.per_second(Instant::now())
    }

    /// Returns the inspector, after connecting if need be.
    pub(super) async fn inspector(&self) -> Result<Arc<dyn Inspect>, String> {
        let mut connection = self.inspector.lock().await;
        if let Some(inspector) = &connection.inspector {
            return Ok(inspector.clone());
        }
        let connected = match &self.source {
            InspectorSource::Connected(inspector) => inspector.clone(),
            InspectorSource::Connecting(connect) => connect().await?,
        };
        // A store that fails again and again must not be read in haste each time.
        if !std::mem::replace(&mut connection.has_begun, true) {
            connected.begin();
        }
        Ok(connection.inspector.insert(connected).clone())
    }

    async fn run(&self) -> Infallible {
        loop {
            let failure = match self.inspector().await {
                Ok(inspector) => {
                    let error = self.follow(&inspector).await;
                    *self.rate() = None;
                    // Another connection may find another server.
                    self.inspector.lock().await.inspector = None;
                    error.to_string()
                }
                Err(reason) => reason,
            };
            self.is_away(failure, SystemClock.now());
            sleep(PAUSE).await;
        }
    }

    fn is_away(&self, reason: String, now: Moment) {
        self.shown.send_modify(|shown| {
            let (since_ms, since) = match shown.state {
                DeskState::Away {
                    since_ms, since, ..
                } => (since_ms, since),
                _ => (shown.server.at_ms(now), now),
            };
            shown.state = DeskState::Away {
                reason: reason.into(),
                since_ms,
                since,
            };
        });
    }

    /// Reads until the store fails.
    async fn follow(&self, inspector: &Arc<dyn Inspect>) -> StoreError {
        tokio::select! {
            Err(error) = self.take_pictures(&**inspector) => error,
            never = self.listen(&**inspector) => match never {},
            never = self.show_progress(&**inspector) => match never {},
        }
    }

    async fn take_pictures(&self, inspector: &dyn Inspect) -> Result<Infallible, StoreError> {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // A store that answers and fails is not examined at each attempt.
            let asked = self.ask(inspector).await;
            let server = self.shown.borrow().server.clone();
            while asked.elapsed() < ASK {
                ticks.tick().await;
                let picture = self.take_picture(inspector, &server).await?;
                self.shown.send_modify(|shown| {
                    shown.picture = Some(picture);
                    shown.state = DeskState::Live;
                });
            }
        }
    }

    /// Asks for name, version and clock of the server, unless they are known. Returns the time when it has asked.
    async fn ask(&self, inspector: &dyn Inspect) -> Instant {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = asked.filter(|asked| asked.elapsed() < ASK) {
            return asked;
        }
        let reports = inspector.servers().await;
        let is_told = reports.iter().any(|report| report.failure.is_none());
        self.shown.send_if_modified(|shown| {
            // It is shown with the next picture.
            shown.server = shown.server.after(&reports);
            false
        });
        let now = Instant::now();
        if is_told {
            *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        now
    }

    async fn take_picture(
        &self,
        inspector: &dyn Inspect,
        server: &Server,
    ) -> Result<Arc<Picture>, StoreError> {
        let began = SystemClock.now();
        let mut draft = Draft::like(self.shown.borrow().picture.as_deref());
        // Most stores pass on a few hundred locks at a time, and some pass on all of them at once.
        let (mut count, mut later) = (0, Vec::new());
        let mut add = |locks: Vec<LockInfo>| {
            let now_ms = server.now_ms();
            count += locks.len();
            // They stay in their order: the later reading of a lock counts.
            if later.is_empty() && locks.len() < MANY {
                draft.add_all(&locks, now_ms);
            } else {
                later.push((locks, now_ms));
            }
        };
        let rest = inspector.overview_in_parts(&mut add).await?;
        let (now_ms, took) = (server.now_ms(), began.elapsed(SystemClock.now()));
        let is_gap = !matches!(self.shown.borrow().state, DeskState::Live);
        let past = self.past.clone();
        let finish = move || {
            for (locks, read_ms) in later {
                draft.add_all(&locks, read_ms);
            }
            past.see(draft.finish(rest, now_ms, took), is_gap)
        };
        Ok(self.work.about(count, finish).await)
    }

    async fn show_progress(&self, inspector: &dyn Inspect) -> Infallible {
        loop {
            sleep(STEP).await;
            let progress = inspector.progress();
            self.shown.send_if_modified(|shown| match &mut shown.state {
                DeskState::Reading(shown) if progress.is_some() => {
                    *shown = progress;
                    true
                }
                _ => false,
            });
        }
    }

    /// Hears of grants.
    async fn listen(&self, inspector: &dyn Inspect) -> Infallible {
        loop {
            let reason = match inspector.grants().await {
                Ok(mut grants) => {
                    *self.rate() = Some(Rate::since(Instant::now()));
                    self.hears(None);
                    while let Some(heard) = grants.next().await {
                        let now_ms = self.shown.borrow().server.now_ms();
                        self.past.heard(heard, now_ms);
                        if let Some(rate) = &mut *self.rate() {
                            rate.count(Instant::now());
                        }
                    }
                    "the connection was lost".to_owned()
                }
                Err(error) if error.kind() == StoreErrorKind::Unsupported => {
                    // The store will never publish them.
                    self.hears(Some(error.to_string()));
                    return pending().await;
                }
                Err(error) => error.to_string(),
            };
            *self.rate() = None;
            self.hears(Some(reason));
            sleep(PAUSE).await;
        }
    }

    /// Returns what the last minutes have shown of a lock. It may take as long as a comparison of all locks.
    pub(super) fn history_of(&self, key: &str) -> HistoryView {
        let shown = self.shown();
        let is_away = !matches!(shown.state, DeskState::Live);
        self.past.view(key, shown.server.now_ms(), is_away)
    }

    /// Notes that the page has ended a lease, for `by`.
    pub(super) fn forced(&self, key: &str, owner: Option<OwnerId>, fence: u64, by: Arc<str>) {
        let now_ms = self.shown.borrow().server.now_ms();
        self.past.forced(key, owner, fence, now_ms, by);
    }

    fn hears(&self, reason: Option<String>) {
        self.shown.send_if_modified(|shown| {
            shown.is_deaf = reason.map(Into::into);
            false
        });
    }

    fn rate(&self) -> MutexGuard<'_, Option<Rate>> {
        // Every change is complete.
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that reads.
struct DeskReader {
    desk: Arc<Desk>,
    duty: Duty,
}

impl DeskReader {
    async fn go_on(mut self) {
        let Self { desk, duty } = &mut self;
        tokio::select! {
            biased;
            () = duty.lost() => {}
            never = desk.run() => match never {},
        }
    }
}

impl Drop for DeskReader {
    /// Tells those who look that nothing is read any more. They start another task.
    fn drop(&mut self) {
        if self.duty.ends_too_early() {
            *self.desk.rate() = None;
            let reason = "the task that reads the store has ended unexpectedly";
            // The runtime may have ended.
            self.desk.is_away(reason.to_owned(), Moment::of_machine());
        }
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
