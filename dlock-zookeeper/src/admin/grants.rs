//! Grants of locks to waiters, by a watch of all nodes in the namespace.
//!
//! A deletion does not say who holds the key next, so the queues are kept in memory: the watch is set, all queues are read
//! once, and then followed. A change between both is seen twice, and has no effect the second time.
//!
//! Events are lost while a connection is down, so the stream ends with it. Servers before 3.6 have no such watch.

use std::collections::BTreeMap;

use dlock_admin::{Grant, Grants, Pace};
use dlock_runtime::{
    LockKey,
    store::{StoreError, StoreErrorKind},
};
use tokio::sync::mpsc;
use zookeeper_client::{AddWatchMode, Error, EventType, PersistentWatcher};

use super::{
    link::Link,
    lock,
    page::{self, Claims},
};
use crate::{
    errors,
    names::{self, Entry},
    queue::Queue,
};

/// The grants that wait for a slow reader. Beyond, the stream ends: the events behind them would pile up.
const WAITING: usize = 1024;

pub(super) async fn grants(link: &Link, pace: &Pace) -> Result<Grants, StoreError> {
    let client = link.client().await?;
    let set = async {
        let watch = client.watch(link.root(), AddWatchMode::PersistentRecursive);
        match watch.await {
            Err(Error::Unimplemented) => {
                let text = "this server does not publish grants, ZooKeeper 3.6 does; they are found by reading the locks";
                let error = StoreError::new(StoreErrorKind::Unsupported, text);
                Err(error.with_advice().unsent())
            }
            set => set.map_err(|error| errors::store_error(&error)),
        }
    };
    let watcher = link.within(&client, set).await?;
    let keys = page::keys(link, pace, None).await?;
    let queues = page::queues(link, pace, &keys).await?;
    let queues = keys.into_iter().zip(queues);
    let followed = Followed {
        root: link.root().to_owned(),
        queues: queues.filter(|(_, queue)| !queue.is_empty()).collect(),
    };
    let (tell, mut heard) = mpsc::channel(WAITING);
    let link = link.clone();
    tokio::spawn(async move { follow(&link, followed, watcher, &tell).await });
    Ok(Grants::new(move |context| heard.poll_recv(context)))
}

/// Passes grants on until the connection is down, or the receiver is dropped.
async fn follow(
    link: &Link,
    mut followed: Followed,
    mut watcher: PersistentWatcher,
    tell: &mpsc::Sender<Grant>,
) {
    loop {
        let event = tokio::select! {
            event = watcher.changed() => event,
            () = tell.closed() => return,
        };
        if event.event_type == EventType::Session {
            return;
        }
        let Some((key, granted)) = followed.apply(event.event_type, &event.path) else {
            continue;
        };
        if granted.is_empty() {
            continue;
        }
        let Ok(claims) = page::claims_on(link, &key).await else {
            return;
        };
        for grant in granted.iter().filter_map(|entry| told(&claims, entry)) {
            if tell.try_send(grant).is_err() {
                return;
            }
        }
    }
}

/// A grant with its fence. `None` for a holder that has left since.
fn told(claims: &Claims, entry: &Entry) -> Option<Grant> {
    let is_there = claims.queue.holds(&entry.name);
    is_there.then(|| Grant::new(&*claims.key, entry.owner, lock::epoch(claims)))
}

/// The queues of all keys.
struct Followed {
    root: String,
    queues: BTreeMap<LockKey, Queue>,
}

impl Followed {
    /// Applies an event about a claim. Returns its key, with the holders that have waited before.
    fn apply(&mut self, event: EventType, path: &str) -> Option<(LockKey, Vec<Entry>)> {
        // Others are renewals, and the writes of directories that tell a new child whether it is alone.
        let is_new = match event {
            EventType::NodeCreated => true,
            EventType::NodeDeleted => false,
            _ => return None,
        };
        let path = path.strip_prefix(&self.root)?.strip_prefix('/')?;
        let (directory, name) = path.split_once('/')?;
        let (key, entry) = (names::key_of(directory)?, Entry::read(name)?);
        let before = self.queues.entry(key.clone()).or_default();
        let after = if is_new {
            before.with(entry)
        } else {
            before.without(|it| it.name == entry.name)
        };
        let waited = |it: &&Entry| before.waiters().iter().any(|was| was.name == it.name);
        let granted = after.holders().iter().filter(waited).cloned().collect();
        if after.is_empty() {
            self.queues.remove(&key);
        } else {
            self.queues.insert(key.clone(), after);
        }
        Some((key, granted))
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::LockMode;

    use super::*;

    fn name(place: i64, mode: LockMode) -> String {
        let owner = format!("{place:032x}.1").parse().unwrap();
        format!("{}{place:010}", names::prefix(owner, mode))
    }

    #[test]
    fn a_holder_that_has_waited_is_a_grant_and_is_told_once() {
        let mut followed = Followed {
            root: "/n".to_owned(),
            queues: BTreeMap::new(),
        };
        let mut granted = |event, path: &str| -> Vec<i64> {
            let applied = followed.apply(event, path);
            let granted = applied.map(|(key, granted)| {
                assert_eq!(key.as_str(), "a/b");
                granted
            });
            let places = granted.into_iter().flatten().map(|it| it.place);
            places.collect()
        };
        let path = |place, mode| format!("/n/lock:a%2Fb/{}", name(place, mode));
        let (writer, next) = (path(1, LockMode::Exclusive), path(2, LockMode::Exclusive));
        let readers = [3, 4].map(|place| path(place, LockMode::Shared));
        let (created, deleted) = (EventType::NodeCreated, EventType::NodeDeleted);
        for claim in [&writer, &next, &writer, &readers[0], &readers[1]] {
            assert_eq!(granted(created, claim), [0_i64; 0], "{claim}");
        }
        for other in ["/n/lock:a%2Fb", "/n/lock:a%2Fb/mine", "/n/notice", "/m/x/y"] {
            assert_eq!(granted(deleted, other), [0_i64; 0], "{other}");
        }
        assert_eq!(granted(EventType::NodeDataChanged, &writer), [0_i64; 0]);
        assert_eq!(granted(deleted, &writer), [2]);
        assert_eq!(granted(deleted, &writer), [0_i64; 0]);
        assert_eq!(granted(deleted, &next), [3, 4]);
        assert_eq!(granted(deleted, &readers[0]), [0_i64; 0]);
        assert_eq!(granted(deleted, &readers[1]), [0_i64; 0]);
    }
}
