//! The connection of an operator's reader to one server, Sentinel's master, or cluster.

use super::inspect::InspectPace;
use crate::{
    error::ConnectError,
    store::redis::{
        RedisConfig, RedisStore,
        net::{events::Events, hints::Hints},
        topology::independent::Independent,
    },
};

/// Reads locks and servers, and acquires no locks. All callers share the pace of its readings.
pub struct RedisReader {
    pub(in crate::store::redis) store: RedisStore,
    pub(super) pace: InspectPace,
}

impl RedisReader {
    /// Connects to the servers of `config`. Returns one reader, or one for each server of a quorum as soon as a majority is
    /// ready, or else some.
    pub async fn connect(config: RedisConfig) -> Result<Vec<Self>, ConnectError> {
        let limit = config.connect_timeout;
        let stores = if let Some(servers) = Independent::for_inspection(&config)? {
            servers.into_stores(limit).await?
        } else {
            let store = RedisStore::start(config, Events::awaited, |_| Hints::unwanted())?;
            vec![store.when_ready(limit).await?]
        };
        let reader = |store| Self {
            store,
            pace: InspectPace::default(),
        };
        Ok(stores.into_iter().map(reader).collect())
    }

    /// Lets the next readings use half a second of the server's time without a pause, once.
    pub fn begin(&self) {
        self.pace.begin();
    }

    /// Removes the limit on the server's time from now on.
    pub fn lift_limit(&self) {
        self.pace.lift();
    }

    /// Returns the completed part of a reading of all keys, from 0 to 1. Returns `None` while none is in progress.
    pub fn progress(&self) -> Option<f64> {
        self.pace.progress()
    }
}

impl std::fmt::Debug for RedisReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.store.fmt(f)
    }
}
