//! The worker processes: started, killed, stopped and replaced.

use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use dlock_testkit::Worker;

use crate::{
    follow::Follow,
    random::Random,
    worker::{Cheat, Settings, over},
};

/// How many processes there are at a time.
pub(crate) const PROCESSES: usize = 4;
const TASKS: u32 = 3;

/// Every call has ended by then.
const END: Duration = Duration::from_secs(90);

pub(crate) struct Crowd {
    directory: PathBuf,
    urls: Vec<String>,
    cheat: Option<Cheat>,
    seed: u64,
    places: Vec<Option<Member>>,
    processes: u32,
    pub(crate) follow: Follow,
    pub(crate) killed: u32,
    pub(crate) stopped: u32,
}

struct Member {
    process: u32,
    worker: Worker,
}

/// Which process a fault is to meet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Holder,
    /// One that has nothing, and wants something.
    Waiter,
}

impl Crowd {
    /// One process for each URL.
    pub(crate) fn start(
        directory: &Path,
        urls: Vec<String>,
        cheat: Option<Cheat>,
        seed: u64,
    ) -> Self {
        let mut crowd = Self {
            directory: directory.to_owned(),
            places: urls.iter().map(|_| None).collect(),
            urls,
            cheat,
            seed,
            processes: 0,
            follow: Follow::new(directory),
            killed: 0,
            stopped: 0,
        };
        crowd.fill();
        crowd
    }

    /// Replaces those that were killed.
    pub(crate) fn fill(&mut self) {
        for (place, member) in self.places.iter_mut().enumerate() {
            if member.is_some() {
                continue;
            }
            self.processes += 1;
            let process = self.processes;
            let settings = Settings {
                process,
                url: self.urls[place].clone(),
                directory: self.directory.clone(),
                seed: self.seed,
                tasks: TASKS,
                handover: place % 2 == 0,
                one_thread: place == PROCESSES - 1,
                cheat: self.cheat,
            };
            let settings = serde_json::to_string(&settings).expect("they are JSON");
            let program = env::current_exe().expect("a running program knows its file");
            self.follow.add(process);
            let worker = Worker::spawn(Command::new(program).arg("worker").arg(settings));
            *member = Some(Member { process, worker });
        }
    }

    /// A place with such a process, if there is one at the moment.
    pub(crate) fn find(&mut self, victim: Victim, random: &mut Random) -> Option<usize> {
        self.follow.catch_up();
        let places = 0..self.places.len();
        let found = places.filter(|place| self.is(*place, victim)).collect();
        random.some(found, 1).pop()
    }

    fn is(&self, place: usize, victim: Victim) -> bool {
        let Some(member) = &self.places[place] else {
            return false;
        };
        self.follow.is_inside(member.process) == (victim == Victim::Holder)
    }

    pub(crate) fn kill(&mut self, place: usize) {
        if let Some(member) = self.places[place].take() {
            member.worker.kill();
            self.follow.killed(member.process);
            self.killed += 1;
        }
    }

    /// Stops a process, if it still is what it is to be when it stands still.
    pub(crate) fn stop(&mut self, place: usize, victim: Victim, only_blind: bool) -> bool {
        let Some(member) = &self.places[place] else {
            return false;
        };
        member.worker.pause();
        self.follow.catch_up();
        let is_wanted = self.is(place, victim)
            && (!only_blind || self.follow.is_inside_blindly(member.process));
        if is_wanted {
            self.stopped += 1;
        } else {
            member.worker.resume();
        }
        is_wanted
    }

    pub(crate) fn resume(&self, place: usize) {
        if let Some(member) = &self.places[place] {
            member.worker.resume();
        }
    }

    /// Lets all of them end by themselves; says what is wrong with how they did.
    pub(crate) async fn end(&mut self) -> Vec<String> {
        let over = over(&self.directory);
        File::create(over).expect("the directory is ours");
        let mut wrong = Vec::new();
        for member in self.places.iter().flatten() {
            let status = member.worker.wait(END).await;
            if !status.success() {
                let (process, said) = (member.process, member.worker.stderr());
                wrong.push(format!("process {process} ended with {status}:\n{said}"));
            }
        }
        self.follow.catch_up();
        let open = self.follow.open();
        wrong.extend(open.iter().map(|it| format!("it never ended: {it:?}")));
        wrong
    }
}
