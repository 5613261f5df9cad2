//! Hints: wake-up messages from a store to waiters.

use std::{fmt, sync::Arc};

use crate::owner::OwnerId;

/// A message from the store to a waiter: send the acquire request again, or you have been made the holder.
///
/// Hints may be lost, delayed or repeated. A waiter therefore accepts a grant only together with a request of
/// its own that was answered with [`AcquireOutcome::Busy`](super::AcquireOutcome::Busy) and a
/// [`last_fence`](super::Holder::last_fence) below the hint's [`number`](Self::number). The grant then happened after that request
/// was sent, and lasts for at least [`GRANT_TTL`](super::GRANT_TTL) from that time. After any other hint, the
/// waiter only sends a request.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::Hint;
///
/// /// Returns `true` if a request whose answer had `last_fence` was sent before this grant.
/// fn is_later(hint: &Hint<'_>, last_fence: u64) -> bool {
///     hint.number > last_fence
/// }
/// # let _: fn(&Hint<'_>, u64) -> bool = is_later;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hint<'a> {
    /// The lock.
    pub key: &'a str,
    /// The waiter.
    pub owner: OwnerId,
    /// The fence of the grant; 0 if the lock was not granted and the waiter should only send a request.
    pub fence: u64,
    /// The number of the grant, by which the waiter finds out which of its requests preceded it. It is the
    /// fence of the grant, except if the waiter joined shared holders: they all have the fence of the first of
    /// them, and the number is greater. It is not greater than the
    /// [last fence](super::Holder::last_fence) of answers after the grant.
    pub number: u64,
}

impl<'a> Hint<'a> {
    /// Creates a hint for `owner`: with a `fence` of 0 it should request `key` again; otherwise it has been
    /// made the holder of `key` with this fence.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, Hint, OwnerId}, random::SystemRandom};
    ///
    /// let waiter = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let granted = Hint::new("order:42", waiter, 7);
    /// assert_eq!((granted.key, granted.fence), ("order:42", 7));
    /// ```
    #[must_use]
    pub const fn new(key: &'a str, owner: OwnerId, fence: u64) -> Self {
        Self {
            key,
            owner,
            fence,
            number: fence,
        }
    }

    /// Sets the number of the grant, if it is not the fence.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, Hint, OwnerId}, random::SystemRandom};
    ///
    /// let waiter = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let joined = Hint::new("catalog:7", waiter, 7).number(9);
    /// assert_eq!((joined.fence, joined.number), (7, 9));
    /// ```
    #[must_use]
    pub const fn number(mut self, number: u64) -> Self {
        self.number = number;
        self
    }
}

/// Sends the hints of a store to one manager, for the life of the manager.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::sync::Mutex;
/// use dlock::store::{OwnerId, Hint, HintSink};
///
/// /// The managers that use a store.
/// #[derive(Default)]
/// struct Sinks(Mutex<Vec<HintSink>>);
///
/// impl Sinks {
///     /// With a `fence` of 0 the key is free; otherwise it was granted to the owner.
///     fn notify(&self, key: &str, owner: OwnerId, fence: u64) {
///         let hint = Hint::new(key, owner, fence);
///         let mut sinks = self.0.lock().expect("no thread panics while it holds the lock");
///         sinks.retain(|sink| sink.hint(&hint));
///     }
///
///     /// The connection was lost, with all messages that were sent in the meantime.
///     fn reconnected(&self) {
///         let mut sinks = self.0.lock().expect("no thread panics while it holds the lock");
///         sinks.retain(HintSink::look_again);
///     }
/// }
/// # Sinks::default().reconnected();
/// # let _ = Sinks::notify;
/// ```
#[derive(Clone)]
pub struct HintSink(Arc<dyn HintReceiver>);

impl HintSink {
    /// Creates a sink for `receiver`: a manager, a wrapper that inspects hints, or a test.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::sync::Arc;
    /// use dlock::store::{Hint, HintReceiver, HintSink};
    ///
    /// /// Prints each hint before the manager sees it.
    /// struct Printed(HintSink);
    ///
    /// impl HintReceiver for Printed {
    ///     fn hint(&self, hint: &Hint<'_>) -> bool {
    ///         println!("{hint:?}");
    ///         self.0.hint(hint)
    ///     }
    ///
    ///     fn look_again(&self) -> bool {
    ///         self.0.look_again()
    ///     }
    /// }
    ///
    /// fn printed(sink: HintSink) -> HintSink {
    ///     HintSink::new(Arc::new(Printed(sink)))
    /// }
    /// # let _ = printed;
    /// ```
    #[must_use]
    pub fn new(receiver: Arc<dyn HintReceiver>) -> Self {
        Self(receiver)
    }

    /// Notifies the waiter. Never blocks. Returns `false` once the manager is gone; then drop the sink.
    #[must_use = "a sink whose manager is gone is to be dropped"]
    pub fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.hint(hint)
    }

    /// Makes every waiter send its request again, because hints may have been lost. Returns `false` once the
    /// manager is gone.
    #[must_use = "a sink whose manager is gone is to be dropped"]
    pub fn look_again(&self) -> bool {
        self.0.look_again()
    }
}

impl fmt::Debug for HintSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HintSink")
    }
}

/// The receiving end of a [`HintSink`].
pub trait HintReceiver: Send + Sync {
    /// Receives a hint. Returns `false` if the receiver wants no more hints. Must not block.
    fn hint(&self, hint: &Hint<'_>) -> bool;

    /// Handles a possible loss of hints. Returns `false` if the receiver wants no more hints. Must not block.
    fn look_again(&self) -> bool;
}
