//! The state of a connection, as recorded by its users.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

use super::role::Role;
use crate::store::{StoreError, StoreErrorKind, redis::protocol::errors};

/// Shared by all users of a connection.
#[derive(Default)]
pub(crate) struct Health {
    pub(super) role: Role,
    fault: OnceLock<StoreError>,
    suspected: AtomicBool,
    changed: Notify,
}

impl Health {
    /// Records that the connection must be replaced.
    pub(crate) fn fail(&self, error: StoreError) {
        // The first error is the cause of the others.
        self.fault.set(error).ok();
        self.changed.notify_one();
    }

    /// Returns the error of a request that was in progress when the connection broke.
    ///
    /// It always has this kind, whatever the cause: another request may have been refused, but this one may have been
    /// carried out.
    pub(super) fn broken(&self) -> StoreError {
        let message = match self.fault.get() {
            Some(cause) if cause.kind() != StoreErrorKind::Disconnected => {
                format!(
                    "dlock closed the connection to the server: {}",
                    cause.message()
                )
            }
            _ => errors::BROKEN.to_owned(),
        };
        StoreError::new(StoreErrorKind::Disconnected, message)
    }

    /// Records that a request got no answer: the connection may be dead.
    pub(super) fn suspect(&self) {
        self.suspected.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Returns the reason why the connection must be replaced, if it must.
    pub(super) fn fault(&self) -> Option<StoreError> {
        self.fault.get().cloned()
    }

    /// Waits for a fault.
    pub(crate) async fn failed(&self) -> StoreError {
        loop {
            if let Some(fault) = self.fault.get() {
                return fault.clone();
            }
            self.changed.notified().await;
        }
    }

    /// Waits for a fault or for a request without an answer.
    pub(crate) async fn news(&self) -> Result<(), StoreError> {
        loop {
            if let Some(fault) = self.fault.get() {
                return Err(fault.clone());
            }
            if self.suspected.swap(false, Ordering::Relaxed) {
                return Ok(());
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_fault_outlives_suspicions() {
        let health = Health::default();
        health.suspect();
        health.suspect();
        assert_eq!(health.news().await, Ok(()));
        let fault = StoreError::new(StoreErrorKind::ReadOnly, "it is a replica");
        health.fail(fault.clone());
        health.fail(StoreError::new(StoreErrorKind::Disconnected, "broken"));
        health.suspect();
        assert_eq!(health.news().await, Err(fault.clone()));
        assert_eq!(health.news().await, Err(fault.clone()));
        assert_eq!(health.failed().await, fault);
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspicion_outlives_the_wait_for_a_fault() {
        let health = Health::default();
        health.suspect();
        let limit = Duration::from_secs(1);
        let failed = tokio::time::timeout(limit, health.failed()).await;
        failed.expect_err("a suspicion is no fault");
        assert_eq!(health.news().await, Ok(()));
    }

    #[test]
    fn a_request_under_way_is_never_called_harmless() {
        for cause in [
            StoreErrorKind::ReadOnly,
            StoreErrorKind::Unauthenticated,
            StoreErrorKind::Denied,
            StoreErrorKind::TimedOut,
        ] {
            let health = Health::default();
            health.fail(StoreError::new(cause, "the cause"));
            let error = health.broken();
            assert!(!error.left_nothing() && !error.is_final(), "{cause:?}");
            assert!(error.to_string().contains("the cause"), "{error}");
        }
        // The connection's own error about its end changes nothing.
        let health = Health::default();
        assert_eq!(health.fault(), None);
        assert_eq!(health.broken().message(), errors::BROKEN);
        let reset = StoreError::new(StoreErrorKind::Disconnected, "reset by peer");
        health.fail(reset.clone());
        assert_eq!(health.broken().message(), errors::BROKEN);
        assert_eq!(health.fault(), Some(reset));
    }
}
