//! Reads single locks while browsers show them, each once for all browsers.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dlock_admin::LockInfo;
use dlock_runtime::{
    LockKey,
    clock::{Clock as _, Moment, SystemClock},
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    attention::{Attention, Duty, Looker},
    desk::Desk,
};

/// The number of locks that are looked at one by one at the same time.
const MOST: usize = 64;

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// A lock at one time.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// `None` if it had neither a holder nor waiters.
    pub(super) lock: Option<Arc<LockInfo>>,
    /// By the clock of the store.
    pub(super) read_ms: u64,
    pub(super) at: Moment,
}

/// The latest reading of a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct LookResult {
    /// `None` before the first reading.
    pub(super) seen: Option<Seen>,
    /// The reason why the next reading failed.
    pub(super) failure: Option<Arc<str>>,
}

#[derive(Debug)]
struct Look {
    attention: Arc<Attention>,
    seen: watch::Sender<LookResult>,
}

#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<HashMap<LockKey, Arc<Look>>>);

impl Looks {
    /// Begins to look at one lock. Returns `None` if too many others are looked at.
    pub(super) fn look(
        &self,
        desk: &Arc<Desk>,
        key: &LockKey,
    ) -> Option<(Looker, watch::Receiver<LookResult>)> {
        let mut looks = self.looks();
        looks.retain(|_, look| !look.attention.is_lost());
        if looks.len() >= MOST && !looks.contains_key(key) {
            // One that is read only for a while after the last has left gives its place to one that is looked at.
            let left = looks.iter().find(|(_, look)| look.attention.dismiss());
            let left = left.map(|(key, _)| key.clone())?;
            looks.remove(&left);
        }
        let look = looks.entry(key.clone()).or_insert_with(|| {
            Arc::new(Look {
                attention: Arc::default(),
                seen: watch::Sender::default(),
            })
        });
        let (looker, duty) = look.attention.look(|| {
            look.seen
                .send_modify(|known| *known = LookResult::default());
        });
        if let Some(duty) = duty {
            let look = look.clone();
            let reading = LockReader { look, duty };
            tokio::spawn(reading.go_on(desk.clone(), key.clone()));
        }
        Some((looker, look.seen.subscribe()))
    }

    fn looks(&self) -> MutexGuard<'_, HashMap<LockKey, Arc<Look>>> {
        // Every change is complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that reads one lock.
struct LockReader {
    look: Arc<Look>,
    duty: Duty,
}

impl LockReader {
    async fn go_on(mut self, desk: Arc<Desk>, key: LockKey) {
        let Self { look, duty } = &mut self;
        tokio::select! {
            biased;
            () = duty.lost() => {}
            never = look.read(&desk, &key) => match never {},
        }
    }
}

impl Drop for LockReader {
    /// Tells those who look, so that they start another task.
    fn drop(&mut self) {
        if self.duty.ends_too_early() {
            let reason = "the task that reads this lock has ended unexpectedly";
            self.look
                .seen
                .send_modify(|known| known.failure = Some(reason.into()));
        }
    }
}

impl Look {
    async fn read(&self, desk: &Desk, key: &LockKey) -> Infallible {
        let mut ticks = interval(desk.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = match desk.inspector().await {
                Ok(inspector) => inspector.lock(key).await.map_err(|error| error.to_string()),
                Err(reason) => Err(reason),
            };
            match read {
                Ok(lock) => {
                    let seen = Seen {
                        lock: lock.map(Arc::new),
                        read_ms: desk.shown().server.now_ms(),
                        at: SystemClock.now(),
                    };
                    self.seen.send_modify(|known| {
                        known.seen = Some(seen);
                        known.failure = None;
                    });
                }
                Err(failure) => {
                    self.seen
                        .send_modify(|known| known.failure = Some(failure.into()));
                    sleep(PAUSE).await;
                }
            }
        }
    }
}
