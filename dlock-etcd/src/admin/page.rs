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

/// A source of key ranges: etcd, or a script of answers in tests.
pub(super) trait Source: Sync {
    fn namespace(&self) -> &str;

    fn read(
        &self,
        request: PageRequest,
    ) -> impl Future<Output = Result<PageResponse, StoreError>> + Send;
}

impl Source for Link {
    fn namespace(&self) -> &str {
        self.namespace()
    }

    async fn read(&self, request: PageRequest) -> Result<PageResponse, StoreError> {
        self.ask(RANGE, &request).await
    }
}

/// Reads the page that begins at `from`. With a `revision` other than 0, all of it is from that one.
pub(super) async fn page(
    link: &impl Source,
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

async fn once(
    link: &impl Source,
    from: &[u8],
    to: &[u8],
    revision: i64,
) -> Result<Page, StoreError> {
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
    link: &impl Source,
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
    link: &impl Source,
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
    link: &impl Source,
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
    link.read(request).await
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
pub(crate) mod tests {
    use std::{
        collections::VecDeque,
        sync::{Mutex, MutexGuard},
    };

    use dlock_runtime::store::StoreErrorKind::{Disconnected, OutOfMemory};

    use super::*;
    use crate::proto::ResponseHeader;

    fn kv(name: &str) -> KeyValue {
        KeyValue {
            key: name.into(),
            ..KeyValue::default()
        }
    }

    /// Answers of etcd, each to one request. The last one is repeated.
    pub(crate) struct Script(Mutex<Played>);

    struct Played {
        answers: VecDeque<Result<PageResponse, StoreError>>,
        asked: Vec<PageRequest>,
    }

    impl Script {
        pub(crate) fn new(
            answers: impl IntoIterator<Item = Result<PageResponse, StoreError>>,
        ) -> Self {
            Self(Mutex::new(Played {
                answers: answers.into_iter().collect(),
                asked: Vec::new(),
            }))
        }

        fn played(&self) -> MutexGuard<'_, Played> {
            self.0.lock().unwrap()
        }

        /// The names at which requests began, and their revisions.
        pub(crate) fn asked(&self) -> Vec<(String, i64)> {
            let asked = &self.played().asked;
            let begin = |it: &PageRequest| String::from_utf8(it.key.clone()).unwrap();
            asked.iter().map(|it| (begin(it), it.revision)).collect()
        }
    }

    impl Source for Script {
        fn namespace(&self) -> &'static str {
            "n"
        }

        async fn read(&self, request: PageRequest) -> Result<PageResponse, StoreError> {
            let mut played = self.played();
            played.asked.push(request);
            let answer = played.answers.pop_front().expect("there are enough");
            if played.answers.is_empty() {
                played.answers.push_back(answer.clone());
            }
            answer
        }
    }

    /// An answer from a revision; `more` if it ends with the page.
    pub(crate) fn answer(revision: i64, names: &[&str], more: bool) -> PageResponse {
        let header = ResponseHeader {
            revision,
            ..ResponseHeader::default()
        };
        PageResponse {
            header: Some(header),
            kvs: names.iter().map(|it| kv(it)).collect(),
            more,
            count: 9,
        }
    }

    /// etcd has compacted the revision that was read.
    pub(crate) fn forgotten() -> StoreError {
        let text = "etcdserver: mvcc: required revision has been compacted";
        StoreError::new(Disconnected, text)
    }

    async fn page_of(script: &Script, revision: i64) -> Result<Page, StoreError> {
        page(script, b"n/", b"n0", revision).await
    }

    #[tokio::test]
    async fn a_page_is_read_again_from_its_start_if_etcd_forgets_its_revision() {
        let script = Script::new([
            Ok(answer(7, &["n/a/1", "n/b/1"], true)),
            Err(forgotten()),
            Ok(answer(9, &["n/b/2"], true)),
            Ok(answer(11, &["n/b/3"], false)),
        ]);
        let found = page_of(&script, 0).await.unwrap();
        let names = found.claims.iter().map(|it| (&*it.key, it.kvs.len()));
        assert_eq!(names.collect::<Vec<_>>(), [("b", 2)]);
        assert_eq!((found.revision, found.read, found.left), (9, 2, 9));
        assert_eq!(found.next.as_deref(), Some(&b"n/b0"[..]));
        let asked = [("n/", 0), ("n/b/1\0", 7), ("n/", 0), ("n/b/2\0", 9)];
        assert_eq!(script.asked(), asked.map(|(it, at)| (it.to_owned(), at)));
    }

    #[tokio::test]
    async fn the_claims_on_a_key_are_read_again_if_etcd_forgets_their_revision() {
        let script = Script::new([
            Ok(answer(7, &["n/b/1"], true)),
            Err(forgotten()),
            Ok(answer(9, &["n/b/2"], true)),
            Ok(answer(11, &["n/b/3"], false)),
        ]);
        let (revision, kvs) = claims_on(&script, "b", 0).await.unwrap();
        assert_eq!((revision, kvs), (9, vec![kv("n/b/2"), kv("n/b/3")]));
        let asked = [("n/b/", 0), ("n/b/1\0", 7), ("n/b/", 0), ("n/b/2\0", 9)];
        assert_eq!(script.asked(), asked.map(|(it, at)| (it.to_owned(), at)));
    }

    /// Of a revision that the caller has chosen, no other one says the same.
    #[tokio::test]
    async fn a_chosen_revision_that_etcd_has_forgotten_is_asked_for_once() {
        let first = || Ok(answer(9, &["n/b/1"], true));
        let script = Script::new([first(), Err(forgotten())]);
        assert!(is_compacted(&page_of(&script, 7).await.err().unwrap()));
        let asked = [("n/", 7), ("n/b/1\0", 7)];
        assert_eq!(script.asked(), asked.map(|(it, at)| (it.to_owned(), at)));
        let script = Script::new([first(), Err(forgotten())]);
        let found = claims_on(&script, "b", 7).await;
        assert!(is_compacted(&found.unwrap_err()));
        let asked = [("n/b/", 7), ("n/b/1\0", 7)];
        assert_eq!(script.asked(), asked.map(|(it, at)| (it.to_owned(), at)));
    }

    #[tokio::test]
    async fn three_revisions_are_tried_and_other_failures_are_not_repeated() {
        let each = || [Ok(answer(7, &["n/b/1"], true)), Err(forgotten())];
        let all = || Script::new([each(), each(), each(), each()].into_iter().flatten());
        let script = all();
        assert!(is_compacted(&page_of(&script, 0).await.err().unwrap()));
        assert_eq!(script.asked().len(), 6);
        let script = all();
        let error = claims_on(&script, "b", 0).await.unwrap_err();
        assert!(
            error.to_string().contains("inspect the lock again"),
            "{error}"
        );
        assert_eq!(script.asked().len(), 6);

        let full = || StoreError::new(OutOfMemory, "mvcc: database space exceeded");
        let once = || Script::new([Ok(answer(7, &["n/b/1"], true)), Err(full())]);
        let script = once();
        assert_eq!(page_of(&script, 0).await.err(), Some(full()));
        assert_eq!(script.asked().len(), 2);
        let script = once();
        assert_eq!(claims_on(&script, "b", 0).await, Err(full()));
        assert_eq!(script.asked().len(), 2);
    }

    #[tokio::test]
    async fn a_key_with_many_claims_is_read_to_its_end_and_no_further() {
        let answers = || {
            let names = ["n/b/1", "n/b/2", "n/b/3", "n/b/4"];
            names.map(|name| Ok(answer(7, &[name], name != "n/b/4")))
        };
        let asked_from = |begin: &str| {
            let asked = [(begin, 0), ("n/b/1\0", 7), ("n/b/2\0", 7), ("n/b/3\0", 7)];
            asked.map(|(it, at)| (it.to_owned(), at))
        };
        let script = Script::new(answers());
        let found = page(&script, b"n/", b"n/b0", 0).await.unwrap();
        let [claims] = &found.claims[..] else {
            panic!("one key");
        };
        assert_eq!((&*claims.key, claims.kvs.len(), found.read), ("b", 4, 4));
        assert_eq!(found.next, None, "the range ends with that key");
        assert_eq!(script.asked(), asked_from("n/"));
        let script = Script::new(answers());
        let (revision, kvs) = claims_on(&script, "b", 0).await.unwrap();
        assert_eq!((revision, kvs.len()), (7, 4));
        assert_eq!(script.asked(), asked_from("n/b/"));
        // All of them are in the first answer.
        let script = Script::new([Ok(answer(7, &["n/b/1"], false))]);
        let (revision, kvs) = claims_on(&script, "b", 0).await.unwrap();
        assert_eq!((revision, kvs), (7, vec![kv("n/b/1")]));
        assert_eq!(script.asked(), [("n/b/".to_owned(), 0)]);
    }

    #[tokio::test]
    async fn a_page_without_claims_of_ours_ends_where_etcd_ended_it() {
        let script = Script::new([Ok(answer(7, &["n//fence", "n/by-hand"], true))]);
        let found = page_of(&script, 0).await.unwrap();
        assert!(found.claims.is_empty());
        assert_eq!(found.next.as_deref(), Some(&b"n/by-hand\0"[..]));
        let script = Script::new([Ok(answer(7, &["n/by-hand"], false))]);
        assert_eq!(page_of(&script, 0).await.unwrap().next, None);
        assert_eq!(script.asked(), [("n/".to_owned(), 0)]);
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
