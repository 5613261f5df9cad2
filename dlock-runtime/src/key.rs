//! What a lock is called: keys, and the encoding that keeps different values apart.
//!
//! A key is literal text with values in between. The text is the programmer's and stays as it is;
//! a value's every ASCII character outside `A-Z a-z 0-9 - _ . ~` is written `%XX`, and so are
//! control characters. So no value can contain a delimiter of the text, and for one template
//! different values always give different keys.
//!
//! A value may be made of parts, each a value. Each is encoded by itself, they are joined by `:`,
//! and the whole is encoded again, with one difference: the joining colon becomes `%3a`, and a
//! colon of a text `%3A`. So it is known of every value whether it is a text or parts, and which.

mod list;
mod part;
#[cfg(test)]
mod tests;

use std::{borrow::Borrow, fmt, sync::Arc};

pub use list::LockKeys;
use part::is_delimiter;
pub use part::{KeyPart, PartWriter};

use crate::error::{LockError, codes};

/// The name of one lock: 1 to 512 bytes without control characters and braces.
///
/// Cloning is cheap.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockKey;
///
/// let key = LockKey::builder().text("file:").part(&"a/b").text(":").part(&7).finish()?;
/// assert_eq!(key.as_str(), "file:a%2Fb:7");
/// # Ok::<(), dlock::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// The longest key, in bytes after encoding.
    pub const MAX_LEN: usize = 512;

    /// A key that is `text` as it stands.
    ///
    /// Use [`builder`](Self::builder) where part of it is a value somebody else chose.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{KeyFault, LockError, LockKey};
    ///
    /// assert_eq!(LockKey::new("report:daily")?.as_str(), "report:daily");
    /// let refused = LockKey::new("report:{daily}");
    /// assert!(matches!(refused, Err(LockError::InvalidKey { reason: KeyFault::Brace, .. })));
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] when `text` is empty, longer than [`MAX_LEN`](Self::MAX_LEN)
    /// bytes, or holds control characters or braces.
    pub fn new(text: impl AsRef<str>) -> Result<Self, LockError> {
        let text = text.as_ref();
        match fault_in_text(text) {
            Some(reason) => Err(invalid(text, reason)),
            None if text.is_empty() => Err(invalid(text, KeyFault::Empty)),
            None if text.len() > Self::MAX_LEN => Err(invalid(text, KeyFault::TooLong)),
            None => Ok(Self(text.into())),
        }
    }

    /// Starts a key of literal text and encoded values.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let key = LockKey::builder().text("file:").part(&"a/b").finish()?;
    /// assert_eq!(key.as_str(), "file:a%2Fb");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn builder() -> LockKeyBuilder {
        LockKeyBuilder {
            out: String::new(),
            fault: None,
            undelimited: false,
        }
    }

    /// The key as the store sees it.
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

impl TryFrom<&str> for LockKey {
    type Error = LockError;

