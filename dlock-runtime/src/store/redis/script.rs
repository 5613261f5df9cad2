//! The scripts: how they are called, and what their answers mean.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, iter, ptr, sync::LazyLock, time::Duration};

use redis::{
    Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisWrite, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};

use super::{RedisConfig, errors, names, slot};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{
        ALIVE, AcquireRequest, Acquisition, Holder, Queue, Raised, Released, RenewRequest, Renewal,
        StoreError, StoreErrorKind,
    },
};

/// A label that says nothing, because a field of a value cannot be empty.
const NO_LABEL: &str = "-";

/// Stands between a label and the name of a function.
const BEFORE_FUNCTION: &str = "#";

static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new("acquire", include_str!("acquire.lua"), 4));
static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new("renew", include_str!("renew.lua"), 1));
static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new("release", include_str!("release.lua"), 4));
static RAISE: LazyLock<Script> =
    LazyLock::new(|| Script::new("raise", include_str!("raise.lua"), 2));
static DROP: LazyLock<Script> = LazyLock::new(|| Script::new("drop", include_str!("drop.lua"), 1));
#[cfg(feature = "admin")]
static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new("look", include_str!("look.lua"), 4));
#[cfg(feature = "admin")]
static UNLOCK: LazyLock<Script> = LazyLock::new(|| {
    let source = concat!(include_str!("unlock.lua"), include_str!("release.lua"));
    Script::new("unlock", source, 4)
});

/// The text of every script that a lock usually needs, for a new connection to load.
pub(super) fn sources() -> [&'static str; 3] {
    [ACQUIRE.source, RENEW.source, RELEASE.source]
}

/// One script with all it is to be called with, as it is sent; or a plain command with one key, which
/// comes first.
pub(super) struct Call {
    script: Option<&'static Script>,
    command: Cmd,
}

impl Call {
    pub(super) fn acquire(config: &RedisConfig, request: &AcquireRequest<'_>) -> Self {
        let alive = i64::try_from(milliseconds(ALIVE)).expect("three seconds fit");
        let alive = match request.queue {
            Queue::No => 0,
            Queue::ForLease => alive,
            Queue::ForNotice => -alive,
        };
        let mut call = Self::new(&ACQUIRE, config, request.key);
        names::push_others(&mut call.command, config, request.key);
        call.owner(request.owner);
        call.command.arg(milliseconds(request.ttl)).arg(alive);
        call.label(request.label, request.function);
        if let Some(proposal) = request.proposal {
            call.command.arg(proposal);
        }
        call
    }

    pub(super) fn raise(
        config: &RedisConfig,
        key: &LockKey,
        owner: OwnerId,
        [from, to]: [u64; 2],
    ) -> Self {
        let mut call = Self::new(&RAISE, config, key);
        names::push_fence(&mut call.command, config, key);
        call.owner(owner);
        call.command.arg(from).arg(to);
        call
    }

    pub(super) fn renew(config: &RedisConfig, request: &RenewRequest<'_>) -> Self {
        let mut call = Self::new(&RENEW, config, request.key);
        call.owner(request.owner);
        call.command.arg(milliseconds(request.ttl));
        if !request.label.is_empty() {
            call.label(request.label, request.function);
        }
        call
    }

    pub(super) fn release(config: &RedisConfig, key: &LockKey, owner: OwnerId) -> Self {
        let mut call = Self::new(&RELEASE, config, key);
        names::push_others(&mut call.command, config, key);
        call.owner(owner);
        call
    }

    /// All there is to know of a lock, with the first `most` of its waiters.
    #[cfg(feature = "admin")]
    pub(super) fn look(config: &RedisConfig, key: &LockKey, most: usize) -> Self {
        let mut call = Self::new(&LOOK, config, key);
        names::push_others(&mut call.command, config, key);
        call.command.arg(most);
        call
    }

    /// The lock is taken away if it is still what was seen there: an owner with its fence, or what has
    /// this SHA-1.
    #[cfg(feature = "admin")]
    pub(super) fn unlock(
        config: &RedisConfig,
        key: &LockKey,
        me: OwnerId,
        seen: Result<(OwnerId, u64), &str>,
    ) -> Self {
        let mut call = Self::new(&UNLOCK, config, key);
        names::push_others(&mut call.command, config, key);
        call.owner(me);
        match seen {
            Ok((owner, fence)) => {
                let claim = format_args!("{owner} {fence}");
                call.command.write_arg_fmt(claim);
                call.command.arg("");
            }
            Err(digest) => {
                call.command.arg("").arg(digest);
            }
        }
        call
    }

    /// A process says what it is, which counts for a while.
    pub(super) fn introduce(
        config: &RedisConfig,
        client: ClientId,
        text: &str,
        ttl: Duration,
    ) -> Self {
        let mut command = redis::cmd("SET");
        names::push_process(&mut command, config, client);
        command.arg(text).arg("PX").arg(milliseconds(ttl));
        Self {
            script: None,
            command,
        }
    }

