//! Errors of the client as errors of a store.

use dlock_runtime::store::{StoreError, StoreErrorKind};
use zookeeper_client::Error;

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Client(Error),
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Client(error) => of(&error),
            Self::Store(error) => error,
        }
    }
}

pub(crate) fn of(error: &Error) -> StoreError {
    let kind = match error {
        Error::NoHosts => StoreErrorKind::Unreachable,
        Error::ConnectionLoss
        | Error::SessionExpired
        | Error::SessionMoved
        | Error::ClientClosed => StoreErrorKind::Disconnected,
        Error::Timeout => StoreErrorKind::TimedOut,
        Error::NoAuth | Error::InvalidAcl => StoreErrorKind::Denied,
        Error::AuthFailed => StoreErrorKind::Unauthenticated,
        Error::NotReadOnly => StoreErrorKind::ReadOnly,
        Error::QuotaExceeded | Error::Throttled => StoreErrorKind::Refused,
        Error::Unimplemented => StoreErrorKind::Unsupported,
        _ => StoreErrorKind::BadAnswer,
    };
    StoreError::new(kind, format!("ZooKeeper: {error}"))
}
