//! Watches the keys that claims of this process wait for, and wakes a waiter when it holds its key.
//!
//! A task follows the claims on a key from the moment of the waiter's own request on, so it has them as etcd has them, if
//! a little later. A claim that holds goes on to hold, so an event that comes late is still right. A watch that ends, by
//! a lost connection or a compaction, begins again with a new read. If a server loses an event, or the watch is silent
//! although its connection is not, the next beat of `places.rs` finds the grant.
//!
//! A connection has a limited number of watches. The waiters of other keys are woken by beats.
//! (`a_waiter_beyond_the_watches_is_woken_by_a_beat`)
//!
//! When each waiter knows that it holds, the watch ends: nothing that others do changes that, and a holder that
//! releases soon reads no events, its own among them. (`a_holder_watches_its_key_no_longer`)

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock_net::{Tasks, Worker};
use dlock_runtime::{
    LockKey,
    clock::{Clock, Moment, SystemClock},
    store::{ClientId, Hint, HintSink, OwnerId, StoreError},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    config::Config,
    conn::Conn,
    followed::{Followed, News, Task},
    keys, ops,
    proto::WatchCreateRequest,
    queue::Queue,
    session::Session,
};

/// The pause before a watch begins again.
const PAUSE: Duration = Duration::from_millis(100);

/// A watch goes on for so long when each waiter knows that it holds. The new holder begins meanwhile.
const LINGER: Duration = Duration::from_millis(2);

/// The keys that are followed.
#[derive(Clone)]
pub(crate) struct Follow {
    shared: Arc<Shared>,
    tasks: Tasks,
}

struct Shared {
    config: Arc<Config>,
    session: Session,
    sinks: Mutex<HashMap<ClientId, HintSink>>,
    keys: Mutex<HashMap<LockKey, Followed>>,
    /// The number of the next task.
    next: AtomicU64,
    /// Notified when there is a key again.
    begins: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete before any code can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Follow {
    pub(crate) fn new(worker: &Worker, config: Arc<Config>, session: Session) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                session,
                sinks: Mutex::default(),
                keys: Mutex::default(),
                next: AtomicU64::new(0),
                begins: Notify::new(),
            }),
            tasks: worker.tasks(),
        }
    }

    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        locked(&self.shared.sinks).insert(client, sink);
    }

    /// Sends this manager no more hints. Places that it has left behind are deleted when they have been silent.
    pub(crate) fn detach(&self, client: ClientId) {
        locked(&self.shared.sinks).remove(&client);
    }

    /// Follows a key for a waiter whose key has, or is about to have, this lease. `queue` is the one at `revision`, read
    /// after `seen`.
    pub(crate) fn wait(
        &self,
        (key, owner): (&LockKey, OwnerId),
        lease: i64,
        (queue, revision): (Queue, i64),
        seen: Moment,
        asked: Moment,
    ) {
        let mut keys = locked(&self.shared.keys);
        let followed = match keys.entry(key.clone()) {
            Entry::Occupied(entry) => {
                let followed = entry.into_mut();
                followed.read(queue, revision, seen);
                followed
            }
            Entry::Vacant(entry) => {
                self.shared.begins.notify_one();
                entry.insert(Followed::new((queue, revision), seen))
            }
        };
        followed.ask(owner, lease, asked);
        if !followed.is_watched() {
            // An answer that is read late, or the first one after a restore, which no watch has seen.
            let is_known = !followed.is_ahead(revision);
            followed.task = Some(self.start(key, is_known));
        }
        drop(keys);
        // The watch may have seen the grant before this waiter was known.
        self.send_hints(key);
    }

    /// Starts to watch a key, whose queue is read first if it is not known.
    fn start(&self, key: &LockKey, is_known: bool) -> Task {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (shared, key) = (self.shared.clone(), key.clone());
        let follow = async move { shared.follow(&key, number, is_known).await };
        let task = self.tasks.spawn(follow);
        let handle = task.abort_handle();
        Task { number, handle }
    }

    /// Waits until a key is followed that was not before.
    pub(crate) async fn begins(&self) {
        self.shared.begins.notified().await;
    }

    /// Looks at a key that is followed. `None` if it is not.
    pub(crate) fn with<T>(
        &self,
        key: &LockKey,
        look: impl FnOnce(&mut Followed) -> T,
    ) -> Option<T> {
        locked(&self.shared.keys).get_mut(key).map(look)
    }

    /// Looks at all keys that are followed.
    pub(crate) fn each<T>(&self, mut look: impl FnMut(&LockKey, &mut Followed) -> T) -> Vec<T> {
        let mut keys = locked(&self.shared.keys);
        keys.iter_mut().map(|(key, it)| look(key, it)).collect()
    }

    /// Follows the key no longer for this waiter.
    pub(crate) fn leave(&self, key: &LockKey, owner: OwnerId) {
        let mut keys = locked(&self.shared.keys);
        let Some(followed) = keys.get_mut(key) else {
            return;
        };
        followed.remove(owner);
        if followed.is_empty() {
            followed.stop();
            keys.remove(key);
        }
    }

    /// Tells each waiter that holds the key.
    pub(crate) fn send_hints(&self, key: &LockKey) {
        self.shared.send_hints(key);
    }
}

