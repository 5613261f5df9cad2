//! Reads queues and their children in steps of a few hundred requests. A queue is from one answer, and children that have gone
//! since are taken out of it, so its holders are those that it had when the last of them was read.

use std::{collections::HashMap, time::Duration};

use dlock_admin::{KeyPattern, Pace, Walk};
use dlock_runtime::{
    LockKey,
    store::{StoreError, StoreErrorKind},
};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::link::Link;
use crate::{
    holder::{Seen, now},
    names::{self, Entry},
    queue::Queue,
};

/// The holders and the waiters of one lock that are listed.
pub(super) const MOST: usize = 4096;

/// The requests between two pauses.
const STEP: usize = 200;

/// The requests that are under way at a time.
const AT_A_TIME: usize = 16;

/// The processor time that a server spends on a request, on each queue that one request for many reads, and on each name in its answer,
/// rounded up. The time until the answer would also count that of the network and of this process.
const FOR_A_REQUEST: Duration = Duration::from_micros(100);
const FOR_A_QUEUE: Duration = Duration::from_micros(10);
const FOR_A_NAME: Duration = Duration::from_micros(2);

/// A queue, and the children in it that were read, by their names.
pub(super) struct Claims {
    pub(super) key: String,
    pub(super) queue: Queue,
    pub(super) seen: HashMap<String, Seen>,
}

/// Lists the keys that have a directory and match the pattern, in their order.
pub(super) async fn keys(
    link: &Link,
    pace: &Pace,
    pattern: Option<&KeyPattern>,
) -> Result<Vec<LockKey>, StoreError> {
    let read = async {
        link.catch_up().await?;
        let names = link.children(link.root()).await?.unwrap_or_default();
        let cost = FOR_A_REQUEST * 2 + FOR_A_NAME * number(names.len());
        Ok((names, cost))
    };
    let names = pace.step::<_, StoreError>(read).await?;
    let keys = names.iter().filter_map(|name| names::key_of(name));
    let mut keys: Vec<_> = keys
        .filter(|key| pattern.is_none_or(|pattern| pattern.matches(key.as_str())))
        .collect();
    keys.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    Ok(keys)
}

/// Reads the claims on one key. An operator waits for it, so no pause delays it.
pub(super) async fn claims_on(link: &Link, key: &LockKey) -> Result<Claims, StoreError> {
    let pace = Pace::default();
    pace.lift_limit();
    let claims = claims(link, &pace, std::slice::from_ref(key)).await?;
    let none = || Claims {
        key: key.as_str().to_owned(),
        queue: Queue::default(),
        seen: HashMap::new(),
    };
    Ok(claims.into_iter().next().unwrap_or_else(none))
}

/// Reads the claims on these keys, without keys that have none.
pub(super) async fn claims(
    link: &Link,
    pace: &Pace,
    keys: &[LockKey],
) -> Result<Vec<Claims>, StoreError> {
    let mut found = Vec::new();
    claims_in_parts(link, pace, keys, None, &mut |part| found.extend(part)).await?;
    Ok(found)
}

/// Does the same, and passes the claims on as they are read.
pub(super) async fn claims_in_parts(
    link: &Link,
    pace: &Pace,
    keys: &[LockKey],
    walk: Option<&Walk<'_>>,
    part: &mut (dyn FnMut(Vec<Claims>) + Send),
) -> Result<(), StoreError> {
    let mut done = 0;
    for some in keys.chunks(STEP) {
        let mut found = Vec::new();
        let queues = queues(link, pace, some).await?;
        let mut claims: Vec<_> = some.iter().zip(queues).collect();
        claims.retain(|(_, queue)| !queue.is_empty());
        let wanted: Vec<_> = claims
            .iter()
            .flat_map(|(key, queue)| listed(queue).map(move |entry| (*key, entry)))
            .collect();
        let mut seen: HashMap<&LockKey, HashMap<String, Option<Seen>>> = HashMap::new();
        for some in wanted.chunks(STEP) {
            let read = async {
                let children = side_by_side(some, |(key, entry)| child(link, key, entry)).await?;
                Ok((children, FOR_A_REQUEST * number(some.len())))
            };
            let children = pace.step::<_, StoreError>(read).await?;
            for ((key, entry), child) in some.iter().zip(children) {
                let of_key = seen.entry(key).or_default();
                of_key.insert(entry.name.clone(), child);
            }
        }
        for (key, queue) in &claims {
            let read = seen.remove(key).unwrap_or_default();
            found.push(gathered(key.as_str(), queue, read));
        }
        found.retain(|it: &Claims| !it.queue.is_empty());
        part(found);
        done += some.len();
        if let Some(walk) = walk {
            walk.show(number(done).into(), number(keys.len()).into());
        }
    }
    Ok(())
}

/// Reads the queues of these keys, in their order.
pub(super) async fn queues(
    link: &Link,
    pace: &Pace,
    keys: &[LockKey],
) -> Result<Vec<Queue>, StoreError> {
    let mut found = Vec::new();
    for some in keys.chunks(STEP) {
        let read = async {
            let (read, cost) = names_in(link, some).await?;
            let names = read.iter().map(Vec::len).sum();
            Ok((read, cost + FOR_A_NAME * number(names)))
        };
        let read = pace.step::<_, StoreError>(read).await?;
        found.extend(read.iter().map(|names| Queue::read(names)));
    }
    Ok(found)
}

/// Reads the names in the directories of these keys, and returns what that has cost without the names.
async fn names_in(
    link: &Link,
    keys: &[LockKey],
) -> Result<(Vec<Vec<String>>, Duration), StoreError> {
    let directories: Vec<_> = keys
        .iter()
        .map(|key| names::directory(link.root(), key))
        .collect();
    let count = number(keys.len());
    match link.children_of_each(&directories).await {
        Err(error) if error.kind() == StoreErrorKind::Unsupported => {}
        read => return Ok((read?, FOR_A_REQUEST + FOR_A_QUEUE * count)),
    }
    let one = async |directory: &String| {
        let names = link.children(directory).await?;
        Ok(names.unwrap_or_default())
    };
    let read = side_by_side(&directories, one).await?;
    Ok((read, FOR_A_REQUEST * count))
}

/// The children that are read.
fn listed(queue: &Queue) -> impl Iterator<Item = &Entry> {
    let holders = queue.holders().iter().take(MOST);
    holders.chain(queue.waiters().iter().take(MOST))
}

/// Takes the children that are gone out of the queue.
fn gathered(key: &str, queue: &Queue, read: HashMap<String, Option<Seen>>) -> Claims {
    let is_gone = |entry: &Entry| matches!(read.get(&entry.name), Some(None));
    let queue = queue.without(is_gone);
    let seen = read
        .into_iter()
        .filter_map(|(name, seen)| Some((name, seen?)));
    Claims {
        key: key.to_owned(),
        queue,
        seen: seen.collect(),
    }
}

/// Reads a child; `None` if it is gone.
async fn child(link: &Link, key: &LockKey, entry: &Entry) -> Result<Option<Seen>, StoreError> {
    let path = format!("{}/{}", names::directory(link.root(), key), entry.name);
    let read = link.text(&path).await?;
    Ok(read.map(|(data, stat)| Seen::of(&data, stat, now())))
}

async fn side_by_side<'a, T, R, F>(
    items: &'a [T],
    ask: impl Fn(&'a T) -> F,
) -> Result<Vec<R>, StoreError>
where
    F: Future<Output = Result<R, StoreError>>,
{
    let asked: Vec<_> = items.iter().map(ask).collect();
    stream::iter(asked).buffered(AT_A_TIME).try_collect().await
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
