//! The three scripts: how they are called, and what their answers mean.

use std::{fmt::Display, sync::LazyLock, time::Duration};

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection};

use super::{errors, slot};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{
        ALIVE, AcquireRequest, Acquisition, GRANT_TTL, Holder, Released, Renewal, StoreError,
        StoreErrorKind,
    },
};

/// A label that says nothing, because a field of a value cannot be empty.
const NO_LABEL: &str = "-";

static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new("acquire", include_str!("acquire.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new("renew", include_str!("renew.lua")));
static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new("release", include_str!("release.lua")));

/// The text of every script, for a new connection to load.
pub(super) fn sources() -> [&'static str; 3] {
    [ACQUIRE.source, RENEW.source, RELEASE.source]
}

/// One script with all it is to be called with.
pub(super) struct Call {
    script: &'static Script,
    key_count: usize,
    /// Keys first, then arguments.
    words: Vec<Word>,
}

enum Word {
    Text(String),
    Number(u64),
}

impl Call {
    pub(super) fn acquire(namespace: &str, request: &AcquireRequest<'_>) -> Self {
        let alive = if request.queue {
            milliseconds(ALIVE)
        } else {
            0
        };
        // A space in it, and the owner would not find its own lock again.
        let mut label = request.label.replace(|c: char| !c.is_ascii_graphic(), "_");
        if label.is_empty() {
            NO_LABEL.clone_into(&mut label);
        }
        Self::new(&ACQUIRE, &keys(namespace, request.key))
            .text(request.owner)
            .number(milliseconds(request.ttl))
            .number(alive)
            .text(label)
            .number(milliseconds(GRANT_TTL))
            .text(channel_prefix(namespace))
            .text(request.key)
    }

    pub(super) fn renew(namespace: &str, key: &LockKey, owner: OwnerId, ttl: Duration) -> Self {
        let [lock, ..] = keys(namespace, key);
        Self::new(&RENEW, &[lock])
            .text(owner)
            .number(milliseconds(ttl))
    }

    pub(super) fn release(namespace: &str, key: &LockKey, owner: OwnerId) -> Self {
        Self::new(&RELEASE, &keys(namespace, key))
            .text(owner)
            .number(milliseconds(GRANT_TTL))
            .text(channel_prefix(namespace))
            .text(key)
    }

    fn new(script: &'static Script, keys: &[String]) -> Self {
        let words = keys.iter().cloned().map(Word::Text).collect();
        Self {
            script,
            key_count: keys.len(),
            words,
        }
    }

    fn text(mut self, text: impl Display) -> Self {
        self.words.push(Word::Text(text.to_string()));
        self
    }

    fn number(mut self, number: u64) -> Self {
        self.words.push(Word::Number(number));
        self
    }

    /// Runs the script, also on a server that has forgotten it.
    pub(super) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        let short = self.command("EVALSHA", &self.script.hash);
        match connection
            .send_packed_command(&short)
            .await
            .and_then(Value::extract_error)
        {
            // The source runs it and makes the server remember it, in one round trip. Nothing has
            // been done yet, so nothing is done twice.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let whole = self.command("EVAL", self.script.source);
                connection
                    .send_packed_command(&whole)
                    .await
                    .and_then(Value::extract_error)
            }
            answer => answer,
        }
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.key_count);
        for word in &self.words {
            match word {
                Word::Text(text) => command.arg(text),
                Word::Number(number) => command.arg(*number),
            };
        }
        command
    }

    /// The failure in words, with the place where one has to look.
    pub(super) fn explain(&self, error: &RedisError, limit: Duration) -> StoreError {
        let sorted = errors::of_request(error, limit);
        let Some(Word::Text(lock)) = self.words.first() else {
            return sorted;
        };
        match sorted.kind() {
            StoreErrorKind::Denied => {
                let command = errors::script_line(error).and_then(|line| self.script.command(line));
                let place = match command {
                    Some(command) => format!("`{command}` in script `{}`", self.script.name),
                    None => format!("script `{}`", self.script.name),
                };
                StoreError::new(
                    StoreErrorKind::Denied,
                    format!("{} ({place}, lock at `{lock}`)", sorted.message()),
                )
            }
            StoreErrorKind::WrongType => StoreError::new(
                StoreErrorKind::WrongType,
                format!("{} (lock at `{lock}`)", sorted.message()),
            ),
            _ => sorted,
        }
    }
}

struct Script {
    name: &'static str,
    source: &'static str,
    hash: String,
}

impl Script {
    fn new(name: &'static str, source: &'static str) -> Self {
        let hash = redis::Script::new(source).get_hash().to_owned();
        Self { name, source, hash }
    }

    /// The command that is called in a line.
    fn command(&self, line: usize) -> Option<&'static str> {
        let line = self.source.lines().nth(line.checked_sub(1)?)?;
        line.split('\'')
            .nth(1)
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase()))
    }
}

pub(super) fn channel_prefix(namespace: &str) -> String {
    format!("{namespace}:wake:")
}

/// Nobody sends anything there: who may subscribe it may subscribe every client's channel.
pub(super) fn probe_channel(namespace: &str) -> String {
    format!("{namespace}:wake:probe")
}

pub(super) fn channel(namespace: &str, client: ClientId) -> String {
    format!("{namespace}:wake:{client}")
}

fn keys(namespace: &str, key: &LockKey) -> [String; 4] {
    // The braces make all of a lock's keys, and the fence of its slot, lie in one slot.
    [
        format!("{namespace}:{{{key}}}"),
        format!("{namespace}:{{{key}}}:q"),
        format!("{namespace}:{{{key}}}:a"),
        format!("{namespace}:fence:{{{:x}}}", slot::tag(key.as_str())),
    ]
}

