//! The state of a lock at one moment, as parsed from a server's answer.

use std::time::Duration;

use redis::Value;

use crate::{
    mode::LockMode,
    owner::{ClientId, OwnerId},
    store::{
        StoreError,
        redis::protocol::{answers, label},
    },
};

/// A lock at one moment.
#[derive(Debug)]
pub struct LockSnapshot {
    /// One holder, or all who share the lock, in the order of their owner ids.
    pub occupants: Vec<HolderSnapshot>,
    /// The number of holders after those.
    pub unlisted: usize,
    /// In the order of the queue.
    pub waiters: Vec<WaiterSnapshot>,
    /// The number of waiters after those.
    pub untold: usize,
    /// 0 if there is none.
    pub last_fence: u64,
    /// The server's time, since 1970.
    pub now: Duration,
}

impl LockSnapshot {
    pub(super) fn is_foreign(&self) -> bool {
        let mut occupants = self.occupants.iter();
        occupants.any(|it| matches!(it.seen, LeaseIdentity::Foreign { .. }))
    }

    /// Returns `true` if it has neither a holder nor waiters.
    pub(super) fn is_idle(&self) -> bool {
        self.occupants.is_empty() && self.waiters.is_empty()
    }

    /// Returns all clients that hold the lock or wait for it on this server.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        let holders = self.occupants.iter().filter_map(HolderSnapshot::owner);
        let waiters = self.waiters.iter().map(|waiter| waiter.owner);
        holders.chain(waiters).map(OwnerId::client)
    }
}

/// A holder of a lock.
#[derive(Debug)]
pub struct HolderSnapshot {
    pub seen: LeaseIdentity,
    pub is_shared: bool,
    pub label: Option<String>,
    pub function: Option<String>,
    /// `None` if it has no TTL.
    pub ttl: Option<Duration>,
}

impl HolderSnapshot {
    /// Returns the owner id, without the round of a quorum; `None` for a third-party client.
    #[must_use]
    pub fn owner(&self) -> Option<OwnerId> {
        match self.seen {
            LeaseIdentity::Ours { owner, .. } => Some(owner.in_any_round()),
            _ => None,
        }
    }
}

/// The value by which the same lease is recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseIdentity {
    Ours {
        owner: OwnerId,
        fence: u64,
    },
    /// The leases of all who share the lock under this fence.
    Shared {
        fence: u64,
    },
    /// A third-party lease, by the SHA-1 of its value, which may be secret.
    Foreign {
        digest: String,
    },
}

/// A place in a queue.
#[derive(Debug)]
pub struct WaiterSnapshot {
    /// Without the round of a quorum.
    pub owner: OwnerId,
    /// The mode in which it wants the lock.
    pub mode: LockMode,
    pub arrived: Duration,
    pub alive_until: Duration,
}

pub(in crate::store::redis) fn read_snapshot(answer: &Value) -> Result<LockSnapshot, StoreError> {
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
        Value::Array(sharing),
    ] = fields.as_slice()
    else {
        return None;
    };
    let (value, digest) = (bytes(value)?, bytes(digest)?);
    let micros = Duration::from_micros(number(micros)?);
    let now = Duration::from_secs(number(seconds)?).checked_add(micros)?;
    let (occupants, unlisted) = match sharing.as_slice() {
        [] => {
            let ttl = u64::try_from(*ttl).ok().map(Duration::from_millis);
            let occupant = (!digest.is_empty()).then(|| occupant(value, digest, ttl));
            (occupant.into_iter().collect(), 0)
        }
        [epoch, Value::Int(count), holders @ ..] => {
            let unlisted = usize::try_from(*count)
                .ok()?
                .saturating_sub(holders.len() / 2);
            (sharers(number(epoch)?, holders, now), unlisted)
        }
        _ => return None,
    };
    let untold = usize::try_from(*queued)
        .ok()?
        .saturating_sub(queue.len() / 3);
    let waiters = queue.chunks_exact(3).filter_map(|waiter| {
        let (owner, mode) = waiter_of(str::from_utf8(bytes(&waiter[0])?).ok()?)?;
        Some(WaiterSnapshot {
            owner: owner.in_any_round(),
            mode,
            arrived: milliseconds(&waiter[1])?,
            alive_until: milliseconds(&waiter[2])?,
        })
    });
    Some(LockSnapshot {
        occupants,
        unlisted,
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
                is_shared: false,
                label,
                function,
                ttl,
            }
        }
        None => HolderSnapshot {
            seen: foreign(),
            is_shared: false,
            label: None,
            function: None,
            ttl,
        },
    }
}

