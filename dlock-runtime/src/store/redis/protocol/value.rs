//! Single values of the protocol, read as text.

use redis::Value;

/// Returns a text, in either of the two forms that servers use.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
