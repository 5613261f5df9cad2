//! The worker processes: started, killed, stopped and replaced.

use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use dlock_testkit::{Worker, machine_time};

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
    /// Those that have ended although nobody has killed them.
    crashed: Vec<Member>,
    pub(crate) killed: Vec<Member>,
    pub(crate) stops: Vec<Stop>,
}

pub(crate) struct Member {
    process: u32,
    worker: Worker,
}

/// A process stood still.
pub(crate) struct Stop {
    pub(crate) process: u32,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// Which process a fault is to meet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Holder,
    /// One that has nothing, and has asked for something.
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
            crashed: Vec::new(),
            killed: Vec::new(),
            stops: Vec::new(),
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

    /// Reads what has been noted, and sees who has ended by itself.
    pub(crate) fn look(&mut self) {
        for place in &mut self.places {
            if let Some(member) = place.take_if(|member| member.worker.ended().is_some()) {
                self.follow.died(member.process);
                self.crashed.push(member);
            }
        }
        self.follow.catch_up();
    }

    /// Whether one of them has ended by itself. [`end`](Self::end) says more.
    pub(crate) fn has_crashed(&self) -> bool {
        !self.crashed.is_empty()
    }

    /// A place with such a process, if there is one at the moment.
    pub(crate) fn find(&mut self, victim: Victim, random: &mut Random) -> Option<usize> {
        self.look();
        let places = 0..self.places.len();
        let found = places.filter(|place| self.is(*place, victim)).collect();
        random.some(found, 1).pop()
    }

    fn is(&self, place: usize, victim: Victim) -> bool {
        let Some(member) = &self.places[place] else {
            return false;
        };
        match victim {
            Victim::Holder => self.follow.is_inside(member.process),
            Victim::Waiter => self.follow.is_waiting(member.process),
        }
    }

    /// Kills a process, if it still is what it is to be when it stands still.
    pub(crate) fn kill(&mut self, place: usize, victim: Victim) -> bool {
        let is_wanted = self.pause(place, victim, false);
        if is_wanted && let Some(member) = self.places[place].take() {
            member.worker.kill();
            self.follow.died(member.process);
            self.killed.push(member);
        }
        is_wanted
    }

    /// Stops a process, if it still is what it is to be when it stands still.
    pub(crate) fn stop(&mut self, place: usize, victim: Victim, only_blind: bool) -> bool {
        let from = machine_time();
        let is_wanted = self.pause(place, victim, only_blind);
        if is_wanted && let Some(member) = &self.places[place] {
            self.stops.push(Stop {
                process: member.process,
                from,
                to: Duration::MAX,
            });
        }
        is_wanted
    }

    fn pause(&mut self, place: usize, victim: Victim, only_blind: bool) -> bool {
        self.look();
        let Some(member) = &self.places[place] else {
            return false;
        };
        member.worker.pause();
        // It may have ended in place of that.
        self.look();
        let Some(member) = &self.places[place] else {
            return false;
        };
        let is_wanted = self.is(place, victim)
            && (!only_blind || self.follow.is_inside_blindly(member.process));
        if !is_wanted {
            member.worker.resume();
        }
        is_wanted
    }

    pub(crate) fn resume(&mut self, place: usize) {
        if let Some(member) = &self.places[place] {
            member.worker.resume();
            let stop = self.stops.iter_mut().rev();
            let mut stop = stop.filter(|it| it.process == member.process);
            stop.next().expect("it was stopped").to = machine_time();
        }
    }

    /// Lets all of them end by themselves; says what is wrong with how they did.
    pub(crate) async fn end(&mut self) -> Vec<String> {
        let over = over(&self.directory);
        File::create(over).expect("the directory is ours");
        let mut wrong = Vec::new();
        for member in &self.crashed {
            let (status, said) = member.end().await;
            let process = member.process;
            wrong.push(format!(
                "process {process} ended by itself with {status}:\n{said}"
            ));
        }
        for member in self.places.iter().flatten() {
            let (status, said) = member.end().await;
            if !status.success() || !said.is_empty() {
                let process = member.process;
                wrong.push(format!("process {process} ended with {status}:\n{said}"));
            }
        }
        for member in &self.killed {
            let (_, said) = member.end().await;
            if !said.is_empty() {
                let process = member.process;
                wrong.push(format!("process {process}, before it was killed:\n{said}"));
            }
        }
        self.follow.catch_up();
        let open = self.follow.open();
        wrong.extend(open.iter().map(|it| format!("it never ended: {it:?}")));
        wrong
    }
}

impl Member {
    /// How it ended, and what it had to say.
    async fn end(&self) -> (ExitStatus, String) {
        let status = self.worker.wait(END).await;
        (status, self.worker.stderr())
    }
}
