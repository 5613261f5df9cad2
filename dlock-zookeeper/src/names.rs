//! Names of nodes: a directory for each key, and in it a child for each owner.

use dlock_runtime::{LockKey, store::OwnerId};

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

/// Returns the directory of a key.
pub(crate) fn directory(root: &str, key: &LockKey) -> String {
    // A name of its own beside others that a directory may have.
    format!("{root}/{}", escaped(&format!("lock:{key}")))
}

/// Returns the beginning of the name of an owner's child. The server appends a number.
pub(crate) fn prefix(owner: OwnerId) -> String {
    format!("{owner}-")
}

/// The name of a child: its owner and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) place: i64,
}

impl Child {
    /// Reads a name. Other nodes in the directory are no places.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let (owner, place) = name.rsplit_once('-')?;
        // After 2^31 children, the numbers of the server are negative.
        let (owner, sign) = match owner.strip_suffix('-') {
            Some(owner) => (owner, -1),
            None => (owner, 1),
        };
        owner.parse::<OwnerId>().ok()?;
        Some(Self {
            name: name.to_owned(),
            place: place.parse::<i64>().ok()? * sign,
        })
    }

    pub(crate) fn is_of(&self, owner: OwnerId) -> bool {
        self.name.starts_with(&prefix(owner))
    }
}

/// Returns the children in the order of their places.
pub(crate) fn in_order(names: &[String]) -> Vec<Child> {
    let mut children: Vec<_> = names.iter().filter_map(|name| Child::read(name)).collect();
    children.sort_by_key(|child| child.place);
    children
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
        }
    }

    #[test]
    fn children_are_ordered_by_their_places_and_not_by_their_owners() {
        let owner = |number: u64| {
            format!(
                "{}.{number}",
                "7d444840-9dc0-11d1-b245-5ffdce74fad2".replace('-', "")
            )
        };
        let names = [
            format!("{}-0000000010", owner(1)),
            format!("{}-0000000009", owner(2)),
            format!("{}--000000001", owner(3)),
            "something-else".to_owned(),
        ];
        let places: Vec<_> = in_order(&names).iter().map(|child| child.place).collect();
        assert_eq!(places, [-1, 9, 10]);
    }
}
