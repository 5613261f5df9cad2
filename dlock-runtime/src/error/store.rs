//! Errors of stores: their kind, their advice, and whether the request may have had an effect.

use std::time::Duration;

use super::forms::codes;

/// The error of a request that the store did not carry out, or whose outcome is unknown.
///
/// Its text is the [message](Self::message), followed by advice.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Disconnected, "the connection broke");
/// assert_eq!(error.message(), "the connection broke");
/// assert!(!error.is_final(), "a retry may succeed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", self.advice())]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    effect: RequestFate,
    /// `true` if the message contains advice, so that the advice of the kind is left out.
    is_advice: bool,
}

/// The possible effect of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFate {
    /// The effect that the kind of the error implies.
    ByKind,
    /// The request had no effect, because it was never sent.
    Unsent,
    /// The request had no effect, because the store refused all of it.
    Refused,
    /// The request may have had an effect.
    Possible,
}

impl StoreError {
    /// Creates an error of `kind`. `message` says what happened. It begins in lower case, ends without a full
    /// stop and contains no password.
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

    /// Returns the same error without the advice of its kind. The message contains its own advice.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// let text = "the table is missing; run `migrate`";
    /// let error = StoreError::new(StoreErrorKind::Unsupported, text).with_advice();
    /// assert_eq!(error.to_string(), text);
    /// ```
    #[must_use]
    pub fn with_advice(mut self) -> Self {
        self.is_advice = true;
        self
    }

    /// Returns the same error with another message.
    pub(crate) fn reworded(&self, reword: impl FnOnce(&str) -> String) -> Self {
        Self {
            message: reword(&self.message),
            ..self.clone()
        }
    }

    /// Returns the same error for a request that was never sent, whatever the kind says.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// // The request was never sent, so dlock releases nothing.
    /// let error = StoreError::new(StoreErrorKind::Disconnected, "no connection").unsent();
    /// assert_eq!(error.kind(), StoreErrorKind::Disconnected);
    /// ```
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.effect = RequestFate::Unsent;
        self
    }

    /// Returns the same error for a request that the store refused before its first write, whatever the kind
    /// says.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// // The transaction was rolled back, so dlock releases nothing.
    /// let error = StoreError::new(StoreErrorKind::Refused, "a deadlock was detected").without_effect();
    /// assert_eq!(error.kind(), StoreErrorKind::Refused);
    /// ```
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.effect = RequestFate::Refused;
        self
    }

    /// Returns the same error for a request that may have been carried out, whatever the kind says.
    pub(crate) fn with_possible_effect(mut self) -> Self {
        self.effect = RequestFate::Possible;
        self
    }

    /// Returns the same error, with its origin at the beginning of the message.
    #[cfg(feature = "redis")]
    pub(crate) fn at(mut self, place: &str) -> Self {
        if !self.message.contains(place) {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// Creates the error of a request without an answer within `limit`.
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
    /// /// Returns `true` if the user of the server lacks a permission.
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

    /// Returns the message, without the advice of its kind.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the advice that follows the message, or an empty text if the message contains its own advice.
    fn advice(&self) -> String {
        if self.is_advice {
            return String::new();
        }
        format!("; {}", self.kind.remedy())
    }

    /// Returns `true` if a retry cannot succeed until an operator changes something.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// let refused = StoreError::new(StoreErrorKind::Denied, "no permission for `eval`");
    /// assert!(refused.is_final(), "an operator must grant the permission");
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

    /// Returns `true` if the request certainly changed nothing: it was never sent, or it was refused as a whole.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{StoreError, StoreErrorKind};
    ///
    /// let refused = StoreError::new(StoreErrorKind::Refused, "the lock is in use").without_effect();
    /// assert!(refused.has_no_effect());
    /// assert!(!StoreError::timed_out(std::time::Duration::from_secs(1)).has_no_effect());
    /// ```
    #[must_use]
    pub fn has_no_effect(&self) -> bool {
        self.left_nothing()
    }

    /// Returns `true` if the store's answer means that the same request would fail again.
    ///
    /// Failures of a connection do not count: connecting is retried without the request.
    pub(crate) fn is_refusal_for_good(&self) -> bool {
        use StoreErrorKind::{BadAnswer, Denied, Unsupported, WrongType};
        let is_about_request = matches!(self.kind, BadAnswer | Denied | Unsupported | WrongType);
        is_about_request && self.effect != RequestFate::Unsent
    }

    /// Returns `true` if the request certainly had no effect: it was never sent, or it was refused before the
    /// first write.
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
            RequestFate::Unsent | RequestFate::Refused => true,
            RequestFate::Possible => false,
        }
    }
}