/// Reads the holders of a shared lock, without fields of other clients.
fn sharers(fence: u64, holders: &[Value], now: Duration) -> Vec<HolderSnapshot> {
    let read = |holder: &[Value]| {
        let owner = str::from_utf8(bytes(&holder[0])?).ok()?.parse().ok()?;
        let lease = str::from_utf8(bytes(&holder[1])?).ok()?;
        let (ends, label) = lease.split_once(' ')?;
        let ends = Duration::from_millis(ends.parse().ok()?);
        let (label, function) = label::read_label(label.as_bytes());
        let holder = HolderSnapshot {
            seen: LeaseIdentity::Ours { owner, fence },
            is_shared: true,
            label,
            function,
            ttl: Some(ends.saturating_sub(now)),
        };
        Some((owner, holder))
    };
    let mut sharers: Vec<_> = holders.chunks_exact(2).filter_map(read).collect();
    // A hash has no order.
    sharers.sort_unstable_by_key(|(owner, _)| *owner);
    sharers.into_iter().map(|(_, holder)| holder).collect()
}

/// Reads a name in a queue: `owner`, `owner+` to share the lock, or `owner+n` for one of n permits, and `!` behind it
/// for a waiter that only wants to be notified.
fn waiter_of(name: &str) -> Option<(OwnerId, LockMode)> {
    let name = name.strip_suffix('!').unwrap_or(name);
    let (owner, mode) = match name.split_once('+') {
        None => (name, LockMode::Exclusive),
        Some((owner, "")) => (owner, LockMode::Shared),
        Some((owner, most)) => (owner, LockMode::Permits(most.parse().ok()?)),
    };
    Some((owner.parse().ok()?, mode))
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
    fn a_waiter_tells_what_it_wants() {
        let owner = "0123456789abcdef0123456789abcdef.7";
        for (suffix, mode) in [
            ("", Some(LockMode::Exclusive)),
            ("!", Some(LockMode::Exclusive)),
            ("+", Some(LockMode::Shared)),
            ("+!", Some(LockMode::Shared)),
            ("+3", Some(LockMode::Permits(3))),
            ("+3!", Some(LockMode::Permits(3))),
            ("+x", None),
            ("x", None),
        ] {
            let read = waiter_of(&format!("{owner}{suffix}"));
            assert_eq!(read.map(|(_, mode)| mode), mode, "{suffix}");
        }
    }

    #[test]
    fn those_who_share_are_in_the_order_of_their_ids() {
        let word = |text: &str| Value::BulkString(text.into());
        let [one, two] = [7, 8].map(|it| format!("0123456789abcdef0123456789abcdef.{it}"));
        let holders = [
            word(&two),
            word("9000 svc@host/1#f"),
            word("stranger"),
            word("9000 -"),
            word(&one),
            word("7000 -"),
        ];
        let read = sharers(17, &holders, Duration::from_secs(5));
        let [first, second] = read.as_slice() else {
            panic!("{read:?}");
        };
        let owner = one.parse().unwrap();
        assert_eq!(first.seen, LeaseIdentity::Ours { owner, fence: 17 });
        assert_eq!(first.ttl, Some(Duration::from_secs(2)));
        assert_eq!(second.label.as_deref(), Some("svc@host/1"));
        assert_eq!(second.function.as_deref(), Some("f"));
        assert_eq!(second.ttl, Some(Duration::from_secs(4)));
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
