//! Answers of a store, and the times for which the contract keeps waiters and grants: values that stores, the state and
//! errors have in common.

use std::{fmt, time::Duration};

/// The answer to [`LockStore::acquire`](crate::store::LockStore::acquire).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::AcquireOutcome;
///
/// fn say(answer: &AcquireOutcome) -> String {
///     match answer {
///         AcquireOutcome::Granted { fence, .. } => format!("ours, with fence {fence}"),
///         AcquireOutcome::Busy(holder) => holder.to_string(),
///         _ => "another answer".to_owned(),
///     }
/// }
/// assert_eq!(say(&AcquireOutcome::granted(7)), "ours, with fence 7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireOutcome {
    /// The key is the owner's for the TTL it asked for. Made by [`granted`](Self::granted).
    #[non_exhaustive]
    Granted {
        /// Strictly greater than the fence of every earlier holder of this key, at least 1 and less than
        /// 2<sup>51</sup>: any other makes no [`FencingToken`](crate::FencingToken::from_fence), and the
        /// manager takes the grant for an error.
        ///
        /// Recommended is `max(last + 1, clock)`, see [`fence_by_the_clock`](crate::store::fence_by_the_clock):
        /// such fences grow even where the store has lost the last one.
        fence: u64,
        /// The store's own name for this grant, if it has one.
        token: Option<StoreToken>,
    },
    /// Another owner holds it.
    Busy(Holder),
}

impl AcquireOutcome {
    /// The key is the owner's, with this fence.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::{AcquireOutcome, StoreToken};
    ///
    /// // A store whose grants have names of their own tells them beside the fence.
    /// let granted = AcquireOutcome::granted(7).token(StoreToken::new("lease/694d81"));
    /// assert!(matches!(granted, AcquireOutcome::Granted { fence: 7, token: Some(_), .. }));
    /// ```
    #[must_use]
    pub const fn granted(fence: u64) -> Self {
        Self::Granted { fence, token: None }
    }

    /// Another owner holds the key.
    #[must_use]
    pub const fn busy(holder: Holder) -> Self {
        Self::Busy(holder)
    }

    /// The same grant with the store's own name for it; no change to any other answer.
    #[must_use]
    pub fn token(self, token: StoreToken) -> Self {
        match self {
            Self::Granted { fence, .. } => Self::Granted {
                fence,
                token: Some(token),
            },
            other @ Self::Busy(_) => other,
        }
    }
}

/// A store's own name for one grant: a lease id, a session, a revision.
///
/// dlock does not read it. It has room here beside the fence because not every store can name its
/// grants by a number that only grows.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::StoreToken;
///
/// assert_eq!(StoreToken::new("lease/694d81").as_str(), "lease/694d81");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreToken(Box<str>);

impl StoreToken {
    /// A name that the store gives.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The holder of a key, as far as it is known.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockError;
///
/// /// The message for a caller that finds the lock held.
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
    /// The label of the holder, such as `billing@host-3/4711`.
    pub label: Option<String>,
    /// The function under the attribute that it is held by: `shop::billing::settle`. `None` for a lock
    /// that was taken otherwise. A lease that a process has handed from one function to another shows
    /// the earlier one until its next renewal.
    pub function: Option<String>,
    /// When its lease ends unless it is renewed; `None` if that is not known, or if it
    /// [never does](Self::never_ends).
    pub ttl: Option<Duration>,
    /// `true` if the store knows that the lease has no time to live, which only a foreign client can
    /// cause. The text of the error then advises to delete the key.
    pub never_ends: bool,
    /// The caller's place in the queue, 0 being the next; `None` if it does not wait. A quorum
    /// returns the greatest place that a majority of its nodes may have for it: 0 if no claim is
    /// before it on a majority.
    pub position: Option<u64>,
    /// `true` if the label is this manager's own: another task of the process holds it, or a guard
    /// that it keeps.
    pub is_here: bool,
    /// The fence of its lease; 0 if that is not known. Stores of a quorum tell by it and the label
    /// whether they mean the same holder.
    pub fence: u64,
    /// The last fence given for this key, at the moment of this answer: not less than that of the holder it
    /// tells of, and less than any that is given later. A store that counts the fences of all keys in one
    /// row may tell the last of these.
    ///
    /// A waiter knows by it which [`Hint`](crate::store::Hint) is about a grant that came after its
    /// question. Too low, and it would take an old grant, which has run out, for a new one.
    pub last_fence: u64,
}

