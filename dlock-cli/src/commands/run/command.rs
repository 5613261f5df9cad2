//! Starts the command, sends it signals, and waits for its end.

use std::{
    ffi::OsString, fs::File, io, os::unix::process::ExitStatusExt, process::ExitStatus,
    time::Duration,
};

use dlock::Lease;
use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout_at},
};

use super::signals::number_of;
use crate::exit::{Exit, Failure};

/// The interval of checks for processes that are not children of this process.
const LOOK: Duration = Duration::from_millis(20);

/// The processes that must end with the lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// The command alone.
    Process(Pid),
    /// The process group of the command.
    Group(Pid),
}

impl Target {
    pub(super) fn send(self, signal: Signal) {
        // A process that has ended needs no signal.
        let _ = match self {
            Self::Process(pid) => kill_process(pid, signal),
            Self::Group(pid) => kill_process_group(pid, signal),
        };
    }

    /// Sends `SIGTERM`, and `SIGCONT` in case the processes are stopped.
    pub(super) fn terminate(self) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
    }

    fn is_gone(self) -> bool {
        let found = match self {
            Self::Process(pid) => test_kill_process(pid),
            Self::Group(pid) => test_kill_process_group(pid),
        };
        found == Err(rustix::io::Errno::SRCH)
    }

    /// Waits until all processes have ended, and sends `SIGKILL` to the rest at `end`.
    pub(super) async fn gone_or_killed(self, end: Instant) {
        while !self.is_gone() {
            if Instant::now() >= end {
                self.send(Signal::KILL);
                return;
            }
            sleep(LOOK).await;
        }
    }
}

/// A running command.
pub(super) struct RunningCommand {
    child: Child,
    target: Target,
    /// `true` after a signal was passed on that should end the whole process group.
    told_to_end: bool,
}

impl RunningCommand {
    /// Starts the command.
    ///
    /// # Errors
    ///
    /// A failure with the exit code that shells use: 127 if the command is not found, 126 if it cannot be started.
    pub(super) fn start(words: &[OsString], lease: &Lease) -> Result<Self, Failure> {
        let (program, arguments) = words.split_first().expect("clap asks for a command");
        let token = lease.fencing_token();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("DLOCK_KEY", lease.key().as_str())
            .env("DLOCK_FENCING_TOKEN", token.to_string())
            .env("DLOCK_FENCING_TOKEN_SORTABLE", token.to_sortable_string());
        let is_alone = !has_terminal();
        if is_alone {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound {
                127
            } else {
                126
            };
            let message = format!("cannot run `{}`: {error}", program.display());
            Failure::new(Exit::Command(code), message)
        })?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.expect("a child that was not reaped has an id");
        let target = if is_alone {
            Target::Group(pid)
        } else {
            Target::Process(pid)
        };
        Ok(Self {
            child,
            target,
            told_to_end: false,
        })
    }

    pub(super) fn target(&self) -> Target {
        self.target
    }

    /// Passes on a signal that this process received.
    pub(super) fn pass_on(&mut self, signal: Signal) {
        match self.target {
            // The terminal has sent it to the whole group, including the command.
            Target::Process(_) if matches!(signal, Signal::INT | Signal::QUIT) => {}
            Target::Group(_) if matches!(signal, Signal::INT | Signal::QUIT | Signal::TERM) => {
                self.told_to_end = true;
                self.target.send(signal);
            }
            // The other signals go to the command alone: they would end programs that do not handle them.
            Target::Process(pid) | Target::Group(pid) => Target::Process(pid).send(signal),
        }
    }

    /// Waits for the end of the command itself.
    pub(super) async fn ended(&mut self) -> Result<Exit, Failure> {
        let status = self.child.wait().await?;
        Ok(Exit::Command(code_of(status)))
    }

    /// Waits for the rest of the process group after the end of the command, if a signal was to end the group. Kills
    /// the rest at `limit`.
    pub(super) async fn followed_by_others(&self, limit: Instant) {
        if self.told_to_end {
            self.target.gone_or_killed(limit).await;
        }
    }

    /// Waits for the end of a command that got `SIGTERM`, and of its process group. Kills the rest at `end`.
    pub(super) async fn ended_by(&mut self, end: Instant) -> Result<(), Failure> {
        if timeout_at(end, self.child.wait()).await.is_err() {
            self.target.send(Signal::KILL);
        }
        self.child.wait().await?;
        // The id of a reaped process can be reused, but the id of a group is in use until its last process ends.
        if let Target::Group(_) = self.target {
            self.target.gone_or_killed(end).await;
        }
        Ok(())
    }
}

/// Returns the exit code that shells use for this status.
fn code_of(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map_or(u8::MAX, number_of);
    let code = status.code().map(|code| u8::try_from(code & 0xff));
    code.and_then(Result::ok).unwrap_or_else(by_signal)
}

/// Returns `true` if this process has a controlling terminal.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
