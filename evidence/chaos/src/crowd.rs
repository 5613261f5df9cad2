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
    follow::{Follow, Stop, Transaction},
    random::Random,
    worker::{Cheat, Settings, Store, over},
};

const TASKS: u32 = 3;

/// Every call has ended by then.
const END: Duration = Duration::from_secs(90);

pub(crate) struct Crowd {
    directory: PathBuf,
    urls: Vec<String>,
    store: Store,
    cheat: Option<Cheat>,
    seed: u64,
    places: Vec<Option<Member>>,
    processes: u32,
    pub(crate) follow: Follow,
    /// Processes that have ended although the nemesis did not kill them.
    crashed: Vec<Member>,
    pub(crate) killed: Vec<Member>,
    pub(crate) stops: Vec<Stop>,
}

pub(crate) struct Member {
    process: u32,
    worker: Worker,
}

/// The point at which a process is to be stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Anything,
    /// It is inside, and will write without asking.
    Blind,
    /// It is between the reads and the writes of a transaction.
    Transaction,
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
        store: Store,
        cheat: Option<Cheat>,
        seed: u64,
    ) -> Self {
        let mut crowd = Self {
            directory: directory.to_owned(),
            places: urls.iter().map(|_| None).collect(),
            urls,
            store,
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
        let last = self.places.len().saturating_sub(1);
        for (place, member) in self.places.iter_mut().enumerate() {
            if member.is_some() {
                continue;
            }
            self.processes += 1;
            let process = self.processes;
            let settings = Settings {
                process,
                url: self.urls[place].clone(),
                store: self.store,
                directory: self.directory.clone(),
                seed: self.seed,
                tasks: TASKS,
                handover: place % 2 == 0,
                one_thread: place == last,
                cheat: self.cheat,
            };
            let settings = serde_json::to_string(&settings).expect("they are JSON");
            let program = env::current_exe().expect("a running program knows its file");
            self.follow.add(process);
            let worker = Worker::spawn(Command::new(program).arg("worker").arg(settings));
            *member = Some(Member { process, worker });
        }
    }

    /// Reads new notes, and finds processes that have ended by themselves.
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
        let is_wanted = self.pause(place, victim, About::Anything);
        if is_wanted && let Some(member) = self.places[place].take() {
            member.worker.kill();
            self.follow.died(member.process);
            self.killed.push(member);
        }
        is_wanted
    }

    /// Whether transactions do not check their leases.
    pub(crate) fn is_unfenced(&self) -> bool {
        self.cheat == Some(Cheat::NoFence)
    }

    /// The transaction at which a process stands still.
    pub(crate) fn works(&self, place: usize) -> Option<Transaction> {
        let member = self.places[place].as_ref()?;
        self.follow.works(member.process).cloned()
    }

    /// Stops a process, if it still is what it is to be when it stands still.
    pub(crate) fn stop(&mut self, place: usize, victim: Victim, about: About) -> bool {
        let from = machine_time();
        let is_wanted = self.pause(place, victim, about);
        if is_wanted && let Some(member) = &self.places[place] {
            self.stops.push(Stop {
                process: member.process,
                from,
                to: Duration::MAX,
            });
        }
        is_wanted
    }

    fn pause(&mut self, place: usize, victim: Victim, about: About) -> bool {
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
            && match about {
                About::Anything => true,
                About::Blind => self.follow.is_inside_blindly(member.process),
                About::Transaction => self.follow.works(member.process).is_some(),
            };
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
        let crashed = self.crashed.iter().map(|member| (member, true));
        let others = self.places.iter().flatten().map(|member| (member, false));
        for (member, has_crashed) in crashed.chain(others) {
            let (status, said) = member.end().await;
            let process = member.process;
            if has_crashed || !status.success() {
                // A second section of the process may have ended since the last look.
                self.follow.died(process);
                wrong.push(format!(
                    "process {process} ended by itself with {status}:\n{said}"
                ));
            } else if !said.is_empty() {
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

#[cfg(test)]
mod tests {
    use dlock_history::End;
    use dlock_testkit::eventually;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        notes::{Note, Notes},
        worker::KEYS,
    };

    /// Aborts once the run is over, which is after the last look at the crowd.
    const ABORTS_IN_THE_END: &str = "until [ -e over ]; do sleep 0.01; done; kill -ABRT $$";
    const ABORTS: &str = "kill -ABRT $$";
    /// Has said why it will abort, and does not come to it.
    const IS_ABOUT_TO_ABORT: &str = "echo nobody looks >&2; exec sleep 1000";

    /// Processes that are each in a section of their own.
    fn crowd_of(directory: &TempDir, scripts: &[&str]) -> Crowd {
        let mut crowd = Crowd::start(directory.path(), Vec::new(), Store::One, None, 0);
        for (process, script) in (1..).zip(scripts) {
            crowd.follow.add(process);
            let notes = Notes::new(directory.path(), process).unwrap();
            notes.note(&Note::In {
                section: notes.section(),
                key: KEYS[0].to_owned(),
                mode: dlock_history::Mode::Exclusive,
                task: 0,
                token: process.into(),
                asked: machine_time(),
                at: machine_time(),
                is_blind: false,
            });
            let mut shell = Command::new("sh");
            let worker = Worker::spawn(shell.args(["-c", script]).current_dir(directory));
            crowd.places.push(Some(Member { process, worker }));
        }
        crowd.follow.catch_up();
        crowd
    }

    /// Leaves it as dead as it is: nobody has looked.
    fn wait_until_dead(crowd: &Crowd, place: usize) {
        let member = crowd.places[place].as_ref().unwrap();
        let id = Pid::from_raw(member.worker.id().try_into().unwrap()).unwrap();
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(id), options).unwrap();
    }

    /// The mistakes found when each section has ended with its process.
    async fn ends(mut crowd: Crowd) -> Vec<String> {
        let count = crowd.processes_seen();
        let wrong = crowd.end().await;
        let sections = &crowd.follow.sections;
        let mut tokens: Vec<_> = sections.iter().map(|it| (it.token, it.end)).collect();
        tokens.sort_unstable_by_key(|(token, _)| *token);
        let all: Vec<_> = (1..=count).map(|token| (token, End::Killed)).collect();
        assert_eq!(tokens, all, "{wrong:?}");
        wrong
    }

    impl Crowd {
        fn processes_seen(&self) -> i64 {
            let all = self.places.iter().flatten();
            let gone = self.crashed.iter().chain(&self.killed);
            i64::try_from(all.chain(gone).count()).unwrap()
        }
    }

    #[tokio::test]
    async fn each_of_two_processes_that_abort_together_has_ended_its_section() {
        let directory = TempDir::new().unwrap();
        let mut crowd = crowd_of(&directory, &[ABORTS, ABORTS_IN_THE_END]);
        wait_until_dead(&crowd, 0);
        crowd.look();
        assert!(crowd.has_crashed() && crowd.places[1].is_some());
        let wrong = ends(crowd).await;
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        for (process, wrong) in (1..).zip(wrong) {
            let begin = format!("process {process} ended by itself with ");
            assert!(
                wrong.starts_with(&begin) && wrong.contains("SIGABRT"),
                "{wrong}"
            );
        }
    }

    #[tokio::test]
    async fn who_is_killed_before_it_aborts_is_told_of_with_what_it_said() {
        let directory = TempDir::new().unwrap();
        let mut crowd = crowd_of(&directory, &[IS_ABOUT_TO_ABORT]);
        let worker = &crowd.places[0].as_ref().unwrap().worker;
        eventually(END, "it has said why", async || !worker.stderr().is_empty()).await;
        assert!(crowd.kill(0, Victim::Holder) && !crowd.has_crashed());
        let wrong = ends(crowd).await;
        assert_eq!(wrong, ["process 1, before it was killed:\nnobody looks\n"]);
    }

    #[tokio::test]
    async fn who_has_aborted_by_the_time_it_is_to_be_killed_or_stopped_has_ended_by_itself() {
        for is_killed in [true, false] {
            let directory = TempDir::new().unwrap();
            let mut crowd = crowd_of(&directory, &[ABORTS]);
            wait_until_dead(&crowd, 0);
            assert!(crowd.is(0, Victim::Holder), "nobody has looked");
            let is_met = if is_killed {
                crowd.kill(0, Victim::Holder)
            } else {
                crowd.stop(0, Victim::Holder, About::Anything)
            };
            assert!(!is_met && crowd.has_crashed());
            assert!(crowd.killed.is_empty() && crowd.stops.is_empty());
            let wrong = ends(crowd).await;
            let is_told = wrong[0].starts_with("process 1 ended by itself with ");
            assert!(wrong.len() == 1 && is_told, "{wrong:?}");
        }
    }
}