    /// What a process has said of itself.
    #[cfg(feature = "admin")]
    pub(super) fn of_process(config: &RedisConfig, client: ClientId) -> Self {
        let mut command = redis::cmd("GET");
        names::push_process(&mut command, config, client);
        Self {
            script: None,
            command,
        }
    }

    /// The call with its first key.
    fn new(script: &'static Script, config: &RedisConfig, key: &LockKey) -> Self {
        // Enough for all but the longest keys: every call of a section is made here, and must not
        // grow its buffers on the way.
        let mut command = Cmd::with_capacity(13, 4 * names::lock_len(config, key) + 256);
        command
            .arg("EVALSHA")
            .arg(&script.hash)
            .arg(script.key_count);
        names::push_lock(&mut command, config, key);
        Self {
            script: Some(script),
            command,
        }
    }

    fn owner(&mut self, owner: OwnerId) {
        self.command.write_arg_fmt(owner);
    }

    /// What the holder says of itself, in one word: `label#function`.
    fn label(&mut self, label: &str, function: &str) {
        let label = if label.is_empty() { NO_LABEL } else { label };
        let (label, function) = (plain(label), plain(function));
        if function.is_empty() {
            names::push(&mut self.command, &[&label]);
        } else {
            names::push(&mut self.command, &[&label, BEFORE_FUNCTION, &function]);
        }
    }

    /// For a release whose keys lie on two servers at the moment: the same of the lock alone, which
    /// is free then, whoever waits for it.
    pub(super) fn of_the_lock_alone(&self) -> Option<Self> {
        if !ptr::eq(self.script?, &raw const *RELEASE) {
            return None;
        }
        let words: Vec<_> = self.arguments().collect();
        let [_, _, _, lock, .., owner] = words.as_slice() else {
            return None;
        };
        let mut command = redis::cmd("EVALSHA");
        command.arg(&DROP.hash).arg(DROP.key_count);
        command.arg(lock).arg(owner);
        let script: &'static Script = &DROP;
        Some(Self {
            script: Some(script),
            command,
        })
    }

    /// The slot that all of its keys lie in.
    pub(super) fn slot(&self) -> u16 {
        slot::of_key(self.first_key())
    }

    fn first_key(&self) -> &[u8] {
        let place = if self.script.is_some() { 3 } else { 1 };
        self.arguments().nth(place).unwrap_or_default()
    }

    /// Runs the script, also on a server that has forgotten it.
    ///
    /// `asking` is for a server to which the slot is only being moved yet.
    pub(super) async fn run(
        &self,
        connection: &mut MultiplexedConnection,
        asking: bool,
    ) -> Result<Value, RedisError> {
        match send(&self.command, connection, asking).await {
            Err(error) if is_forgotten(&error) => send(&self.whole(), connection, asking).await,
            answer => answer,
        }
    }

    /// Runs one script several times in one write, or in two if the server has forgotten it, and
    /// `last` after all of them. The answers are in this order; an error of all is one of the
    /// connection.
    pub(super) async fn run_all(
        calls: &[&Self],
        last: Option<&Cmd>,
        connection: &mut MultiplexedConnection,
    ) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
        let commands = calls.iter().map(|call| call.command.clone());
        let commands = commands.chain(last.cloned()).collect();
        let mut answers = send_all(commands, connection).await?;
        let mut forgotten: Vec<_> = (0..calls.len())
            .filter(|&at| answers[at].as_ref().is_err_and(is_forgotten))
            .collect();
        let Some((&first, rest)) = forgotten.split_first() else {
            return Ok(answers);
        };
        // By the first the server remembers the script for the rest.
        let rest = rest.iter().map(|&at| calls[at].command.clone());
        let commands = iter::once(calls[first].whole()).chain(rest);
        // What it told was not about these.
        let commands = commands.chain(last.cloned()).collect();
        forgotten.extend(last.map(|_| calls.len()));
        let again = send_all(commands, connection).await?;
        for (at, answer) in forgotten.into_iter().zip(again) {
            answers[at] = answer;
        }
        Ok(answers)
    }

    /// The same with the script's source, which runs it and makes the server remember it, in one
    /// round trip. Where only that was missing nothing has been done yet, so nothing is done twice.
    fn whole(&self) -> Cmd {
        let Some(script) = self.script else {
            return self.command.clone();
        };
        let mut command = redis::cmd("EVAL");
        command.arg(script.source);
        for argument in self.arguments().skip(2) {
            command.arg(argument);
        }
        command
    }

    /// All words of the command.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        self.command
            .args_iter()
            .filter_map(|argument| match argument {
                Arg::Simple(bytes) => Some(bytes),
                _ => None,
            })
    }

    /// The failure in words, with the place where one has to look.
    pub(super) fn explain(&self, error: &RedisError, limit: Duration) -> StoreError {
        let Some(script) = self.script else {
            return errors::of_command(&self.command, error, limit);
        };
        let sorted = errors::of_request(error, limit);
        let lock = String::from_utf8_lossy(self.first_key());
        match sorted.kind() {
            StoreErrorKind::Denied => {
                let command = errors::script_line(error).and_then(|line| script.command(line));
                let place = match command {
                    Some(command) => format!("`{command}` in script `{}`", script.name),
                    None => format!("script `{}`", script.name),
                };
                sorted.reworded(|message| format!("{message} ({place}, lock at `{lock}`)"))
            }
            StoreErrorKind::WrongType => {
                sorted.reworded(|message| format!("{message} (lock at `{lock}`)"))
            }
            _ => sorted,
        }
    }
}

