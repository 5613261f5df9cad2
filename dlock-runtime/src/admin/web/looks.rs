//! Reads single locks while browsers show them, each once for all browsers.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    attention::{Attention, Looker},
    desk::Desk,
};
use crate::{admin::LockInfo, key::LockKey};

/// The number of locks that are looked at one by one at the same time.
const MOST: usize = 64;

/// A lock at one time.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// `None` if it had neither a holder nor waiters.
    pub(super) lock: Option<Arc<LockInfo>>,
    /// By the clock of the store.
    pub(super) read_ms: u64,
    pub(super) at: Instant,
}

#[derive(Debug)]
struct Look {
    attention: Arc<Attention>,
    seen: watch::Sender<Option<Seen>>,
}

#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<HashMap<LockKey, Arc<Look>>>);

impl Looks {
    /// Begins to look at one lock. Returns `None` if too many others are looked at.
    pub(super) fn look(
        &self,
        desk: &Arc<Desk>,
        key: &LockKey,
    ) -> Option<(Looker, watch::Receiver<Option<Seen>>)> {
        let mut looks = self.looks();
        looks.retain(|_, look| !look.attention.is_lost());
        if looks.len() >= MOST && !looks.contains_key(key) {
            return None;
        }
        let look = looks.entry(key.clone()).or_insert_with(|| {
            Arc::new(Look {
                attention: Arc::default(),
                seen: watch::Sender::new(None),
            })
        });
        let (looker, duty) = look.attention.look();
        if let Some(mut duty) = duty {
            look.seen.send_modify(|seen| *seen = None);
            let (desk, key, look) = (desk.clone(), key.clone(), look.clone());
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = duty.lost() => {}
                    never = look.read(&desk, &key) => match never {},
                }
            });
        }
        Some((looker, look.seen.subscribe()))
    }

    fn looks(&self) -> MutexGuard<'_, HashMap<LockKey, Arc<Look>>> {
        // Every change is complete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    async fn read(&self, desk: &Desk, key: &LockKey) -> Infallible {
        let mut ticks = interval(desk.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The pictures report the failures of the store, too.
            let Ok(inspector) = desk.inspector().await else {
                continue;
            };
            if let Ok(lock) = inspector.lock(key).await {
                let seen = Seen {
                    lock: lock.map(Arc::new),
                    read_ms: desk.shown().server.now_ms(),
                    at: Instant::now(),
                };
                self.seen.send_modify(|shown| *shown = Some(seen));
            }
        }
    }
}
