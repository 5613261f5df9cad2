//! The state of a lock at one moment, as parsed from a server's answer.

use std::time::Duration;

use redis::Value;

use crate::{
    owner::OwnerId,
    store::{
        StoreError,
        redis::protocol::{answers, label},
    },
};

/// A lock at one moment.
#[derive(Debug)]
pub(crate) struct LockSnapshot {
    pub(crate) occupant: Option<HolderSnapshot>,
    /// In the order of the queue.
    pub(crate) waiters: Vec<WaiterSnapshot>,
    /// The number of waiters after those.
    pub(crate) untold: usize,
    /// 0 if there is none.
    pub(crate) last_fence: u64,
    /// The server's time, since 1970.
    pub(crate) now: Duration,
}

impl LockSnapshot {
    pub(super) fn is_foreign(&self) -> bool {
        let occupant = self.occupant.as_ref();
        occupant.is_some_and(|it| matches!(it.seen, LeaseIdentity::Foreign { .. }))
    }

    /// Returns `true` if it has neither a holder nor waiters.
    pub(super) fn is_idle(&self) -> bool {
        self.occupant.is_none() && self.waiters.is_empty()
    }
}

/// The holder of a lock.
#[derive(Debug)]
pub(crate) struct HolderSnapshot {
    pub(crate) seen: LeaseIdentity,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    /// `None` if it has no TTL.
    pub(crate) ttl: Option<Duration>,
}

/// The value by which the same lease is recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseIdentity {
    Ours {
        owner: OwnerId,
        fence: u64,
    },
    /// A third-party lease, by the SHA-1 of its value, which may be secret.
    Foreign {
        digest: String,
    },
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct WaiterSnapshot {
    pub(crate) owner: OwnerId,
    pub(crate) arrived: Duration,
    pub(crate) alive_until: Duration,
}

pub(super) fn read_snapshot(answer: &Value) -> Result<LockSnapshot, StoreError> {
    snapshot(answer).ok_or_else(|| answers::misshapen("inspect", answer))
}

fn snapshot(answer: &Value) -> Option<LockSnapshot> {
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
        Value::Int(queued),
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
    let untold = usize::try_from(*queued)
        .ok()?
        .saturating_sub(queue.len() / 3);
    let waiters = queue.chunks_exact(3).filter_map(|waiter| {
        let name = str::from_utf8(bytes(&waiter[0])?).ok()?;
        Some(WaiterSnapshot {
            owner: name.strip_suffix('!').unwrap_or(name).parse().ok()?,
            arrived: milliseconds(&waiter[1])?,
            alive_until: milliseconds(&waiter[2])?,
        })
    });
    Some(LockSnapshot {
        occupant,
        waiters: waiters.collect(),
        untold,
        // A value that is not a number is not a fence.
        last_fence: number(fence).unwrap_or(0),
        now,
    })
}

fn occupant(value: &[u8], digest: &[u8], ttl: Option<Duration>) -> HolderSnapshot {
    let ours = || {
        let (claim, label) = str::from_utf8(value).ok()?.rsplit_once(' ')?;
        let (owner, fence) = claim.split_once(' ')?;
        let is_plain = !fence.is_empty() && fence.bytes().all(|byte| byte.is_ascii_digit());
        let owner = owner.parse().ok()?;
        let fence = fence.parse().ok().filter(|_| is_plain)?;
        (!label.is_empty()).then_some((LeaseIdentity::Ours { owner, fence }, label))
    };
    let foreign = || LeaseIdentity::Foreign {
        digest: String::from_utf8_lossy(digest).into_owned(),
    };
    match ours() {
        Some((seen, label)) => {
            let (label, function) = label::read_label(label.as_bytes());
            HolderSnapshot {
                seen,
                label,
                function,
                ttl,
            }
        }
        None => HolderSnapshot {
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

/// Reads a score, which is a time. Any client with write access may have written any number.
fn milliseconds(score: &Value) -> Option<Duration> {
    let score: f64 = str::from_utf8(bytes(score)?).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(score / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(
                matches!(seen, LeaseIdentity::Ours { .. }),
                is_ours,
                "{value:?}"
            );
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
