//! Builds a key from a text, or from text and values.

use std::str::FromStr;

use super::{
    InvalidKeyReason, LockKey,
    part::{KeyPart, PartWriter, is_delimiter, push_bounded},
};
use crate::error::LockError;

impl LockKey {
    /// Creates a key that is exactly `text`.
    ///
    /// Use [`builder`](Self::builder) if a part of the key is a value from outside the program.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::InvalidKey`] if `text` is empty, longer than [`MAX_LEN`](Self::MAX_LEN) bytes, or
    /// contains control characters or braces.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{InvalidKeyReason, LockError, LockKey};
    ///
    /// assert_eq!(LockKey::new("report:daily")?.as_str(), "report:daily");
    /// let refused = LockKey::new("report:{daily}");
    /// assert!(matches!(refused, Err(LockError::InvalidKey { reason: InvalidKeyReason::Brace, .. })));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn new(text: impl AsRef<str>) -> Result<Self, LockError> {
        let text = text.as_ref();
        match fault_in_text(text) {
            Some(reason) => Err(invalid(text, reason)),
            None if text.is_empty() => Err(invalid(text, InvalidKeyReason::Empty)),
            None if text.len() > Self::MAX_LEN => Err(invalid(text, InvalidKeyReason::TooLong)),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns a builder for a key of literal text and encoded values.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let key = LockKey::builder().text("file:").part(&"a/b").build()?;
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
}

/// Parses like [`LockKey::new`]: the text is the whole key and is not encoded.
impl FromStr for LockKey {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        Self::new(text)
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

/// Allows a list of texts to be passed by reference.
impl TryFrom<&&str> for LockKey {
    type Error = LockError;

    fn try_from(text: &&str) -> Result<Self, LockError> {
        Self::new(text)
    }
}

/// Builds a [`LockKey`] from text and values.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockKey;
///
/// let (shop, number) = ("north:2", 7_u32);
/// let key = LockKey::builder().text("order:").part(&shop).text("/").part(&number).build()?;
/// assert_eq!(key.as_str(), "order:north%3A2/7");
/// # Ok::<(), dlock::LockError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a key is made by `build`"]
pub struct LockKeyBuilder {
    out: String,
    fault: Option<InvalidKeyReason>,
    undelimited: bool,
}

impl LockKeyBuilder {
    /// Appends literal text.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let key = LockKey::builder().text("report:").text("daily").build()?;
    /// assert_eq!(key.as_str(), "report:daily");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn text(mut self, text: &str) -> Self {
        self.push_text(text);
        self
    }

    /// Encodes and appends a value.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let key = LockKey::builder().text("user:").part(&"a:b").text("/").part(&7_u64).build()?;
    /// assert_eq!(key.as_str(), "user:a%3Ab/7");
    /// # Ok::<(), dlock::LockError>(())
    /// ```
    pub fn part(mut self, value: &dyn KeyPart) -> Self {
        self.push_part(value);
        self
    }

    /// Builds the key.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::InvalidKey`] with the first fault.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{InvalidKeyReason, LockError, LockKey};
    ///
    /// let refused = LockKey::builder().text("user:").part(&"").build();
    /// assert!(matches!(refused, Err(LockError::InvalidKey { reason: InvalidKeyReason::EmptyPart, .. })));
    /// # Ok::<(), LockError>(())
    /// ```
    pub fn build(self) -> Result<LockKey, LockError> {
        match self.fault {
            Some(reason) => Err(invalid(&self.out, reason)),
            None if self.out.is_empty() => Err(invalid("", InvalidKeyReason::Empty)),
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
            self.fault = self.fault.or(Some(InvalidKeyReason::Undelimited));
        }
        let mut writer = PartWriter::new(&mut self.out, &mut self.fault);
        value.write_part(&mut writer);
        writer.end();
        self.undelimited = true;
    }
}

fn invalid(text: &str, reason: InvalidKeyReason) -> LockError {
    // A hostile argument may be megabytes long, and the message goes to a log.
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

fn fault_in_text(text: &str) -> Option<InvalidKeyReason> {
    text.chars().find_map(|c| match c {
        '{' | '}' => Some(InvalidKeyReason::Brace),
        _ if c.is_control() => Some(InvalidKeyReason::Control),
        _ => None,
    })
}
