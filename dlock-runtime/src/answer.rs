//! The answers of a store, and the times for which the contract keeps waiters and grants. Stores, the state
//! and errors share these values.

use std::{fmt, time::Duration};

/// The answer to [`LockStore::acquire`](crate::store::LockStore::acquire).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::AcquireOutcome;
///
/// fn say(answer: &AcquireOutcome) -> String {
///     match answer {
///         AcquireOutcome::Granted { fence, .. } => format!("granted with fence {fence}"),
///         AcquireOutcome::Busy(holder) => holder.to_string(),
///         _ => "another answer".to_owned(),
///     }
/// }
/// assert_eq!(say(&AcquireOutcome::granted(7)), "granted with fence 7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireOutcome {
    /// The owner holds the key for the requested TTL. Create it with [`granted`](Self::granted).
    #[non_exhaustive]
    Granted {
        /// The fence: at least 1, less than 2<sup>51</sup>, and greater than the fence of every earlier
        /// holder of this key; an owner that joins others gets their fence. The manager treats a grant with any other value as an error, because
        /// no [`FencingToken`](crate::FencingToken::from_fence) can be made of it.
        ///
        /// The recommended value is `max(last + 1, clock)`, see
        /// [`fence_by_the_clock`](crate::store::fence_by_the_clock): such fences increase even if the store
        /// has lost the last one.
        fence: u64,
        /// The store's own name for this grant, if it has one.
        token: Option<StoreToken>,
    },
    /// Another owner holds the key.
    Busy(Holder),
}

impl AcquireOutcome {
    /// Creates a grant with this fence.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::{AcquireOutcome, StoreToken};
    ///
    /// // A store that names its grants returns the name beside the fence.
    /// let granted = AcquireOutcome::granted(7).token(StoreToken::new("lease/694d81"));
    /// assert!(matches!(granted, AcquireOutcome::Granted { fence: 7, token: Some(_), .. }));
    /// ```
    #[must_use]
    pub const fn granted(fence: u64) -> Self {
        Self::Granted { fence, token: None }
    }

    /// Creates the answer "another owner holds the key".
    #[must_use]
    pub const fn busy(holder: Holder) -> Self {
        Self::Busy(holder)
    }

    /// Adds the store's own name to a grant. Any other answer is returned unchanged.
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

/// A store's own name for one grant: a lease id, a session or a revision.
///
/// dlock does not interpret it. It exists beside the fence because not every store can name its grants with a
/// number that only increases.
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
    /// Creates the store's name for a grant.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name as text.
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
///     let name = holder.label.as_deref().unwrap_or("unknown");
///     Some(format!("held by {name} for at least {:?}", holder.ttl?))
/// }
/// # let _: fn(&LockError) -> Option<String> = why;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The label of the holder, such as `billing@host-3/4711`.
    pub label: Option<String>,
    /// The annotated function that holds the lock, such as `shop::billing::settle`. `None` if the lock was
    /// acquired without the attribute. After a hand-over within a process, it is the earlier function until
    /// the next renewal.
    pub function: Option<String>,
    /// The time until the lease ends if it is not renewed. `None` if it is not known, or if the lease [never
    /// ends](Self::never_ends).
    pub ttl: Option<Duration>,
    /// `true` if the store knows that the lease has no TTL, which only a third-party client can cause. The
    /// text of the error then advises to delete the key.
    pub never_ends: bool,
    /// The caller's place in the queue, 0 for the next; `None` if the caller does not wait. A quorum returns
    /// the greatest place that a majority of its nodes may have for the caller: 0 if no claim precedes it on
    /// a majority.
    pub position: Option<u64>,
    /// `true` if the label is that of this manager: another task of the process, or a guard that it keeps,
    /// holds the lock.
    pub is_here: bool,
    /// The fence of the holder's lease, or 0 if it is not known. The stores of a quorum use it and the label
    /// to determine whether they report the same holder.
    pub fence: u64,
    /// The last fence that was given for this key when the store answered. It is not less than the fence of
    /// the reported holder, less than every fence that is given later, and less than the
    /// [number](crate::store::Hint::number) of every later grant to a waiter. A store that counts the fences of
    /// all keys in one row may report the last of these.
    ///
    /// A waiter uses it to find out whether a [`Hint`](crate::store::Hint) reports a grant after its request.
    /// If the value were too small, the waiter could take an old grant, which has expired, for a new one.
    pub last_fence: u64,
    /// The number of other holders, if the lock is shared. The label and the function are those of the holder
    /// whose lease ends last; with many holders they may be missing. The TTL is the time until that lease ends,
    /// or until the first lease ends if the request is for a permit.
    pub others: u64,
}

