//! What is asked of the server: the scripts with all that they are called with.

mod answer;
mod label;
mod send;
#[cfg(test)]
mod tests;
mod text;

use std::{ptr, time::Duration};

use redis::{Arg, Cmd, RedisError, RedisWrite};

#[cfg(feature = "admin")]
pub(super) use self::answer::{misshapen, read_unlock};
use self::text::{ACQUIRE, DROP, RAISE, RELEASE, RENEW, Script};
#[cfg(feature = "admin")]
use self::text::{LOOK, UNLOCK};
pub(super) use self::{
    answer::{Untold, read_acquisition, read_raise, read_release, read_renewal, untold},
    label::read_label,
    text::sources,
};
use super::{RedisConfig, errors, names, slot};
use crate::{
    key::LockKey,
    owner::{ClientId, OwnerId},
    store::{ALIVE, AcquireRequest, Proposal, Queue, RenewRequest, StoreError, StoreErrorKind},
};

/// For how long a waiter counts as alive, in milliseconds.
fn alive() -> i64 {
    i64::try_from(milliseconds(ALIVE)).expect("three seconds fit")
}

/// One script with all it is to be called with, as it is sent; or a plain command with one key, which
/// comes first.
pub(super) struct Call {
    script: Option<&'static Script>,
    command: Cmd,
    /// Where it goes, if not to the slot of its first key.
    slot: Option<u16>,
}

impl Call {
    pub(super) fn acquire(config: &RedisConfig, request: &AcquireRequest<'_>) -> Self {
        let alive = match request.queue {
            Queue::No => 0,
            Queue::ForLease => alive(),
        };
        Self::ask(config, request, alive)
    }

    /// The same for a node of a quorum.
    pub(super) fn propose(config: &RedisConfig, proposal: &Proposal<'_>) -> Self {
        let alive = if proposal.notice { -alive() } else { 0 };
        let mut call = Self::ask(config, &proposal.request, alive);
        call.command.arg(proposal.fence);
        call
    }

    fn ask(config: &RedisConfig, request: &AcquireRequest<'_>, alive: i64) -> Self {
        let mut call = Self::new(&ACQUIRE, config, request.key);
        names::push_others(&mut call.command, config, request.key);
        call.owner(request.owner);
        call.command.arg(milliseconds(request.ttl)).arg(alive);
        label::push(&mut call.command, request.label, request.function);
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
            label::push(&mut call.command, request.label, request.function);
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
        Self::plain(command, None)
    }

    /// A script that works on a lock tries to publish, and says why it cannot.
    #[cfg(feature = "admin")]
    pub(super) fn publish_in_script(config: &RedisConfig) -> Self {
        const SCRIPT: &str = "local told = redis.pcall('PUBLISH', ARGV[1], '0') \
                              return type(told) == 'table' and told.err or 1";
        // No lock has a name with a control character in it.
        let key = format!("{}:{{\u{1}probe}}", config.namespace);
        let mut command = redis::cmd("EVAL");
        command.arg(SCRIPT).arg(1).arg(&key);
        command.arg(probe_channel(&config.namespace));
        Self::plain(command, Some(slot::of_key(key.as_bytes())))
    }

    /// The holder of a lock is told that it was taken away.
    #[cfg(feature = "admin")]
    pub(super) fn tell_holder(config: &RedisConfig, key: &LockKey, holder: OwnerId) -> Self {
        let channel = channel(&config.namespace, holder.client());
        let message = format!("{holder} 0 {key}");
        let untold = Untold {
            channel: channel.as_bytes(),
            message: message.as_bytes(),
        };
        Self::publish(slot::of_key(key.as_str().as_bytes()), untold)
    }

    /// What a process has said of itself is removed, as it has ended.
    pub(super) fn forget(config: &RedisConfig, client: ClientId) -> Self {
        let mut command = redis::cmd("DEL");
        names::push_process(&mut command, config, client);
        Self::plain(command, None)
    }

    /// What a script could not publish, over the connection to the master of a slot.
    pub(super) fn publish(slot: u16, untold: Untold<'_>) -> Self {
        let mut command = redis::cmd("PUBLISH");
        command.arg(untold.channel).arg(untold.message);
        Self::plain(command, Some(slot))
    }

    /// What a process has said of itself.
    #[cfg(feature = "admin")]
    pub(super) fn of_process(config: &RedisConfig, client: ClientId) -> Self {
        let mut command = redis::cmd("GET");
        names::push_process(&mut command, config, client);
        Self::plain(command, None)
    }

    /// A command without a script. One that has no key is for the master of `slot`, or for a server that is
    /// chosen otherwise.
    pub(super) fn plain(command: Cmd, slot: Option<u16>) -> Self {
        Self {
            script: None,
            command,
            slot,
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
            slot: None,
        }
    }

    fn owner(&mut self, owner: OwnerId) {
        self.command.write_arg_fmt(owner);
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
            slot: None,
        })
    }

    /// The slot that all of its keys lie in, or whose master it is for.
    pub(super) fn slot(&self) -> u16 {
        self.slot.unwrap_or_else(|| slot::of_key(self.first_key()))
    }

    fn first_key(&self) -> &[u8] {
        let place = if self.script.is_some() { 3 } else { 1 };
        self.arguments().nth(place).unwrap_or_default()
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
            // What came with Redis 6.2 may be missing in an older one; the rest is in all of them.
            StoreErrorKind::Unsupported => {
                let command = errors::script_line(error).and_then(|line| script.command(line));
                command
                    .filter(|command| *command != "GETEX")
                    .map_or(sorted, errors::not_known)
            }
            StoreErrorKind::WrongType => {
                sorted.reworded(|message| format!("{message} (lock at `{lock}`)"))
            }
            _ => sorted,
        }
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
