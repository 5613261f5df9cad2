//! Notices a fork: what a process has of a store is of no use to its children.
//!
//! A forked child has a copy of every lease, owner id and connection of its parent. If it went on
//! with them, two processes would hold one lock, and read each other's answers. So whatever sends a
//! request, or says that a lease is valid, looks first in which process it runs.
//!
//! A manager gives its store out for requests only in its own process (`store/boxed.rs`), a lease is lost in any other, and tasks
//! that own a socket stop: bytes that a child read would be missing in its parent, whose next answer would be taken for
//! that one. Asking for the process id is a system call, so a thread remembers the answer for 10 µs, a fraction of the time
//! that a fork takes. (`tests/forks`)

#[cfg(any(feature = "redis", test))]
mod here;

use std::{cell::Cell, process, time::Duration};

use tokio::time::Instant;

#[cfg(feature = "redis")]
pub(crate) use self::here::here;

use crate::error::{StoreError, StoreErrorKind};

/// The time for which a thread need not ask for its process again.
///
/// Asking is a system call, and a lock in memory takes little longer than some of them. The thread
/// that forks is the only one that the child has, and the call by itself takes it more than four
/// times as long: the kernel copies a process.
const REMEMBERED: Duration = Duration::from_micros(10);

thread_local! {
    /// When this thread has asked for its process, and which it is.
    static KNOWN: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
}

/// A process, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// The one that runs this.
    pub(crate) fn this() -> Self {
        Self(process::id())
    }

    /// `true` if it is the process that runs this at `now`; `false` in a forked child.
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

    /// Fails in a child of the process.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Forked`], which says that nothing was sent.
    pub(crate) fn check(self, now: Instant) -> Result<(), StoreError> {
        if self.is_this(now) {
            return Ok(());
        }
        let message = format!(
            "its manager belongs to process {}, of which this one ({}) is a fork",
            self.0,
            process::id()
        );
        Err(StoreError::new(StoreErrorKind::Forked, message))
    }

    /// Another one than this, as after a fork.
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
        // As a child has it that was forked by this thread.
        let (forked, other) = (Instant::now(), Process::other());
        KNOWN.set(Some((forked, other.0)));
        assert!(other.is_this(forked + REMEMBERED / 2));
        assert!(!other.is_this(forked + REMEMBERED));
        // A clock that was put back says nothing.
        KNOWN.set(Some((forked + REMEMBERED, other.0)));
        assert!(!other.is_this(forked));
    }
}
