//! Processes as `/proc` of Linux shows them. Other systems have none of these files, and every list is empty there.

use std::{fs, str::FromStr};

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::signal::unix::{SignalKind, signal};

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) identity: Identity,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// `true` if it has ended and its parent has not noticed yet.
    pub(super) is_zombie: bool,
}

/// A process id, and when the process started: ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) pid: i32,
    pub(super) started: u64,
}

impl Process {
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &stat)
    }

    /// Returns the processes that can be seen.
    pub(super) fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(Self::read).collect()
    }

    fn parse(pid: i32, stat: &str) -> Option<Self> {
        fn number<T: FromStr>(fields: &[&str], at: usize) -> Option<T> {
            fields.get(at)?.parse().ok()
        }
        // The name is in parentheses, and may contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_whitespace().collect();
        // A process whose first thread has ended shows the same state, but has other threads.
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        let is_zombie = has_ended && number::<u32>(&fields, 17)? <= 1;
        Some(Self {
            identity: Identity {
                pid,
                started: number(&fields, 19)?,
            },
            parent: number(&fields, 1)?,
            session: number(&fields, 3)?,
            is_zombie,
        })
    }
}

/// Returns the children of this process.
pub(super) fn children() -> Vec<Identity> {
    let this = this_process();
    let all = Process::all().into_iter();
    all.filter(|it| it.parent == this)
        .map(|it| it.identity)
        .collect()
}

/// Reaps children that others have left to this process, but not `command` and not `earlier`, which others wait for.
///
/// Without it, their zombies would stay, and their group would never be gone.
pub(super) async fn reap_orphans(command: Pid, earlier: Vec<Identity>) {
    let Ok(mut ended) = signal(SignalKind::child()) else {
        return;
    };
    let command = command.as_raw_nonzero().get();
    while ended.recv().await.is_some() {
        let this = this_process();
        for process in Process::all() {
            let Identity { pid, .. } = process.identity;
            let is_ours = process.parent == this && process.is_zombie;
            if is_ours && pid != command && !earlier.contains(&process.identity) {
                // Another one cannot have the id: a zombie keeps it.
                let _ = waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
            }
        }
    }
}

pub(super) fn this_process() -> i32 {
    getpid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: char, threads: u32) -> String {
        format!("7 ({name}) {state} 5 7 3 34816 7 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 9001 1")
    }

    #[test]
    fn a_name_may_look_like_the_fields_behind_it() {
        let process = Process::parse(7, &stat("a) Z 1 1 1 (b", 'S', 1)).unwrap();
        let identity = Identity {
            pid: 7,
            started: 9001,
        };
        let expected = Process {
            identity,
            parent: 5,
            session: 3,
            is_zombie: false,
        };
        assert_eq!(process, expected);
        assert_eq!(Process::parse(7, "7 (sh"), None);
        assert_eq!(Process::parse(7, "7 (sh) S 5"), None);
    }

    #[test]
    fn a_process_with_another_thread_has_not_ended() {
        let is_zombie = |state, threads| {
            let process = Process::parse(7, &stat("sh", state, threads));
            process.unwrap().is_zombie
        };
        assert!(is_zombie('Z', 1));
        assert!(!is_zombie('Z', 2));
        assert!(!is_zombie('S', 1));
    }
}
