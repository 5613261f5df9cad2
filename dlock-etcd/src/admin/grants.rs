//! Grants of locks to waiters, by a watch of all claims.
//!
//! A deletion does not say who holds the key next, so the queues are kept in memory: all claims are read once, at one
//! revision, and then followed from there. Changes of one revision are compared together.

use std::collections::{BTreeMap, BTreeSet};

use dlock_admin::{Grant, Grants, Pace};
use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::sync::mpsc;

use super::{
    link::Link,
    page::{self, Source},
};
use crate::{
    keys,
    proto::{Event, EventType, WatchCreateRequest, WatchResponse},
    queue::Queue,
};

/// The grants that wait for a slow reader. etcd keeps the rest meanwhile.
const WAITING: usize = 1024;

/// The claims are read again so many times if etcd has forgotten the revision that is followed.
const TRIES: usize = 3;

pub(super) async fn grants(link: &Link, pace: &Pace) -> Result<Grants, StoreError> {
    let (queues, revision) = queues(link, pace).await?;
    let (from, to) = page::beginning_with(link.namespace(), "");
    let connected = link.connected().await?;
    let create = WatchCreateRequest {
        key: from,
        range_end: to,
        start_revision: revision + 1,
    };
    let opened = connected.conn.watch(create);
    let mut answers = link.within(&connected, opened).await?;
    let (tell, mut heard) = mpsc::channel(WAITING);
    let mut followed = Followed {
        namespace: link.namespace().to_owned(),
        queues,
    };
    tokio::spawn(async move {
        // The connection stays open as long as this task.
        let _connected = connected;
        loop {
            let answer = tokio::select! {
                answer = answers.next() => answer,
                () = tell.closed() => return,
            };
            let Ok(Some(answer)) = answer else { return };
            if answer.canceled {
                return;
            }
            for grant in followed.grants(&answer) {
                if tell.send(grant).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok(Grants::new(move |context| heard.poll_recv(context)))
}

/// Reads all claims at one revision.
async fn queues(
    link: &impl Source,
    pace: &Pace,
) -> Result<(BTreeMap<String, Queue>, i64), StoreError> {
    let (begin, to) = page::beginning_with(link.namespace(), "");
    for _ in 0..TRIES {
        let (mut queues, mut from, mut revision) = (BTreeMap::new(), begin.clone(), 0);
        loop {
            let asked = async {
                let read = page::page(link, &from, &to, revision).await?;
                let cost = read.cost();
                Ok((read, cost))
            };
            let read = match pace.step::<_, StoreError>(asked).await {
                Err(error) if page::is_compacted(&error) => break,
                read => read?,
            };
            revision = read.revision;
            for claims in read.claims {
                queues.insert(claims.key, Queue::read(&claims.kvs));
            }
            match read.next {
                Some(next) => from = next,
                None => return Ok((queues, revision)),
            }
        }
    }
    let text = "etcd has compacted each revision that was read";
    Err(StoreError::new(StoreErrorKind::Disconnected, text))
}

/// The queues of all keys.
struct Followed {
    namespace: String,
    queues: BTreeMap<String, Queue>,
}

impl Followed {
    fn grants(&mut self, answer: &WatchResponse) -> Vec<Grant> {
        let revision = |event: &Event| event.kv.as_ref().map(|kv| kv.mod_revision);
        let together = answer
            .events
            .chunk_by(|one, next| revision(one) == revision(next));
        together.flat_map(|events| self.apply(events)).collect()
    }

    /// Applies the changes of one revision.
    fn apply(&mut self, events: &[Event]) -> Vec<Grant> {
        let mut grants = Vec::new();
        let mut changed: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
        for event in events {
            let name = event.kv.as_ref().map(|kv| &*kv.key);
            if let Some(key) = name.and_then(|name| keys::key_in(&self.namespace, name)) {
                changed.entry(key).or_default().push(event);
            }
        }
        for (key, events) in changed {
            let queue = self.queues.entry(key.clone()).or_default();
            let waiting: BTreeSet<_> = names(queue.waiters());
            for event in &events {
                queue.apply(event);
            }
            // A claim that is created at the front has not waited.
            if events.iter().any(|it| it.kind == EventType::Delete as i32) {
                grants.extend(granted(&key, queue, &waiting));
            }
            if queue.is_empty() {
                self.queues.remove(&key);
            }
        }
        grants
    }
}

fn names<'a>(
    claims: impl Iterator<Item = (&'a [u8], &'a crate::queue::Entry)>,
) -> BTreeSet<Vec<u8>> {
    claims.map(|(name, _)| name.to_vec()).collect()
}

/// The holders that have waited before.
fn granted<'a>(
    key: &'a str,
    queue: &'a Queue,
    waiting: &'a BTreeSet<Vec<u8>>,
) -> impl Iterator<Item = Grant> + 'a {
    let holders = queue.named_holders();
    holders
        .filter(|(name, _)| waiting.contains(*name))
        .filter_map(move |(name, entry)| {
            let fence = queue.epoch(name)?.fence();
            Some(Grant::new(key, entry.owner?, fence))
        })
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{
        random::SystemRandom,
        store::{ClientId, OwnerId},
    };

    use super::{
        page::tests::{Script, answer, forgotten},
        *,
    };
    use crate::{
        keys::{Stage, Value},
        proto::KeyValue,
    };

    /// They are followed from there.
    #[tokio::test]
    async fn all_claims_are_of_one_revision_that_etcd_has_not_forgotten() {
        let page = |revision, name: &str| Ok(answer(revision, &[name], true));
        let no_more = |revision| Ok(answer(revision, &[], false));
        let first = || [page(7, "n/a/1"), no_more(7), Err(forgotten())];
        let script = Script::new(first().into_iter().chain([
            page(9, "n/b/1"),
            no_more(9),
            Ok(answer(9, &["n/c/1"], false)),
        ]));
        let (found, revision) = queues(&script, &Pace::default()).await.unwrap();
        let keys: Vec<_> = found.keys().map(|it| &**it).collect();
        assert_eq!((keys, revision), (vec!["b", "c"], 9));
        let asked = [
            ("n/", 0),
            ("n/a/1\0", 7),
            ("n/a0", 7),
            ("n/", 0),
            ("n/b/1\0", 9),
            ("n/b0", 9),
        ];
        assert_eq!(script.asked(), asked.map(|(it, at)| (it.to_owned(), at)));

        let script = Script::new([first(), first(), first(), first()].into_iter().flatten());
        let error = queues(&script, &Pace::default()).await.unwrap_err();
        assert!(error.to_string().contains("each revision"), "{error}");
        assert_eq!(script.asked().len(), 9);
    }

    fn put(key: &str, owner: OwnerId, revision: i64) -> Event {
        Event {
            kind: EventType::Put as i32,
            kv: Some(KeyValue {
                key: keys::claim("n", key, owner),
                create_revision: revision,
                mod_revision: revision,
                value: Value::plain(100, Stage::waits_now(None)).to_bytes(),
                lease: 7,
            }),
        }
    }

    fn deleted(key: &str, owner: OwnerId, revision: i64) -> Event {
        Event {
            kind: EventType::Delete as i32,
            kv: Some(KeyValue {
                key: keys::claim("n", key, owner),
                mod_revision: revision,
                ..KeyValue::default()
            }),
        }
    }

    #[test]
    fn a_waiter_that_comes_to_the_front_was_granted_the_lock() {
        let client = ClientId::new(&SystemRandom);
        let [one, two, three] = [1, 2, 3].map(|it| OwnerId::new(client, it));
        let mut followed = Followed {
            namespace: "n".to_owned(),
            queues: BTreeMap::new(),
        };
        let mut grants = |events: Vec<Event>| {
            let answer = WatchResponse {
                events,
                ..WatchResponse::default()
            };
            let grants = followed.grants(&answer);
            let seen = grants.iter().map(|it| (it.key.clone(), it.owner, it.fence));
            (seen.collect::<Vec<_>>(), followed.queues.len())
        };
        let a = || "a".to_owned();
        // The first holds at once, and another lock has no waiters.
        let begun = vec![put("a", one, 1), put("a", two, 2), put("b", one, 3)];
        assert_eq!(grants(begun), (vec![], 2));
        let foreign = Event {
            kind: EventType::Delete as i32,
            kv: None,
        };
        let other = vec![deleted("b", one, 4), put("a", three, 5), foreign];
        assert_eq!(grants(other), (vec![], 1));
        // Each release is one grant, also if their events come together.
        let both = vec![deleted("a", one, 6), deleted("a", two, 7)];
        assert_eq!(grants(both), (vec![(a(), two, 102), (a(), three, 105)], 1));
        // The end of a waiter grants nothing.
        let waits = vec![put("a", one, 8), deleted("a", one, 9)];
        assert_eq!(grants(waits), (vec![], 1));
        // In one transaction: a waiter is never the holder between.
        let together = vec![put("a", two, 10), put("a", one, 11)];
        assert_eq!(grants(together), (vec![], 1));
        let ended = vec![deleted("a", three, 12), deleted("a", two, 12)];
        assert_eq!(grants(ended), (vec![(a(), one, 111)], 1));
        assert_eq!(grants(vec![deleted("a", one, 13)]), (vec![], 0));
    }
}
