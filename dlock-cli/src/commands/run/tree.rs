//! A command at a terminal and the processes that it has started.
//!
//! Their process group does not distinguish them: it also contains `dlock`, its pipeline, and perhaps the script that
//! called it. So they are found by their parents. `dlock` is the parent of those whose own
//! parent has ended, as the kernel makes it their reaper.
//!
//! # Rules
//!
//! - Every process of the command's session that the command has started, and that these have started, is a member.
//!   A process that began a session of its own, such as a daemon, is not.
//! - A member gets `SIGTERM` once, and one that is started meanwhile gets it too.
//! - A process whose id a member had before is not a member.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, getsid, kill_process};

use super::processes::{Identity, Process, children, this_process};

/// The limit for the rounds in which members are stopped before they are killed.
const ROUNDS: usize = 100;

/// The command and the processes that it has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    command: Identity,
    /// The process that got the command's orphans.
    dlock: i32,
    /// Children that `dlock` had before it started the command, such as the watchdog.
    earlier: Vec<Identity>,
    /// The members that have got `SIGTERM`.
    told: HashSet<Identity>,
}

impl Tree {
    /// Returns `None` on a system that does not tell what a process has started.
    pub(super) fn of(command: Pid, earlier: Vec<Identity>) -> Option<Self> {
        let command = Process::read(command.as_raw_nonzero().get())?;
        Some(Self {
            command: command.identity,
            dlock: this_process(),
            earlier,
            told: HashSet::new(),
        })
    }

    /// Reads what `to_words` has written.
    pub(super) fn of_words(words: &str) -> Option<Self> {
        let mut identities = words.split(' ').map(|word| {
            let (pid, started) = word.split_once('@')?;
            Some(Identity {
                pid: pid.parse().ok()?,
                started: started.parse().ok()?,
            })
        });
        let (command, dlock) = (identities.next()??, identities.next()??);
        Some(Self {
            command,
            dlock: dlock.pid,
            earlier: identities.collect::<Option<_>>()?,
            told: HashSet::new(),
        })
    }

    pub(super) fn to_words(&self) -> String {
        let dlock = Identity {
            pid: self.dlock,
            started: 0,
        };
        let all = [&self.command, &dlock].into_iter().chain(&self.earlier);
        let words = all.map(|it| format!("{}@{}", it.pid, it.started));
        words.collect::<Vec<_>>().join(" ")
    }

    pub(super) fn is_gone(&self) -> bool {
        self.members().is_empty()
    }

    /// Sends `SIGTERM`, and `SIGCONT` in case it is stopped, to each member that has not got it yet.
    pub(super) fn terminate(&mut self) {
        for member in self.members() {
            if self.told.insert(member) {
                send(member, Signal::TERM);
                send(member, Signal::CONT);
            }
        }
    }

    /// Kills all members.
    pub(super) fn kill(&self) {
        // A process that is stopped starts no other, and stays the parent by which its children are found.
        let mut stopped = HashSet::new();
        for _ in 0..ROUNDS {
            let mut members = self.members();
            members.retain(|it| stopped.insert(*it));
            if members.is_empty() {
                break;
            }
            for member in members {
                send(member, Signal::STOP);
            }
        }
        for member in stopped {
            send(member, Signal::KILL);
        }
    }

    fn members(&self) -> Vec<Identity> {
        // The watchdog is in the session of its `dlock`.
        let session = getsid(None).map_or(0, |it| it.as_raw_nonzero().get());
        self.members_of(&Process::all(), session)
    }

    fn members_of(&self, all: &[Process], session: i32) -> Vec<Identity> {
        let is_command = |it: &&Process| it.identity == self.command;
        // The command itself can have begun another session.
        let other = all.iter().find(is_command).map(|it| it.session);
        let is_near = |it: &Process| it.session == session || Some(it.session) == other;
        let is_orphan = |it: &Process| {
            it.parent == self.dlock && is_near(it) && !self.earlier.contains(&it.identity)
        };
        let is_root = |it: &Process| {
            it.identity == self.command || self.told.contains(&it.identity) || is_orphan(it)
        };
        let mut members: Vec<_> = all.iter().filter(|it| is_root(it)).collect();
        let mut pids: HashSet<_> = members.iter().map(|it| it.identity.pid).collect();
        let mut at = 0;
        while let Some(parent) = members.get(at).map(|it| it.identity.pid) {
            let is_child = |it: &&Process| it.parent == parent && is_near(it);
            for child in all.iter().filter(is_child) {
                if pids.insert(child.identity.pid) {
                    members.push(child);
                }
            }
            at += 1;
        }
        let alive = members.iter().filter(|it| !it.is_zombie);
        alive.map(|it| it.identity).collect()
    }
}

fn send(member: Identity, signal: Signal) {
    if let Some(pid) = Pid::from_raw(member.pid) {
        // A process that has ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Makes this process the parent of all orphans of the command that it is about to start. Returns the children that it
/// has already: they are not the command's.
pub(super) fn adopt_orphans() -> Vec<Identity> {
    #[cfg(target_os = "linux")]
    // A kernel that refuses it leaves orphans to another process, and they are not found.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    children()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: i32 = 3;

    fn process(pid: i32, parent: i32) -> Process {
        Process {
            identity: Identity { pid, started: 1 },
            parent,
            session: SESSION,
            is_zombie: false,
        }
    }

    fn tree() -> Tree {
        Tree {
            command: process(20, 10).identity,
            dlock: 10,
            earlier: vec![process(11, 10).identity],
            told: HashSet::new(),
        }
    }

    fn pids(tree: &Tree, all: &[Process]) -> Vec<i32> {
        let members = tree.members_of(all, SESSION).into_iter();
        let mut pids: Vec<_> = members.map(|it| it.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn members_are_what_the_command_has_started_and_its_orphans() {
        let daemon = Process {
            session: 24,
            ..process(24, 10)
        };
        let zombie = Process {
            is_zombie: true,
            ..process(25, 20)
        };
        let all = [
            process(1, 0),
            process(10, 1),  // `dlock`
            process(11, 10), // its watchdog
            process(20, 10),
            process(21, 20),
            process(22, 21),
            process(23, 10), // an orphan
            daemon,
            zombie,
            process(30, 1), // the next of the pipeline
        ];
        assert_eq!(pids(&tree(), &all), [20, 21, 22, 23]);
    }

    #[test]
    fn a_command_with_a_session_of_its_own_is_followed_there() {
        let own = |it| Process { session: 20, ..it };
        let all = [own(process(20, 10)), own(process(21, 20))];
        assert_eq!(pids(&tree(), &all), [20, 21]);
    }

    #[test]
    fn a_reused_id_is_not_a_member() {
        let mut tree = tree();
        let reused = |it: Process| Process {
            identity: Identity {
                started: 2,
                ..it.identity
            },
            ..it
        };
        tree.told.insert(process(21, 20).identity);
        let all = [reused(process(20, 1)), reused(process(21, 1))];
        assert_eq!(pids(&tree, &all), [0; 0]);
        // One that has lost its parent is still known.
        assert_eq!(pids(&tree, &[process(21, 1)]), [21]);
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        let tree = tree();
        assert_eq!(Tree::of_words(&tree.to_words()), Some(tree));
        for words in ["", "20@1", "20@1 10", "20@1 10@0 x@1"] {
            assert_eq!(Tree::of_words(words), None);
        }
    }
}
