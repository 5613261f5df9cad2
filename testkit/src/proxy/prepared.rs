//! The statements that a client of PostgreSQL has prepared on a connection, and that later requests only name.

use std::collections::HashMap;

/// The names on one connection, and their statements.
#[derive(Default)]
pub(super) struct Prepared(HashMap<Vec<u8>, Vec<u8>>);

impl Prepared {
    /// Returns what the client asks for: a statement that it executes by name is there as text, and one that it only
    /// prepares is not. Bytes that are not of PostgreSQL stay as they are.
    pub(super) fn spoken(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut spoken = Vec::new();
        let mut rest = bytes;
        while let Some((kind, body, after)) = message(rest) {
            match kind {
                b'P' => {
                    let (name, text) = words(body);
                    if name.is_empty() {
                        spoken.extend_from_slice(body);
                    } else {
                        self.0.insert(name.to_vec(), text.to_vec());
                    }
                }
                b'B' => {
                    let (_portal, name) = words(body);
                    spoken.extend(self.0.get(name).into_iter().flatten());
                    spoken.extend_from_slice(body);
                }
                _ => spoken.extend_from_slice(body),
            }
            rest = after;
        }
        spoken.extend_from_slice(rest);
        spoken
    }
}

/// Takes a whole message of a client: its kind, what it says, and the bytes after it.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    if !b"BCDEFHPQSXcdfp".contains(&kind) || length < 4 || length > rest.len() {
        return None;
    }
    let (message, after) = rest.split_at(length);
    Some((kind, &message[4..], after))
}

/// The two texts with which a message begins.
fn words(body: &[u8]) -> (&[u8], &[u8]) {
    let mut words = body.split(|byte| *byte == 0);
    let mut next = || words.next().unwrap_or_default();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn has(bytes: &[u8], text: &str) -> bool {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }

    #[test]
    fn a_statement_is_heard_when_it_is_executed() {
        let mut prepared = Prepared::default();
        let prepare = [
            message(b'P', b"s1\0SELECT acquire($1)\0\0\0"),
            message(b'D', b"Ss1\0"),
            message(b'S', b""),
        ];
        let prepared_only = prepared.spoken(&prepare.concat());
        assert!(!has(&prepared_only, "acquire") && has(&prepared_only, "Ss1"));
        let execute = [
            message(b'B', b"\0s1\0\0\0order:42"),
            message(b'E', b"\0\0\0\0\0"),
        ];
        let executed = prepared.spoken(&execute.concat());
        assert!(has(&executed, "acquire") && has(&executed, "order:42"));
        let unnamed = message(b'P', b"\0SELECT release($1)\0\0\0");
        assert!(has(&prepared.spoken(&unnamed), "release"));
    }

    #[test]
    fn other_bytes_stay_as_they_are() {
        let mut prepared = Prepared::default();
        for bytes in [
            &b"*1\r\n$4\r\nPING\r\n"[..],
            b"",
            b"P",
            b"P\0\0\0\xffs1\0SELECT",
        ] {
            assert_eq!(prepared.spoken(bytes), bytes);
        }
    }
}
