//! The errors of locks. They have one variant for each possible reaction of the caller.

mod forms;
mod manager;
mod store;

use std::{borrow::Cow, convert::Infallible, time::Duration};

pub(crate) use self::forms::{codes, debug_with_text};
pub use self::{
    manager::{AlreadyInstalled, ConnectError},
    store::{StoreError, StoreErrorKind},
};
use crate::{
    answer::Holder,
    key::{InvalidKeyReason, LockKey},
};

/// The reason why a critical section did not run, or did not keep its lease until its end.
///
/// The text names the key and says what to do. It is meant for logs, not for the clients of a service.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockError;
///
/// /// Returns the HTTP status of a response.
/// fn status(error: &LockError) -> u16 {
///     match error {
///         LockError::Busy { .. } => 409,
///         LockError::Unavailable { .. } | LockError::Closed { .. } => 503,
///         LockError::InvalidKey { .. } => 400,
///         _ => 500,
///     }
/// }
/// # let _: fn(&LockError) -> u16 = status;
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another holder had the lock, or one of several locks, during the whole wait. The body did not run.
    #[error("lock `{key}` is busy after {waited:.0?}: {holder}; try again later or raise `wait`")]
    Busy {
        /// The lock. Of several locks, the one that was held.
        key: LockKey,
        /// The time for which the caller waited.
        waited: Duration,
        /// The holder, as far as the store knows it. The box keeps the error small.
        holder: Box<Holder>,
    },
    /// The store gave no usable answer within the wait. The body did not run.
    #[error("lock `{key}` is unavailable after {waited:.0?}: {reason}")]
    Unavailable {
        /// The lock.
        key: LockKey,
        /// The time for which the caller waited.
        waited: Duration,
        /// The last failure. It is part of the message and therefore not a `source`.
        reason: StoreError,
    },
    /// The lease ended before the body. The body was cancelled, or had just ended. Its writes without a
    /// fencing token may have overlapped with those of another holder.
    #[error(
        "lock `{key}` was lost after {held_for:.0?}: {cause}; check the data that the critical section wrote"
    )]
    Lost {
        /// The lock. Of several locks, the first that was lost.
        key: LockKey,
        /// The time for which it was held.
        held_for: Duration,
        /// The cause of the loss.
        cause: LostCause,
    },
    /// The calling task or thread already holds this lock and would wait for itself.
    #[error(
        "lock `{key}` is already held by the calling code, which would wait for itself; \
         pass the `&Lease` on instead of acquiring the lock again; to change the mode, release the lock first"
    )]
    WouldDeadlock {
        /// The lock.
        key: LockKey,
    },
    /// A blocking call requested this lock in an async task and would block the task's thread.
    #[error(
        "lock `{key}` cannot be acquired by a blocking call in an async task; \
         use the async form, or move the call into `tokio::task::spawn_blocking`"
    )]
    WouldBlock {
        /// The lock.
        key: LockKey,
    },
    /// The text or the arguments do not form a valid key.
    #[error("`{key}` is not a valid lock key: {reason}")]
    InvalidKey {
        /// The beginning of the text, or the template.
        key: String,
        /// The reason why the key is invalid.
        reason: InvalidKeyReason,
    },
    /// An option is out of range, or the store does not support its value.
    #[error("lock `{key}` has an invalid `{option}`: {reason}")]
    InvalidOption {
        /// The lock.
        key: LockKey,
        /// The name of the invalid option.
        option: &'static str,
        /// The reason why the value is invalid.
        reason: Cow<'static, str>,
    },
    /// No manager is installed in this process.
    #[error(
        "lock `{key}` has no manager: call `dlock::install(LockManager::connect(url).await?)` at start-up"
    )]
    NotInstalled {
        /// The lock.
        key: LockKey,
    },
    /// The manager is shutting down and accepts no new requests.
    #[error(
        "lock `{key}` was refused: its manager is shut down; stop accepting work before `shutdown`"
    )]
    Closed {
        /// The lock.
        key: LockKey,
    },
}

impl LockError {
    /// Returns the key, or the beginning of an invalid one.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockKey;
    ///
    /// let error = LockKey::new("report:{daily}").expect_err("it has a brace");
    /// assert_eq!(error.key(), "report:{daily}");
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::InvalidKey { key, .. } => key,
            Self::Busy { key, .. }
            | Self::Unavailable { key, .. }
            | Self::Lost { key, .. }
            | Self::WouldDeadlock { key }
            | Self::WouldBlock { key }
            | Self::InvalidOption { key, .. }
            | Self::NotInstalled { key }
            | Self::Closed { key } => key.as_str(),
        }
    }

    /// Returns `true` if another holder had the lock, which is not an incident.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockError;
    ///
    /// fn log(error: &LockError) {
    ///     if error.is_busy() {
    ///         println!("another process is working on it: {error}");
    ///     } else {
    ///         eprintln!("{}: {error}", error.code());
    ///     }
    /// }
    /// # let _: fn(&LockError) = log;
    /// ```
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Returns `true` if the lease was lost while the body ran. The work of the body may be incomplete.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockError;
    ///
    /// /// Returns `true` if the order must be checked before the work continues.
    /// fn is_in_doubt(error: &LockError) -> bool {
    ///     error.is_lost()
    /// }
    /// # let _: fn(&LockError) -> bool = is_in_doubt;
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns `true` if the store gave no usable answer, so that the outcome is unknown.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::connect_lazy("redis://127.0.0.1:1")?;
    /// let lock = manager.lock("order:42").wait(Duration::from_millis(20));
    /// let error = lock.acquire().await.expect_err("no server listens there");
    /// assert!(error.is_unavailable());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns the time after which a retry may succeed, or `None` if it cannot succeed without a change.
    ///
    /// For a busy lock, this is the time until the holder's lease ends, at most one second. For an unavailable
    /// store, it is one second.
    ///
    /// For a [lost](Self::Lost) lease it is `None`. The body may have done a part of its work, and only its
    /// author knows whether this part can be repeated.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use dlock::{LockError, LockManager};
    ///
    /// /// Retries as long as a retry may succeed.
    /// async fn patiently(manager: &LockManager) -> Result<(), LockError> {
    ///     loop {
    ///         let error = match manager.lock("order:42").run(async |_lease| ()).await {
    ///             Ok(()) => return Ok(()),
    ///             Err(error) => error,
    ///         };
    ///         let Some(pause) = error.retry_after() else {
    ///             return Err(error);
    ///         };
    ///         tokio::time::sleep(pause).await;
    ///     }
    /// }
    /// # let manager = dlock::LockManager::memory();
    /// patiently(&manager).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        const SOON: Duration = Duration::from_secs(1);
        match self {
            Self::Busy { holder, .. } => Some(holder.ttl.map_or(SOON, |ttl| ttl.min(SOON))),
            Self::Unavailable { reason, .. } if !reason.is_final() => Some(SOON),
            _ => None,
        }
    }
}

