//! Log events of a connection. A connection affects all locks, so an outage has one event at its beginning and
//! one at its end, however many requests and attempts fail in between.
//!
//! A subscriber that panics must not end the task of the connection.

use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::counts::Outage;
use crate::{
    store::StoreError,
    telemetry::{TARGET, told},
};

/// The state of the log about a connection.
pub(crate) struct Events {
    /// The URL without its password.
    server: String,
    /// The time since which a required connection is missing.
    down_since: Option<Instant>,
    outage: Outage,
    /// `true` if the log or a caller has reported the outage.
    told: bool,
    /// The eviction policy that was logged.
    evicts: Option<String>,
    /// `true` if the log has reported that hints are missing.
    is_unheard: bool,
    /// Another connection to the same server reports its outages.
    is_second: bool,
}

impl Events {
    /// Creates the log of a connection that is made in the background: only the log reports its failure.
    pub(crate) fn new(server: String) -> Self {
        Self {
            server,
            down_since: None,
            outage: Outage::default(),
            told: false,
            evicts: None,
            is_unheard: false,
            is_second: false,
        }
    }

    /// Creates the log of a second connection to a server. A failure to open it is reported once; the first
    /// connection reports outages.
    pub(crate) fn of_second(server: String) -> Self {
        Self {
            is_second: true,
            ..Self::new(server)
        }
    }

    /// Creates the log of a connection whose first failure is returned to a waiting caller.
    pub(crate) fn awaited(server: String) -> Self {
        Self {
            told: true,
            ..Self::new(server)
        }
    }

    /// Creates the log of a connection to a node of a cluster, possibly in addition to others.
    pub(crate) fn of_part(is_second: bool, server: String) -> Self {
        if is_second {
            Self::of_second(server)
        } else {
            Self::new(server)
        }
    }

    pub(crate) fn are_of_second(&self) -> bool {
        self.is_second
    }

