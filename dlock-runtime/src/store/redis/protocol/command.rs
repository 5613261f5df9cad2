//! Commands as they are sent: a script with its keys and arguments, or a plain command.

#[cfg(test)]
mod tests;

use std::{ptr, time::Duration};

use redis::{Arg, Cmd, RedisError, RedisWrite};

#[cfg(feature = "admin")]
use super::scripts::{INSPECT, UNLOCK};
use super::{
    answers::UnsentWakeUp,
    errors, label, names,
    scripts::{ACQUIRE, DROP, RAISE, RELEASE, RENEW, Script},
    slot,
};
use crate::{
    key::LockKey,
    mode::LockMode,
    owner::{ClientId, OwnerId},
    store::{
        ALIVE, AcquireRequest, Proposal, Queue, RaiseRequest, ReleaseRequest, RenewRequest,
        StoreError, StoreErrorKind, redis::config::settings::RedisConfig,
    },
};

/// Returns the time for which a waiter counts as alive, in milliseconds.
fn alive() -> i64 {
    i64::try_from(milliseconds(ALIVE)).expect("three seconds fit")
}

/// A script with its keys and arguments, or a plain command with one key, which comes first.
pub(crate) struct Command {
    script: Option<&'static Script>,
    cmd: Cmd,
    /// The slot to which it is sent, if that is not the slot of its first key.
    slot: Option<u16>,
}

impl Command {
    pub(crate) fn acquire(config: &RedisConfig, request: &AcquireRequest<'_>) -> Self {
        let alive = match request.queue {
            Queue::No => 0,
            Queue::ForLease => alive(),
        };
        let mut command = Self::ask(config, request, alive);
        if !request.mode.is_exclusive() {
            command.cmd.arg("");
            command.mode(request.mode);
        }
        command
    }

    /// Creates the same command for a node of a quorum.
    pub(crate) fn propose(config: &RedisConfig, proposal: &Proposal<'_>) -> Self {
        let alive = if proposal.notice { -alive() } else { 0 };
        let mut command = Self::ask(config, &proposal.request, alive);
        command.cmd.arg(proposal.fence);
        command.mode(proposal.request.mode);
        command
    }

    fn ask(config: &RedisConfig, request: &AcquireRequest<'_>, alive: i64) -> Self {
        let mut command = Self::new(&ACQUIRE, config, request.key);
        names::push_others(&mut command.cmd, config, request.key);
        command.owner(request.owner);
        command.cmd.arg(milliseconds(request.ttl)).arg(alive);
        label::push(&mut command.cmd, request.label, request.function);
        command
    }

    /// Adds the mode, unless it is exclusive: `+` to share, `+n` for one of n permits.
    fn mode(&mut self, mode: LockMode) {
        match mode {
            LockMode::Exclusive => {}
            LockMode::Shared => drop(self.cmd.arg("+")),
            LockMode::Permits(most) => self.cmd.write_arg_fmt(format_args!("+{most}")),
        }
    }

    pub(crate) fn raise(config: &RedisConfig, request: &RaiseRequest<'_>) -> Self {
        let mut command = Self::new(&RAISE, config, request.key);
        names::push_fence(&mut command.cmd, config, request.key);
        command.owner(request.owner);
        command.cmd.arg(request.from).arg(request.to);
        command
    }

    pub(crate) fn renew(config: &RedisConfig, request: &RenewRequest<'_>) -> Self {
        let mut command = Self::new(&RENEW, config, request.key);
        command.owner(request.owner);
        command.cmd.arg(milliseconds(request.ttl));
        if !request.label.is_empty() {
            label::push(&mut command.cmd, request.label, request.function);
        } else if !request.mode.is_exclusive() {
            command.cmd.arg("");
        }
        command.mode(request.mode);
        command
    }

    pub(crate) fn release(config: &RedisConfig, request: &ReleaseRequest<'_>) -> Self {
        let mut command = Self::new(&RELEASE, config, request.key);
        names::push_others(&mut command.cmd, config, request.key);
        command.owner(request.owner);
        if !request.mode.is_exclusive() {
            command.cmd.arg("").arg("");
            command.mode(request.mode);
        }
        command
    }

