//! The names of keys in etcd, and the text of their values.
//!
//! A claim on the key `order:42` that holds at once is the key `dlock/order:42/<lease>`. One that waits, or whose
//! request for a place got no answer, is `dlock/order:42/<owner>`: `names.rs` says why. Slashes in a namespace or a key are encoded, so no range of one lock contains a
//! key of another. `dlock//fence` has the base of fences, `dlock//gate/<lease>` is the gate of the
//! waiters with this lease, see `places.rs`, and `dlock//notice/<owner>` is a message of an operator for a holder: a key of
//! dlock is never empty.

use std::{
    fmt::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use dlock_runtime::{
    LockMode,
    store::{ClientId, OwnerId},
};

/// The value of a claim, without what etcd itself keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The base of fences when the key was created.
    pub(crate) base: u64,
    pub(crate) mode: LockMode,
    /// The fence of the holders that this one has joined.
    pub(crate) epoch: Option<u64>,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    pub(crate) stage: Stage,
    /// The owner, if the name of the key does not have it.
    pub(crate) owner: Option<OwnerId>,
}

/// The stage of a claim, as its process has last written it. It only informs operators and waiters. Times are milliseconds since 1970,
/// by the clock of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A version without stages has written the value.
    #[default]
    Unknown,
    /// The claim was put into the queue, and has the lease of waiters, also when it is the first.
    Waits { since: u64, label: Option<String> },
    /// The claim holds the key.
    Holds { since: u64 },
}

impl Stage {
    pub(crate) fn waits_now(label: Option<String>) -> Self {
        Self::Waits {
            since: now(),
            label,
        }
    }

    pub(crate) fn holds_now() -> Self {
        Self::Holds { since: now() }
    }

    /// The stage of a claim that holds. The first request of a holder that has waited notes the time.
    pub(crate) fn holding(&self) -> Self {
        match self {
            Self::Holds { since } => Self::Holds { since: *since },
            _ => Self::holds_now(),
        }
    }

    fn read(time: &str, label: &str) -> Self {
        let kind = time.get(..1).unwrap_or_default();
        let since = time.get(1..).and_then(|time| time.parse().ok());
        match (kind, since) {
            ("w", Some(since)) => Self::Waits {
                since,
                label: word(label),
            },
            ("h", Some(since)) => Self::Holds { since },
            _ => Self::Unknown,
        }
    }
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0))
}

/// The range of the claims on a key: its first name, and the name after its last.
pub(crate) fn range(namespace: &str, key: &str) -> (Vec<u8>, Vec<u8>) {
    let prefix = format!("{}/{}/", encoded(namespace), encoded(key)).into_bytes();
    let mut end = prefix.clone();
    // The last byte is `/`, and `0` follows it.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (prefix, end)
}

/// The name of a claim.
pub(crate) fn claim(namespace: &str, key: &str, owner: OwnerId) -> Vec<u8> {
    format!("{}/{}/{owner}", encoded(namespace), encoded(key)).into_bytes()
}

/// The name of a claim that began with this lease. No owner is written like that.
pub(crate) fn claim_with((from, _): &(Vec<u8>, Vec<u8>), lease: i64) -> Vec<u8> {
    let mut name = from.clone();
    name.extend_from_slice(format!("{lease:x}").as_bytes());
    name
}

/// The name of the base of fences.
pub(crate) fn base(namespace: &str) -> Vec<u8> {
    format!("{}//fence", encoded(namespace)).into_bytes()
}

/// The name of the gate of the waiters that have this lease.
pub(crate) fn gate(namespace: &str, lease: i64) -> Vec<u8> {
    format!("{}//gate/{lease:x}", encoded(namespace)).into_bytes()
}

/// The name of the message for a holder whose lease an operator has ended.
#[cfg(feature = "admin")]
pub(crate) fn notice(namespace: &str, owner: OwnerId) -> Vec<u8> {
    format!("{}//notice/{owner}", encoded(namespace)).into_bytes()
}

/// The range of the messages for the holders of a process.
pub(crate) fn notices(namespace: &str, client: ClientId) -> (Vec<u8>, Vec<u8>) {
    let before = |end| format!("{}//notice/{client}{end}", encoded(namespace)).into_bytes();
    // Owner ids begin with that of their process and a dot, which `/` follows.
    (before('.'), before('/'))
}

/// The owner in the name of a claim; `None` if its lease names it, or if it is the key of another program.
pub(crate) fn owner_in(name: &[u8]) -> Option<OwnerId> {
    let text = std::str::from_utf8(name).ok()?;
    text.rsplit_once('/')?.1.parse().ok()
}

