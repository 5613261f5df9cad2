//! Exit codes, and the failures that lead to them.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use dlock::{ConnectError, LockError, StoreError};
use serde_json::json;

use crate::text::{printable, printable_json};

/// The exit codes, as `--help` shows them.
pub(crate) const CODES: &str = "\
Exit codes:
    0  success
    1  not found, declined, or a check failed
    2  invalid arguments
   69  server unavailable, or outcome unknown
   70  internal error, for example a file or the terminal cannot be used
   75  lock busy: not acquired within `--wait`, and nothing was run
   76  lease lost or not renewed, or `--max-hold` reached: the command was ended

`dlock run` exits with the code of its command: 128 plus the signal number if a signal ended
the command, 127 if the command was not found, 126 if it could not be started.";

/// The exit code of the program.
///
/// Codes above 2 follow `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Success,
    /// Not found, declined, or a check failed.
    Negative,
    /// Invalid arguments.
    Usage,
    /// The server is unavailable, or the outcome is unknown.
    Unavailable,
    /// An internal error: a file or the terminal cannot be used.
    Internal,
    /// Another process held the lock for the whole wait.
    Busy,
    /// The lease was lost while the command ran, or the command was ended early.
    Lost,
    /// The exit code of the command of `dlock run`.
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

/// The reason why a command could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: &'static str,
    exit: Exit,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let code = match exit {
            Exit::Success => "ok",
            Exit::Negative => "negative",
            Exit::Usage => "usage",
            Exit::Unavailable => "unavailable",
            Exit::Internal => "internal",
            Exit::Busy => "busy",
            Exit::Lost => "lost",
            Exit::Command(_) => "command",
        };
        Self {
            message: message.into(),
            code,
            exit,
        }
    }

    /// The same failure with another exit code.
    pub(crate) fn ending_with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints the failure to the standard error.
    pub(crate) fn report(&self, as_json: bool) {
        if self.exit == Exit::Success {
            return;
        }
        if as_json {
            let (code, message) = (self.code, &self.message);
            let exit_code = self.exit.code();
            let error = json!({"code": code, "message": message, "exit_code": exit_code});
            say(&printable_json(&json!({ "error": error }).to_string()));
        } else {
            say(&format_args!("dlock: {}", printable(&self.message)));
        }
    }
}

/// Prints a message that is not a failure to the standard error.
pub(crate) fn note(as_json: bool, message: &str) {
    if as_json {
        say(&printable_json(&json!({ "note": message }).to_string()));
    } else {
        say(&format_args!("dlock: {}", printable(message)));
    }
}

/// Prints one line to the standard error. A closed standard error is not a failure.
fn say(line: &dyn fmt::Display) {
    drop(writeln!(io::stderr().lock(), "{line}"));
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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // The reader closed the pipe, as in `dlock ls | head`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Success, "the output was closed");
        }
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

    #[test]
    fn a_failure_has_the_number_and_the_name_of_its_exit() {
        for (exit, number, name) in [
            (Exit::Success, 0, "ok"),
            (Exit::Negative, 1, "negative"),
            (Exit::Usage, 2, "usage"),
            (Exit::Unavailable, 69, "unavailable"),
            (Exit::Internal, 70, "internal"),
            (Exit::Busy, 75, "busy"),
            (Exit::Lost, 76, "lost"),
            (Exit::Command(3), 3, "command"),
        ] {
            let failure = Failure::new(exit, "a text");
            assert_eq!((failure.exit().code(), failure.code), (number, name));
            assert_eq!(failure.to_string(), "a text");
        }
        // `--conflict-exit-code` changes the number alone.
        let busy = Failure::new(Exit::Busy, "busy").ending_with(Exit::Command(9));
        assert_eq!((busy.exit(), busy.code), (Exit::Command(9), "busy"));
    }

    #[test]
    fn a_reader_that_has_enough_is_no_failure() {
        for (kind, exit) in [
            (io::ErrorKind::BrokenPipe, Exit::Success),
            (io::ErrorKind::NotFound, Exit::Internal),
        ] {
            assert_eq!(Failure::from(io::Error::from(kind)).exit(), exit);
        }
    }
}
