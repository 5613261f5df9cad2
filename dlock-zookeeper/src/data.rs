//! The text of a child: what its owner and operators read of a claim.

use std::{fmt::Display, time::Duration};

use crate::fence::Base;

/// The text of a child. Its mode and its place are in its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// The base of fences when the child was created.
    pub(crate) base: Base,
    /// The time for which it was last written. It counts from the node's time of modification.
    pub(crate) ttl: Duration,
    /// `None` while its owner waits. One that asks for an exclusive lock expects to hold it when it creates the child, and
    /// writes the text of a waiter when it has to wait.
    pub(crate) held: Option<Held>,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    /// The label of a process that waits, or that was granted the key a moment ago.
    pub(crate) waiter: Option<String>,
}

/// The fence of a holder, and the time since which it holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The fence: that of the first of those that hold the key together. `None` stands for that of the child alone, which its owner
    /// does not know before the child is there.
    pub(crate) fence: Option<u64>,
    /// The time since which it holds the key, by the clock of its owner, in milliseconds since 1970. For people.
    pub(crate) since: u64,
}

impl Value {
    /// Nine words: version, base, transaction of the base, TTL in milliseconds, fence, time since which it holds, label,
    /// function, label of a waiter. `-` stands for none. The label of a waiter is not that of a holder, also when it holds:
    /// its process may not know yet.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Base { value, since } = self.base;
        let ttl = self.ttl.as_millis();
        let fence = or_dash(self.held.and_then(|held| held.fence));
        let held_since = or_dash(self.held.map(|held| held.since));
        let [label, function, waiter] = [&self.label, &self.function, &self.waiter]
            .map(|word| or_dash(word.as_deref().filter(|word| is_word(word))));
        format!("1 {value} {since} {ttl} {fence} {held_since} {label} {function} {waiter}")
            .into_bytes()
    }

    /// Reads a text. `None` for that of another program.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let words: Vec<_> = text.split(' ').collect();
        let [
            "1",
            value,
            since,
            ttl,
            fence,
            held_since,
            label,
            function,
            waiter,
        ] = words[..]
        else {
            return None;
        };
        let word = |word: &str| (word != "-").then(|| word.to_owned());
        Some(Self {
            base: Base {
                value: value.parse().ok()?,
                since: since.parse().ok()?,
            },
            ttl: Duration::from_millis(ttl.parse().ok()?),
            held: match (fence, held_since) {
                ("-", "-") => None,
                (fence, since) => Some(Held {
                    fence: match fence {
                        "-" => None,
                        fence => Some(fence.parse().ok()?),
                    },
                    since: since.parse().ok()?,
                }),
            },
            label: word(label),
            function: word(function),
            waiter: word(waiter),
        })
    }
}

fn or_dash(word: Option<impl Display>) -> String {
    word.map_or_else(|| "-".to_owned(), |word| word.to_string())
}

/// A word that does not change how the text is read. Others are left out: they only inform operators.
fn is_word(word: &str) -> bool {
    !word.is_empty() && word != "-" && !word.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Base = Base {
        value: 91_000_000_000,
        since: 4_294_967_297,
    };

    #[test]
    fn a_text_is_read_as_it_was_written_and_no_other_is() {
        let held = |fence| {
            let since = 1_790_000_000_000;
            Some(Held { fence, since })
        };
        for held in [None, held(None), held(Some(91_000_000_007))] {
            let value = Value {
                base: BASE,
                ttl: Duration::from_secs(30),
                held,
                label: Some("billing@host/1".to_owned()),
                function: held.map(|_| "shop::settle".to_owned()),
                waiter: held.is_none().then(|| "mail@host/2".to_owned()),
            };
            assert_eq!(Value::read(&value.to_bytes()), Some(value));
        }
        let odd = Value {
            base: BASE,
            ttl: Duration::ZERO,
            held: None,
            label: Some("a b".to_owned()),
            function: Some("-".to_owned()),
            waiter: Some(String::new()),
        };
        let read = Value::read(&odd.to_bytes()).unwrap();
        assert_eq!((read.label, read.function, read.waiter), (None, None, None));
        for foreign in [
            "",
            "1",
            "2 1 1 1 - - - - -",
            "1 x 1 1 - - - - -",
            "1 1 1 1 7 - - - -",
            "1 1 1 1 - - - -",
            "1 1 1 1 - - - - - -",
        ] {
            assert_eq!(Value::read(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
