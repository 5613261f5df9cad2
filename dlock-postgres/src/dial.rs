//! Tries the hosts of a URL, one after the other.

use std::time::Duration;

use dlock_runtime::store::{StoreError, StoreErrorKind};
use tokio::time::timeout;

use crate::hosts;

/// The hosts that were tried in vain.
pub(crate) struct Tries {
    /// The time for each host: the first one may be silent.
    limit: Duration,
    failures: Vec<(tokio_postgres::Config, StoreError)>,
}

impl Tries {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            failures: Vec::new(),
        }
    }

    /// Returns the connection to `host`, or notes why there is none.
    pub(crate) async fn connect<T>(
        &mut self,
        host: &tokio_postgres::Config,
        connecting: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let limit = self.limit;
        let connected = timeout(limit, connecting).await;
        match connected.unwrap_or_else(|_| Err(StoreError::timed_out(limit).unsent())) {
            Ok(connected) => Some(connected),
            Err(error) => {
                self.failures.push((host.clone(), error));
                None
            }
        }
    }

    /// Whether the last host has not answered in time.
    pub(crate) fn has_timed_out(&self) -> bool {
        let last = self.failures.last();
        last.is_some_and(|(_, error)| error.kind() == StoreErrorKind::TimedOut)
    }

    /// Returns the error of all of them.
    pub(crate) fn failed(&self) -> StoreError {
        of_hosts(&self.failures)
    }
}

/// The error of a connection that none of the hosts has accepted. Of several hosts, each is named with its reason.
fn of_hosts(failures: &[(tokio_postgres::Config, StoreError)]) -> StoreError {
    let Some(((_, last), others)) = failures.split_last() else {
        return StoreError::new(StoreErrorKind::Unreachable, "the URL names no host").unsent();
    };
    if others.is_empty() {
        return last.clone();
    }
    let reasons = failures
        .iter()
        .map(|(host, error)| format!("{}: {error}", hosts::place(host)));
    let text = reasons.collect::<Vec<_>>().join("; ");
    let is_about_tls = |(_, error): &(_, StoreError)| error.kind() == StoreErrorKind::Tls;
    let kind = match last.kind() {
        // Another host may be up soon, so callers go on waiting.
        StoreErrorKind::Tls if !failures.iter().all(is_about_tls) => StoreErrorKind::Unreachable,
        kind => kind,
    };
    StoreError::new(kind, text).with_advice().unsent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_tls_is_final_only_if_no_other_host_can_be_up_soon() {
        let [tls, gone] = [StoreErrorKind::Tls, StoreErrorKind::Unreachable];
        for (first, last, expected) in [(tls, tls, tls), (gone, tls, gone), (tls, gone, gone)] {
            let failures = [first, last]
                .map(|kind| (tokio_postgres::Config::new(), StoreError::new(kind, "why")));
            assert_eq!(of_hosts(&failures).kind(), expected);
        }
    }
}