impl Holder {
    /// A holder of which only the [last fence](Self::last_fence) given is known.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::Holder;
    ///
    /// let holder = Holder::new(7).fence(7).label("billing@host-3/4711").ttl(Duration::from_secs(9));
    /// assert_eq!(holder.label.as_deref(), Some("billing@host-3/4711"));
    /// ```
    #[must_use]
    pub fn new(last_fence: u64) -> Self {
        Self {
            last_fence,
            ..Self::default()
        }
    }

    /// Sets the label of the holder.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the function by which the lock is held.
    #[must_use]
    pub fn function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Sets the time after which the lease ends unless it is renewed.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Says that the key is held without a time to live, by a foreign client.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::Holder;
    ///
    /// let text = Holder::new(7).never_ends().to_string();
    /// assert!(text.contains("delete the key if its writer is gone"));
    /// assert_eq!(Holder::new(7).to_string(), "held by another client");
    /// ```
    #[must_use]
    pub fn never_ends(mut self) -> Self {
        self.never_ends = true;
        self
    }

    /// Sets the asker's place in the queue.
    #[must_use]
    pub fn position(mut self, position: u64) -> Self {
        self.position = Some(position);
        self
    }

    /// Sets the fence of the lease.
    #[must_use]
    pub fn fence(mut self, fence: u64) -> Self {
        self.fence = fence;
        self
    }

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
            Some(ttl) => write!(f, ", whose lease ends in {ttl:.0?} unless it is renewed"),
            None if self.never_ends && !self.is_here => {
                f.write_str(" without a time to live: delete the key if its writer is gone")
            }
            // To delete a key whose lease ends by itself would only break the lock.
            None => Ok(()),
        }
    }
}

/// The answer to one request of [`LockStore::renew`](crate::store::LockStore::renew).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewal {
    /// The TTL has started anew.
    Renewed,
    /// The key is not the owner's: the lease is lost.
    NotOwner,
}

/// The answer to [`LockStore::release`](crate::store::LockStore::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The key was the owner's until now.
    WasHeld,
    /// The key was not the owner's, which has at most left the queue.
    WasGone,
}

/// The answer to [`QuorumNode::raise`](crate::store::QuorumNode::raise).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Raised {
    /// The key is the owner's, and its fence is not less than that any more.
    Raised,
    /// The key is not the owner's, or is by another grant, and nothing was changed.
    NotOwner,
}

/// The time for which a waiter counts as alive after its last request.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::{LockManager, store::ALIVE};
///
/// // Two questions fit into it even if each takes as long as it may.
/// let builder = LockManager::builder().response_timeout(Duration::from_millis(1400));
/// assert!(ALIVE > 2 * Duration::from_millis(1400));
/// # drop(builder);
/// ```
pub const ALIVE: Duration = Duration::from_secs(3);

/// The TTL of a lease that is granted to the next waiter, unless the waiter renews it or asks.
///
/// Neither longer, as the waiter may have died, nor shorter, as it trusts that much, see [`Hint`](crate::store::Hint).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::store::GRANT_TTL;
///
/// // How long a lease lasts at first that comes by a hint.
/// let ttl = Duration::from_secs(30);
/// assert_eq!(ttl.min(GRANT_TTL), Duration::from_secs(3));
/// ```
pub const GRANT_TTL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_that_never_ends_comes_with_the_advice_to_delete_its_key() {
        let unknown = Holder::new(7);
        assert_eq!(unknown.to_string(), "held by another client");
        let named = unknown.clone().label("billing@host-3/4711");
        assert_eq!(named.to_string(), "held by `billing@host-3/4711`");
        assert_eq!(
            unknown.clone().never_ends().to_string(),
            "held by another client without a time to live: delete the key if its writer is gone"
        );
        let ends = unknown.ttl(Duration::from_secs(9)).to_string();
        assert_eq!(
            ends,
            "held by another client, whose lease ends in 9s unless it is renewed"
        );
    }
}
