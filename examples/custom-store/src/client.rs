//! A connection to memcached: commands are answered in order and within a time limit.

use std::{sync::Arc, time::Duration};

use dlock::{StoreError, StoreErrorKind};
use memcache::{
    MemcacheError, ServerError,
    exp::{AsyncMetaConnection, MetaCommand, MetaResponse},
};
use tokio::{sync::Mutex, time::timeout};

/// One connection, made when it is needed. Clones share it.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: Arc<str>,
    pub(crate) limit: Duration,
    pub(crate) connection: Arc<Mutex<Option<AsyncMetaConnection>>>,
}

impl Client {
    /// Sends commands, and returns a reply to each of them.
    ///
    /// What was begun is completed even if this future is dropped, so no later command overtakes it.
    pub(crate) async fn ask(
        &self,
        commands: Vec<MetaCommand>,
    ) -> Result<Vec<MetaResponse>, StoreError> {
        let this = self.clone();
        let asked = tokio::spawn(async move {
            let mut place = this.connection.lock().await;
            // Unless all replies arrive, the connection is not put back.
            let exchanged = timeout(this.limit, this.exchange(place.take(), &commands)).await;
            let (connection, replies) =
                exchanged.unwrap_or(Err(StoreError::timed_out(this.limit)))?;
            *place = Some(connection);
            Ok(replies)
        });
        let ended = |_| StoreError::new(StoreErrorKind::Disconnected, "the runtime has ended");
        asked.await.map_err(ended)?
    }

    async fn exchange(
        &self,
        kept: Option<AsyncMetaConnection>,
        commands: &[MetaCommand],
    ) -> Result<(AsyncMetaConnection, Vec<MetaResponse>), StoreError> {
        // A server that was restarted has closed the connection. Commands can be repeated: each changes only what was read.
        if let Some(mut kept) = kept
            && let Ok(replies) = kept.execute_batch(commands).await
        {
            return Ok((kept, replies));
        }
        let failed = |kind, error| StoreError::new(kind, format!("{}: {error}", self.address));
        let made = AsyncMetaConnection::connect(&*self.address).await;
        let mut made = made.map_err(|error| failed(StoreErrorKind::Unreachable, error))?;
        let replies = made.execute_batch(commands).await;
        let replies = replies.map_err(|error| failed(kind(&error), error))?;
        Ok((made, replies))
    }
}

fn kind(error: &MemcacheError) -> StoreErrorKind {
    match error {
        MemcacheError::IOError(_) => StoreErrorKind::Disconnected,
        MemcacheError::ServerError(ServerError::Error(text)) if text.contains("memory") => {
            StoreErrorKind::OutOfMemory
        }
        MemcacheError::ServerError(ServerError::BadResponse(_)) => StoreErrorKind::BadAnswer,
        _ => StoreErrorKind::Refused,
    }
}
