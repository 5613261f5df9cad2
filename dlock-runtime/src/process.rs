//! Detects a fork: a child must not use the leases and connections of its parent.
//!
//! A forked child has a copy of every lease, owner id and connection of its parent. If it used them, two
//! processes would hold one lock and read each other's answers. Code that sends a request, or reports that a
//! lease is valid, therefore first checks in which process it runs.
//!
//! A manager returns its store for requests only in its own process (`store/boxed.rs`). In any other process
//! its leases are lost, and tasks that own a socket stop. Otherwise bytes that a child reads would be missing
//! in its parent, which would then assign answers to the wrong requests.
//!
//! Reading the process id is a system call, so a thread caches it for 10 µs, a fraction of the time that a
//! fork takes. (`tests/forks`)

#[cfg(any(feature = "redis", test))]
mod here;

use std::{cell::Cell, process, time::Duration};

use tokio::time::Instant;

#[cfg(feature = "redis")]
pub(crate) use self::here::here;

use crate::error::{StoreError, StoreErrorKind};

/// The time for which a thread caches its process id.
///
/// Reading it is a system call, and a lock in memory takes little longer than some of them. The cache is
/// safe, because only the thread that forks exists in the child. The fork takes that thread more than four
/// times as long as this: the kernel copies a process.
const REMEMBERED: Duration = Duration::from_micros(10);

thread_local! {
    /// The time at which this thread last read its process id, and the id.
    static KNOWN: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
}

/// The identity of a process during its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns the process that runs this code.
    pub(crate) fn this() -> Self {
        Self(process::id())
    }

    /// Returns `true` if this code runs in the process at `now`, and `false` in a forked child.
    pub(crate) fn is_this(self, now: Instant) -> bool {
        if let Some((asked, this)) = KNOWN.get()
            && let Some(since) = now.checked_duration_since(asked)
            && since < REMEMBERED
        {
            return self.0 == this;
        }
        let this = process::id();
        KNOWN.set(Some((now, this)));
        self.0 == this
    }

    /// Returns an error in a forked child of the process.
    ///
    /// # Errors
    ///
    /// Returns [`StoreErrorKind::Forked`], which means that nothing was sent.
    pub(crate) fn check(self, now: Instant) -> Result<(), StoreError> {
        if self.is_this(now) {
            return Ok(());
        }
        let message = format!(
            "its manager belongs to process {}, and this process ({}) is a fork of it",
            self.0,
            process::id()
        );
        Err(StoreError::new(StoreErrorKind::Forked, message))
    }

    /// Returns a process other than this one, as after a fork.
    #[cfg(test)]
    pub(crate) fn other() -> Self {
        Self(process::id().wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself_and_tells_others_what_to_do() {
        let now = Instant::now();
        assert_eq!(Process::this().check(now), Ok(()));
        let error = Process::other().check(now).unwrap_err();
        assert!(error.is_final() && error.left_nothing(), "{error}");
        let text = error.to_string();
        assert!(text.contains(&process::id().to_string()), "{text}");
        assert!(text.ends_with("in each process, after the fork"), "{text}");
    }

    #[test]
    fn a_process_is_remembered_for_a_moment_only() {
        // The state of a child that this thread has forked.
        let (forked, other) = (Instant::now(), Process::other());
        KNOWN.set(Some((forked, other.0)));
        assert!(other.is_this(forked + REMEMBERED / 2));
        assert!(!other.is_this(forked + REMEMBERED));
        // A clock that was set back must not keep the cache valid.
        KNOWN.set(Some((forked + REMEMBERED, other.0)));
        assert!(!other.is_this(forked));
    }
}
