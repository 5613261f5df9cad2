//! Makes a value `Sync` that is accessed only through `&mut`, such as a boxed future.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

/// A value that is never shared.
///
/// The mutex is never locked and costs eight bytes. The standard library's type without this cost is not
/// stable.
pub(crate) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exclusive")
    }
}
