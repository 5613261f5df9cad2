//! The errors of calls, as a user reads them.

use std::fmt::Display;

use dlock_runtime::{LockError, StoreErrorKind};

/// An error has all these words.
#[track_caller]
pub fn names(error: &impl Display, words: &[&str]) {
    let text = error.to_string();
    let missing = words.iter().find(|word| !text.contains(**word));
    assert_eq!(missing, None, "{text}");
}

/// The kind of the store's error, for which a call was not carried out.
#[must_use]
#[track_caller]
pub fn unavailable(error: &LockError) -> StoreErrorKind {
    match error {
        LockError::Unavailable { reason, .. } => reason.kind(),
        _ => panic!("{error}"),
    }
}
