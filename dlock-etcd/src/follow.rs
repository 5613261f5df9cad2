//! Watches the keys that claims of this process wait for, and wakes a waiter when it holds its key.
//!
//! A task follows the claims on a key from the moment of the waiter's own request on, so it has them as etcd has them, if
//! a little later. A claim that holds goes on to hold, so an event that comes late is still right. A watch that ends, by
//! a lost connection or a compaction, begins again with a new read. If a server
//! loses an event, the waiter's next request finds the grant.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dlock_runtime::{
    LockKey,
    store::{ClientId, Hint, HintSink, OwnerId, StoreError},
};
use tokio::{runtime::Handle, sync::watch, task::AbortHandle, time::sleep};

use crate::{
    config::Config,
    conn::Conn,
    keys, ops,
    proto::{Answer, EventType, WatchCreateRequest, WatchResponse},
    queue::{Epoch, Queue},
    session::Session,
    worker::Worker,
};

/// The pause before a watch begins again.
const PAUSE: Duration = Duration::from_millis(100);

/// The keys that are followed.
#[derive(Clone)]
pub(crate) struct Follow {
    shared: Arc<Shared>,
    handle: Handle,
    stopped: watch::Receiver<()>,
}

struct Shared {
    config: Arc<Config>,
    session: Session,
    sinks: Mutex<HashMap<ClientId, HintSink>>,
    keys: Mutex<HashMap<LockKey, Followed>>,
    /// The number of the next task.
    next: AtomicU64,
}

/// One key, and those that wait for it.
struct Followed {
    /// The waiters, each with the create revision of its last hint.
    waiters: HashMap<OwnerId, i64>,
    queue: Queue,
    revision: i64,
    /// The number of its task. A task that is about to end must not change the queue of its successor.
    number: u64,
    task: AbortHandle,
}

/// A hint for a waiter.
struct News {
    owner: OwnerId,
    fence: u64,
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
            }),
            handle: worker.handle().clone(),
            stopped: worker.stopped(),
        }
    }

    pub(crate) fn attach(&self, client: ClientId, sink: HintSink) {
        locked(&self.shared.sinks).insert(client, sink);
    }

    pub(crate) fn detach(&self, client: ClientId) {
        locked(&self.shared.sinks).remove(&client);
        locked(&self.shared.keys).retain(|_, followed| {
            followed.waiters.retain(|owner, _| owner.client() != client);
            if followed.waiters.is_empty() {
                followed.task.abort();
            }
            !followed.waiters.is_empty()
        });
    }

    /// Follows a key for a waiter whose manager listens. `queue` is what its request has found at `revision`.
    pub(crate) fn wait(&self, key: &LockKey, owner: OwnerId, queue: &Queue, revision: i64) {
        if !locked(&self.shared.sinks).contains_key(&owner.client()) {
            return;
        }
        let mut keys = locked(&self.shared.keys);
        let followed = keys.entry(key.clone()).or_insert_with(|| {
            let (shared, mut stopped, key) =
                (self.shared.clone(), self.stopped.clone(), key.clone());
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            let task = self.handle.spawn(async move {
                tokio::select! {
                    () = shared.follow(&key, number) => {}
                    _ = stopped.changed() => {}
                }
            });
            Followed {
                waiters: HashMap::new(),
                queue: queue.clone(),
                revision,
                number,
                task: task.abort_handle(),
            }
        });
        followed.waiters.entry(owner).or_insert(0);
        drop(keys);
        // The watch may have seen the grant before this waiter was known.
        self.shared.tell(key);
    }

    /// Follows the key no longer for this waiter.
    pub(crate) fn leave(&self, key: &LockKey, owner: OwnerId) {
        let mut keys = locked(&self.shared.keys);
        let Some(followed) = keys.get_mut(key) else {
            return;
        };
        followed.waiters.remove(&owner);
        if followed.waiters.is_empty() {
            followed.task.abort();
            keys.remove(key);
        }
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
        let followed = keys.get_mut(key).filter(|it| it.number == number)?;
        let changed = change(followed);
        if followed.waiters.is_empty() {
            keys.remove(key);
            return None;
        }
        Some(changed)
    }

    async fn follow(&self, key: &LockKey, number: u64) {
        let mut is_known = true;
        while self.change(key, number, |_| ()).is_some() {
            if let Err(error) = self.watch(key, number, is_known).await {
                tracing::debug!(target: "dlock::store", %key, %error, "a watch ended, and begins again");
            }
            is_known = false;
            sleep(PAUSE).await;
        }
    }

    async fn watch(&self, key: &LockKey, number: u64, is_known: bool) -> Result<(), StoreError> {
        let conn = self.session.conn().await?;
        if !is_known {
            self.read(&conn, key, number).await?;
        }
        let Some(revision) = self.change(key, number, |followed| followed.revision) else {
            return Ok(());
        };
        let (from, to) = keys::range(&self.config.namespace, key.as_str());
        let create = WatchCreateRequest {
            key: from,
            range_end: to,
            start_revision: revision + 1,
        };
        let mut answers = conn.watch(create).await?;
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer,
                () = conn.is_given_up() => return Ok(()),
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
            self.tell(key);
        }
    }

    async fn read(&self, conn: &Conn, key: &LockKey, number: u64) -> Result<(), StoreError> {
        let all = keys::range(&self.config.namespace, key.as_str());
        let answer = conn.txn(ops::read(vec![ops::get_all(&all)])).await?;
        let queue = Queue::read(ops::keys_of(&answer, 0)?);
        self.change(key, number, |followed| {
            followed.queue = queue;
            followed.revision = answer.header().revision;
        });
        self.tell(key);
        Ok(())
    }

    /// Tells each waiter that holds the key, once for each place in the queue.
    fn tell(&self, key: &LockKey) {
        let news = match locked(&self.keys).get_mut(key) {
            Some(followed) => followed.news(&self.config.namespace, key.as_str()),
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

impl Followed {
    fn apply(&mut self, answer: &WatchResponse) {
        for event in &answer.events {
            self.queue.apply(event);
            // A waiter whose key is gone has left, or crashed, or makes another key with its next request.
            let gone = event
                .kv
                .as_ref()
                .filter(|_| event.kind == EventType::Delete as i32);
            if let Some(owner) = gone.and_then(|kv| keys::owner_in(&kv.key)) {
                self.waiters.remove(&owner);
            }
        }
        self.revision = self.revision.max(answer.header().revision);
    }

    fn news(&mut self, namespace: &str, key: &str) -> Vec<News> {
        let mut news = Vec::new();
        for (owner, told) in &mut self.waiters {
            let name = keys::claim(namespace, key, *owner);
            let Some(own) = self.queue.get(&name) else {
                continue;
            };
            if *told == own.create || !self.queue.holds(&name) {
                continue;
            }
            *told = own.create;
            // One that joins others asks, since it has to write their epoch.
            let fence = match self.queue.epoch(&name) {
                Some(Epoch::Own(fence)) if fence == own.own_fence() => fence,
                _ => 0,
            };
            news.push(News {
                owner: *owner,
                fence,
            });
        }
        news
    }
}
