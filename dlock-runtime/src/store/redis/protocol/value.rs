//! Single values of the protocol, read as text.

use redis::Value;

/// A text, in either of the two forms that servers give to one.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
