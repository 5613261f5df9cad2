//! A mutex before and after which another thread may go first, as `threads` decides.

use std::{
    ops::{Deref, DerefMut},
    sync::{self, LockResult, PoisonError, TryLockError, TryLockResult},
};

use crate::threads;

#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// It is there until its drop.
pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // A thread that blocks would keep its turn.
        while threads::interrupt() {
            match self.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        match self.0.lock() {
            Ok(guard) => Ok(MutexGuard(Some(guard))),
            Err(error) => Err(PoisonError::new(MutexGuard(Some(error.into_inner())))),
        }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Ok(MutexGuard(Some(guard))),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(error)) => {
                let guard = MutexGuard(Some(error.into_inner()));
                Err(TryLockError::Poisoned(PoisonError::new(guard)))
            }
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until its drop")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until its drop")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.0.take());
        threads::interrupt();
    }
}
