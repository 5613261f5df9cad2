//! What operators see of locks, and how they take one away.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use redis::Value;

use super::{
    Introduction, RedisConfig, RedisStore, errors,
    node::Node,
    script::{self, Call},
    servers::Servers,
};
use crate::{
    error::ConnectError,
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{StoreError, StoreErrorKind, redis::hints::Hints},
};

/// Through how many keys a server goes in one step, which takes it less than a millisecond.
const KEYS_AT_ONCE: u32 = 1000;

/// How many locks are looked at in one write.
const LOCKS_AT_ONCE: usize = 64;

/// More waiters of one lock are not told of: a server must not be held up by them.
const MOST_WAITERS: usize = 4096;

/// A lock at one moment.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) occupant: Option<Occupant>,
    /// In the order of the queue.
    pub(crate) waiters: Vec<Queued>,
    /// 0 if there was none.
    pub(crate) last_fence: u64,
    /// The server's time, since 1970.
    pub(crate) now: Duration,
}

impl Sight {
    fn is_foreign(&self) -> bool {
        let occupant = self.occupant.as_ref();
        occupant.is_some_and(|it| matches!(it.seen, Seen::Foreign { .. }))
    }

    /// Whether nobody holds or wants it.
    fn is_idle(&self) -> bool {
        self.occupant.is_none() && self.waiters.is_empty()
    }
}

/// Who holds a lock.
#[derive(Debug)]
pub(crate) struct Occupant {
    pub(crate) seen: Seen,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    /// `None` if it has no end.
    pub(crate) ttl: Option<Duration>,
}

/// By what a lease is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Ours {
        owner: OwnerId,
        fence: u64,
    },
    /// Another client's, by the SHA-1 of its value, which may be secret.
    Foreign {
        digest: String,
    },
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) owner: OwnerId,
    pub(crate) arrived: Duration,
    pub(crate) alive_until: Duration,
}

impl RedisStore {
    /// Connects to servers to look at what others do there.
    pub(crate) async fn look_at(config: RedisConfig) -> Result<Self, ConnectError> {
        let limit = config.connect_timeout;
        let events = super::Events::awaited;
        let store = Self::start(config, events, |_| Hints::unwanted())?;
        store.when_ready(limit).await
    }

    /// All locks whose keys match, which are held or waited for.
    pub(crate) async fn sights(
        &self,
        pattern: &str,
    ) -> Result<BTreeMap<LockKey, Sight>, StoreError> {
        let mut found = BTreeMap::new();
        let namespace = escaped(&self.config.namespace);
        for master in self.masters()? {
            if self.config.raw_keys {
                let mut scan = Scan::new(&master, pattern.to_owned(), true);
                while let Some(names) = scan.next().await? {
                    let keys = names.iter().filter_map(|name| key_of(name));
                    self.look_at_all(keys.collect(), &mut found).await?;
                }
            }
            let mut scan = Scan::new(&master, format!("{namespace}:{{{pattern}}}*"), false);
            while let Some(names) = scan.next().await? {
                let keys = names.iter().filter_map(|name| self.lock_of(name));
                self.look_at_all(keys.collect(), &mut found).await?;
            }
        }
        Ok(found)
    }

    /// One lock, be it another client's; `None` if nobody holds or wants it.
    pub(crate) async fn sight(&self, key: &LockKey) -> Result<Option<Sight>, StoreError> {
        let call = Call::look(&self.config, key, MOST_WAITERS);
        let sight = read_sight(&self.call(call).await?)?;
        Ok((!sight.is_idle()).then_some(sight))
    }

    /// Takes a lock away from whom it was seen with. `None` if it was not that lease, and else whether
    /// a waiter has it.
    pub(crate) async fn unlock(
        &self,
        key: &LockKey,
        me: OwnerId,
        seen: &Seen,
    ) -> Result<Option<bool>, StoreError> {
        let seen = match seen {
            Seen::Ours { owner, fence } => Ok((*owner, *fence)),
            Seen::Foreign { digest } => Err(digest.as_str()),
        };
        let answer = self.call(Call::unlock(&self.config, key, me, seen)).await?;
        match answer {
            Value::Int(0) => Ok(None),
            Value::Int(1) => Ok(Some(false)),
            Value::Int(2) => Ok(Some(true)),
            other => Err(script::misshapen("unlock", &other)),
        }
    }

    /// All processes that have said what they are.
    pub(crate) async fn introduced(&self) -> Result<BTreeMap<ClientId, Introduction>, StoreError> {
        let mut known = BTreeMap::new();
        let prefix = format!("{}:process:{{", self.config.namespace);
        let pattern = format!("{}:process:{{*}}", escaped(&self.config.namespace));
        for master in self.masters()? {
            let mut scan = Scan::new(&master, pattern.clone(), false);
            while let Some(names) = scan.next().await? {
                let client = |name: &String| {
                    let client = name.strip_prefix(&*prefix)?.strip_suffix('}')?;
                    client.parse().ok()
                };
                let clients = names.iter().filter_map(client).collect();
                known.extend(self.introductions(&clients).await?);
            }
        }
        Ok(known)
    }

