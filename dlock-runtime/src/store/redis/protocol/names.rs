//! The names of a lock's keys and channels in the server.
//!
//! All of them are in one slot, whatever the name of the lock. In braces the name is hashed as a whole, and so
//! is a name that stands alone, because it contains no braces. All other keys contain braces, so none of them
//! can be the name of a lock.

use std::io::Write;

use redis::{Cmd, RedisWrite};

use super::slot;
use crate::{key::LockKey, owner::ClientId, store::redis::RedisConfig};

/// Returns the length of a lock's name, or slightly less.
pub(crate) fn lock_len(config: &RedisConfig, key: &LockKey) -> usize {
    config.namespace.len() + key.as_str().len()
}

pub(crate) fn push_lock(command: &mut Cmd, config: &RedisConfig, key: &LockKey) {
    if config.raw_keys {
        push(command, &[key.as_str()]);
    } else {
        push(command, &[&config.namespace, ":{", key.as_str(), "}"]);
    }
}

/// Adds the keys after the first: the queue, the living waiters and the fence.
pub(crate) fn push_others(command: &mut Cmd, config: &RedisConfig, key: &LockKey) {
    let (namespace, lock) = (&config.namespace, key.as_str());
    let living = if config.raw_keys { "}:ra" } else { "}:a" };
    push(command, &[namespace, ":{", lock, "}", queue(config)]);
    push(command, &[namespace, ":{", lock, living]);
    push_fence(command, config, key);
}

/// Returns the suffix of a queue's name.
///
/// **Safety.** A release grants the lock to the first waiter of its queue. A lock at a raw key differs from the lock
/// of the same name in the namespace, so it has its own queue.
pub(crate) fn queue(config: &RedisConfig) -> &'static str {
    if config.raw_keys { ":rq" } else { ":q" }
}

pub(crate) fn push_fence(command: &mut Cmd, config: &RedisConfig, key: &LockKey) {
    let (namespace, tag) = (&config.namespace, slot::tag(key.as_str()));
    command.write_arg_fmt(format_args!("{namespace}:fence:{{{tag:x}}}"));
}

/// Adds the key of a process's record. In braces, it could be a lock of a namespace that ends in `:process`. No lock
/// has this name.
pub(crate) fn push_process(command: &mut Cmd, config: &RedisConfig, client: ClientId) {
    let namespace = &config.namespace;
    command.write_arg_fmt(format_args!("{namespace}:process:{{{client}}}"));
}

/// Adds one argument, without an intermediate string.
pub(crate) fn push(command: &mut Cmd, parts: &[&str]) {
    let mut argument = command.writer_for_next_arg();
    for part in parts {
        argument
            .write_all(part.as_bytes())
            .expect("memory takes all that is written");
    }
}

pub(crate) fn channel_prefix(namespace: &str) -> String {
    format!("{namespace}:wake:")
}

/// Returns a channel without messages. A user that may subscribe to it may subscribe to the channel of every client.
pub(crate) fn probe_channel(namespace: &str) -> String {
    format!("{namespace}:wake:probe")
}

pub(crate) fn channel(namespace: &str, client: ClientId) -> String {
    format!("{namespace}:wake:{client}")
}
