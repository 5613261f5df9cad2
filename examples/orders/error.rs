//! Everything that can end the program or one of its workers early.

use std::{io, path::PathBuf, process::ExitStatus};

use dlock::{AlreadyInstalled, ConnectError};
use tokio::task::JoinError;

use crate::settle::SettleError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The caller has to change the command, not the system.
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
    #[error("a worker process cannot be run")]
    Process(#[from] io::Error),
    #[error("worker {worker} ended with {status}; what it wrote above says why")]
    Worker { worker: usize, status: ExitStatus },
    #[error("worker {worker} said `{line}`")]
    Message { worker: usize, line: String },
    #[error("order {order} cannot be settled")]
    Settle { order: String, source: SettleError },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Install(#[from] AlreadyInstalled),
    #[error(transparent)]
    Task(#[from] JoinError),
}

impl Error {
    /// For `map_err`: what went wrong with this file.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}
