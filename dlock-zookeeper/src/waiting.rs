//! Waiters: each watches the child before its own, and is woken when its own child is the first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::{
    LockKey,
    store::{ClientId, GRANT_TTL, Hint, HintSink, OwnerId},
};
use tokio::{runtime::Handle, time::Instant};
use zookeeper_client::Error;

use crate::{
    requests::{Claim, Core, list},
    session::Session,
    slots::Child,
};

/// The managers that listen.
#[derive(Default)]
pub(crate) struct Sinks(Mutex<HashMap<ClientId, HintSink>>);

impl Sinks {
    pub(crate) fn map(&self) -> MutexGuard<'_, HashMap<ClientId, HintSink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waiters have lost their places with the last session.
    pub(crate) fn look_again(&self) {
        let sinks: Vec<_> = self.map().values().cloned().collect();
        for sink in sinks {
            // A manager that is gone has detached.
            let _ = sink.look_again();
        }
    }
}

impl Core {
    /// Starts the timer of a child, once.
    pub(crate) fn end_in_time(self: &Arc<Self>, handle: &Handle, claim: &Claim, child: &mut Child) {
        if child.is_timed {
            return;
        }
        child.is_timed = true;
        let (core, key, owner) = (self.clone(), claim.key.clone(), claim.owner);
        let (name, ends) = (child.name.clone(), child.ends);
        handle.spawn(async move { core.slots.end_in_time(key, owner, name, ends).await });
    }

    /// Tells a waiter when no child is before its own.
    pub(crate) async fn watch(
        &self,
        session: &Session,
        directory: &str,
        name: &str,
        key: &LockKey,
        owner: OwnerId,
    ) {
        loop {
            let Ok(children) = list(session, directory).await else {
                // Without an answer, the waiter asks.
                break;
            };
            let Some(place) = children.iter().position(|it| it.name == name) else {
                return;
            };
            let Some(before) = place.checked_sub(1) else {
                break;
            };
            let path = format!("{directory}/{}", children[before].name);
            match session.client.get_and_watch_data(&path).await {
                Ok((_, _, watcher)) => drop(watcher.changed().await),
                Err(Error::NoNode) => {}
                Err(_) => break,
            }
        }
        let mut slot = self.slots.lock(key, owner).await;
        if let Some(child) = slot.child.as_mut().filter(|it| it.name == name) {
            child.is_watching = false;
            child.ends = child.ends.max(Instant::now() + GRANT_TTL);
        }
        self.slots.unlock(key, owner, slot);
        let sink = self.sinks.map().get(&owner.client()).cloned();
        if let Some(sink) = sink
            // The waiter asks: its lease needs a write.
            && !sink.hint(&Hint::new(key.as_str(), owner, 0))
        {
            self.sinks.map().remove(&owner.client());
        }
    }
}
