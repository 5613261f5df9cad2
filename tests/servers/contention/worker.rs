//! The other processes: this program again, in another role.

use std::{
    env,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockManager, Wait};
use dlock_testkit::{Worker, machine_time};
use serde::{Deserialize, Serialize};
use tokio::{
    task::{JoinSet, yield_now},
    time::{sleep, timeout},
};

use crate::contention::history::Notes;

/// Set for a process that is not to test but to play a role.
const ROLE: &str = "DLOCK_TEST_ROLE";

#[derive(Serialize, Deserialize)]
pub(crate) enum Role {
    Crowd(Crowd),
    Waiter { url: String },
}

/// Tasks that want some keys again and again.
#[derive(Serialize, Deserialize)]
pub(crate) struct Crowd {
    pub(crate) url: String,
    pub(crate) process: usize,
    pub(crate) handover: bool,
    pub(crate) members: Vec<Member>,
    /// How many sections those who wait without limit have together before the process ends.
    pub(crate) sections: usize,
    /// Where the sections are written to.
    pub(crate) file: PathBuf,
    /// Whether a lease may be lost, as the process may be made to stand still.
    pub(crate) may_lose: bool,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    pub(crate) manner: Manner,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Manner {
    /// Waits without limit.
    Patient,
    /// Waits for a moment only.
    Brief,
    /// Is dropped at any time, while it waits and while it holds.
    Dropped,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "no test: what the other processes do"]
async fn process() {
    let Ok(role) = env::var(ROLE) else { return };
    match serde_json::from_str(&role).unwrap() {
        Role::Crowd(crowd) => Arc::new(crowd).run().await,
        Role::Waiter { url } => wait(&url).await,
    }
}

pub(crate) fn spawn(role: &Role) -> Worker {
    let role = serde_json::to_string(role).unwrap();
    Worker::spawn(
        Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "contention::worker::process",
                "--ignored",
                "--nocapture",
            ])
            .env(ROLE, role),
    )
}

/// Takes the lock once and says when.
async fn wait(url: &str) {
    let manager = LockManager::connect(url).await.unwrap();
    let lock = manager.lock("order:42").wait(Wait::Forever);
    let guard = lock.acquire().await.unwrap();
    println!("holding {}", guard.fencing_token().fence());
    match guard.release().await {
        Ok(()) => println!("outcome: released"),
        Err(error) => println!("outcome: {error}"),
    }
    assert_eq!(manager.active_keys(), 0);
}

impl Crowd {
    async fn run(self: Arc<Self>) {
        let builder = LockManager::builder().handover(self.handover);
        let manager = builder.connect(&self.url).await.unwrap();
        let (notes, done) = (
            Arc::new(Notes::to(&self.file)),
            Arc::new(AtomicUsize::new(0)),
        );
        let mut tasks = JoinSet::new();
        for task in 0..self.members.len() {
            let (crowd, manager) = (self.clone(), manager.clone());
            let (notes, done) = (notes.clone(), done.clone());
            tasks.spawn(async move {
                let mut round = 0;
                while done.load(Ordering::Relaxed) < crowd.sections {
                    round += 1;
                    crowd
                        .take_part(&manager, &notes, &done, [task, round])
                        .await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let left = manager.shutdown(Duration::from_secs(10)).await;
        assert_eq!((left.cut_short, left.unreleased), (0, 0));
        assert_eq!(manager.active_keys(), 0);
    }

    async fn take_part(
        &self,
        manager: &LockManager,
        notes: &Notes,
        done: &AtomicUsize,
        [task, round]: [usize; 2],
    ) {
        let member = &self.members[task];
        // Some moment between none and a millisecond; another one in each round of each task.
        let moment = || Duration::from_micros((task * 131 + round * 617) as u64 % 1000);
        let wait = match member.manner {
            Manner::Patient | Manner::Dropped => Wait::Forever,
            Manner::Brief => Wait::For(moment()),
        };
        let lock = manager.lock(member.key.as_str()).ttl(member.ttl).wait(wait);
        let section = async {
            let asked = machine_time();
            let guard = match lock.acquire().await {
                Ok(guard) => guard,
                Err(error) if error.is_busy() && member.manner == Manner::Brief => return,
                // The first answer may take longer than such a wait.
                Err(_) if member.manner == Manner::Brief => return,
                Err(error) => panic!("it waits without limit: {error}"),
            };
            let token = guard.fencing_token();
            let running = notes.begin(&member.key, [self.process, task], asked, token);
            yield_now().await;
            if round % 64 == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            let is_valid = running.end(&guard);
            assert!(is_valid || self.may_lose, "it lost its lease");
            if round % 8 == 0 {
                drop(guard);
            } else if let Err(error) = guard.release().await {
                assert!(self.may_lose, "{error}");
            }
        };
        match member.manner {
            Manner::Patient => {
                section.await;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Manner::Brief => section.await,
            Manner::Dropped => drop(timeout(moment(), section).await),
        }
        // Nobody is to be at it alone.
        yield_now().await;
    }
}
