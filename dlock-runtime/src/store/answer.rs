//! What a store answers.

use std::{fmt, time::Duration};

/// The answer to [`LockStore::acquire`](super::LockStore::acquire).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::AcquireOutcome;
///
/// fn say(answer: &AcquireOutcome) -> String {
///     match answer {
///         AcquireOutcome::Granted { fence } => format!("ours, with fence {fence}"),
///         AcquireOutcome::Busy(holder) => holder.to_string(),
///     }
/// }
/// assert_eq!(say(&AcquireOutcome::Granted { fence: 7 }), "ours, with fence 7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The key is the owner's for the TTL it asked for.
    Granted {
        /// Strictly greater than the fence of every earlier holder of this key.
        fence: u64,
    },
    /// Somebody else holds it.
    Busy(Holder),
}

/// What is known of the one who holds a key.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockError;
///
/// /// What to tell whoever finds the lock held.
/// fn why(error: &LockError) -> Option<String> {
///     let LockError::Busy { holder, .. } = error else {
///         return None;
///     };
///     let who = holder.label.as_deref().unwrap_or("somebody else");
///     Some(format!("{who} is at it, until {:?} from now at least", holder.ttl?))
/// }
/// # let _: fn(&LockError) -> Option<String> = why;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What the holder said of itself, such as `billing@host-3/4711`.
    pub label: Option<String>,
    /// The function under the attribute that it is held by: `shop::billing::settle`. `None` for a lock
    /// that was taken otherwise. A lease that a process has handed from one function to another shows
    /// the earlier one until its next renewal.
    pub function: Option<String>,
    /// When its lease ends unless it is renewed; `None` if it never does, which only a foreign
    /// client can cause.
    pub ttl: Option<Duration>,
    /// The asker's place in the queue, 0 being the next; `None` if it does not wait. A quorum tells the
    /// greatest that a majority of its nodes may have for it: 0 if nobody is before it on a majority.
    pub position: Option<u64>,
    /// Whether the label is this manager's own: another task of the process holds it, or a guard
    /// that it keeps.
    pub is_here: bool,
    /// The fence of its lease; 0 if that is not known. Stores of a quorum tell by it and the label
    /// whether they mean the same holder.
    pub fence: u64,
    /// The last fence given, at the moment of this answer: not less than that of the holder it
    /// tells of, and less than any that is given later.
    ///
    /// A waiter knows by it which [`Hint`](super::Hint) is about a grant that came after its
    /// question. Too low, and it would take an old grant, which has run out, for a new one.
    pub last_fence: u64,
}

impl Holder {
    /// This process itself, of whose lease nothing is known.
    pub(crate) fn here() -> Self {
        Self {
            is_here: true,
            ..Self::default()
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = |f: &mut fmt::Formatter<'_>| match &self.function {
            Some(function) => write!(f, " in `{function}`"),
            None => Ok(()),
        };
        match &self.label {
            Some(label) if self.is_here => {
                write!(f, "held by this process (`{label}`")?;
                function(f)?;
                f.write_str("): by another task, a kept guard or a `min_hold`")?;
            }
            Some(label) => {
                write!(f, "held by `{label}`")?;
                function(f)?;
            }
            None => f.write_str("held by another client")?,
        }
        match self.ttl {
            None if self.is_here => Ok(()),
            Some(ttl) => write!(f, ", whose lease ends in {ttl:.0?} unless it is renewed"),
            None => f.write_str(" without a time to live: delete the key if its writer is gone"),
        }
    }
}

/// The answer to [`LockStore::renew`](super::LockStore::renew).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The TTL has started anew.
    Renewed,
    /// The key is not the owner's: the lease is lost.
    NotOwner,
}

/// The answer to [`LockStore::release`](super::LockStore::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The key was the owner's until now.
    WasHeld,
    /// The key was not the owner's, who has at most left the queue.
    WasGone,
}

/// The answer to [`LockStore::raise`](super::LockStore::raise).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The key is the owner's, and its fence is not less than that any more.
    Raised,
    /// The key is not the owner's, or is by another grant, and nothing was changed.
    NotOwner,
}
