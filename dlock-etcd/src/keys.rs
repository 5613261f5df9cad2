//! The names of keys in etcd, and the text of their values.
//!
//! A claim on the key `order:42` is the key `dlock/order:42/<owner>`. Slashes in a namespace or a key are encoded, so no
//! range of one lock contains a key of another. `dlock//fence` has the base of fences, and `dlock//gate/<lease>` is the gate
//! of the waiters with this lease, see `places.rs`: a key of dlock is never empty.

use std::fmt::Write;

use dlock_runtime::{LockMode, store::OwnerId};

/// The value of a claim, without what etcd itself keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The base of fences when the key was created.
    pub(crate) base: u64,
    pub(crate) mode: LockMode,
    /// The fence of the holders that this one has joined.
    pub(crate) epoch: Option<u64>,
    /// `true` as long as the claim has the lease of waiters, also when it is the first.
    pub(crate) waits: bool,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
}

const WAITS: &str = "waits";

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

/// The name of the base of fences.
pub(crate) fn base(namespace: &str) -> Vec<u8> {
    format!("{}//fence", encoded(namespace)).into_bytes()
}

/// The name of the gate of the waiters that have this lease.
pub(crate) fn gate(namespace: &str, lease: i64) -> Vec<u8> {
    format!("{}//gate/{lease:x}", encoded(namespace)).into_bytes()
}

/// The owner in the name of a claim; `None` if it is the key of another program.
pub(crate) fn owner_in(name: &[u8]) -> Option<OwnerId> {
    let text = std::str::from_utf8(name).ok()?;
    text.rsplit_once('/')?.1.parse().ok()
}

fn encoded(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2F")
}

impl Value {
    /// Six words: version, base, mode, epoch, label, function. `-` stands for none, and the epoch `waits` for a waiter's.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mode = match self.mode {
            LockMode::Shared => "shared".to_owned(),
            LockMode::Permits(most) => format!("permits={most}"),
            _ => "exclusive".to_owned(),
        };
        let mut text = format!("1 {} {mode} ", self.base);
        match self.epoch {
            Some(epoch) => write!(text, "{epoch}").expect("a string takes all"),
            None if self.waits => text.push_str(WAITS),
            None => text.push('-'),
        }
        for word in [&self.label, &self.function] {
            let word = word.as_deref().filter(|word| is_word(word));
            text.push(' ');
            text.push_str(word.unwrap_or("-"));
        }
        text.into_bytes()
    }

    /// Reads a value. `None` for that of another program.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let words: Vec<_> = text.split(' ').collect();
        let ["1", base, mode, epoch, label, function] = words[..] else {
            return None;
        };
        let word = |word: &str| (word != "-").then(|| word.to_owned());
        Some(Self {
            base: base.parse().ok()?,
            mode: match mode {
                "exclusive" => LockMode::Exclusive,
                "shared" => LockMode::Shared,
                other => LockMode::Permits(other.strip_prefix("permits=")?.parse().ok()?),
            },
            epoch: match epoch {
                "-" | WAITS => None,
                number => Some(number.parse().ok()?),
            },
            waits: epoch == WAITS,
            label: word(label),
            function: word(function),
        })
    }
}

/// A word that does not change how the value is read. Others are left out: they only inform operators.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word != "-" && !word.contains(' ')
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{store::ClientId, testing::SystemRandom};

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
            for own in [base("a"), gate("a", 7)] {
                assert!(!(from <= own && own < to), "{key}");
            }
            assert_eq!(owner_in(&claim(namespace, key, owner)), Some(owner));
        }
    }

    #[test]
    fn a_value_is_read_as_it_was_written_and_no_other_is() {
        for mode in [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(3)] {
            for (epoch, waits) in [(None, false), (Some(7), false), (None, true)] {
                let value = Value {
                    base: 9,
                    mode,
                    epoch,
                    waits,
                    label: Some("billing@host/1".to_owned()),
                    function: epoch.map(|_| "shop::settle".to_owned()),
                };
                assert_eq!(Value::read(&value.to_bytes()), Some(value));
            }
        }
        let odd = Value {
            base: 1,
            mode: LockMode::Shared,
            epoch: None,
            waits: false,
            label: Some("a b".to_owned()),
            function: Some("-".to_owned()),
        };
        let read = Value::read(&odd.to_bytes()).unwrap();
        assert_eq!((read.label, read.function), (None, None));
        for foreign in [
            "",
            "1",
            "2 1 shared - - -",
            "1 x shared - - -",
            "1 1 permits=x - - -",
            "1 1 shared - - - -",
        ] {
            assert_eq!(Value::read(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