impl Holder {
    /// Creates a holder of which only the [last fence](Self::last_fence) is known.
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

    /// Sets the function that holds the lock.
    #[must_use]
    pub fn function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Sets the time until the lease ends if it is not renewed.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Marks the key as held by a third-party client without a TTL.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::Holder;
    ///
    /// let text = Holder::new(7).never_ends().to_string();
    /// assert!(text.contains("delete the key if its writer no longer runs"));
    /// assert_eq!(Holder::new(7).to_string(), "held by another client");
    /// ```
    #[must_use]
    pub fn never_ends(mut self) -> Self {
        self.never_ends = true;
        self
    }

    /// Sets the caller's place in the queue.
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

    /// Sets the number of other holders of a shared lock.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::Holder;
    ///
    /// let holder = Holder::new(7).label("billing@host-3/4711").others(2);
    /// assert_eq!(holder.to_string(), "held by `billing@host-3/4711` and 2 others");
    /// ```
    #[must_use]
    pub fn others(mut self, others: u64) -> Self {
        self.others = others;
        self
    }

    /// Creates a holder that is this process, without details of its lease.
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
                f.write_str(")")?;
            }
            Some(label) => {
                write!(f, "held by `{label}`")?;
                function(f)?;
            }
            None => f.write_str("held by another client")?,
        }
        match self.others {
            0 => {}
            1 => f.write_str(" and 1 other")?,
            others => write!(f, " and {others} others")?,
        }
        if self.is_here && self.label.is_some() {
            f.write_str(": by another task, a kept guard or a `min_hold`")?;
        }
        match self.ttl {
            Some(ttl) if self.others > 0 => {
                write!(
                    f,
                    "; free for this call in {ttl:.0?} unless leases are renewed"
                )
            }
            Some(ttl) => write!(f, ", whose lease ends in {ttl:.0?} unless it is renewed"),
            None if self.never_ends && !self.is_here => {
                f.write_str(" without a TTL; delete the key if its writer no longer runs")
            }
            // Deleting a key whose lease ends by itself would only break the lock.
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
    /// The owner does not hold the key: the lease is lost.
    NotOwner,
}

/// The answer to [`LockStore::release`](crate::store::LockStore::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The owner held the key until now.
    WasHeld,
    /// The owner did not hold the key. At most, it has left the queue.
    WasGone,
}

/// The answer to [`QuorumNode::raise`](crate::store::QuorumNode::raise).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Raised {
    /// The owner holds the key, and its fence is now at least the requested one.
    Raised,
    /// The owner does not hold the key, or holds it by another grant. Nothing was changed.
    NotOwner,
}

/// The time for which a waiter counts as alive after its last request.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::{LockManager, store::ALIVE};
///
/// // Two requests fit into it, even if each takes the maximum time.
/// let builder = LockManager::builder().response_timeout(Duration::from_millis(1400));
/// assert!(ALIVE > 2 * Duration::from_millis(1400));
/// # drop(builder);
/// ```
pub const ALIVE: Duration = Duration::from_secs(3);

/// The TTL of a lease that is granted to the next waiter at a release. It applies until the waiter renews the
/// lease or repeats its request.
///
/// It must not be longer, because the waiter may have crashed. It must not be shorter, because the waiter
/// relies on that time, see [`Hint`](crate::store::Hint).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::store::GRANT_TTL;
///
/// // The initial duration of a lease that was granted at a release.
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
            "held by another client without a TTL; delete the key if its writer no longer runs"
        );
        let ends = unknown.ttl(Duration::from_secs(9)).to_string();
        assert_eq!(
            ends,
            "held by another client, whose lease ends in 9s unless it is renewed"
        );
    }
}