fn milliseconds(duration: Duration) -> u64 {
    // Never zero, which would delete the key, and never more than the server's clock can add.
    const FAR: u64 = 1 << 40;
    u64::try_from(duration.as_millis())
        .unwrap_or(FAR)
        .clamp(1, FAR)
}

pub(super) fn read_acquisition(answer: &Value) -> Result<Acquisition, StoreError> {
    let Value::Array(fields) = answer else {
        return Err(misshapen("acquire", answer));
    };
    match fields.as_slice() {
        [Value::Int(1), Value::Int(fence)] => match u64::try_from(*fence) {
            Ok(fence) => Ok(Acquisition::Granted { fence }),
            Err(_) => Err(misshapen("acquire", answer)),
        },
        [
            Value::Int(0),
            Value::Int(ttl),
            Value::Int(place),
            Value::Int(last),
            Value::BulkString(label),
        ] => {
            let label = String::from_utf8_lossy(label);
            Ok(Acquisition::Busy(Holder {
                label: (!label.is_empty() && label != NO_LABEL).then(|| label.into_owned()),
                // Less than zero: no time to live.
                ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
                position: u64::try_from(*place).ok(),
                last_fence: u64::try_from(*last).map_err(|_| misshapen("acquire", answer))?,
                is_here: false,
            }))
        }
        _ => Err(misshapen("acquire", answer)),
    }
}

pub(super) fn read_renewal(answer: &Value) -> Result<Renewal, StoreError> {
    match answer {
        Value::Int(1) => Ok(Renewal::Renewed),
        Value::Int(0) => Ok(Renewal::NotOwner),
        other => Err(misshapen("renew", other)),
    }
}

pub(super) fn read_release(answer: &Value) -> Result<Released, StoreError> {
    match answer {
        Value::Int(1 | 2) => Ok(Released::WasHeld),
        Value::Int(0) => Ok(Released::WasGone),
        other => Err(misshapen("release", other)),
    }
}

fn misshapen(script: &str, answer: &Value) -> StoreError {
    // Whatever answers may send megabytes.
    let shown: String = format!("{answer:?}").chars().take(80).collect();
    errors::bad_answer(format!("the answer to `{script}` makes no sense: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_locks_keys_share_its_slot() {
        let key = LockKey::new("order 7").unwrap();
        let keys = keys("dlock", &key);
        assert_eq!(
            keys[..3],
            ["dlock:{order 7}", "dlock:{order 7}:q", "dlock:{order 7}:a"]
        );
        assert!(keys[3].starts_with("dlock:fence:{"), "{}", keys[3]);
        let owner = ClientId::new(&SystemRandom);
        assert_eq!(
            channel("ns", owner),
            format!("{}{owner}", channel_prefix("ns"))
        );
        assert!(probe_channel("ns").starts_with(&channel_prefix("ns")));
    }

    #[test]
    fn times_are_never_zero() {
        assert_eq!(milliseconds(Duration::ZERO), 1);
        assert_eq!(milliseconds(Duration::from_micros(1999)), 1);
        assert_eq!(milliseconds(Duration::MAX), 1 << 40);
    }

    #[test]
    fn a_line_of_a_script_names_its_command() {
        let line = ACQUIRE
            .source
            .lines()
            .position(|line| line.contains("redis.call('GET', lock"));
        assert_eq!(ACQUIRE.command(line.unwrap() + 1), Some("GET"));
        assert_eq!(ACQUIRE.command(0), None);
        assert_eq!(ACQUIRE.command(10_000), None);
    }

    #[test]
    fn answers_are_read_strictly() {
        let label = |text: &str| Value::BulkString(text.into());
        let busy = |ttl, place, text| {
            let numbers = [0, ttl, place, 41].map(Value::Int);
            Value::Array(numbers.into_iter().chain([label(text)]).collect())
        };
        let granted = Value::Array(vec![Value::Int(1), Value::Int(42)]);
        assert_eq!(
            read_acquisition(&granted),
            Ok(Acquisition::Granted { fence: 42 })
        );
        assert_eq!(
            read_acquisition(&busy(1500, 0, "a@b/1")),
            Ok(Acquisition::Busy(Holder {
                label: Some("a@b/1".into()),
                ttl: Some(Duration::from_millis(1500)),
                position: Some(0),
                last_fence: 41,
                is_here: false,
            }))
        );
        for anonymous in ["", "-"] {
            assert_eq!(
                read_acquisition(&busy(-1, -1, anonymous)),
                Ok(Acquisition::Busy(Holder {
                    last_fence: 41,
                    ..Holder::default()
                }))
            );
        }
        for nonsense in [
            Value::Nil,
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(1), Value::Int(-1)]),
            Value::Array(vec![Value::Int(2), Value::Int(3)]),
            label("PONG"),
        ] {
            let error = read_acquisition(&nonsense).expect_err("it makes no sense");
            assert_eq!(error.kind(), StoreErrorKind::BadAnswer);
            assert!(read_renewal(&nonsense).is_err() && read_release(&nonsense).is_err());
        }
        assert_eq!(read_renewal(&Value::Int(0)), Ok(Renewal::NotOwner));
        assert_eq!(read_release(&Value::Int(2)), Ok(Released::WasHeld));
        assert_eq!(read_release(&Value::Int(0)), Ok(Released::WasGone));
    }
}