    /// What some processes have said of themselves; the others may have ended.
    pub(crate) async fn introductions(
        &self,
        clients: &BTreeSet<ClientId>,
    ) -> Result<BTreeMap<ClientId, Introduction>, StoreError> {
        let mut known = BTreeMap::new();
        let clients: Vec<_> = clients.iter().copied().collect();
        for clients in clients.chunks(LOCKS_AT_ONCE) {
            let ask = |client: &ClientId| Call::of_process(&self.config, *client);
            let calls: Vec<_> = clients.iter().map(ask).collect();
            for (client, answer) in clients.iter().zip(self.call_all(&calls).await) {
                match answer {
                    Ok(Value::BulkString(text)) => {
                        known.extend(Introduction::read(&text).map(|it| (*client, it)));
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == StoreErrorKind::WrongType => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(known)
    }

    /// The lock that one of its keys, which begin with the namespace, belongs to.
    fn lock_of(&self, name: &str) -> Option<LockKey> {
        let name = name.strip_prefix(&*self.config.namespace)?;
        let (lock, part) = name.strip_prefix(":{")?.split_once('}')?;
        // With raw keys the lock itself lies elsewhere.
        let is_lock = part == ":q" || part.is_empty() && !self.config.raw_keys;
        is_lock.then(|| key_of(lock)).flatten()
    }

    async fn look_at_all(
        &self,
        mut keys: Vec<LockKey>,
        found: &mut BTreeMap<LockKey, Sight>,
    ) -> Result<(), StoreError> {
        // A server may tell a key twice, and each lock may have two.
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !found.contains_key(key));
        for keys in keys.chunks(LOCKS_AT_ONCE) {
            let calls: Vec<_> = keys
                .iter()
                .map(|key| Call::look(&self.config, key, MOST_WAITERS))
                .collect();
            let answers = self.call_all(&calls).await;
            for (key, answer) in keys.iter().zip(answers) {
                let sight = match answer.and_then(|answer| read_sight(&answer)) {
                    Ok(sight) => sight,
                    // It is no lock, and one that the user may not see is none of its locks.
                    Err(error) if error.kind() == StoreErrorKind::WrongType => continue,
                    Err(error) if self.config.raw_keys && is_of_key(&error) => continue,
                    Err(error) => return Err(error),
                };
                // What another client has at a key of its own is nobody's business.
                let is_others = self.config.raw_keys && sight.is_foreign();
                if !sight.waiters.is_empty() || sight.occupant.is_some() && !is_others {
                    found.insert(key.clone(), sight);
                }
            }
        }
        Ok(())
    }

    async fn call_all(&self, calls: &[Call]) -> Vec<Result<Value, StoreError>> {
        self.servers
            .run_all(calls, self.config.response_timeout)
            .await
    }

    /// Each server that has locks.
    pub(super) fn masters(&self) -> Result<Vec<super::servers::Master<'_>>, StoreError> {
        let masters = Servers::masters(&self.servers);
        if masters.is_empty() {
            let message = format!("no master of {} is known", self.shown);
            return Err(StoreError::new(StoreErrorKind::Unreachable, message));
        }
        Ok(masters)
    }
}

/// Whether the user may not use the key, rather than a command.
fn is_of_key(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Denied && error.message().contains("key")
}

fn key_of(name: &str) -> Option<LockKey> {
    LockKey::new(name).ok()
}

/// A text that stands for itself in a pattern of keys.
pub(super) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// A walk through the keys of a server, in steps.
struct Scan<'a> {
    node: &'a Node,
    pattern: String,
    /// Only of these can a lock be.
    strings: bool,
    /// `None` at the end.
    cursor: Option<String>,
}

impl<'a> Scan<'a> {
    fn new(node: &'a Node, pattern: String, strings: bool) -> Self {
        Self {
            node,
            pattern,
            strings,
            cursor: Some("0".to_owned()),
        }
    }