    /// Creates the command that reads everything about a lock, with its first `most` waiters.
    #[cfg(feature = "admin")]
    pub(crate) fn inspect(config: &RedisConfig, key: &LockKey, most: usize) -> Self {
        let mut command = Self::new(&INSPECT, config, key);
        names::push_others(&mut command.cmd, config, key);
        command.cmd.arg(most);
        command
    }

    /// Creates the command that force-releases the lock if it is still as inspected: `claim` is an owner with its
    /// fence, or `*` with the fence of all who share the lock. For a third-party value it is empty, and `digest` is
    /// the SHA-1.
    #[cfg(feature = "admin")]
    pub(crate) fn unlock(
        config: &RedisConfig,
        key: &LockKey,
        me: OwnerId,
        claim: &str,
        digest: &str,
    ) -> Self {
        let mut command = Self::new(&UNLOCK, config, key);
        names::push_others(&mut command.cmd, config, key);
        command.owner(me);
        command.cmd.arg(claim).arg(digest);
        command
    }

    /// Creates the command that writes the record of a process, which expires.
    pub(crate) fn write_presence(
        config: &RedisConfig,
        client: ClientId,
        text: &str,
        ttl: Duration,
    ) -> Self {
        let mut cmd = redis::cmd("SET");
        names::push_process(&mut cmd, config, client);
        cmd.arg(text).arg("PX").arg(milliseconds(ttl));
        Self::plain(cmd, None)
    }

    /// Creates a command that tests the permissions of a script: it works on a lock, tries to publish, and returns
    /// the reason for a failure.
    #[cfg(feature = "admin")]
    pub(crate) fn publish_in_script(config: &RedisConfig) -> Self {
        const SCRIPT: &str = "local told = redis.pcall('PUBLISH', ARGV[1], '0') \
                              return type(told) == 'table' and told.err or 1";
        // No lock's name contains a control character.
        let key = format!("{}:{{\u{1}probe}}", config.namespace);
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(SCRIPT).arg(1).arg(&key);
        cmd.arg(names::probe_channel(&config.namespace));
        Self::plain(cmd, Some(slot::of_key(key.as_bytes())))
    }

    /// Creates the command that notifies the holder of a lock of its forced release.
    #[cfg(feature = "admin")]
    pub(crate) fn tell_holder(config: &RedisConfig, key: &LockKey, holder: OwnerId) -> Self {
        let channel = names::channel(&config.namespace, holder.client());
        let message = format!("{holder} 0 {key}");
        let untold = UnsentWakeUp {
            channel: channel.as_bytes(),
            message: message.as_bytes(),
        };
        Self::publish(slot::of_key(key.as_str().as_bytes()), untold)
    }

    /// Creates the command that removes the record of a process that has ended.
    pub(crate) fn remove_presence(config: &RedisConfig, client: ClientId) -> Self {
        let mut cmd = redis::cmd("DEL");
        names::push_process(&mut cmd, config, client);
        Self::plain(cmd, None)
    }

    /// Publishes a message that a script could not publish, over the connection to the master of a slot.
    pub(crate) fn publish(slot: u16, untold: UnsentWakeUp<'_>) -> Self {
        let mut cmd = redis::cmd("PUBLISH");
        cmd.arg(untold.channel).arg(untold.message);
        Self::plain(cmd, Some(slot))
    }

    /// Creates the command that reads the record of a process.
    #[cfg(feature = "admin")]
    pub(crate) fn read_presence(config: &RedisConfig, client: ClientId) -> Self {
        let mut cmd = redis::cmd("GET");
        names::push_process(&mut cmd, config, client);
        Self::plain(cmd, None)
    }

    /// Creates a command without a script. A command without a key goes to the master of `slot`, or to a server that
    /// is selected otherwise.
    pub(crate) fn plain(cmd: Cmd, slot: Option<u16>) -> Self {
        Self {
            script: None,
            cmd,
            slot,
        }
    }

