//! The end of the program: its exit codes, and the failures behind them.

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
    0  done
    1  done, but what was looked for is not there, or not as it should be
    2  the arguments are wrong
   69  the server cannot be reached, or did not tell
   70  the program itself failed: a file, a terminal
   75  somebody else held the lock for all of the wait; nothing was run
   76  the lease was lost, or given up, and the command was ended

`dlock run` ends as its command does, with 128 and the number of the signal if one ended it,
with 127 if there is no such command, and with 126 if it cannot be run.";

/// The exit code of the program, unless it is that of a command that it has run.
///
/// Codes above 2 follow `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Success,
    /// Done, and what was looked for is not there, or not as it should be.
    Negative,
    /// The arguments are wrong.
    Usage,
    /// The server cannot be reached, or the outcome is unknown.
    Unavailable,
    /// The program itself failed: a file, a terminal.
    Internal,
    /// Another process held the lock for all of the wait.
    Busy,
    /// The lease was lost while the command ran.
    Lost,
    /// The exit code of the command that was run.
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

    /// Tells it on the standard error.
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

/// Tells something that is no failure, on the standard error.
pub(crate) fn note(as_json: bool, message: &str) {
    if as_json {
        say(&printable_json(&json!({ "note": message }).to_string()));
    } else {
        say(&format_args!("dlock: {}", printable(message)));
    }
}

/// One line for the standard error; a closed one is not a failure.
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
        // The reader of our output has read enough, as in `dlock ls | head`.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Success, "nobody reads the output");
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
}
