//! Keys: the names of locks, and the encoding that keeps different values apart.
//!
//! A key is literal text with values in between. The text stays as written. In a value, every ASCII character
//! outside `A-Z a-z 0-9 - _ . ~` is written as `%XX`, and so is every control character. A value therefore
//! never contains a delimiter of the text, and different values of one template always produce different
//! keys.
//!
//! A value can consist of parts, and each part is a value. The parts are encoded one by one and joined with
//! `:`. The result is encoded again, with one difference: the joining colon becomes `%3a`, while a colon of a
//! text becomes `%3A`. The encoding therefore shows whether a value is a text or consists of parts.

mod builder;
mod list;
mod part;
#[cfg(test)]
mod tests;

use std::{borrow::Borrow, fmt, sync::Arc};

pub use builder::LockKeyBuilder;
pub use list::{KeyInMode, LockKeys};
pub use part::{KeyPart, PartWriter};

use crate::error::codes;

/// The name of one lock: 1 to 512 bytes, without control characters and braces.
///
/// Cloning is cheap.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockKey;
///
/// let key = LockKey::builder().text("file:").part(&"a/b").text(":").part(&7).build()?;
/// assert_eq!(key.as_str(), "file:a%2Fb:7");
/// # Ok::<(), dlock::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// The maximum length of a key, in bytes after encoding.
    pub const MAX_LEN: usize = 512;

    /// Returns the key as the store sees it.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// let key = dlock::LockKey::new("report:daily")?;
    /// assert_eq!(key.as_str(), "report:daily");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockKey({:?})", &*self.0)
    }
}

/// Lets functions that take text accept a key, such as
/// [`Lease::fencing_token_for`](crate::Lease::fencing_token_for).
impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Lets a map whose keys are lock keys be searched by text.
impl Borrow<str> for LockKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&LockKey> for LockKey {
    fn from(key: &LockKey) -> Self {
        key.clone()
    }
}

/// The reason why a text or a value cannot be a key or a part of one.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{InvalidKeyReason, LockError, LockKey};
///
/// let name = "";
/// let key = LockKey::builder().text("user:").part(&name).build();
/// assert!(matches!(key, Err(LockError::InvalidKey { reason: InvalidKeyReason::EmptyPart, .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKeyReason {
    /// The key has no characters.
    #[error("a key cannot be empty")]
    Empty,
    /// The list of keys to lock together is empty.
    #[error("a list of keys must name at least one")]
    NoKeys,
    /// A value has no characters, so it cannot be distinguished from a missing value.
    #[error("one of its values is empty; check the argument before the call")]
    EmptyPart,
    /// The key is longer than [`LockKey::MAX_LEN`] bytes.
    #[error("it is longer than 512 bytes after encoding; use a shorter name or a hash of it")]
    TooLong,
    /// The literal text contains a control character.
    #[error(
        "its text contains a control character; pass variable text as a value, which is encoded"
    )]
    Control,
    /// The literal text contains `{` or `}`, which select the slot in Redis Cluster.
    #[error("its text contains a brace; pass variable text as a value, which is encoded")]
    Brace,
    /// A value wrote both text and parts, so the end of the text is not known.
    #[error("one of its values writes both text and parts; write the text with `push_part` too")]
    Mixed,
    /// Two values have no delimiter between them: `1` + `77` would equal `17` + `7`.
    #[error("two of its values touch; put a delimiter such as `:` between them")]
    Undelimited,
}

codes! { InvalidKeyReason:
    Empty => "empty-key",
    NoKeys => "no-keys",
    EmptyPart => "empty-part",
    TooLong => "too-long",
    Control => "control-character",
    Brace => "brace",
    Mixed => "text-and-parts",
    Undelimited => "undelimited",
}
