//! That a store did not tell: why, what to do about it, and whether the request had an effect.

use std::time::Duration;

use super::forms::codes;

/// The store did not tell.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Disconnected, "the connection broke");
/// assert_eq!(error.message(), "the connection broke");
/// assert!(!error.is_final(), "it may be asked again");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", self.advice())]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    effect: RequestFate,
    /// `true` if the message gives better advice than its kind can.
    is_advice: bool,
}

/// The possible effect of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFate {
    /// The effect that its kind implies.
    ByKind,
    /// There was none: it was never sent.
    Unsent,
    /// There was none: the store has answered that it refuses the whole of it.
    #[cfg(feature = "redis")]
    Refused,
    /// There may have been one.
    Possible,
}

impl StoreError {
    /// An error of `kind`; `message` says what happened, in lower case, without a password.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// let error = StoreError::new(StoreErrorKind::Refused, "the disk is full");
    /// assert_eq!(error.message(), "the disk is full");
    /// ```
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            effect: RequestFate::ByKind,
            is_advice: false,
        }
    }

    /// The same error, whose message says by itself what to do.
    pub(crate) fn with_advice(mut self) -> Self {
        self.is_advice = true;
        self
    }

    /// The same error in other words.
    pub(crate) fn reworded(&self, reword: impl FnOnce(&str) -> String) -> Self {
        Self {
            message: reword(&self.message),
            ..self.clone()
        }
    }

    /// The same error for a request that was never sent, whatever its kind.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// // Nothing has to be given back that was never asked for.
    /// let error = StoreError::new(StoreErrorKind::Disconnected, "no connection").unsent();
    /// assert_eq!(error.kind(), StoreErrorKind::Disconnected);
    /// ```
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.effect = RequestFate::Unsent;
        self
    }

    /// The same error for a request that the store has refused before its first write, whatever its kind.
    #[cfg(feature = "redis")]
    pub(crate) fn without_effect(mut self) -> Self {
        self.effect = RequestFate::Refused;
        self
    }

    /// The same error for a request that may have been carried out, whatever its kind.
    pub(crate) fn with_possible_effect(mut self) -> Self {
        self.effect = RequestFate::Possible;
        self
    }

    /// The same error, which names where it came from.
    #[cfg(feature = "redis")]
    pub(crate) fn at(mut self, place: &str) -> Self {
        if !self.message.contains(place) {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// No answer within `limit`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// let error = StoreError::timed_out(Duration::from_secs(1));
    /// assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    /// assert_eq!(error.message(), "the store did not answer within 1s");
    /// ```
    #[must_use]
    pub fn timed_out(limit: Duration) -> Self {
        Self::new(
            StoreErrorKind::TimedOut,
            format!("the store did not answer within {limit:.0?}"),
        )
    }

    /// Returns the kind of failure.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, StoreErrorKind};
    ///
    /// /// Whether the program has to be set up otherwise, in place of waiting.
    /// fn is_denied(error: &LockError) -> bool {
    ///     matches!(error, LockError::Unavailable { reason, .. }
    ///         if reason.kind() == StoreErrorKind::Denied)
    /// }
    /// # let _: fn(&LockError) -> bool = is_denied;
    /// ```
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the message without advice.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The advice that follows the message, if the message contains none.
    fn advice(&self) -> String {
        if self.is_advice {
            return String::new();
        }
        format!("; {}", self.kind.remedy())
    }

    /// Returns `true` if asking again cannot help before an operator changes something.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// let refused = StoreError::new(StoreErrorKind::Denied, "no permission for `eval`");
    /// assert!(refused.is_final(), "somebody has to change the user's rights");
    /// assert!(!StoreError::timed_out(std::time::Duration::from_secs(1)).is_final());
    /// ```
    #[must_use]
    pub fn is_final(&self) -> bool {
        use StoreErrorKind::{
            BadAnswer, Denied, Forked, NoRuntime, Tls, Unauthenticated, UnknownService,
            Unsupported, WrongType,
        };
        matches!(
            self.kind,
            WrongType
                | Denied
                | Unauthenticated
                | BadAnswer
                | Unsupported
                | NoRuntime
                | Tls
                | UnknownService
                | Forked
        )
    }

    /// `true` if the store's answer means that the same request need not be sent again.
    ///
    /// A fault of the connection is another matter: connecting is tried again without the request.
    pub(crate) fn is_refusal_for_good(&self) -> bool {
        use StoreErrorKind::{BadAnswer, Denied, Unsupported, WrongType};
        let is_about_request = matches!(self.kind, BadAnswer | Denied | Unsupported | WrongType);
        is_about_request && self.effect != RequestFate::Unsent
    }

    /// `true` if the request certainly had no effect: it was never sent, or it was refused before
    /// the first write.
    pub(crate) fn left_nothing(&self) -> bool {
        use StoreErrorKind::{
            Forked, Loading, NoCredentials, NoRuntime, Overloaded, ReadOnly, Tls, Unauthenticated,
            UnknownService, Unreachable, WrongType,
        };
        let refused_whole = matches!(
            self.kind,
            Unreachable
                | ReadOnly
                | Loading
                | WrongType
                | Unauthenticated
                | NoCredentials
                | Tls
                | NoRuntime
                | UnknownService
                | Forked
                | Overloaded
        );
        match self.effect {
            RequestFate::ByKind => refused_whole,
            RequestFate::Unsent => true,
            #[cfg(feature = "redis")]
            RequestFate::Refused => true,
            RequestFate::Possible => false,
        }
    }
}

/// Sorts of [`StoreError`].
///
/// Some say for certain that the request had no effect; after those nothing is released. A store
/// that cannot be sure answers [`Disconnected`](Self::Disconnected) or
/// [`TimedOut`](Self::TimedOut).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockError, StoreErrorKind};
///
/// /// Returns `true` if an operator has to act.
/// fn is_ours_to_mend(error: &LockError) -> bool {
///     matches!(error, LockError::Unavailable { reason, .. }
///         if matches!(reason.kind(), StoreErrorKind::Denied | StoreErrorKind::Unauthenticated))
/// }
/// # let _: fn(&LockError) -> bool = is_ours_to_mend;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The server cannot be reached: the request was never sent.
    Unreachable,
    /// The connection broke while the request was under way.
    Disconnected,
    /// The server did not answer in time.
    TimedOut,
    /// The server is a replica, or was made read-only; the request had no effect.
    ReadOnly,
    /// The server is still loading its data; the request had no effect.
    Loading,
    /// The server has no memory left to write.
    OutOfMemory,
    /// The server refuses to write, for a reason it names.
    Refused,
    /// Something that is no lock lies at the key; the request had no effect.
    WrongType,
    /// The user lacks a permission.
    Denied,
    /// The password or the user is wrong or missing; the request had no effect.
    Unauthenticated,
    /// The program's own source of passwords gave none; the request was never sent.
    NoCredentials,
    /// Server and client do not accept each other's certificates, or only one of them speaks TLS;
    /// the request was never sent.
    Tls,
    /// The server's answer makes no sense.
    BadAnswer,
    /// The server lacks something that dlock needs.
    Unsupported,
    /// The caller does not run inside a tokio runtime; the request was never sent.
    NoRuntime,
    /// Fewer replicas than wanted have confirmed the request, which may have been carried out.
    TooFewReplicas,
    /// A bound of the manager is reached: the request was never sent, and may be made later.
    Overloaded,
    /// No Sentinel knows the service; the request was never sent.
    UnknownService,
    /// The manager belongs to the process that this one was forked from; the request was never sent.
    Forked,
}

