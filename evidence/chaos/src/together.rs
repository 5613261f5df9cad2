//! A run that leaves nothing behind, whichever of its processes is killed.
//!
//! The run is a child in a process group of its own, with all servers and workers. When either of the
//! two ends, the other one ends the group.

use std::{
    env,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_current_process_group, kill_process_group, waitid,
    },
};
use tempfile::TempDir;

/// Tells the child that it is one.
const INNER: &str = "DLOCK_CHAOS_INNER";

/// Runs this program again, with the same words, and everything that it starts in one group. What it
/// noted is kept on request, and if something was wrong.
pub(crate) fn run(keeps: bool) -> io::Result<ExitCode> {
    let directory = TempDir::with_prefix("dlock-chaos-")?;
    let child = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(INNER, "1")
        // Directories of servers that were killed are removed with this one.
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let is_well = Group(child).end()?;
    if keeps || !is_well {
        let kept: PathBuf = directory.keep();
        eprintln!("what was noted: {}", kept.display());
    }
    Ok(if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether this is the child. It ends, and its group with it, when its parent has ended.
pub(crate) fn is_inner() -> bool {
    if env::var_os(INNER).is_none() {
        return false;
    }
    thread::spawn(|| {
        // The pipe has no writer: it ends with the parent.
        io::stdin().read_to_end(&mut Vec::new()).ok();
        kill_current_process_group(Signal::KILL).ok();
    });
    true
}

/// The leader of a process group, and all that belong to it.
struct Group(Child);

impl Group {
    /// Waits for the leader, and ends the others.
    fn end(mut self) -> io::Result<bool> {
        let leader = Pid::from_child(&self.0);
        // It is not reaped yet: until then its number is not used again.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = waitid(WaitId::Pid(leader), options) {}
        kill_process_group(leader, Signal::KILL).ok();
        Ok(self.0.wait()?.success())
    }
}
