//! The processes that must end with the lock, and the signals that end them.

use std::{fmt, time::Duration};

use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};
use tokio::time::{Instant, sleep};

use super::tree::Tree;

/// The interval of checks for processes that are not children of this process.
const LOOK: Duration = Duration::from_millis(20);

/// The processes that must end with the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The command alone: at a terminal of a system that does not tell what it has started.
    Process(Pid),
    /// The command at a terminal, and what it has started.
    Tree(Tree),
    /// The process group of the command.
    Group(Pid),
}

impl Target {
    /// Sends `SIGTERM`, and `SIGCONT` in case the processes are stopped.
    pub(super) fn terminate(&mut self) {
        // A process that has ended needs no signal.
        match self {
            Self::Process(pid) => {
                let _ = kill_process(*pid, Signal::TERM);
                let _ = kill_process(*pid, Signal::CONT);
            }
            Self::Tree(tree) => tree.terminate(),
            Self::Group(pid) => {
                let _ = kill_process_group(*pid, Signal::TERM);
                let _ = kill_process_group(*pid, Signal::CONT);
            }
        }
    }

    pub(super) fn kill(&self) {
        let _ = match self {
            Self::Process(pid) => kill_process(*pid, Signal::KILL),
            Self::Tree(tree) => {
                tree.kill();
                Ok(())
            }
            Self::Group(pid) => kill_process_group(*pid, Signal::KILL),
        };
    }

    pub(super) fn is_gone(&self) -> bool {
        let found = match self {
            Self::Process(pid) => test_kill_process(*pid),
            Self::Tree(tree) => return tree.is_gone(),
            Self::Group(pid) => test_kill_process_group(*pid),
        };
        found == Err(rustix::io::Errno::SRCH)
    }

    /// Waits until all processes have ended, and kills the rest at `end`.
    pub(super) async fn gone_or_killed(&mut self, end: Instant) {
        while !self.is_gone() {
            if Instant::now() >= end {
                self.kill();
                return;
            }
            if let Self::Tree(tree) = self {
                // It has grown meanwhile, perhaps.
                tree.terminate();
            }
            sleep(LOOK).await;
        }
    }
}

/// The part of a message that names what ends.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process(_) => "the command, but not the processes that it has started",
            Self::Tree(_) | Self::Group(_) => "the command",
        })
    }
}
