//! Reads claims in pages of at most 500 keys. All claims on one key are from one revision, so that its holders are those
//! that it had at that moment.

use std::time::Duration;

use dlock_runtime::store::{StoreError, StoreErrorKind};

use super::{
    link::Link,
    messages::{PageRequest, PageResponse, RANGE},
};
use crate::{
    keys,
    proto::{Answer, KeyValue},
};

/// The number of keys that one request reads.
const KEYS: i64 = 500;

/// The processor time that a member spends on a request and on each of its keys, rounded up. The time until the answer
/// would also count that of the network and of this process.
const FOR_A_REQUEST: Duration = Duration::from_micros(300);
const FOR_A_KEY: Duration = Duration::from_micros(15);

/// So many revisions are tried, if etcd forgets them while they are read.
const TRIES: usize = 3;

/// The claims on one key, in the order of their names.
pub(super) struct Claims {
    pub(super) key: String,
    pub(super) kvs: Vec<KeyValue>,
}

/// The claims that one request has read, and what was missing of the last key.
pub(super) struct Page {
    pub(super) claims: Vec<Claims>,
    /// The name at which the next page begins; `None` if this was the last one.
    pub(super) next: Option<Vec<u8>>,
    /// The number of keys of etcd that were read.
    pub(super) read: u64,
    /// The number of keys of etcd from the beginning of this page on.
    pub(super) left: u64,
    pub(super) revision: i64,
}

impl Page {
    pub(super) fn cost(&self) -> Duration {
        cost(1, self.read)
    }
}

/// The time of a member for so many requests and keys.
pub(super) fn cost(requests: usize, keys: u64) -> Duration {
    let times =
        |each: Duration, count: u64| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let requests = u64::try_from(requests).unwrap_or(u64::MAX);
    times(FOR_A_REQUEST, requests).saturating_add(times(FOR_A_KEY, keys))
}

/// The names from `from` to `to`, which is not among them.
type Range = (Vec<u8>, Vec<u8>);

/// Returns the range of all locks whose keys begin with this text.
pub(super) fn beginning_with(namespace: &str, prefix: &str) -> Range {
    let from = keys::prefix(namespace, prefix);
    let mut to = from.clone();
    // Names are UTF-8, whose bytes are less than 255.
    if let Some(last) = to.last_mut() {
        *last += 1;
    }
    (from, to)
}

/// Reads the page that begins at `from`. With a `revision` other than 0, all of it is from that one.
pub(super) async fn page(
    link: &Link,
    from: &[u8],
    to: &[u8],
    revision: i64,
) -> Result<Page, StoreError> {
    let mut tries = 1..TRIES;
    loop {
        match once(link, from, to, revision).await {
            Err(error) if is_compacted(&error) && revision == 0 && tries.next().is_some() => {}
            page => return page,
        }
    }
}

async fn once(link: &Link, from: &[u8], to: &[u8], revision: i64) -> Result<Page, StoreError> {
    let answer = range(link, from, to, revision).await?;
    let read_at = match revision {
        0 => answer.header().revision,
        pinned => pinned,
    };
    let left = number(answer.count);
    let mut kvs = answer.kvs;
    let mut next = match kvs.last() {
        Some(last) if answer.more => Some(after(&last.key)),
        _ => None,
    };
    let namespace = link.namespace();
    let last = kvs.last().and_then(|kv| keys::key_in(namespace, &kv.key));
    if let (Some(start), Some(key)) = (&next, last) {
        // The claims on the last key may go on.
        let (_, end) = keys::range(namespace, &key);
        kvs.extend(all(link, start, &end, read_at).await?);
        next = Some(end);
    }
    let read = u64::try_from(kvs.len()).unwrap_or(u64::MAX);
    Ok(Page {
        claims: grouped(namespace, kvs),
        next: next.filter(|next| &**next < to),
        read,
        left,
        revision: read_at,
    })
}

/// Reads all claims on a key at one revision, the present one if it is 0. Returns the revision, and the claims.
pub(super) async fn claims_on(
    link: &Link,
    key: &str,
    revision: i64,
) -> Result<(i64, Vec<KeyValue>), StoreError> {
    let (from, to) = keys::range(link.namespace(), key);
    for _ in 0..TRIES {
        let first = range(link, &from, &to, revision).await?;
        let read_at = match revision {
            0 => first.header().revision,
            pinned => pinned,
        };
        let mut kvs = first.kvs;
        if first.more {
            let start = kvs.last().map_or_else(|| from.clone(), |kv| after(&kv.key));
            match all(link, &start, &to, read_at).await {
                Err(error) if is_compacted(&error) && revision == 0 => continue,
                rest => kvs.extend(rest?),
            }
        }
        return Ok((read_at, kvs));
    }
    let text = "etcd has compacted each revision that was read; inspect the lock again";
    Err(StoreError::new(StoreErrorKind::Refused, text).with_advice())
}

