//! Several processes with many tasks each: never two at once, and everybody gets a turn.

use std::{ops::Range, time::Duration};

use dlock::LockGuard;
use dlock_testkit::Worker;
use tempfile::TempDir;

use crate::common::{Env, OneKey, Redis, soon};
use crate::contention::{
    history::History,
    worker::{Crowd, Manner, Member, Role, spawn},
};

pub(crate) const PROCESSES: usize = 4;
pub(crate) const TASKS: usize = 16;

/// Nobody takes that long unless it hangs, however loaded the machine is.
const LIMIT: Duration = Duration::from_secs(600);

/// Processes that begin all at once, and a directory for their notes.
pub(crate) struct Crowds {
    pub(crate) env: Redis,
    /// Held until all have come.
    guards: Vec<LockGuard>,
    notes: TempDir,
    workers: Vec<Worker>,
}

impl Crowds {
    /// Those who will want `keys`, and none but them.
    pub(crate) async fn start(keys: &[&str]) -> Self {
        let env = Redis::start().await;
        let manager = env.manager().await;
        let mut guards = Vec::new();
        for key in keys {
            guards.push(soon(manager.lock(*key).acquire()).await.unwrap());
        }
        Self {
            env,
            guards,
            notes: TempDir::with_prefix("dlock-notes-").unwrap(),
            workers: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, handover: bool, sections: usize, members: Vec<Member>) {
        let process = self.workers.len();
        self.spawn(Crowd {
            url: self.env.server.url(),
            process,
            handover,
            members,
            sections,
            file: self.notes.path().join(process.to_string()),
            may_lose: false,
        });
    }

    /// One that may be disturbed, and reaches the server at `url`.
    pub(crate) fn add_frail(&mut self, url: String, sections: usize, members: Vec<Member>) {
        let process = self.workers.len();
        self.spawn(Crowd {
            url,
            process,
            handover: process.is_multiple_of(2),
            members,
            sections,
            file: self.notes.path().join(process.to_string()),
            may_lose: true,
        });
    }

    fn spawn(&mut self, crowd: Crowd) {
        self.workers.push(spawn(&Role::Crowd(crowd)));
    }

    /// Lets everybody begin when all have come, and waits until they are done; `count` is called
    /// before and after.
    pub(crate) async fn run<C>(mut self, count: impl AsyncFn(&Redis) -> C) -> Ran<C> {
        let keys = self.guards.len();
        self.gather().await;
        let before = count(&self.env).await;
        self.begin().await;
        self.join(0..self.workers.len()).await;
        let after = count(&self.env).await;
        self.env.assert_clean(keys, &[]).await;
        Ran {
            history: self.history(),
            before,
            after,
        }
    }

    /// Waits until all have come, and wait for every key.
    pub(crate) async fn gather(&self) {
        for guard in &self.guards {
            let key = OneKey::new(self.env.store().await, guard.key().as_str());
            key.until_waiting(self.workers.len() as u64).await;
        }
    }

    pub(crate) async fn begin(&mut self) {
        for guard in self.guards.drain(..) {
            soon(guard.release()).await.unwrap();
        }
    }

    /// Waits until these processes are done.
    pub(crate) async fn join(&self, processes: Range<usize>) {
        for worker in &self.workers[processes] {
            let status = worker.wait(LIMIT).await;
            assert!(status.success(), "{}\n{}", worker.stdout(), worker.stderr());
        }
    }

    pub(crate) fn worker(&self, process: usize) -> &Worker {
        &self.workers[process]
    }

    pub(crate) fn history(&self) -> History {
        History::read(self.notes.path())
    }
}

pub(crate) struct Ran<C> {
    pub(crate) history: History,
    pub(crate) before: C,
    pub(crate) after: C,
}

pub(crate) fn patient(key: &str) -> Member {
    Member {
        key: key.to_owned(),
        ttl: Duration::from_secs(30),
        manner: Manner::Patient,
    }
}

/// Some hand leases over and some do not, TTLs differ, some wait for a moment only, and some are
/// dropped at any time.
#[tokio::test]
async fn a_mixed_crowd_is_never_two_at_once_and_nobody_is_forgotten() {
    const KEYS: [&str; 3] = ["order:42", "order:43", "order:44"];
    let mut crowds = Crowds::start(&KEYS).await;
    for process in 0..PROCESSES {
        let member = |task: usize| Member {
            // Most of them want the first one.
            key: KEYS[if task < 10 { 0 } else { 1 + task % 2 }].to_owned(),
            // None so short that a process which stands still for a second loses it.
            ttl: Duration::from_secs([30, 30, 5, 10][(task / 2 + process) % 4]),
            manner: match task % 5 {
                1 => Manner::Brief,
                3 => Manner::Dropped,
                _ => Manner::Patient,
            },
        };
        crowds.add(process % 2 == 0, 600, (0..TASKS).map(member).collect());
    }
    let ran = crowds.run(async |_| ()).await;
    ran.history.assert_exclusive();
    ran.history.assert_nobody_was_forgotten();
    let sections = ran.history.sections();
    let patient = (0..PROCESSES)
        .flat_map(|process| (0..TASKS).map(move |task| [process, task]))
        .filter(|[_, task]| !matches!(task % 5, 1 | 3));
    for [process, task] in patient {
        let had_turns = sections
            .iter()
            .any(|section| section.process == process && section.task == task);
        assert!(had_turns, "task {task} of process {process} had no turn");
    }
}
