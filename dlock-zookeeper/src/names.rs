//! Names of nodes: a directory for each key, and in it a child for each owner.

use dlock_runtime::{LockKey, LockMode, store::OwnerId};

/// Writes a text as one part of a path. Different texts have different parts.
pub(crate) fn escaped(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            // `.` and `..` are no names, and a longer text may begin with them.
            b'%' | b'/' => part += &percent(byte),
            b'.' if part.is_empty() => part += "%2E",
            b' '..=b'~' => part.push(char::from(byte)),
            _ => part += &percent(byte),
        }
    }
    part
}

fn percent(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// Reads a part of a path; `None` if [`escaped`] has not written it.
pub(crate) fn unescaped(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (escaped(&text) == part).then_some(text)
}

/// Returns the directory of a key.
pub(crate) fn directory(root: &str, key: &LockKey) -> String {
    // A name of its own beside others that a directory may have.
    format!("{root}/{}", escaped(&format!("lock:{key}")))
}

/// Returns the key whose directory has this name; `None` for a node of another kind or program.
#[cfg(feature = "admin")]
pub(crate) fn key_of(name: &str) -> Option<LockKey> {
    LockKey::new(unescaped(name)?.strip_prefix("lock:")?).ok()
}

/// Returns the directory of the bases of fences, see `fence.rs`.
pub(crate) fn bases(root: &str) -> String {
    format!("{root}/fence")
}

/// Returns the node of a base.
pub(crate) fn base(root: &str, value: u64) -> String {
    format!("{}/{value}", bases(root))
}

/// Returns the beginning of the name of an owner's child. The server appends a number.
pub(crate) fn prefix(owner: OwnerId, mode: LockMode) -> String {
    match mode {
        LockMode::Shared => format!("{owner}-shared-"),
        LockMode::Permits(most) => format!("{owner}-permits={most}-"),
        _ => format!("{owner}-exclusive-"),
    }
}

/// The last place of a child that may hold its key. The server counts children in 31 bits, and gives the last number to all that
/// come after it. So many may still come before this process and others have seen that a key is at the end.
const LAST_PLACE: i64 = i32::MAX as i64 - (1 << 20);

/// The name of a child: its owner, its mode and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) owner: OwnerId,
    pub(crate) mode: LockMode,
    pub(crate) place: i64,
}

impl Entry {
    /// Returns `true` if the place does not say who came first.
    pub(crate) fn is_past_the_end(&self) -> bool {
        !(0..=LAST_PLACE).contains(&self.place)
    }

    /// Returns `true` if more than half of a key's places are used.
    #[cfg(feature = "admin")]
    pub(crate) fn is_past_half(&self) -> bool {
        !(0..=LAST_PLACE / 2).contains(&self.place)
    }

    /// Reads a name. Other nodes in the directory are no places.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let (rest, place) = name.rsplit_once('-')?;
        // Behind 2^31 children, the numbers of old servers are negative.
        let (rest, sign) = match rest.strip_suffix('-') {
            Some(rest) => (rest, -1),
            None => (rest, 1),
        };
        let (owner, mode) = rest.split_once('-')?;
        let most = || mode.strip_prefix("permits=")?.parse().ok();
        Some(Self {
            name: name.to_owned(),
            owner: owner.parse().ok()?,
            mode: match mode {
                "shared" => LockMode::Shared,
                _ => most().map_or(LockMode::Exclusive, LockMode::Permits),
            },
            place: place.parse::<i64>().ok()? * sign,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_are_different_parts_of_a_path() {
        let texts = [
            "a/b",
            "a%2Fb",
            "a%252Fb",
            ".",
            "..",
            "%2E",
            "ü",
            "\u{1f512}",
            "a b",
        ];
        let parts = texts.map(escaped);
        for (index, part) in parts.iter().enumerate() {
            assert!(part.is_ascii() && !part.contains('/') && part != "." && part != "..");
            assert!(!parts[..index].contains(part), "{part}");
            assert_eq!(unescaped(part).as_deref(), Some(texts[index]));
        }
        for other in ["a/b", "%", "%2", "%2f", "%61", "%FF", "%+1", "\u{fc}", ".x"] {
            assert_eq!(unescaped(other), None, "{other}");
        }
    }

    #[cfg(feature = "admin")]
    #[test]
    fn a_directory_has_the_name_of_its_key() {
        let key = LockKey::new("a/%b:\u{1f512}").unwrap();
        let directory = directory("/n", &key);
        assert_eq!(key_of(directory.strip_prefix("/n/").unwrap()), Some(key));
        for other in ["fence", "notice", "lock:", "lock", "order:42", "lock:a%2fb"] {
            assert_eq!(key_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_has_an_owner_a_mode_and_a_place() {
        let owner: OwnerId = "7d4448409dc011d1b2455ffdce74fad2.7".parse().unwrap();
        for mode in [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(3)] {
            for (number, place) in [("0000000010", 10), ("-000000001", -1)] {
                let name = format!("{}{number}", prefix(owner, mode));
                let entry = Entry::read(&name).unwrap();
                let read = (entry.owner, entry.mode, entry.place);
                assert_eq!(read, (owner, mode, place), "{name}");
                assert_eq!(entry.is_past_the_end(), place < 0, "{name}");
            }
        }
        // The server gives the last number to each child from then on.
        let entry = |number: i64| Entry::read(&format!("{owner}-shared-{number:010}")).unwrap();
        for (number, is_past) in [
            (0, false),
            (LAST_PLACE, false),
            (LAST_PLACE + 1, true),
            (2_147_483_647, true),
        ] {
            assert_eq!(entry(number).is_past_the_end(), is_past, "{number}");
        }
        for other in ["something-else", "a-shared-0000000001", "fence"] {
            assert_eq!(Entry::read(other), None, "{other}");
        }
    }
}
