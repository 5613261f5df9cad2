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

    fn host(name: &str) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config.host(name).port(5432);
        config
    }

    #[tokio::test(start_paused = true)]
    async fn each_host_has_its_time_and_is_named_with_its_reason() {
        let limit = Duration::from_secs(3);
        let mut tries = Tries::new(limit);
        let nowhere = tries.failed();
        assert_eq!(nowhere.message(), "the URL names no host");
        assert!(nowhere.has_no_effect());
        let silent = std::future::pending::<Result<(), _>>();
        let begun = tokio::time::Instant::now();
        assert_eq!(tries.connect(&host("a"), silent).await, None);
        assert_eq!(begun.elapsed(), limit);
        let one = tries.failed();
        assert_eq!(
            (one.kind(), one.has_no_effect()),
            (StoreErrorKind::TimedOut, true)
        );
        assert_eq!(one.message(), "the store did not answer within 3s");

        let gone = || StoreError::new(StoreErrorKind::Unreachable, "nobody listens").with_advice();
        let failing = async { Err::<(), _>(gone()) };
        assert_eq!(tries.connect(&host("b"), failing).await, None);
        let both = tries.failed();
        assert_eq!(both.kind(), StoreErrorKind::Unreachable);
        assert!(both.has_no_effect());
        let text = both.to_string();
        assert!(
            text.starts_with("a:5432: the store did not answer within 3s"),
            "{text}"
        );
        assert!(text.ends_with("; b:5432: nobody listens"), "{text}");
        assert_eq!(tries.connect(&host("c"), async { Ok(7) }).await, Some(7));
    }
}