/// The prefix of all names of a namespace, in which a key begins with this text.
pub(crate) fn prefix(namespace: &str, key: &str) -> Vec<u8> {
    format!("{}/{}", encoded(namespace), encoded(key)).into_bytes()
}

/// The key of the lock to which a name in this namespace belongs; `None` if it belongs to no lock. An encoded key has no
/// slash.
pub(crate) fn key_in(namespace: &str, name: &[u8]) -> Option<String> {
    let rest = name.strip_prefix(&*prefix(namespace, ""))?;
    let end = rest.iter().position(|byte| *byte == b'/')?;
    let key = String::from_utf8_lossy(&rest[..end]);
    (!key.is_empty()).then(|| key.replace("%2F", "/").replace("%25", "%"))
}

fn encoded(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

impl Value {
    /// The value of an exclusive claim without labels.
    #[cfg(test)]
    pub(crate) fn plain(base: u64, stage: Stage) -> Self {
        Self {
            base,
            mode: LockMode::Exclusive,
            epoch: None,
            label: None,
            function: None,
            stage,
            owner: None,
        }
    }

    /// Eight words or nine: version, base, mode, epoch, label, function, stage, label of a waiter, owner. `-` stands for none. The label of a
    /// holder is there only once it has said that it knows of its lease.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mode = match self.mode {
            LockMode::Shared => "shared".to_owned(),
            LockMode::Permits(most) => format!("permits={most}"),
            _ => "exclusive".to_owned(),
        };
        let mut text = format!("1 {} {mode} ", self.base);
        match self.epoch {
            Some(epoch) => write!(text, "{epoch}").expect("a string takes all"),
            None => text.push('-'),
        }
        let stage = match &self.stage {
            Stage::Unknown => None,
            Stage::Waits { since, .. } => Some(format!("w{since}")),
            Stage::Holds { since } => Some(format!("h{since}")),
        };
        let waiter = match &self.stage {
            Stage::Waits { label, .. } => label.as_ref(),
            _ => None,
        };
        for word in [
            self.label.as_ref(),
            self.function.as_ref(),
            stage.as_ref(),
            waiter,
        ] {
            let word = word.filter(|word| is_word(word));
            text.push(' ');
            text.push_str(word.map_or("-", String::as_str));
        }
        if let Some(owner) = self.owner {
            write!(text, " {owner}").expect("a string takes all");
        }
        text.into_bytes()
    }

    /// Reads a value. `None` for that of another program.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let words: Vec<_> = text.split(' ').collect();
        // Another version may write fewer words or more.
        let ["1", base, mode, epoch, label, function, ref rest @ ..] = words[..] else {
            return None;
        };
        Some(Self {
            base: base.parse().ok()?,
            mode: match mode {
                "exclusive" => LockMode::Exclusive,
                "shared" => LockMode::Shared,
                other => LockMode::Permits(other.strip_prefix("permits=")?.parse().ok()?),
            },
            epoch: match epoch {
                "-" => None,
                number => Some(number.parse().ok()?),
            },
            label: word(label),
            function: word(function),
            stage: match rest {
                [time, label, ..] => Stage::read(time, label),
                _ => Stage::Unknown,
            },
            owner: rest.get(2).and_then(|word| word.parse().ok()),
        })
    }
}

fn word(word: &str) -> Option<String> {
    (word != "-").then(|| word.to_owned())
}