impl Shared {
    /// Changes the queue that the task of this number follows. `None` if no waiter is left for it.
    fn change<T>(
        &self,
        key: &LockKey,
        number: u64,
        change: impl FnOnce(&mut Followed) -> T,
    ) -> Option<T> {
        let mut keys = locked(&self.keys);
        let followed = keys.get_mut(key).filter(|it| it.is_watched_by(number))?;
        let changed = change(followed);
        if followed.is_empty() {
            keys.remove(key);
            return None;
        }
        Some(changed)
    }

    async fn follow(&self, key: &LockKey, number: u64, mut is_known: bool) {
        while self.change(key, number, |_| ()).is_some() {
            if let Err(error) = self.watch(key, number, is_known).await {
                tracing::debug!(target: "dlock::store", %key, %error, "a watch ended, and begins again");
            }
            is_known = false;
            if self.change(key, number, |_| ()).is_some() {
                sleep(PAUSE).await;
            }
        }
    }

    async fn watch(&self, key: &LockKey, number: u64, is_known: bool) -> Result<(), StoreError> {
        let conn = self.session.conn().await?;
        if !is_known {
            self.read(&conn, key, number).await?;
        }
        // Until it is this one's turn, beats look at the key.
        let _turn = tokio::select! {
            turn = conn.watches.acquire() => turn,
            () = conn.is_given_up() => return Ok(()),
        };
        let Some(revision) = self.change(key, number, |followed| followed.revision()) else {
            return Ok(());
        };
        let (from, to) = keys::range(&self.config.namespace, key.as_str());
        let create = WatchCreateRequest {
            key: from,
            range_end: to,
            start_revision: revision + 1,
        };
        let mut answers = conn.watch(create).await?;
        let has_told_all =
            |followed: &mut Followed| followed.has_told_all(&self.config.namespace, key.as_str());
        let mut end = None;
        loop {
            end = match self.change(key, number, has_told_all) {
                Some(true) => end.or_else(|| Some(Instant::now() + LINGER)),
                _ => None,
            };
            let answer = tokio::select! {
                answer = answers.next() => answer,
                () = conn.is_given_up() => return Ok(()),
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                    let ends = |followed: &mut Followed| {
                        has_told_all(followed).then(|| followed.task = None)
                    };
                    if self.change(key, number, ends).flatten().is_some() {
                        return Ok(());
                    }
                    continue;
                }
            };
            let Ok(Some(answer)) = answer else {
                return Ok(());
            };
            if answer.canceled {
                tracing::debug!(
                    target: "dlock::store", %key, compacted = answer.compact_revision, reason = answer.cancel_reason,
                    "etcd ended a watch"
                );
                return Ok(());
            }
            let applied = self.change(key, number, |followed| followed.apply(&answer));
            if applied.is_none() {
                return Ok(());
            }
            self.send_hints(key);
        }
    }

    async fn read(&self, conn: &Conn, key: &LockKey, number: u64) -> Result<(), StoreError> {
        let all = keys::range(&self.config.namespace, key.as_str());
        let seen = SystemClock.now();
        let answer = conn.read(&ops::read(vec![ops::get_all(&all)])).await?;
        let (kvs, revision) = ops::read_of(&answer, 0)?;
        let queue = Queue::read(kvs);
        self.change(key, number, |followed| {
            followed.begin_again(queue, revision, seen);
        });
        self.send_hints(key);
        Ok(())
    }

    /// Tells each waiter that holds the key, once for each place in the queue.
    fn send_hints(&self, key: &LockKey) {
        let is_full = self.session.is_full();
        let news = match locked(&self.keys).get_mut(key) {
            Some(followed) => followed.news(&self.config.namespace, key.as_str(), is_full),
            None => return,
        };
        // A hint runs code of the manager.
        for News { owner, fence } in news {
            let sink = locked(&self.sinks).get(&owner.client()).cloned();
            if sink.is_some_and(|sink| !sink.hint(&Hint::new(key.as_str(), owner, fence))) {
                locked(&self.sinks).remove(&owner.client());
            }
        }
    }
}

#[cfg(test)]
mod tests;
