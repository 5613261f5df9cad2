//! Errors of the client as errors of a store.

use dlock_runtime::store::{StoreError, StoreErrorKind};
use zookeeper_client::Error;

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
