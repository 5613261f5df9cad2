//! The keys that one call acquires together.

use std::{collections::HashMap, fmt};

use super::{InvalidKeyReason, LockKey};
use crate::{error::LockError, mode::LockMode};

/// The keys of one call, at least one, in the order of the call and each of them once.
#[derive(Clone, Debug)]
pub struct LockKeys {
    first: KeyInMode,
    rest: Vec<KeyInMode>,
}

/// A key of a call, with a mode of its own if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInMode {
    pub(crate) key: LockKey,
    /// `None` for the mode of the call.
    pub(crate) mode: Option<LockMode>,
}

impl From<LockKey> for KeyInMode {
    fn from(key: LockKey) -> Self {
        Self { key, mode: None }
    }
}

impl KeyInMode {
    /// Creates a key that is acquired in shared mode, whatever the mode of the call.
    pub(crate) fn shared(key: LockKey) -> Self {
        Self {
            key,
            mode: Some(LockMode::Shared),
        }
    }
}

impl LockKeys {
    /// Collects the keys of a call and drops repeated ones.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] for the first key that is invalid, and for a list without a key.
    /// [`LockError::InvalidOption`] if a key is listed twice in different modes.
    pub(crate) fn collect<K: Into<KeyInMode>>(
        keys: impl IntoIterator<Item = Result<K, LockError>>,
    ) -> Result<Self, LockError> {
        let mut keys = keys.into_iter();
        let first = keys.next().unwrap_or_else(|| {
            Err(LockError::InvalidKey {
                key: "[]".to_owned(),
                reason: InvalidKeyReason::NoKeys,
            })
        })?;
        let mut all = Self {
            first: first.into(),
            rest: Vec::new(),
        };
        let rest = keys.map(|key| key.map(Into::into));
        let rest = rest.collect::<Result<Vec<KeyInMode>, _>>()?;
        all.extend(rest)?;
        Ok(all)
    }

    /// Adds keys behind the others, unless they are listed already.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidOption`] if a key is listed already in another mode.
    pub(crate) fn extend(&mut self, more: Vec<KeyInMode>) -> Result<(), LockError> {
        if more.is_empty() {
            return Ok(());
        }
        let listed = self.iter().map(|it| (it.key.clone(), it.mode));
        let mut modes: HashMap<_, _> = listed.collect();
        for next in more {
            match modes.insert(next.key.clone(), next.mode) {
                None => self.rest.push(next),
                Some(listed) if listed == next.mode => {}
                Some(_) => {
                    return Err(LockError::InvalidOption {
                        key: next.key,
                        option: "shared",
                        reason:
                            "the call lists this key twice: in shared mode, and in the mode of the call; list it \
                             once"
                                .into(),
                    });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn first(&self) -> &LockKey {
        &self.first.key
    }

    /// Returns the key, if there is only one.
    pub(crate) fn only(&self) -> Option<&KeyInMode> {
        self.rest.is_empty().then_some(&self.first)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyInMode> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

impl From<LockKey> for LockKeys {
    fn from(first: LockKey) -> Self {
        let (first, rest) = (first.into(), Vec::new());
        Self { first, rest }
    }
}

impl fmt::Display for LockKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.first.key.as_str())?;
        let mut rest = self.rest.iter();
        rest.try_for_each(|other| write!(f, ", {}", other.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(keys: &[&str]) -> Result<LockKeys, LockError> {
        LockKeys::collect(keys.iter().map(LockKey::new))
    }

    #[test]
    fn each_key_counts_once_where_it_was_first() {
        let keys = list(&["b", "a", "b", "c", "a"]).unwrap();
        assert_eq!(keys.to_string(), "b, a, c");
        assert_eq!(keys.first().as_str(), "b");
        assert!(keys.only().is_none());
        let same = list(&["a", "a"]).unwrap();
        assert_eq!(same.only().map(|it| &it.key), Some(same.first()));
    }

    #[test]
    fn a_key_in_two_modes_is_an_error() {
        let key = |name: &str| LockKey::new(name).unwrap();
        let mut keys = list(&["a", "b"]).unwrap();
        keys.extend(vec![
            KeyInMode::shared(key("c")),
            KeyInMode::shared(key("c")),
        ])
        .unwrap();
        assert_eq!(keys.to_string(), "a, b, c");
        let error = keys.extend(vec![KeyInMode::shared(key("b"))]).unwrap_err();
        assert!(
            matches!(
                &error,
                LockError::InvalidOption {
                    option: "shared",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn no_key_and_a_bad_one_are_errors() {
        let none = list(&[]).unwrap_err();
        assert!(none.to_string().contains("at least one"), "{none}");
        for keys in [["a", ""], ["", "a"]] {
            let error = list(&keys).unwrap_err();
            assert!(matches!(
                error,
                LockError::InvalidKey {
                    reason: InvalidKeyReason::Empty,
                    ..
                }
            ));
        }
    }
}
