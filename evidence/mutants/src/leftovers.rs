//! Kills the processes that a trial leaves behind, also those in process groups and sessions of their own.
//!
//! A program with a mistake may abandon the command it watches over, which goes on in a group of its own. Every
//! process of a trial inherits an environment variable that no other trial has, and `/proc` shows its bearers.

use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, thread};

const VARIABLE: &str = "DLOCK_MUTANTS_TRIAL";

/// The most rounds of killing: a process may start another one while it is found.
const ROUNDS: u32 = 200;

const PAUSE: Duration = Duration::from_millis(10);

/// The mark of one trial. Dropping it kills every process that bears it.
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}-{number}", process::id()))
    }

    /// Marks `command` and all that it will start.
    pub(super) fn put_on(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0);
    }

    /// The ids of all processes that bear the mark; none where there is no `/proc`.
    fn bearers(&self) -> Vec<String> {
        let entry = format!("{VARIABLE}={}", self.0);
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|it| it.file_name().into_string().ok());
        let has_mark = |id: &String| {
            // A process that has just ended, or belongs to another user, has nothing to read.
            let variables = fs::read(Path::new("/proc").join(id).join("environ"));
            let variables = variables.unwrap_or_default();
            variables
                .split(|it| *it == 0)
                .any(|it| it == entry.as_bytes())
        };
        ids.filter(|id| id.bytes().all(|it| it.is_ascii_digit()))
            .filter(has_mark)
            .collect()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut was_empty = false;
        for _ in 0..ROUNDS {
            let bearers = self.bearers();
            if !bearers.is_empty() {
                kill(&bearers);
            } else if was_empty {
                return;
            }
            // A process that is just starting has no variables for a moment, so one look is not enough.
            was_empty = bearers.is_empty();
            thread::sleep(PAUSE);
        }
        let left = self.bearers().join(", ");
        eprintln!("warning: these processes of a trial cannot be killed: {left}");
    }
}

/// Kills processes by their ids, or groups by `-` and the id of their leader.
pub(super) fn kill(ids: &[String]) {
    let mut kill = Command::new("kill");
    kill.args(["-KILL", "--"]).args(ids).stderr(Stdio::null());
    // An error says that they have ended.
    drop(kill.status());
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    use super::*;

    fn sleeper(mark: &Mark) -> process::Child {
        let mut command = Command::new("sleep");
        mark.put_on(&mut command);
        let child = command.arg("600").process_group(0).spawn();
        let child = child.expect("`sleep` can be run");
        while mark.bearers() != [child.id().to_string()] {
            thread::sleep(PAUSE);
        }
        child
    }

    #[test]
    fn only_the_processes_of_a_trial_are_killed() {
        let (mark, other) = (Mark::new(), Mark::new());
        let (mut own, mut strange) = (sleeper(&mark), sleeper(&other));
        drop(mark);
        let status = own.wait().expect("it was killed");
        assert_eq!(status.signal(), Some(9), "{status}");
        assert_eq!(other.bearers(), [strange.id().to_string()]);
        drop(other);
        strange.wait().expect("it was killed");
    }
}
