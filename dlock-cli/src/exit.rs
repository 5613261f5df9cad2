//! How the program ends: what its exit codes mean, and the failures behind them.

use std::{fmt, process::ExitCode};

use dlock::{ConnectError, LockError, StoreError};

/// The exit code of the program, unless it is that of a command that it has run.
///
/// Those above 2 follow `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Success,
    /// Done, and what was looked for is not there, or not as it should be.
    Negative,
    /// The arguments are wrong.
    Usage,
    /// The server cannot be reached, or did not tell.
    Unavailable,
    /// The program itself failed: a file, a terminal.
    Internal,
    /// Somebody else held the lock for all of the wait.
    Busy,
    /// The lease was lost while the command ran.
    Lost,
    /// What a command that was run has ended with.
    Command(u8),
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::Busy => 75,
            Self::Lost => 76,
            Self::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    exit: Exit,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, exit }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let exit = match error {
            ConnectError::Unavailable { .. } => Exit::Unavailable,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(Exit::Unavailable, error.to_string())
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let exit = match error {
            LockError::Busy { .. } => Exit::Busy,
            LockError::Lost { .. } => Exit::Lost,
            LockError::InvalidKey { .. } | LockError::InvalidOption { .. } => Exit::Usage,
            LockError::Unavailable { .. } => Exit::Unavailable,
            _ => Exit::Internal,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Internal, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_is_a_mistake_of_the_user() {
        let error = dlock::LockManager::connect_lazy("http://localhost").unwrap_err();
        assert_eq!(Failure::from(error).exit(), Exit::Usage);
        assert_eq!(Exit::Command(143).code(), 143);
    }
}
