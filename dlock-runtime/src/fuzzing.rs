//! Rules that hold for all outside input: for the tests here, and for the targets in `fuzz/`.
//!
//! It is compiled for those alone. Each function takes any bytes and panics where a rule is broken.
//! The expected result is written from the definition, and shares no code with the code that it
//! judges.

mod key;
#[cfg(test)]
mod tests;

pub use key::key;

#[cfg(feature = "redis")]
pub use crate::store::redis::fuzzing::{hints, replies, url};

/// Bytes, taken one after the other; zeros when they are used up.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A text of that many bytes, or fewer.
    pub(crate) fn text(&mut self, length: usize) -> String {
        let (text, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    #[cfg(feature = "redis")]
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
