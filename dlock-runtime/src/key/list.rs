//! The keys that one call acquires together.

use std::{collections::HashSet, fmt};

use super::{InvalidKeyReason, LockKey};
use crate::error::LockError;

/// At least one key, without duplicates, in the order of the call.
#[derive(Clone, Debug)]
pub struct LockKeys {
    first: LockKey,
    rest: Vec<LockKey>,
}

impl LockKeys {
    /// Collects the keys. A key that occurs twice counts once, because two values may turn out to be equal.
    pub(crate) fn collect(
        keys: impl IntoIterator<Item = Result<LockKey, LockError>>,
    ) -> Result<Self, LockError> {
        let mut keys = keys.into_iter();
        let first = keys.next().unwrap_or_else(|| {
            Err(LockError::InvalidKey {
                key: "[]".to_owned(),
                reason: InvalidKeyReason::NoKeys,
            })
        })?;
        let mut rest = keys.collect::<Result<Vec<_>, _>>()?;
        if !rest.is_empty() {
            let mut seen = HashSet::from([first.clone()]);
            rest.retain(|key| seen.insert(key.clone()));
        }
        Ok(Self { first, rest })
    }

    /// Returns the key that was named first.
    pub(crate) fn first(&self) -> &LockKey {
        &self.first
    }

    /// Returns the key if there is only one.
    pub(crate) fn only(&self) -> Option<&LockKey> {
        self.rest.is_empty().then_some(&self.first)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LockKey> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

impl From<LockKey> for LockKeys {
    fn from(first: LockKey) -> Self {
        let rest = Vec::new();
        Self { first, rest }
    }
}

impl fmt::Display for LockKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.first.as_str())?;
        self.rest.iter().try_for_each(|key| write!(f, ", {key}"))
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
        assert_eq!(same.only(), Some(same.first()));
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