    /// The name of the server in the log.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn connected(&mut self) {
        let server = &self.server;
        if self.is_second {
            self.told = false;
            told(|| debug!(target: TARGET, %server, "connected for renewals"));
            return;
        }
        self.outage.ends(server);
        self.told = false;
        let Some(since) = self.down_since.take() else {
            told(|| debug!(target: TARGET, %server, "connected"));
            return;
        };
        let away_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        told(|| info!(target: TARGET, %server, away_ms, "connected"));
    }

    /// Reports the policy by which the server may evict locks: once, and when it changes.
    pub(crate) fn evicts(&mut self, policy: Option<&str>) {
        if self.is_second || self.evicts.as_deref() == policy {
            return;
        }
        self.evicts = policy.map(str::to_owned);
        let server = &self.server;
        if let Some(policy) = policy {
            told(|| {
                warn!(
                    target: TARGET, %server, policy,
                    "the server may evict locks: set its `maxmemory-policy` to `noeviction`"
                );
            });
        }
    }

    /// Reports that the server refuses to send hints, with the reason: once, and when it sends them again.
    pub(crate) fn unheard(&mut self, reason: Option<&StoreError>) {
        if self.is_unheard == reason.is_some() {
            return;
        }
        self.is_unheard = reason.is_some();
        let server = &self.server;
        told(|| {
            if let Some(error) = reason {
                warn!(target: TARGET, %server, %error, "no wake-up messages: waiters poll");
            } else {
                info!(target: TARGET, %server, "wake-up messages again");
            }
        });
    }

    /// Reports that an established connection broke.
    pub(crate) fn lost(&mut self, error: &StoreError) {
        let server = &self.server;
        if self.is_second {
            self.told = true;
            told(|| debug!(target: TARGET, %server, %error, "connection for renewals lost"));
            return;
        }
        self.outage.lost(server);
        self.down_since = Some(Instant::now());
        self.told = true;
        told(|| warn!(target: TARGET, %server, %error, "connection lost"));
    }

    /// Reports a failed attempt to connect, which is followed by others.
    pub(crate) fn failed(&mut self, error: &StoreError) {
        let server = &self.server;
        if self.is_second {
            if std::mem::replace(&mut self.told, true) {
                told(
                    || debug!(target: TARGET, %server, %error, "still no connection for renewals"),
                );
                return;
            }
            told(|| {
                warn!(
                    target: TARGET, %server, %error,
                    "no connection for renewals: renewals share the connection of other requests"
                );
            });
            return;
        }
        self.outage.begins(server);
        self.down_since.get_or_insert_with(Instant::now);
        if self.told {
            told(|| debug!(target: TARGET, %server, %error, "still not connected"));
            return;
        }
        self.told = true;
        told(|| warn!(target: TARGET, %server, %error, "not connected"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{store::StoreErrorKind, telemetry::log::Log};

    /// The lines of the log about what happens to a connection.
    fn logged(mut events: Events, happens: impl FnOnce(&mut Events)) -> Vec<String> {
        let (log, _capturing) = Log::capture();
        happens(&mut events);
        lines(&log)
    }

    /// Without the advice, which belongs to the kind of an error.
    fn lines(log: &Log) -> Vec<String> {
        let advice = "; check the server's log";
        let lines = log.lines("").into_iter();
        lines.map(|line| line.replace(advice, "")).collect()
    }

    fn error(text: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Refused, text)
    }

    async fn pass(ms: u64) {
        tokio::time::advance(Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_has_a_warning_at_its_beginning_and_its_length_at_its_end() {
        let (log, _capturing) = Log::capture();
        let mut events = Events::new("redis://a".into());
        events.connected();
        events.lost(&error("it broke"));
        pass(70).await;
        events.failed(&error("refused"));
        events.failed(&error("refused"));
        pass(5).await;
        events.connected();
        events.failed(&error("refused"));
        pass(20).await;
        events.failed(&error("refused"));
        events.connected();
        assert_eq!(
            lines(&log),
            [
                "DEBUG connected server=redis://a",
                "WARN connection lost server=redis://a error=it broke",
                "DEBUG still not connected server=redis://a error=refused",
                "DEBUG still not connected server=redis://a error=refused",
                "INFO connected server=redis://a away_ms=75",
                "WARN not connected server=redis://a error=refused",
                "DEBUG still not connected server=redis://a error=refused",
                "INFO connected server=redis://a away_ms=20",
            ]
        );
    }

    #[test]
    fn a_failure_that_a_caller_gets_is_no_warning() {
        for (begun, level) in [
            (Events::awaited("redis://a".into()), "DEBUG still not"),
            (Events::new("redis://a".into()), "WARN not"),
            (Events::of_part(false, "redis://a".into()), "WARN not"),
        ] {
            let lines = logged(begun, |it| it.failed(&error("refused")));
            let line = format!("{level} connected server=redis://a error=refused");
            assert_eq!(lines, [line]);
        }
    }

    #[test]
    fn a_second_connection_that_is_missing_is_told_of_once() {
        for begun in [Events::of_second, |server| Events::of_part(true, server)] {
            let begun = begun("redis://a".into());
            assert!(begun.are_of_second());
            assert_eq!(begun.server(), "redis://a");
            let lines = logged(begun, |events| {
                events.failed(&error("refused"));
                events.failed(&error("refused"));
                events.connected();
                events.failed(&error("refused"));
                events.connected();
                events.lost(&error("it broke"));
                events.failed(&error("refused"));
                events.evicts(Some("allkeys-lru"));
            });
            let first = "WARN no connection for renewals: renewals share the connection of other requests \
                         server=redis://a error=refused";
            let again = "DEBUG still no connection for renewals server=redis://a error=refused";
            let there = "DEBUG connected for renewals server=redis://a";
            let lost = "DEBUG connection for renewals lost server=redis://a error=it broke";
            assert_eq!(lines, [first, again, there, first, there, lost, again]);
        }
        assert!(!Events::new("redis://a".into()).are_of_second());
    }

    #[test]
    fn what_stays_as_it_was_is_told_once() {
        let lines = logged(Events::new("redis://a".into()), |events| {
            for policy in [
                None,
                Some("allkeys-lru"),
                Some("allkeys-lru"),
                None,
                Some("volatile-ttl"),
            ] {
                events.evicts(policy);
            }
            let refused = error("refused");
            for reason in [
                None,
                Some(&refused),
                Some(&refused),
                None,
                None,
                Some(&refused),
            ] {
                events.unheard(reason);
            }
        });
        let policy = |name| {
            let advice = "the server may evict locks: set its `maxmemory-policy` to `noeviction`";
            format!("WARN {advice} server=redis://a policy={name:?}")
        };
        let unheard = "WARN no wake-up messages: waiters poll server=redis://a error=refused";
        let heard = "INFO wake-up messages again server=redis://a";
        let policies = [policy("allkeys-lru"), policy("volatile-ttl")];
        assert_eq!(lines[..2], policies);
        assert_eq!(lines[2..], [unheard, heard, unheard]);
    }
}
