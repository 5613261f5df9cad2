//! A walk through the keys of a server.

use redis::Value;

use crate::store::{
    StoreError,
    redis::{errors, node::Node},
};

/// Through how many keys a server goes in one step, which takes it less than a millisecond.
const KEYS_AT_ONCE: u32 = 1000;

/// A text that stands for itself in a pattern of keys.
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
    pattern: String,
    /// Only of these can a lock be.
    strings: bool,
    /// `None` at the end.
    cursor: Option<String>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(node: &'a Node, pattern: String, strings: bool) -> Self {
        Self {
            node,
            pattern,
            strings,
            cursor: Some("0".to_owned()),
        }
    }

    /// Some of the keys that are text, perhaps none; `None` at the end.
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
        let asked = self.node.ask(&question).await;
        let answer = asked.map_err(|error| error.at(self.node.shown()))?;
        let nonsense = || errors::bad_answer("the answer to `SCAN` makes no sense");
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_stands_for_itself() {
        assert_eq!(escaped("a*[b]?\\c"), "a\\*\\[b]\\?\\\\c");
        // A user's right to listen is compared with the pattern letter by letter.
        assert_eq!(escaped("my-app"), "my-app");
    }
}