    /// Some of the keys that are text, perhaps none; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let Some(cursor) = self.cursor.take() else {
            return Ok(None);
        };
        let mut question = redis::cmd("SCAN");
        question.arg(cursor).arg("MATCH").arg(&self.pattern);
        question.arg("COUNT").arg(KEYS_AT_ONCE);
        if self.strings {
            question.arg("TYPE").arg("string");
        }
        let asked = self.node.ask(&question).await;
        let answer = asked.map_err(|error| error.at(self.node.shown()))?;
        let nonsense = || errors::bad_answer("the answer to `SCAN` makes no sense");
        let Value::Array(fields) = answer else {
            return Err(nonsense());
        };
        let [cursor, Value::Array(names)] = fields.as_slice() else {
            return Err(nonsense());
        };
        let cursor: String = redis::from_redis_value_ref(cursor).map_err(|_| nonsense())?;
        self.cursor = Some(cursor).filter(|cursor| cursor != "0");
        let names = names.iter().filter_map(|name| match name {
            Value::BulkString(name) => str::from_utf8(name).ok().map(str::to_owned),
            _ => None,
        });
        Ok(Some(names.collect()))
    }
}

fn read_sight(answer: &Value) -> Result<Sight, StoreError> {
    sight(answer).ok_or_else(|| script::misshapen("look", answer))
}

fn sight(answer: &Value) -> Option<Sight> {
    let Value::Array(fields) = answer else {
        return None;
    };
    let [
        value,
        digest,
        Value::Int(ttl),
        fence,
        seconds,
        micros,
        Value::Array(queue),
    ] = fields.as_slice()
    else {
        return None;
    };
    let (value, digest) = (bytes(value)?, bytes(digest)?);
    let occupant = (!digest.is_empty()).then(|| {
        let ttl = u64::try_from(*ttl).ok().map(Duration::from_millis);
        occupant(value, digest, ttl)
    });
    let now = Duration::from_secs(number(seconds)?) + Duration::from_micros(number(micros)?);
    let waiters = queue.chunks_exact(3).filter_map(|waiter| {
        let name = str::from_utf8(bytes(&waiter[0])?).ok()?;
        Some(Queued {
            owner: name.strip_suffix('!').unwrap_or(name).parse().ok()?,
            arrived: milliseconds(&waiter[1])?,
            alive_until: milliseconds(&waiter[2])?,
        })
    });
    Some(Sight {
        occupant,
        waiters: waiters.collect(),
        // What is no number of ours is no fence.
        last_fence: number(fence).unwrap_or(0),
        now,
    })
}

fn occupant(value: &[u8], digest: &[u8], ttl: Option<Duration>) -> Occupant {
    let ours = || {
        let (claim, label) = str::from_utf8(value).ok()?.rsplit_once(' ')?;
        let (owner, fence) = claim.split_once(' ')?;
        let is_plain = !fence.is_empty() && fence.bytes().all(|byte| byte.is_ascii_digit());
        let owner = owner.parse().ok()?;
        let fence = fence.parse().ok().filter(|_| is_plain)?;
        (!label.is_empty()).then_some((Seen::Ours { owner, fence }, label))
    };
    let foreign = || Seen::Foreign {
        digest: String::from_utf8_lossy(digest).into_owned(),
    };
    match ours() {
        Some((seen, label)) => {
            let (label, function) = script::read_label(label.as_bytes());
            Occupant {
                seen,
                label,
                function,
                ttl,
            }
        }
        None => Occupant {
            seen: foreign(),
            label: None,
            function: None,
            ttl,
        },
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u64> {
    str::from_utf8(bytes(value)?).ok()?.parse().ok()
}

/// A score, which is a time; whoever may write there may have written any number.
fn milliseconds(score: &Value) -> Option<Duration> {
    let score: f64 = str::from_utf8(bytes(score)?).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(score / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_stands_for_itself() {
        assert_eq!(escaped("a*[b]?\\c"), "a\\*\\[b]\\?\\\\c");
        // A user's right to listen is compared with the pattern letter by letter.
        assert_eq!(escaped("my-app"), "my-app");
    }

    #[test]
    fn only_the_exact_form_is_ours() {
        let owner = "0123456789abcdef0123456789abcdef.7";
        for (value, is_ours) in [
            (format!("{owner} 17 svc@host/1"), true),
            (format!("{owner} 17 -"), true),
            (format!("{owner} +17 -"), false),
            (format!("{owner} 17 a b"), false),
            (format!("{owner} 17 "), false),
            (format!("{owner}  17 -"), false),
            ("token".into(), false),
            (" ".into(), false),
        ] {
            let seen = occupant(value.as_bytes(), b"d", None).seen;
            assert_eq!(matches!(seen, Seen::Ours { .. }), is_ours, "{value:?}");
        }
    }

    #[test]
    fn a_time_may_be_any_number() {
        for text in ["nan", "inf", "-inf", "-1", "1e300", "x", ""] {
            assert_eq!(
                milliseconds(&Value::BulkString(text.into())),
                None,
                "{text}"
            );
        }
        let score = Value::BulkString(b"1.5e3".into());
        assert_eq!(milliseconds(&score), Some(Duration::from_millis(1500)));
    }
}