/// Returns `true` if etcd has forgotten the revision that a request names.
pub(super) fn is_compacted(error: &StoreError) -> bool {
    error.message().contains("has been compacted")
}

/// Reads a range at a revision, whatever the number of its keys.
async fn all(
    link: &Link,
    from: &[u8],
    to: &[u8],
    revision: i64,
) -> Result<Vec<KeyValue>, StoreError> {
    let mut kvs: Vec<KeyValue> = Vec::new();
    let mut from = from.to_vec();
    loop {
        let answer = range(link, &from, to, revision).await?;
        kvs.extend(answer.kvs);
        match kvs.last() {
            Some(last) if answer.more => from = after(&last.key),
            _ => return Ok(kvs),
        }
    }
}

async fn range(
    link: &Link,
    from: &[u8],
    to: &[u8],
    revision: i64,
) -> Result<PageResponse, StoreError> {
    let request = PageRequest {
        key: from.to_vec(),
        range_end: to.to_vec(),
        limit: KEYS,
        revision,
    };
    link.ask(RANGE, &request).await
}

/// The first name behind this one.
fn after(name: &[u8]) -> Vec<u8> {
    [name, &[0]].concat()
}

/// Claims on one key are beside each other: their names begin with it.
fn grouped(namespace: &str, kvs: Vec<KeyValue>) -> Vec<Claims> {
    let mut groups: Vec<Claims> = Vec::new();
    for kv in kvs {
        let Some(key) = keys::key_in(namespace, &kv.key) else {
            continue;
        };
        match groups.last_mut().filter(|group| group.key == key) {
            Some(group) => group.kvs.push(kv),
            None => groups.push(Claims { key, kvs: vec![kv] }),
        }
    }
    groups
}

fn number(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(name: &str) -> KeyValue {
        KeyValue {
            key: name.into(),
            ..KeyValue::default()
        }
    }

    #[test]
    fn a_page_costs_its_members_time_for_itself_and_for_each_key() {
        assert_eq!(cost(2, 0), cost(1, 0) * 2);
        assert_eq!(cost(0, 10), cost(0, 1) * 10);
        assert_eq!(cost(1, 500), cost(1, 0) + cost(0, 500));
        assert!(cost(0, 1) > Duration::ZERO && cost(1, 0) > cost(0, 1));
        let page = Page {
            claims: Vec::new(),
            next: None,
            read: 500,
            left: 0,
            revision: 1,
        };
        assert_eq!(page.cost(), cost(1, 500));
        assert!(cost(usize::MAX, u64::MAX) > cost(1000, 1000));
    }

    #[test]
    fn claims_on_one_key_are_together_and_other_names_are_left_out() {
        let names = [
            "n//fence",
            "n/a/1",
            "n/a/2",
            "n/b%2Fc/1",
            "n/b/1",
            "n/b/2",
            "n/b/3",
            "n/nothing",
        ];
        let groups = grouped("n", names.map(kv).into());
        let seen: Vec<_> = groups.iter().map(|it| (&*it.key, it.kvs.len())).collect();
        assert_eq!(seen, [("a", 2), ("b/c", 1), ("b", 3)]);
        assert_eq!(groups[0].kvs, [kv("n/a/1"), kv("n/a/2")]);
    }

    #[test]
    fn a_range_has_the_names_that_begin_with_its_text() {
        let (from, to) = beginning_with("n", "order:");
        for (name, is_in) in [
            ("n/order:/x", true),
            ("n/order:\u{10ffff}/x", true),
            ("n/order", false),
            ("n/orders/x", false),
            ("n/order;/x", false),
            ("m/order:/x", false),
        ] {
            let name = name.as_bytes();
            assert_eq!(&*from <= name && name < &*to, is_in, "{name:?}");
        }
        let next = after(b"n/a/1");
        assert!(next[..] > b"n/a/1"[..] && next[..] <= b"n/a/1\0"[..]);
        assert_eq!([number(7), number(0), number(-1)], [7, 0, 0]);
    }
}