#[cfg(feature = "net")]
impl dlock_net::HandshakeError for StoreError {
    fn is_about_tls(&self) -> bool {
        self.kind == StoreErrorKind::Tls
    }

    fn reworded(&self, reword: impl FnOnce(&str) -> String) -> Self {
        self.reworded(reword)
    }

    fn as_unreachable(&self) -> Self {
        let advice = self.advice();
        Self {
            kind: StoreErrorKind::Unreachable,
            ..self
                .reworded(|text| format!("{text}{advice}"))
                .with_advice()
        }
    }
}

/// Kinds of [`StoreError`].
///
/// Some kinds mean that the request certainly had no effect. After these dlock releases nothing. A store that
/// does not know whether a request had an effect returns [`Disconnected`](Self::Disconnected) or
/// [`TimedOut`](Self::TimedOut).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockError, StoreErrorKind};
///
/// /// Returns `true` if an operator has to act.
/// fn needs_operator(error: &LockError) -> bool {
///     matches!(error, LockError::Unavailable { reason, .. }
///         if matches!(reason.kind(), StoreErrorKind::Denied | StoreErrorKind::Unauthenticated))
/// }
/// # let _: fn(&LockError) -> bool = needs_operator;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The server is unreachable. The request was never sent.
    Unreachable,
    /// The connection broke before the answer arrived. The request may have been carried out.
    Disconnected,
    /// The server did not answer in time. The request may have been carried out.
    TimedOut,
    /// The server is a replica, or read-only. The request had no effect.
    ReadOnly,
    /// The server is still loading its data. The request had no effect.
    Loading,
    /// The server has no memory left for writes.
    OutOfMemory,
    /// The server refuses the request, for the reason in the message.
    Refused,
    /// The key has a value that is not a lock. The request had no effect.
    WrongType,
    /// The user of the server lacks a permission.
    Denied,
    /// The password or the user is wrong or missing. The request had no effect.
    Unauthenticated,
    /// The `credentials` callback supplied no credentials. The request was never sent.
    NoCredentials,
    /// One side does not accept the certificate of the other, or only one side uses TLS. The request was never
    /// sent.
    Tls,
    /// The server's answer is invalid.
    BadAnswer,
    /// The server lacks a feature that dlock needs, or its mode does not match the URL.
    Unsupported,
    /// The caller does not run inside a tokio runtime. The request was never sent.
    NoRuntime,
    /// Fewer than `min_replicas` replicas confirmed the request, which may have been carried out.
    TooFewReplicas,
    /// The manager has reached one of its limits. The request was never sent; a later call may succeed.
    Overloaded,
    /// No Sentinel knows the service. The request was never sent.
    UnknownService,
    /// This process is a fork of the one that created the manager. The request was never sent.
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
            Self::Unreachable => "check that the server is running and that its address is correct",
            Self::Disconnected => "check whether the server restarts or closes connections",
            Self::TimedOut => "check the server's load and the network to it",
            Self::ReadOnly => "point dlock at the master",
            Self::Loading => "wait until the server has loaded its data",
            Self::OutOfMemory => {
                "give the server more memory (Redis: raise `maxmemory`, keep the policy `noeviction`)"
            }
            Self::Refused => "check the server's log",
            Self::WrongType => {
                "remove that data, or choose another key or namespace; dlock never deletes it"
            }
            Self::Denied => "grant the user the missing command, key pattern or channel",
            Self::Unauthenticated => "check the user and the password",
            Self::NoCredentials => "check the `credentials` callback",
            Self::Tls => "check the server's certificate, and the certificates that the URL names",
            Self::Unsupported => {
                "check the server's version (Redis: 6.2 or later), and that the URL matches its mode"
            }
            Self::Overloaded => "retry later, or raise that limit in the builder",
            Self::TooFewReplicas => "check the server's replicas, or lower `min_replicas`",
            Self::UnknownService => "check the service name, which follows the hosts in the URL",
            Self::Forked => "create a manager in each process, after the fork",
            Self::BadAnswer => "check the server's address and version",
            Self::NoRuntime => "create the manager and call it inside a tokio runtime",
        }
    }
}
