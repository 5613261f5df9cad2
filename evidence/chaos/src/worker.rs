//! A process of the crowd: tasks that want the locks again and again, and write what they protect.

mod books;
mod cheats;
mod inside;
mod shapes;
mod standstill;

use std::{
    panic,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;
use dlock::LockManager;
use dlock_etcd::Etcd;
use dlock_history::Mode;
use dlock_postgres::Postgres;
use dlock_zookeeper::ZooKeeper;
use serde::{Deserialize, Serialize};
use tokio::{runtime, task::JoinSet, time::sleep};

use crate::{
    fenced::Fenced,
    notes::{Note, Notes},
    random::Random,
};
use books::Books;
use cheats::Delete;
use inside::Caller;
pub(crate) use inside::Store;

/// The keys of all workers.
pub(crate) const KEYS: [&str; 3] = ["chaos:0", "chaos:1", "chaos:2"];

/// How many may hold a key together that want a permit.
const PERMITS: u32 = 2;

/// Of all leases.
pub(crate) const TTL: Duration = Duration::from_millis(1500);

/// Longer than any fault lasts.
const WAIT: Duration = Duration::from_secs(30);

/// A mistake of a crowd, which the run has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Cheat {
    /// No lock is taken.
    NoLock,
    /// Every section deletes the lock at its end, also when it has expired and belongs to another process.
    BlindDelete,
    /// The same, but a section deletes only its own lock: a run has nothing to find.
    OwnDelete,
    /// Readers enter without a lock, beside writers that have one.
    ReadersWithoutLock,
    /// There is one permit more than there should be.
    OnePermitMore,
    /// The locks are real, but what they protect does not look at tokens; in a database, transactions do not check
    /// their leases.
    NoFence,
    /// The locks are real, but the standby receives commits after they are confirmed: a failover loses leases.
    AsynchronousStandby,
    /// The locks are real, but some processes panic after a while, where no task waits for it.
    Panic,
}

impl Cheat {
    /// Whether it takes those locks that are promised to hold.
    pub(crate) fn takes_locks(self) -> bool {
        matches!(
            self,
            Self::NoFence | Self::Panic | Self::OnePermitMore | Self::AsynchronousStandby
        )
    }

    /// Whether it takes locks by hand.
    pub(crate) fn is_in_redis(self) -> bool {
        matches!(self, Self::BlindDelete | Self::OwnDelete)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) process: u32,
    pub(crate) url: String,
    pub(crate) store: Store,
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    pub(crate) tasks: u32,
    /// Whether leases go from task to task.
    pub(crate) handover: bool,
    /// Whether all tasks share one thread.
    pub(crate) one_thread: bool,
    pub(crate) cheat: Option<Cheat>,
}

/// When this is there, the workers end.
pub(crate) fn over(directory: &Path) -> PathBuf {
    directory.join("over")
}

/// The payload of panics that are part of the play.
struct OnPurpose;

/// Plays until it is over. Panics if something happens that no fault explains.
pub(crate) fn run(settings: Settings) {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<OnPurpose>() {
            show(info);
            // The runtime catches a panic of a task of its own, and hides it.
            process::abort();
        }
    }));
    let mut builder = if settings.one_thread {
        runtime::Builder::new_current_thread()
    } else {
        let mut builder = runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    };
    let runtime = builder.enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    runtime.block_on(play(settings));
}

async fn play(settings: Settings) {
    let manager = LockManager::builder()
        .scheme("postgres", Postgres)
        .scheme("etcd", Etcd)
        .scheme("zookeeper", ZooKeeper)
        .handover(settings.handover)
        .ttl(TTL)
        .connect_lazy(&settings.url)
        .expect("the URL is well formed");
    dlock::install(manager.clone()).expect("it is the only one");
    let directory = &settings.directory;
    let notes = Notes::new(directory, settings.process).expect("the directory is ours");
    let is_fenced = settings.cheat != Some(Cheat::NoFence);
    let books = || Books::of(&settings.url, is_fenced, &manager).map(Arc::new);
    let refuses = is_fenced || books().is_some();
    let log = Fenced::open(directory, &KEYS, refuses).expect("the directory is ours");
    let (notes, log) = (Arc::new(notes), Arc::new(log));
    standstill::watch(notes.clone());
    let over = over(directory);
    let mut tasks = JoinSet::new();
    let process = settings.process;
    for task in 0..settings.tasks {
        let who = [process, task];
        let caller = Caller::new((notes.clone(), log.clone(), books()), who, settings.store);
        let place = u64::from(process) << 32 | u64::from(task);
        let mut random = Random::new(settings.seed ^ place);
        let (over, cheat, url) = (over.clone(), settings.cheat, settings.url.clone());
        tasks.spawn(async move {
            let mut calls = 0;
            while !over.exists() {
                let caller = caller.asks();
                calls += 1;
                match cheat {
                    Some(Cheat::NoLock) => {
                        cheats::no_lock(&caller, Mode::Exclusive, &mut random).await;
                    }
                    Some(Cheat::ReadersWithoutLock) if task == 0 => {
                        cheats::no_lock(&caller, Mode::Shared, &mut random).await;
                    }
                    Some(Cheat::OnePermitMore) => {
                        let answer = shapes::permitted(PERMITS + 1, &caller, &mut random).await;
                        answer.unwrap_or_else(|error| notes_failure(&caller, &error));
                    }
                    Some(Cheat::BlindDelete) => {
                        cheats::by_hand(&caller, &url, &mut random, Delete::Any).await;
                    }
                    Some(Cheat::OwnDelete) => {
                        cheats::by_hand(&caller, &url, &mut random, Delete::Own).await;
                    }
                    Some(Cheat::NoFence) if caller.has_books() => {
                        // All of them, so that a process is stopped in the middle of one.
                        let posted = shapes::post(&caller, &mut random, 200).await;
                        posted.unwrap_or_else(|error| notes_failure(&caller, &error));
                    }
                    Some(Cheat::Panic) if process > 1 && task == 0 && calls == 3 => {
                        cheats::panic_unseen().await;
                    }
                    None
                    | Some(
                        Cheat::ReadersWithoutLock
                        | Cheat::NoFence
                        | Cheat::AsynchronousStandby
                        | Cheat::Panic,
                    ) => {
                        if let Err(error) = shapes::any(&caller, &mut random).await {
                            notes_failure(&caller, &error);
                        }
                    }
                }
                caller.answered();
                sleep(random.millis(8)).await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("a task ends when it is over");
    }
    let left = manager.shutdown(WAIT).await;
    assert_eq!(
        (left.cut_short, left.unreleased),
        (0, 0),
        "all is given back"
    );
    assert_eq!(manager.active_keys(), 0, "nothing is left of any key");
}

fn notes_failure(caller: &Caller, error: &dlock::LockError) {
    use dlock::LockError as E;
    let how = match error {
        E::Busy { .. } => "busy",
        E::Unavailable { .. } => "unavailable",
        E::Lost { .. } => "lost",
        other => panic!("no fault explains this: {other}"),
    };
    caller.note(&Note::Failed(how.to_owned()));
}
