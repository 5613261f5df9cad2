//! The parts of a store that its requests share, and the requests themselves.

use std::{sync::Arc, time::Duration};

use dlock_runtime::{LockKey, LockMode, clock::Moment, store::OwnerId};
use tokio::sync::watch;
use zookeeper_client::{Error, MultiWriteError};

use crate::{
    answers::Answers,
    config::Config,
    queue::Queue,
    session::{Session, Status},
    sinks::Sinks,
    slots::Slots,
    timers::Timers,
};

/// All that requests need.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) slots: Slots,
    pub(crate) timers: Timers,
    pub(crate) answers: Arc<Answers>,
    pub(crate) sinks: Arc<Sinks>,
}

/// The part of a request that outlives its caller.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) key: LockKey,
    pub(crate) owner: OwnerId,
    pub(crate) mode: LockMode,
    pub(crate) ttl: Duration,
    pub(crate) waits: bool,
    pub(crate) label: String,
    pub(crate) function: String,
    /// The lease counts from a moment before the request was sent.
    pub(crate) begun: Moment,
}

/// Returns the queue of a key.
pub(crate) async fn list(session: &Session, directory: &str) -> Result<Queue, Error> {
    match session.client.list_children(directory).await {
        Ok(children) => Ok(Queue::read(&children)),
        Err(Error::NoNode) => Ok(Queue::default()),
        Err(error) => Err(error),
    }
}

/// Waits until the server has carried out all that the session has written before. It may differ from the one that took the write, and
/// be behind. The earlier server carries out nothing more of this session: the session has moved.
///
/// A `sync` would not do: a leader that the others have replaced answers it too, until it notices. A transaction needs a
/// majority, also one that changes nothing or is refused.
pub(crate) async fn catch_up(session: &Session, path: &str) -> Result<(), Error> {
    let mut writer = session.client.new_multi_writer();
    writer.add_check_version(path, -1)?;
    match writer.commit().await {
        Ok(_) | Err(MultiWriteError::OperationFailed { .. }) => Ok(()),
        Err(MultiWriteError::RequestFailed { source }) => Err(source),
    }
}
