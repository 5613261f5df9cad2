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
