//! A child process that can be stopped, continued and killed, and never outlives its owner.

use std::io;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::reaper;

/// A running (or stopped, or ended) process; dropping it kills and reaps it.
pub(crate) struct OwnedChild(Child);

impl OwnedChild {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let child = command.spawn()?;
        reaper::kills(child.id());
        Ok(Self(child))
    }

    pub(crate) fn inner(&mut self) -> &mut Child {
        &mut self.0
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The exit status of the process, or `None` while it lives.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        let status = self.0.try_wait().expect("a child of ours can be asked");
        if status.is_some() {
            reaper::spares(self.id());
        }
        status
    }

    /// Stops the process; it does nothing more once this returns.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        // The signal is only queued by now. `NOWAIT` leaves an exit status for `exited`.
        waitid(
            WaitId::Pid(self.pid()),
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .expect("a child of ours can be waited for");
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process, stopped or not, and reaps it. Killing a dead one is no error.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        // An error says that it has ended already, which `wait` reports better.
        self.0.kill().ok();
        reaper::spares(self.id());
        self.0.wait().expect("a child of ours can be waited for")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process still runs when it is signalled");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        self.0.kill().ok();
        reaper::spares(self.id());
        self.0.wait().ok();
    }
}