codes! { StoreErrorKind:
    Unreachable => "unreachable",
    Disconnected => "disconnected",
    TimedOut => "timed-out",
    ReadOnly => "read-only",
    Loading => "loading",
    OutOfMemory => "out-of-memory",
    Refused => "refused",
    WrongType => "wrong-type",
    Denied => "denied",
    Unauthenticated => "unauthenticated",
    NoCredentials => "no-credentials",
    Tls => "tls",
    BadAnswer => "bad-answer",
    Unsupported => "unsupported",
    NoRuntime => "no-runtime",
    TooFewReplicas => "too-few-replicas",
    Overloaded => "overloaded",
    UnknownService => "unknown-service",
    Forked => "forked",
}

impl StoreErrorKind {
    fn remedy(self) -> &'static str {
        match self {
            Self::Unreachable => "check that the server runs and that its address is right",
            Self::Disconnected => "check whether the server restarts or closes connections",
            Self::TimedOut => "check the server's load and the network to it",
            Self::ReadOnly => "point dlock at the master",
            Self::Loading => "wait until the server has loaded its data",
            Self::OutOfMemory => {
                "give the server more memory (Redis: `maxmemory`, with the policy `noeviction`)"
            }
            Self::Refused => "see the server's log",
            Self::WrongType => {
                "remove that data, or choose another key or namespace; dlock never deletes it"
            }
            Self::Denied => "grant the user the missing command, key pattern or channel",
            Self::Unauthenticated => "check the user and the password",
            Self::NoCredentials => "check what the manager's `credentials` were set to",
            Self::Tls => "check the server's certificate, and the `ca`, `cert` and `key` given",
            Self::Unsupported => {
                "check the server's version (Redis: at least 6.2), and that the URL fits how it runs"
            }
            Self::Overloaded => "retry later, or raise that bound in the builder",
            Self::TooFewReplicas => "check the server's replicas, or lower `min_replicas`",
            Self::UnknownService => "check the name of the service, after the hosts in the URL",
            Self::Forked => "make a manager in each process, after the fork",
            Self::BadAnswer => "check that the address is that of the lock server, and its version",
            Self::NoRuntime => "make the manager and call it inside a tokio runtime",
        }
    }
}