    fn try_from(text: &str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

impl TryFrom<String> for LockKey {
    type Error = LockError;

    fn try_from(text: String) -> Result<Self, LockError> {
        Self::new(text)
    }
}

impl TryFrom<&String> for LockKey {
    type Error = LockError;

    fn try_from(text: &String) -> Result<Self, LockError> {
        Self::new(text)
    }
}

/// So that a list of texts can be given by reference.
impl TryFrom<&&str> for LockKey {
    type Error = LockError;

    fn try_from(text: &&str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

/// A map of keys can be asked for a text.
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

/// Why a text or a value cannot be (part of) a key.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{KeyFault, LockError, LockKey};
///
/// let name = "";
/// let key = LockKey::builder().text("user:").part(&name).finish();
/// assert!(matches!(key, Err(LockError::InvalidKey { reason: KeyFault::EmptyPart, .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// The key has no characters.
    #[error("a key cannot be empty")]
    Empty,
    /// A list of keys to be locked together has none.
    #[error("a list of keys must name at least one")]
    NoKeys,
    /// A value has no characters, so that it could not be told from a missing one.
    #[error("one of its values is empty; check the argument before the call")]
    EmptyPart,
    /// The key is longer than [`LockKey::MAX_LEN`] bytes.
    #[error("it is longer than 512 bytes after encoding; use a shorter name or a hash of it")]
    TooLong,
    /// The literal text holds a control character.
    #[error("its text holds a control character; pass variable text as a value, which is encoded")]
    Control,
    /// The literal text holds `{` or `}`, which choose the slot in Redis Cluster.
    #[error("its text holds a brace; pass variable text as a value, which is encoded")]
    Brace,
    /// A value wrote both text and parts, of which one cannot tell where the text ends.
    #[error("one of its values writes both text and parts; write the text with `push_part` too")]
    Mixed,
    /// Two values with no delimiter between them: `1` + `77` would equal `17` + `7`.
    #[error("two of its values touch; put a delimiter such as `:` between them")]
    Undelimited,
}

codes! { KeyFault:
    Empty => "empty-key",
    NoKeys => "no-keys",
    EmptyPart => "empty-part",
    TooLong => "too-long",
    Control => "control-character",
    Brace => "brace",
    Mixed => "text-and-parts",
    Undelimited => "undelimited",
}

fn invalid(text: &str, reason: KeyFault) -> LockError {
    // A hostile argument can be megabytes long, and the message goes to a log.
    const SHOWN: usize = 64;
    let mut key: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        key.push('…');
    }
    LockError::InvalidKey { key, reason }
}

fn fault_in_text(text: &str) -> Option<KeyFault> {
    text.chars().find_map(|c| match c {
        '{' | '}' => Some(KeyFault::Brace),
        _ if c.is_control() => Some(KeyFault::Control),
        _ => None,
    })
}

/// Builds a [`LockKey`] from text and values.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockKey;
///
/// let (shop, number) = ("north:2", 7_u32);
/// let key = LockKey::builder().text("order:").part(&shop).text("/").part(&number).finish()?;
/// assert_eq!(key.as_str(), "order:north%3A2/7");
/// # Ok::<(), dlock::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a key is made by `finish`"]
pub struct LockKeyBuilder {
    out: String,
    fault: Option<KeyFault>,
    undelimited: bool,
}

impl LockKeyBuilder {
    /// Appends literal text.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let key = LockKey::builder().text("report:").text("daily").finish()?;
    /// assert_eq!(key.as_str(), "report:daily");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn text(mut self, text: &str) -> Self {
        self.push_text(text);
        self
    }

    /// Appends a value, encoded.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let key = LockKey::builder().text("user:").part(&"a:b").text("/").part(&7_u64).finish()?;
    /// assert_eq!(key.as_str(), "user:a%3Ab/7");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn part(mut self, value: &dyn KeyPart) -> Self {
        self.push_part(value);
        self
    }

    /// The finished key.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] with the first fault found.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{KeyFault, LockError, LockKey};
    ///
    /// let refused = LockKey::builder().text("user:").part(&"").finish();
    /// assert!(matches!(refused, Err(LockError::InvalidKey { reason: KeyFault::EmptyPart, .. })));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn finish(self) -> Result<LockKey, LockError> {
        match self.fault {
            Some(reason) => Err(invalid(&self.out, reason)),
            None if self.out.is_empty() => Err(invalid("", KeyFault::Empty)),
            None => Ok(LockKey(self.out.into())),
        }
    }

    pub(crate) fn push_text(&mut self, text: &str) {
        let fault = fault_in_text(text);
        self.fault = self.fault.or(fault);
        if text.chars().any(is_delimiter) {
            self.undelimited = false;
        }
        push_bounded(&mut self.out, text, &mut self.fault);
    }

    pub(crate) fn push_part(&mut self, value: &dyn KeyPart) {
        if self.undelimited {
            self.fault = self.fault.or(Some(KeyFault::Undelimited));
        }
        let mut writer = PartWriter::new(&mut self.out, &mut self.fault);
        value.write_part(&mut writer);
        writer.end();
        self.undelimited = true;
    }
}

/// Appends as long as the key has room; what is over is a fault, not an allocation.
fn push_bounded(out: &mut String, text: &str, fault: &mut Option<KeyFault>) {
    if out.len() + text.len() > LockKey::MAX_LEN {
        *fault = fault.or(Some(KeyFault::TooLong));
    } else {
        out.push_str(text);
    }
}
