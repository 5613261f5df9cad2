//! Patterns of keys, for inspectors whose servers cannot match them.

use std::{iter::Peekable, str::Chars};

/// A pattern of keys with the meaning of Redis's `SCAN`: `*` matches any text, `?` one character, `[a-z]` and `[^a]` one
/// character of a class, and `\` takes the next character literally.
///
/// ```
/// use dlock::admin::KeyPattern;
///
/// let pattern = KeyPattern::new("order:4?");
/// assert_eq!(pattern.prefix(), "order:4");
/// assert!(pattern.matches("order:42") && !pattern.matches("order:420"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    prefix: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Literal(char),
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl KeyPattern {
    /// Reads a pattern. Every text is one: a class that is not closed ends with the pattern, and a `\` at its end stands for
    /// itself.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            parts.push(match c {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => class(&mut rest),
                '\\' => Part::Literal(rest.next().unwrap_or(c)),
                _ => Part::Literal(c),
            });
        }
        let literals = parts.iter().map_while(|part| match part {
            Part::Literal(c) => Some(*c),
            _ => None,
        });
        Self {
            prefix: literals.collect(),
            parts,
        }
    }

    /// Returns the text with which every matching key begins. A server can use it to read fewer keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns `true` if the pattern matches the whole key.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let key: Vec<_> = key.chars().collect();
        let (mut part, mut place) = (0, 0);
        // Where to go on if the rest does not match: the last `*` then takes one character more.
        let mut back = None;
        while place < key.len() {
            match self.parts.get(part) {
                Some(Part::Any) => {
                    back = Some((part, place));
                    part += 1;
                }
                Some(other) if other.takes(key[place]) => {
                    part += 1;
                    place += 1;
                }
                _ => {
                    let Some((any, from)) = back else {
                        return false;
                    };
                    back = Some((any, from + 1));
                    (part, place) = (any + 1, from + 1);
                }
            }
        }
        self.parts[part..].iter().all(|it| *it == Part::Any)
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Literal(literal) => *literal == c,
            Self::Class { is_negated, ranges } => {
                ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&c))
                    != *is_negated
            }
        }
    }
}

/// Reads the rest of a class, behind its `[`.
fn class(rest: &mut Peekable<Chars<'_>>) -> Part {
    let is_negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    while let Some(c) = rest.next().filter(|c| *c != ']') {
        let first = if c == '\\' {
            rest.next().unwrap_or(c)
        } else {
            c
        };
        let mut ahead = rest.clone();
        let last = (ahead.next() == Some('-')).then(|| ahead.next()).flatten();
        ranges.push(match last.filter(|it| *it != ']') {
            Some(last) => {
                *rest = ahead;
                // Redis accepts the ends of a range in both orders.
                (first.min(last), first.max(last))
            }
            None => (first, first),
        });
    }
    Part::Class { is_negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_keys_and_begins_with_its_prefix() {
        for (pattern, prefix, yes, no) in [
            ("*", "", &["", "a", "a/b"][..], &[][..]),
            ("", "", &[""], &["a"]),
            (
                "order:*",
                "order:",
                &["order:", "order:42"],
                &["order", "an order:1"],
            ),
            (
                "order:42",
                "order:42",
                &["order:42"],
                &["order:420", "order:4"],
            ),
            ("a?*", "a", &["ab", "abc"], &["a", "ba"]),
            ("*:42", "", &[":42", "a:42", "a:42:42"], &["42", "a:421"]),
            ("*a*b*", "", &["ab", "xaxbx", "aab"], &["ba", "a"]),
            (r"a\*b*", "a*b", &["a*b", "a*bc"], &["axb"]),
            ("100%_(x)", "100%_(x)", &["100%_(x)"], &["100%_x"]),
            ("a[b-d]e", "a", &["abe", "ade"], &["aae", "ae"]),
            ("a[d-b]e", "a", &["ace"], &["aee"]),
            ("[^ab]*", "", &["c", "ca"], &["a", "b", ""]),
            (r"[\]x]", "", &["]", "x"], &[r"\"]),
            ("[a-]", "", &["a", "-"], &["b"]),
            ("[]", "", &[], &["", "]"]),
            ("[^]", "", &["a", "]"], &[""]),
            ("[ab", "", &["a", "b"], &["[ab"]),
            (r"a\", r"a\", &[r"a\"], &["a"]),
            (
                "f?r:\u{1f512}",
                "f",
                &["f\u{fc}r:\u{1f512}"],
                &["fr:\u{1f512}"],
            ),
        ] {
            let read = KeyPattern::new(pattern);
            assert_eq!(read.prefix(), prefix, "{pattern}");
            for key in yes {
                assert!(
                    read.matches(key) && key.starts_with(prefix),
                    "{pattern} {key}"
                );
            }
            for key in no {
                assert!(!read.matches(key), "{pattern} {key}");
            }
        }
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = KeyPattern::new(&"*a".repeat(200));
        assert!(!pattern.matches(&("a".repeat(500) + "b")));
    }
}