codes! { LockError:
    Busy => "busy",
    Unavailable => "unavailable",
    Lost => "lost",
    WouldDeadlock => "would-deadlock",
    WouldBlock => "would-block",
    InvalidKey => "invalid-key",
    InvalidOption => "invalid-option",
    NotInstalled => "not-installed",
    Closed => "closed",
}

/// Lets a [`LockKey`] be passed where a text is accepted. Its conversion into a key cannot fail.
impl From<Infallible> for LockError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The cause for which a lease ended before its release.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockError, LostCause};
///
/// /// Returns `true` if the process was delayed for longer than the TTL allows.
/// fn was_delayed(error: &LockError) -> bool {
///     matches!(error, LockError::Lost { cause: LostCause::Expired, .. })
/// }
/// # let _: fn(&LockError) -> bool = was_delayed;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostCause {
    /// The store answered that this owner does not hold the key. The lease expired there, was revoked, or its
    /// key was deleted.
    #[error("the store reports another owner, or none")]
    Revoked,
    /// The lease could not be renewed before its deadline.
    #[error("it could not be renewed in time ({reason})")]
    NotRenewed {
        /// The last failure.
        reason: StoreError,
    },
    /// The lease ended after its TTL, because its renewal is disabled.
    #[error("it ended after its `ttl`, because of `renew = false`")]
    RenewalDisabled,
    /// The deadline passed before the lease was renewed, because the process was delayed.
    #[error("its deadline passed; raise `ttl`, or find out what delayed the process")]
    Expired,
    /// The lease was held for all of `max_hold`.
    #[error("it was held for all of `max_hold`")]
    MaxHold,
    /// The manager was shut down and stopped waiting for the body.
    #[error("its manager was shut down")]
    ShutDown,
    /// This process is a fork of the process that holds the lease.
    #[error(
        "it belongs to the parent of this forked process; acquire locks in each process, after the fork"
    )]
    OtherProcess,
}

codes! { LostCause:
    Revoked => "revoked",
    NotRenewed => "not-renewed",
    RenewalDisabled => "renewal-disabled",
    Expired => "expired",
    MaxHold => "max-hold",
    ShutDown => "shut-down",
    OtherProcess => "other-process",
}

debug_with_text! {
    LockError: |error| match error {
        LockError::Busy { .. } => "Busy",
        LockError::Unavailable { .. } => "Unavailable",
        LockError::Lost { .. } => "Lost",
        LockError::WouldDeadlock { .. } => "WouldDeadlock",
        LockError::WouldBlock { .. } => "WouldBlock",
        LockError::InvalidKey { .. } => "InvalidKey",
        LockError::InvalidOption { .. } => "InvalidOption",
        LockError::NotInstalled { .. } => "NotInstalled",
        LockError::Closed { .. } => "Closed",
    },
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_be_part_of_others() {
        assert!(size_of::<LockError>() <= 72, "{}", size_of::<LockError>());
        assert!(
            size_of::<ConnectError>() <= 72,
            "{}",
            size_of::<ConnectError>()
        );
    }

    #[test]
    fn work_that_may_be_half_done_is_not_to_be_repeated() {
        let key = || LockKey::new("order:1").expect("it is valid");
        let lost = LockError::Lost {
            key: key(),
            held_for: Duration::from_secs(1),
            cause: LostCause::Expired,
        };
        assert!(lost.is_lost() && !lost.is_unavailable() && !lost.is_busy());
        assert_eq!(lost.retry_after(), None);
        let unavailable = LockError::Unavailable {
            key: key(),
            waited: Duration::ZERO,
            reason: StoreError::timed_out(Duration::from_secs(1)),
        };
        assert!(unavailable.is_unavailable() && !unavailable.is_lost());
        assert!(unavailable.retry_after().is_some(), "no body has run");
    }

    #[test]
    fn debug_gives_the_advice_of_the_text() {
        let error = LockError::NotInstalled {
            key: LockKey::new("order:1").expect("it is valid"),
        };
        assert!(format!("{error:?}").starts_with("NotInstalled(lock `order:1` has no manager"));
        assert!(format!("{:?}", ConnectError::NoUrl).contains("set it to the store's URL"));
    }
}