    /// Creates the command with its first key.
    fn new(script: &'static Script, config: &RedisConfig, key: &LockKey) -> Self {
        // Enough for all but the longest keys. Every command of a section is built here, and its buffers should not
        // grow.
        let mut cmd = Cmd::with_capacity(13, 4 * names::lock_len(config, key) + 256);
        cmd.arg("EVALSHA").arg(&script.hash).arg(script.key_count);
        names::push_lock(&mut cmd, config, key);
        Self {
            script: Some(script),
            cmd,
            slot: None,
        }
    }

    fn owner(&mut self, owner: OwnerId) {
        self.cmd.write_arg_fmt(owner);
    }

    /// Returns the release of the lock alone, for a release whose keys are on two servers at the moment. The lock is
    /// free afterwards, with or without waiters.
    pub(crate) fn of_the_lock_alone(&self) -> Option<Self> {
        if !ptr::eq(self.script?, &raw const *RELEASE) {
            return None;
        }
        let words: Vec<_> = self.arguments().collect();
        let [_, _, _, lock, _, _, _, owner, rest @ ..] = words.as_slice() else {
            return None;
        };
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&DROP.hash).arg(DROP.key_count);
        cmd.arg(lock).arg(owner);
        if let [_, _, mode] = rest {
            cmd.arg(mode);
        }
        let script: &'static Script = &DROP;
        Some(Self {
            script: Some(script),
            cmd,
            slot: None,
        })
    }

    /// Returns the slot of all of its keys, or the slot to whose master it goes.
    pub(crate) fn slot(&self) -> u16 {
        self.slot.unwrap_or_else(|| slot::of_key(self.first_key()))
    }

    fn first_key(&self) -> &[u8] {
        let place = if self.script.is_some() { 3 } else { 1 };
        self.arguments().nth(place).unwrap_or_default()
    }

    /// Returns all arguments of the command.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        self.cmd.args_iter().filter_map(|argument| match argument {
            Arg::Simple(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// Returns the command for a server that has its script.
    pub(crate) fn cmd(&self) -> &Cmd {
        &self.cmd
    }

    /// Returns the command with the source of its script. The server runs the script and stores it, in one round
    /// trip. If only the script was missing, nothing was done before, so nothing is done twice.
    pub(crate) fn whole(&self) -> Cmd {
        let Some(script) = self.script else {
            return self.cmd.clone();
        };
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(&script.source);
        for argument in self.arguments().skip(2) {
            cmd.arg(argument);
        }
        cmd
    }

    /// Describes the failure, with the key to check.
    pub(crate) fn explain(&self, error: &RedisError, limit: Duration) -> StoreError {
        let Some(script) = self.script else {
            return errors::of_command(&self.cmd, error, limit);
        };
        let sorted = errors::of_request(error, limit);
        let lock = String::from_utf8_lossy(self.first_key());
        match sorted.kind() {
            StoreErrorKind::Denied => {
                let cmd = errors::script_line(error).and_then(|line| script.command(line));
                let place = match cmd {
                    Some(cmd) => format!("`{cmd}` in script `{}`", script.name),
                    None => format!("script `{}`", script.name),
                };
                sorted.reworded(|message| format!("{message} ({place}, lock at `{lock}`)"))
            }
            // An older server may lack the commands that came with Redis 6.2. All servers have the others.
            StoreErrorKind::Unsupported => {
                let cmd = errors::script_line(error).and_then(|line| script.command(line));
                cmd.filter(|cmd| *cmd != "GETEX")
                    .map_or(sorted, errors::not_known)
            }
            StoreErrorKind::WrongType => {
                // Its queue, or the fence counter of its slot, may have the data.
                let key = errors::script_line(error).and_then(|line| script.key(line));
                let other = key.filter(|key| *key > 0);
                let other = other.and_then(|key| self.arguments().nth(3 + key));
                let other = other.map(String::from_utf8_lossy);
                let place = match other {
                    Some(other) => format!("value at `{other}`, lock at `{lock}`"),
                    None => format!("lock at `{lock}`"),
                };
                sorted.reworded(|message| format!("{message} ({place})"))
            }
            _ => sorted,
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    // Never zero, which would delete the key, and never more than the server's clock can add.
    const FAR: u64 = 1 << 40;
    u64::try_from(duration.as_millis())
        .unwrap_or(FAR)
        .clamp(1, FAR)
}
