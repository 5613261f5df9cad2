//! Keys of any texts and values, against an encoder and a decoder of their own.

use super::Bytes;
use crate::{
    error::LockError,
    key::{KeyPart, LockKey, PartWriter},
};

/// A value of any shape.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Text(String),
    Parts(Vec<Tree>),
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Value(Tree),
}

/// A key is made exactly if the definition has one, it is the same, and its values can be read out of
/// it again: so different values never meet.
///
/// # Panics
///
/// Where that is not so.
pub fn key(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut pieces = Vec::new();
    while !bytes.is_empty() && pieces.len() < 8 {
        let kind = bytes.next();
        pieces.push(if kind.is_multiple_of(2) {
            Piece::Text(bytes.text(usize::from(kind / 2 % 8)))
        } else {
            Piece::Value(tree(&mut bytes, 0))
        });
    }
    let mut builder = LockKey::builder();
    for piece in &pieces {
        builder = match piece {
            Piece::Text(text) => builder.text(text),
            Piece::Value(value) => builder.part(value),
        };
    }
    let key = match builder.build() {
        Ok(key) => key,
        Err(error) => {
            assert_eq!(expected(&pieces), None, "{error}: {pieces:?}");
            let LockError::InvalidKey { key, .. } = &error else {
                panic!("{error}");
            };
            assert!(key.len() < 512 && !key.contains(char::is_control), "{key}");
            return;
        }
    };
    assert_eq!(Some(key.as_str()), expected(&pieces).as_deref());
    assert_eq!(LockKey::new(key.as_str()).as_ref(), Ok(&key));
    let values = pieces.iter().filter_map(|piece| match piece {
        Piece::Value(value) => Some(value.clone()),
        Piece::Text(_) => None,
    });
    let read = values_of(key.as_str(), &pieces);
    assert!(
        values.eq(read.iter().cloned()),
        "{pieces:?} is read as {read:?}"
    );
    #[cfg(feature = "redis")]
    crate::store::redis::fuzzing::one_slot(&key);
}

fn tree(bytes: &mut Bytes<'_>, depth: usize) -> Tree {
    let kind = bytes.next();
    match kind % 8 {
        // Deeper than any key has room for.
        0..=2 if depth < 30 => {
            let count = kind / 8 % 4;
            Tree::Parts((0..count).map(|_| tree(bytes, depth + 1)).collect())
        }
        3 => Tree::Text(bytes.text(1).repeat(usize::from(kind) * 3)),
        _ => Tree::Text(bytes.text(usize::from(kind / 8))),
    }
}

/// A text in several pieces, as `Display` writes it.
impl KeyPart for Tree {
    fn write_part(&self, out: &mut PartWriter<'_>) {
        match self {
            Self::Text(text) => {
                for c in text.chars() {
                    out.push_display(&c);
                }
            }
            Self::Parts(parts) => parts.iter().for_each(|part| out.push_part(part)),
        }
    }
}

/// The key, from the definition of the encoding.
fn expected(pieces: &[Piece]) -> Option<String> {
    let mut key = String::new();
    let mut parted = true;
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                if text.contains(|c: char| c.is_control() || c == '{' || c == '}') {
                    return None;
                }
                parted |= text.contains(parts_values);
                key += text;
            }
            Piece::Value(value) => {
                if !parted {
                    return None;
                }
                key += &encoded_value(value)?;
                parted = false;
            }
        }
    }
    (1..=512).contains(&key.len()).then_some(key)
}

fn encoded_value(value: &Tree) -> Option<String> {
    let encoded = match value {
        Tree::Text(text) => encoded(text),
        Tree::Parts(parts) => {
            let parts = parts
                .iter()
                .map(|part| Some(encoded(&encoded_value(part)?)));
            let parts = parts.collect::<Option<Vec<_>>>()?;
            match parts.as_slice() {
                [only] => format!("{only}%3a"),
                parts => parts.join("%3a"),
            }
        }
    };
    // Longer ones only grow, and are not worth the memory.
    (1..=4096).contains(&encoded.len()).then_some(encoded)
}

fn encoded(text: &str) -> String {
    let encode = |c: char| {
        let is_plain = c.is_ascii_alphanumeric() || "-_.~".contains(c);
        if is_plain || (!c.is_ascii() && !c.is_control()) {
            c.to_string()
        } else {
            let bytes = c.to_string().into_bytes();
            bytes
                .iter()
                .map(|byte| format!("%{byte:02X}"))
                .collect::<Vec<_>>()
                .concat()
        }
    };
    text.chars().map(encode).collect()
}

/// A character that no encoded value contains.
fn parts_values(c: char) -> bool {
    c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~%".contains(c)
}

/// The values in a key, by the texts between them alone.
fn values_of(key: &str, pieces: &[Piece]) -> Vec<Tree> {
    let (mut rest, mut values) = (key, Vec::new());
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => {
                rest = rest.strip_prefix(&**text).expect("a text is as it stands");
            }
            Piece::Value(_) => {
                // All that stands before the next value.
                let texts = pieces[at + 1..].iter().map_while(|piece| match piece {
                    Piece::Text(text) => Some(&**text),
                    Piece::Value(_) => None,
                });
                let text: String = texts.collect();
                let end = match text.find(parts_values) {
                    Some(before) => rest.find(parts_values).expect("it follows") - before,
                    None => rest.len() - text.len(),
                };
                values.push(decoded_value(&rest[..end]));
                rest = &rest[end..];
            }
        }
    }
    assert_eq!(rest, "");
    values
}

fn decoded_value(value: &str) -> Tree {
    if !value.contains("%3a") {
        return Tree::Text(decoded(value));
    }
    // Of one part, with nothing behind the colon.
    let value = value.strip_suffix("%3a").unwrap_or(value);
    let parts = value.split("%3a").map(|part| decoded_value(&decoded(part)));
    Tree::Parts(parts.collect())
}

fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, plain) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend(plain.bytes());
    }
    String::from_utf8(bytes).expect("it was a text")
}
