//! Log events of the connection, which concerns every lock at once: an outage has one event
//! at its beginning and one at its end, however many requests and attempts fail meanwhile.
//!
//! A subscriber that panics must not end the task that keeps the connection.

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
    /// The moment since when there is no connection, if there should be one.
    down_since: Option<Instant>,
    outage: Outage,
    /// `true` if the log or a caller has been told of that.
    told: bool,
    /// The eviction policy that the log has named.
    evicts: Option<String>,
    /// Another connection to the same server tells of its outages.
    is_second: bool,
}

impl Events {
    /// For a connection that is made in the background: only the log tells that it fails.
    pub(crate) fn new(server: String) -> Self {
        Self {
            server,
            down_since: None,
            outage: Outage::default(),
            told: false,
            evicts: None,
            is_second: false,
        }
    }

    /// For one more connection to a server. That it cannot be opened is told once; of outages the first one
    /// tells.
    pub(crate) fn of_second(server: String) -> Self {
        Self {
            is_second: true,
            ..Self::new(server)
        }
    }

    /// For a connection whose first failure is the error of a waiting caller.
    pub(crate) fn awaited(server: String) -> Self {
        Self {
            told: true,
            ..Self::new(server)
        }
    }

    /// For a node of a cluster, to which this connection may be one more.
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

    /// By which policy the server may delete locks to make room: told once, and when it changes.
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

    /// A connection that has worked does so no more.
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

    /// An attempt to connect has failed, and others follow.
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
                    "no connection for renewals: they share that of other requests"
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
