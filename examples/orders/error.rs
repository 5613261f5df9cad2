//! The errors that end the program or one of its workers.

use std::{io, path::PathBuf, process::ExitStatus};

use dlock::{AlreadyInstalled, ConnectError};
use tokio::task::JoinError;

use crate::settle::SettleError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The arguments or the environment are wrong.
    #[error("{0}")]
    Usage(&'static str),
    #[error("{path}, line {line}: {reason}")]
    Malformed {
        path: PathBuf,
        line: usize,
        reason: &'static str,
    },
    #[error("{path}")]
    File { path: PathBuf, source: io::Error },
    #[error("cannot run a worker process")]
    Process(#[from] io::Error),
    #[error("worker {worker} failed: {status}. Its output above has the reason")]
    Worker { worker: usize, status: ExitStatus },
    #[error("unexpected output of worker {worker}: \"{line}\"")]
    Message { worker: usize, line: String },
    #[error("cannot settle order \"{order}\"")]
    Settle { order: String, source: SettleError },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Install(#[from] AlreadyInstalled),
    #[error(transparent)]
    Task(#[from] JoinError),
}

impl Error {
    /// Returns a function for `map_err` that adds the path of the file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}
