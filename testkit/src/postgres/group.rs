//! A process with its children, which are stopped, continued and killed together.
//!
//! PostgreSQL puts each of its processes into a group of its own, so they are found by their parent.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::child::OwnedChild;
use crate::reaper;

/// A killed process ends within milliseconds, unless the machine stands still.
const LONGEST_END: Duration = Duration::from_secs(10);

/// The processes of a server; dropping it ends and reaps them.
pub(crate) struct OwnedGroup {
    parent: OwnedChild,
    /// Those that were stopped: they would not see the end of their parent.
    stopped: Vec<u32>,
}

impl OwnedGroup {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let parent = OwnedChild::spawn(command);
        let parent = parent.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
        Self {
            parent,
            stopped: Vec::new(),
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.parent.exited().is_some()
    }

    /// Has the process read its configuration again.
    pub(crate) fn hang_up(&self) {
        signal(self.parent.id(), Signal::HUP);
    }

    pub(crate) fn pause(&mut self) {
        // From here on there are no new children.
        self.parent.pause();
        self.stopped = children_of(self.parent.id());
        for child in &self.stopped {
            reaper::kills(*child);
            signal(*child, Signal::STOP);
        }
    }

    pub(crate) fn resume(&mut self) {
        for child in self.stopped.drain(..) {
            signal(child, Signal::CONT);
            reaper::spares(child);
        }
        self.parent.resume();
    }

    /// Kills the processes, stopped or not, at once. Killing dead ones is no error.
    pub(crate) fn kill(&mut self) {
        if self.has_ended() {
            return;
        }
        self.parent.pause();
        let children = children_of(self.parent.id());
        for child in children.iter().chain(&self.stopped) {
            signal(*child, Signal::KILL);
        }
        self.parent.kill();
        // A server that starts again refuses a memory that one of them still has.
        let since = Instant::now();
        for child in children.iter().chain(&self.stopped) {
            while is_alive(*child) && since.elapsed() < LONGEST_END {
                thread::sleep(Duration::from_millis(1));
            }
        }
        for child in self.stopped.drain(..) {
            reaper::spares(child);
        }
    }
}

impl Drop for OwnedGroup {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.resume();
            // A killed PostgreSQL leaves a piece of shared memory to the machine, which has room for 4,096.
            signal(self.parent.id(), Signal::QUIT);
            let since = Instant::now();
            while !self.has_ended() && since.elapsed() < LONGEST_END {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.kill();
    }
}

fn signal(process: u32, signal: Signal) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    // An error says that it has ended.
    id.map(|id| kill_process(id, signal));
}

/// Returns `false` for a process that has ended, whether its parent has noticed it or not.
fn is_alive(process: u32) -> bool {
    words_after_name(process).is_some_and(|words| !words.starts_with('Z'))
}

/// The processes whose parent is `parent`.
fn children_of(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("these tests need /proc");
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    words_after_name(process)?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// What the system says of a process: first its state, then its parent.
fn words_after_name(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it is in parentheses and may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.trim_start().to_owned())
}