/// A part of the word by which a holder is known. With a space in it, the owner would not find its own
/// lock again.
fn plain(part: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_graphic() && !BEFORE_FUNCTION.contains(c);
    if part.chars().all(is_plain) {
        Cow::Borrowed(part)
    } else {
        Cow::Owned(part.replace(|c| !is_plain(c), "_"))
    }
}

/// Whether the server no longer has the script.
fn is_forgotten(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Sends one command, on request right behind the word that it may be answered.
async fn send(
    command: &Cmd,
    connection: &mut MultiplexedConnection,
    asking: bool,
) -> Result<Value, RedisError> {
    if !asking {
        let answer = connection.send_packed_command(command).await;
        return answer.and_then(Value::extract_error);
    }
    // Adjacent, as the word holds for the next command of the connection.
    let both = vec![redis::cmd("ASKING"), command.clone()];
    let mut last = Ok(Value::Nil);
    for answer in send_all(both, connection).await? {
        last = Ok(answer?);
    }
    last
}

/// Sends commands in one write; each has an answer of its own.
async fn send_all(
    commands: Vec<Cmd>,
    connection: &mut MultiplexedConnection,
) -> Result<Vec<Result<Value, RedisError>>, RedisError> {
    let count = commands.len();
    let mut pipeline = Pipeline::with_capacity(count);
    for command in commands {
        pipeline.add_command(command);
    }
    let answers = connection.send_packed_commands(&pipeline, 0, count).await?;
    Ok(answers.into_iter().map(Value::extract_error).collect())
}

struct Script {
    name: &'static str,
    source: &'static str,
    hash: String,
    key_count: usize,
}

impl Script {
    fn new(name: &'static str, source: &'static str, key_count: usize) -> Self {
        let hash = redis::Script::new(source).get_hash().to_owned();
        Self {
            name,
            source,
            hash,
            key_count,
        }
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

fn milliseconds(duration: Duration) -> u64 {
    // Never zero, which would delete the key, and never more than the server's clock can add.
    const FAR: u64 = 1 << 40;
    u64::try_from(duration.as_millis())
        .unwrap_or(FAR)
        .clamp(1, FAR)
}

pub(super) fn read_acquisition(answer: &Value) -> Result<Acquisition, StoreError> {
    let fence = |fence: i64| u64::try_from(fence).map_err(|_| misshapen("acquire", answer));
    match answer {
        Value::Int(granted) => Ok(Acquisition::Granted {
            fence: fence(*granted)?,
        }),
        Value::Array(fields) => match fields.as_slice() {
            [
                Value::Int(ttl),
                Value::Int(place),
                Value::Int(last),
                Value::BulkString(label),
                Value::Int(held),
            ] => {
                let (label, function) = read_label(label);
                Ok(Acquisition::Busy(Holder {
                    label,
                    function,
                    // Less than zero: no time to live.
                    ttl: u64::try_from(*ttl).ok().map(Duration::from_millis),
                    position: u64::try_from(*place).ok(),
                    fence: fence(*held)?,
                    last_fence: fence(*last)?,
                    is_here: false,
                }))
            }
            _ => Err(misshapen("acquire", answer)),
        },
        _ => Err(misshapen("acquire", answer)),
    }
}

/// What a holder says of itself and of the function, as far as it can stand in a line of a log: whoever
/// may write the key may have written anything. Those of dlock are shorter and printable.
pub(super) fn read_label(word: &[u8]) -> (Option<String>, Option<String>) {
    const LONGEST: usize = 128;
    let read = |text: &[u8]| {
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
        let text = text.replace(char::is_control, "_");
        (!text.is_empty() && text != NO_LABEL).then_some(text)
    };
    let mut parts = word.splitn(2, |byte| BEFORE_FUNCTION.as_bytes().contains(byte));
    let label = parts.next().and_then(read);
    (label, parts.next().and_then(read))
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

pub(super) fn read_raise(answer: &Value) -> Result<Raised, StoreError> {
    match answer {
        Value::Int(1) => Ok(Raised::Raised),
        Value::Int(0) => Ok(Raised::NotOwner),
        other => Err(misshapen("raise", other)),
    }
}

pub(super) fn misshapen(script: &str, answer: &Value) -> StoreError {
    // Whatever answers may send megabytes.
    let shown: String = format!("{answer:?}").chars().take(80).collect();
    let shown = errors::quoted(&shown);
    errors::bad_answer(format!("the answer to `{script}` makes no sense: {shown}"))
}
