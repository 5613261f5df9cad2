//! The current address of a server.

use std::{future::pending, sync::Arc, time::Duration};

use super::sentinel::Sentinels;
use crate::store::{StoreError, redis::config::url::Endpoint};

/// It is used before each connection is opened.
#[derive(Clone)]
pub(crate) enum Source {
    /// A server with a fixed address.
    Fixed(Endpoint),
    /// The current master, according to its Sentinels.
    Sentinel(Arc<Sentinels>),
}

impl Source {
    /// Returns the same for a task on another runtime, which must not depend on this one.
    pub(crate) fn apart(&self) -> Self {
        match self {
            Self::Fixed(endpoint) => Self::Fixed(endpoint.clone()),
            Self::Sentinel(sentinels) => Self::Sentinel(Arc::new(sentinels.apart())),
        }
    }

    /// Returns the address, found within about `limit`.
    pub(crate) async fn find(&self, limit: Duration) -> Result<Endpoint, StoreError> {
        match self {
            Self::Fixed(endpoint) => Ok(endpoint.clone()),
            Self::Sentinel(sentinels) => sentinels.find(limit).await,
        }
    }

    /// Returns when the server is no longer at `known`, after about `pause` at the latest; `limit` is that of
    /// [`find`](Self::find).
    pub(crate) async fn moved(
        &self,
        known: &Endpoint,
        pause: Duration,
        limit: Duration,
    ) -> StoreError {
        match self {
            Self::Fixed(_) => pending().await,
            Self::Sentinel(sentinels) => sentinels.moved(known.address(), pause, limit).await,
        }
    }
}
