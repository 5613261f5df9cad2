//! Hints: wake-up messages from a store to waiters.

use std::{fmt, sync::Arc};

use crate::owner::OwnerId;

/// A message from the store: a waiter should ask again, or has been made the holder.
///
/// Hints may be lost, late or repeated. So a waiter believes one only together with a request of
/// its own that was answered with [`AcquireOutcome::Busy`](super::AcquireOutcome::Busy) and a
/// [`last_fence`](super::Holder::last_fence) below the hint's: then the grant came after that
/// request was sent, and lasts for [`GRANT_TTL`](super::GRANT_TTL) from then on at least. Because of
/// any other hint it only asks.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::Hint;
///
/// /// Whether a question whose answer knew `last_fence` was sent before this grant.
/// fn is_later(hint: &Hint<'_>, last_fence: u64) -> bool {
///     hint.fence > last_fence
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
    /// The fence it was granted with; 0 if it was not granted, and only should ask.
    pub fence: u64,
}

impl<'a> Hint<'a> {
    /// A hint that `owner` should ask again for `key`, or has been made its holder with `fence`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, Hint, OwnerId}, testing::SystemRandom};
    ///
    /// let waiter = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let granted = Hint::new("order:42", waiter, 7);
    /// assert_eq!((granted.key, granted.fence), ("order:42", 7));
    /// ```
    #[must_use]
    pub const fn new(key: &'a str, owner: OwnerId, fence: u64) -> Self {
        Self { key, owner, fence }
    }
}

/// The receiver of a store's hints: one manager, as long as it lives.
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
///     /// The key is free, or has been made the owner's: `fence` tells which.
///     fn tell(&self, key: &str, owner: OwnerId, fence: u64) {
///         let hint = Hint::new(key, owner, fence);
///         let mut sinks = self.0.lock().expect("nobody panics with it");
///         sinks.retain(|sink| sink.hint(&hint));
///     }
///
///     /// The connection was lost, and with it the messages sent meanwhile.
///     fn reconnected(&self) {
///         let mut sinks = self.0.lock().expect("nobody panics with it");
///         sinks.retain(HintSink::look_again);
///     }
/// }
/// # Sinks::default().reconnected();
/// # let _ = Sinks::tell;
/// ```
#[derive(Clone)]
pub struct HintSink(Arc<dyn HintReceiver>);

impl HintSink {
    /// A sink that ends in `receiver`: a manager, a wrapper that looks at hints on their way, or a test.
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

    /// Tells the waiter; never blocks. `false` once the manager is gone: drop the sink then.
    #[must_use = "a sink whose manager is gone is to be dropped"]
    pub fn hint(&self, hint: &Hint<'_>) -> bool {
        self.0.hint(hint)
    }

    /// Hints may have been missed: every waiter asks again. `false` once the manager is gone.
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
    /// A hint has come; `false` if the receiver wants no more. Must not block.
    fn hint(&self, hint: &Hint<'_>) -> bool;

    /// Hints may have been missed; `false` if the receiver wants no more. Must not block.
    fn look_again(&self) -> bool;
}
