//! Starts the command, sends it signals, and waits for its end.

use std::{ffi::OsString, fs::File, io, os::unix::process::ExitStatusExt, process::ExitStatus};

use dlock::Lease;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::{Instant, timeout_at},
};

use super::{
    processes,
    signals::number_of,
    target::Target,
    tree::{self, Tree},
};
use crate::exit::{Exit, Failure};

/// A running command.
pub(super) struct RunningCommand {
    child: Child,
    pid: Pid,
    target: Target,
    signalled: Signalled,
}

/// The signals that the processes of the command have got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Signalled {
    /// None: processes that are left when the command has ended are meant to be.
    Nothing,
    /// The command has got a signal. It does not end by itself then, and nothing may be left.
    Command,
    /// All have got `SIGTERM`.
    All,
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
        let earlier = if is_alone {
            command.process_group(0);
            processes::children()
        } else {
            tree::adopt_orphans()
        };
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
        tokio::spawn(processes::reap_orphans(pid, earlier.clone()));
        let target = if is_alone {
            Target::Group(pid)
        } else {
            Tree::of(pid, earlier).map_or(Target::Process(pid), Target::Tree)
        };
        Ok(Self {
            child,
            pid,
            target,
            signalled: Signalled::Nothing,
        })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Passes on a signal that this process received.
    pub(super) fn pass_on(&mut self, signal: Signal) {
        let mut reached = Signalled::Command;
        match &mut self.target {
            // The terminal has sent it to the whole group, including the command.
            Target::Process(_) | Target::Tree(_)
                if matches!(signal, Signal::INT | Signal::QUIT) => {}
            Target::Tree(tree) if signal == Signal::TERM => {
                reached = Signalled::All;
                tree.terminate();
            }
            Target::Group(pid) if matches!(signal, Signal::INT | Signal::QUIT | Signal::TERM) => {
                if signal == Signal::TERM {
                    reached = Signalled::All;
                }
                // A process that has ended needs no signal.
                let _ = kill_process_group(*pid, signal);
            }
            // The other signals go to the command alone: they would end programs that do not handle them.
            _ => {
                let _ = kill_process(self.pid, signal);
            }
        }
        self.signalled = self.signalled.max(reached);
    }

    /// Waits for the end of the command itself.
    pub(super) async fn ended(&mut self) -> Result<Exit, Failure> {
        let status = self.child.wait().await?;
        if status.signal().is_some() {
            // Of another process, perhaps: the kernel ends one when memory is short.
            self.signalled = self.signalled.max(Signalled::Command);
        }
        Ok(Exit::Command(code_of(status)))
    }

    /// Returns `true` if the command has ended by a signal, or after one, and processes that it has started have not.
    pub(super) fn leaves_others(&self) -> bool {
        self.signalled > Signalled::Nothing && self.has_others()
    }

    /// Ends what is left after the end of the command, if a signal was the reason. Kills the rest at `limit`.
    pub(super) async fn followed_by_others(&mut self, limit: Instant) {
        if !self.leaves_others() {
            return;
        }
        if self.signalled < Signalled::All {
            self.signalled = Signalled::All;
            self.target.terminate();
        }
        self.target.gone_or_killed(limit).await;
    }

    /// Sends `SIGTERM` to the command and to what it has started.
    pub(super) fn terminate(&mut self) {
        self.target.terminate();
    }

    /// Waits for the end of a command that got `SIGTERM`, and of what it has started. Kills the rest at `end`.
    pub(super) async fn ended_by(&mut self, end: Instant) -> Result<(), Failure> {
        if timeout_at(end, self.child.wait()).await.is_err() {
            self.target.kill();
        }
        self.child.wait().await?;
        if self.has_others() {
            self.target.gone_or_killed(end).await;
        }
        Ok(())
    }

    /// Returns `true` if processes that the command has started have not ended, after it has ended.
    fn has_others(&self) -> bool {
        // The id of a reaped process can be reused, but the id of a group is in use until its last process ends.
        !matches!(self.target, Target::Process(_)) && !self.target.is_gone()
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
