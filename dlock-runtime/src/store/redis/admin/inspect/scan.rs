//! A walk through the keys of a server.

use redis::Value;

use super::pace::{InspectPace, run_timed};
use crate::store::{
    StoreError,
    redis::{
        net::node::Node,
        protocol::{command::Command, errors},
    },
};

/// The number of keys that a server reads in one step, which takes it less than a millisecond.
const KEYS_AT_ONCE: u32 = 1000;

/// Escapes a text, so that it stands for itself in a pattern of keys.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// A walk through the keys of a server, in steps.
pub(super) struct Scan<'a> {
    node: &'a Node,
    pace: &'a InspectPace,
    pattern: String,
    /// Only text values can be locks.
    strings: bool,
    /// `None` at the end.
    cursor: Option<String>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        node: &'a Node,
        pace: &'a InspectPace,
        pattern: String,
        strings: bool,
    ) -> Self {
        Self {
            node,
            pace,
            pattern,
            strings,
            cursor: Some("0".to_owned()),
        }
    }

    /// Returns some of the keys with text values, possibly none; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let Some(cursor) = self.cursor.take() else {
            return Ok(None);
        };
        let mut question = redis::cmd("SCAN");
        question.arg(cursor).arg("MATCH").arg(&self.pattern);
        question.arg("COUNT").arg(KEYS_AT_ONCE);
        if self.strings {
            question.arg("TYPE").arg("string");
        }
        let question = Command::plain(question, None);
        let (asked, _) = self.pace.step(run_timed(self.node, &[&question])).await;
        let answer = asked.into_iter().next().expect("one was asked");
        let answer = answer.map_err(|error| error.at(self.node.shown()))?;
        let nonsense = || errors::bad_answer("the answer to `SCAN` is invalid");
        let Value::Array(fields) = answer else {
            return Err(nonsense());
        };
        let [cursor, Value::Array(names)] = fields.as_slice() else {
            return Err(nonsense());
        };
        let cursor: String = redis::from_redis_value_ref(cursor).map_err(|_| nonsense())?;
        self.cursor = Some(cursor).filter(|cursor| cursor != "0");
        let names = names.iter().filter_map(|name| match name {
            Value::BulkString(name) => str::from_utf8(name).ok().map(str::to_owned),
            _ => None,
        });
        Ok(Some(names.collect()))
    }

    /// Returns the completed part of the keys, from 0 to 1, or `None` if the server's cursor does not show it.
    pub(super) fn progress(&self) -> Option<f64> {
        self.cursor.as_deref().map_or(Some(1.0), part)
    }
}

/// Returns the part of the keys before a cursor. Servers count in it from the highest bit of a table's index to the
/// lowest, so that it stays valid when the table grows.
fn part(cursor: &str) -> Option<f64> {
    let cursor: u64 = cursor.parse().ok()?;
    let highest = u32::try_from(cursor.reverse_bits() >> 32).ok()?;
    Some(f64::from(highest) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next cursor of a table, in the order of servers.
    fn next(cursor: u64, size: u64) -> u64 {
        let above = cursor | !(size - 1);
        above.reverse_bits().wrapping_add(1).reverse_bits()
    }

    #[test]
    fn a_cursor_tells_how_much_is_behind() {
        let (mut cursor, mut behind) = (0, 0.0);
        for bucket in 0..1024_u32 {
            // The table may grow in the meantime.
            let size = if bucket < 512 { 1024 } else { 2048 };
            let now = part(&cursor.to_string()).unwrap();
            assert!(now >= behind && now < 1.0, "{bucket}: {now}");
            if bucket == 512 {
                assert!((now - 0.5).abs() < 0.01, "{now}");
            }
            behind = now;
            cursor = next(cursor, size);
        }
        assert!(behind > 0.7, "{behind}");
        assert_eq!(part("a cursor of another form"), None);
    }

    #[test]
    fn a_namespace_stands_for_itself() {
        assert_eq!(escaped("a*[b]?\\c"), "a\\*\\[b]\\?\\\\c");
        // The server compares a user's permission to subscribe with the pattern letter by letter.
        assert_eq!(escaped("my-app"), "my-app");
    }
}
