//! What the keys of a lock are called in the server.
//!
//! All of them lie in one slot, whatever the lock itself is called: in braces its name is hashed as a
//! whole, and so it is where it stands alone, since it has no braces. Nor is any of the other keys
//! ever the name of a lock, since they all have braces.

use std::io::Write;

use redis::{Cmd, RedisWrite};

use super::{RedisConfig, slot};
use crate::key::LockKey;

/// How long the name of a lock is, or somewhat less.
pub(super) fn lock_len(config: &RedisConfig, key: &LockKey) -> usize {
    config.namespace.len() + key.as_str().len()
}

pub(super) fn push_lock(command: &mut Cmd, config: &RedisConfig, key: &LockKey) {
    if config.raw_keys {
        push(command, &[key.as_str()]);
    } else {
        push(command, &[&config.namespace, ":{", key.as_str(), "}"]);
    }
}

/// The keys after the first: the queue, the living, and the fence.
pub(super) fn push_others(command: &mut Cmd, config: &RedisConfig, key: &LockKey) {
    let (namespace, key) = (&config.namespace, key.as_str());
    push(command, &[namespace, ":{", key, "}:q"]);
    push(command, &[namespace, ":{", key, "}:a"]);
    let fence = format_args!("{namespace}:fence:{{{:x}}}", slot::tag(key));
    command.write_arg_fmt(fence);
}

/// One argument, written without a string of its own.
pub(super) fn push(command: &mut Cmd, parts: &[&str]) {
    let mut argument = command.writer_for_next_arg();
    for part in parts {
        argument
            .write_all(part.as_bytes())
            .expect("memory takes all that is written");
    }
}