/// A word that does not change how the value is read. Others are left out: they only inform operators.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word != "-" && !word.contains(' ')
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{random::SystemRandom, store::ClientId};

    use super::*;

    #[test]
    fn no_range_contains_a_key_of_another_lock() {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let names = [
            ("a", "b"),
            ("a/b", "c"),
            ("a", "b/c"),
            ("a", "b%2Fc"),
            ("a%2Fb", "c"),
            ("a", "b0"),
            ("a", "b."),
        ];
        for (namespace, key) in names {
            let (from, to) = range(namespace, key);
            for (other_namespace, other_key) in names {
                let name = claim(other_namespace, other_key, owner);
                let is_in = from <= name && name < to;
                assert_eq!(
                    is_in,
                    (namespace, key) == (other_namespace, other_key),
                    "{key} {other_key}"
                );
            }
            let (lease, all) = (0x0dbb_7a10_0000_0007, range(namespace, key));
            let by_lease = claim_with(&all, lease);
            assert!(from <= by_lease && by_lease < to);
            assert_eq!(owner_in(&by_lease), None, "{key}");
            for own in [base("a"), gate("a", 7)] {
                assert!(!(from <= own && own < to), "{key}");
            }
            assert_eq!(owner_in(&claim(namespace, key, owner)), Some(owner));
            let of_notices = notices("a", owner.client());
            assert!(!(from <= of_notices.0 && of_notices.0 < to), "{key}");
        }
    }

    #[cfg(feature = "admin")]
    #[test]
    fn a_name_has_the_key_of_its_lock() {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        for key in ["order:42", "a/b", "a%2Fb", "%", "/", "a%252F"] {
            assert_eq!(
                key_in("n/s", &claim("n/s", key, owner)).as_deref(),
                Some(key)
            );
            assert_eq!(key_in("n", &claim("n/s", key, owner)), None, "{key}");
        }
        assert_eq!(key_in("n", b"n/k/of/others").as_deref(), Some("k"));
        for other in [
            base("n"),
            notice("n", owner),
            b"n/k".to_vec(),
            b"m/k/o".to_vec(),
        ] {
            assert_eq!(key_in("n", &other), None, "{other:?}");
        }
    }

    #[test]
    fn a_value_is_read_as_it_was_written_and_no_other_is() {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        for mode in [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(3)] {
            for epoch in [None, Some(7)] {
                for stage in [
                    Stage::Unknown,
                    Stage::Holds { since: 7 },
                    Stage::Waits {
                        since: 8,
                        label: Some("mail@host/2".to_owned()),
                    },
                ] {
                    let value = Value {
                        base: 9,
                        mode,
                        epoch,
                        label: Some("billing@host/1".to_owned()),
                        function: epoch.map(|_| "shop::settle".to_owned()),
                        stage,
                        owner: epoch.map(|_| owner),
                    };
                    assert_eq!(Value::read(&value.to_bytes()), Some(value));
                }
            }
        }
        let odd = Value {
            base: 1,
            mode: LockMode::Shared,
            epoch: None,
            label: Some("a b".to_owned()),
            function: Some("-".to_owned()),
            stage: Stage::Waits {
                since: 1,
                label: Some("c d".to_owned()),
            },
            owner: None,
        };
        let read = Value::read(&odd.to_bytes()).unwrap();
        assert_eq!((read.label, read.function), (None, None));
        let unnamed = Stage::Waits {
            since: 1,
            label: None,
        };
        assert_eq!(read.stage, unnamed);
        for (other, stage) in [
            ("1 1 shared - - -", Stage::Unknown),
            ("1 1 shared - - - h5 - more", Stage::Holds { since: 5 }),
            ("1 1 shared - - - \u{fc}5 -", Stage::Unknown),
        ] {
            let read = Value::read(other.as_bytes()).unwrap();
            assert_eq!(read.stage, stage, "{other}");
        }
        for foreign in [
            "",
            "1",
            "2 1 shared - - -",
            "1 x shared - - -",
            "1 1 permits=x - - -",
            "1 1 shared - -",
        ] {
            assert_eq!(Value::read(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn a_stage_has_the_time_at_which_it_began() {
        let before = now();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(u128::from(before) <= time.as_millis(), "{before} {time:?}");
        assert!(u128::from(before) + 60_000 > time.as_millis());
        let Stage::Waits { since, label } = Stage::waits_now(Some("one".to_owned())) else {
            panic!("it waits");
        };
        assert!(since >= before && label.as_deref() == Some("one"));
        let Stage::Holds { since } = Stage::holds_now() else {
            panic!("it holds");
        };
        assert!(since >= before);
        // A holder that writes again has held since it wrote first.
        let earlier = Stage::Holds { since: 7 };
        assert_eq!(earlier.holding(), earlier);
        for other in [Stage::Unknown, Stage::waits_now(None)] {
            let Stage::Holds { since } = other.holding() else {
                panic!("it holds");
            };
            assert!(since >= before);
        }
    }

    #[test]
    fn a_word_that_would_change_the_others_is_left_out() {
        for label in ["", "-", "a b"] {
            let value = Value {
                label: Some(label.to_owned()),
                function: Some("shop::settle".to_owned()),
                ..Value::plain(1, Stage::Holds { since: 5 })
            };
            let expected = Value {
                label: None,
                ..value.clone()
            };
            assert_eq!(Value::read(&value.to_bytes()), Some(expected), "{label:?}");
        }
    }
}
