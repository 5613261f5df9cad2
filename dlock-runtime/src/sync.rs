//! The mutexes of what several threads decide together: those of the standard library, and in unit tests places at
//! which a thread can be made to stop.

#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use self::interrupted::{Mutex, MutexGuard};

#[cfg(test)]
mod interrupted;
