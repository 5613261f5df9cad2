//! Many processes and locks while masters die and give their places away and slots move.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dlock::{
    FencingToken, LockError, LockManager,
    random::{Random, SystemRandom},
};
use dlock_testkit::{Cluster, eventually};
use tokio::{task::JoinSet, time::sleep};

use crate::cluster::{LIMIT, PATIENCE, env, home, process, slot};
use crate::common::assert_idle;

const LOCKS: usize = 6;
const CHAOS: Duration = Duration::from_secs(12);

/// What a lock protects: it takes a write only from who has a greater token than the last writer,
/// or the same.
#[derive(Default)]
struct Register {
    last: Mutex<Option<FencingToken>>,
    inside: AtomicU64,
}

#[derive(Default)]
struct Seen {
    sections: AtomicU64,
    refused: AtomicU64,
    overlaps: AtomicU64,
    unavailable: AtomicU64,
    lost: AtomicU64,
}

impl Register {
    /// `false` for one who is late.
    fn write(&self, token: FencingToken) -> bool {
        let mut last = self.last.lock().unwrap();
        let is_taken = last.is_none_or(|last| last <= token);
        if is_taken {
            *last = Some(token);
        }
        is_taken
    }
}

/// Some number below this one.
fn any_below(end: usize) -> usize {
    usize::try_from(SystemRandom.next_u64() % end as u64).unwrap()
}

async fn work(
    manager: LockManager,
    registers: Arc<[Register; LOCKS]>,
    seen: Arc<Seen>,
    over: Arc<AtomicBool>,
    ttl: Duration,
) {
    while !over.load(Ordering::Relaxed) {
        let number = any_below(LOCKS);
        let register = &registers[number];
        // Granted before this one is asked for.
        let earlier = *register.last.lock().unwrap();
        let lock = manager.lock(format!("order:{number}"));
        let lock = lock.ttl(ttl).wait(LIMIT);
        let outcome = lock.run(async |lease| {
            struct Leave<'a>(&'a AtomicU64);
            impl Drop for Leave<'_> {
                fn drop(&mut self) {
                    self.0.fetch_sub(1, Ordering::SeqCst);
                }
            }
            if register.inside.fetch_add(1, Ordering::SeqCst) > 0 {
                seen.overlaps.fetch_add(1, Ordering::Relaxed);
            }
            let _leave = Leave(&register.inside);
            let token = lease.fencing_token();
            assert!(
                earlier < Some(token),
                "broken promise: the token did not grow: {earlier:?} before {token:?}"
            );
            let first = register.write(token);
            sleep(Duration::from_millis(SystemRandom.next_u64() % 20)).await;
            let second = register.write(token);
            if !(first && second) {
                seen.refused.fetch_add(1, Ordering::Relaxed);
            }
        });
        match outcome.await {
            Ok(()) => seen.sections.fetch_add(1, Ordering::Relaxed),
            Err(LockError::Lost { .. }) => seen.lost.fetch_add(1, Ordering::Relaxed),
            Err(LockError::Unavailable { .. } | LockError::Busy { .. }) => {
                seen.unavailable.fetch_add(1, Ordering::Relaxed)
            }
            Err(other) => panic!("{other}"),
        };
    }
}

/// What was begun, with the number of tasks that take part.
struct Chaos {
    managers: Vec<LockManager>,
    registers: Arc<[Register; LOCKS]>,
    seen: Arc<Seen>,
    over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Chaos {
    async fn begin(cluster: &Cluster, ttl: Duration) -> Self {
        let mut chaos = Self {
            managers: Vec::new(),
            registers: Arc::default(),
            seen: Arc::default(),
            over: Arc::default(),
            tasks: JoinSet::new(),
        };
        for _ in 0..4 {
            let manager = process(cluster).await;
            for _ in 0..3 {
                chaos.tasks.spawn(work(
                    manager.clone(),
                    chaos.registers.clone(),
                    chaos.seen.clone(),
                    chaos.over.clone(),
                    ttl,
                ));
            }
            chaos.managers.push(manager);
        }
        chaos
    }

    fn sections(&self) -> u64 {
        self.seen.sections.load(Ordering::Relaxed)
    }

    /// Sections go on, now that the cluster is well.
    async fn goes_on(&self) {
        let before = self.sections();
        eventually(PATIENCE, "sections go on", async || {
            self.sections() > before + 20
        })
        .await;
    }

    async fn end(mut self, cluster: &Cluster) -> Arc<Seen> {
        self.over.store(true, Ordering::Relaxed);
        let all = async {
            while let Some(task) = self.tasks.join_next().await {
                task.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, all)
            .await
            .expect("nobody hangs");
        let managers: Vec<_> = self.managers.iter().collect();
        assert_idle(&managers).await;
        eventually(LIMIT, "no lock and no queue is left", async || {
            cluster.keys("dlock:{*").await.is_empty()
        })
        .await;
        let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
        println!(
            "{} sections, {} overlapping, {} with a refused write, {} lost, {} without a lock",
            count(&self.seen.sections),
            count(&self.seen.overlaps),
            count(&self.seen.refused),
            count(&self.seen.lost),
            count(&self.seen.unavailable),
        );
        self.seen.clone()
    }
}

/// Nothing is lost by what an administrator does, so there is never a second holder. No lease ends by itself, even if
/// the machine stands still: a body that has not noticed yet would count as a second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_changes_never_make_two_holders() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let chaos = Chaos::begin(cluster, Duration::from_secs(30)).await;
    let since = Instant::now();
    while since.elapsed() < CHAOS {
        let key = format!("order:{}", any_below(LOCKS));
        let master = home(cluster, &key).await;
        if any_below(2) == 0 {
            cluster.fail_over_to(cluster.replica_of(master).await).await;
        } else {
            let mut others = masters(cluster).await;
            others.retain(|it| *it != master);
            let to = others[any_below(others.len())];
            cluster.migrate(slot(cluster, &key).await, to).await;
        }
        cluster.until_ok().await;
        chaos.goes_on().await;
    }
    let seen = chaos.end(cluster).await;
    assert_eq!(
        seen.overlaps.load(Ordering::Relaxed),
        0,
        "broken promise: two holders"
    );
    assert_eq!(
        seen.refused.load(Ordering::Relaxed),
        0,
        "broken promise: the resource refused a holder"
    );
}

/// What a dead master had not passed on is lost, and somebody else may come in; but never with a
/// smaller token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_masters_never_make_tokens_smaller() {
    let env = env(Cluster::start(3, 1).await);
    let cluster = &env.cluster;
    let chaos = Chaos::begin(cluster, Duration::from_secs(2)).await;
    let since = Instant::now();
    while since.elapsed() < CHAOS {
        let key = format!("order:{}", any_below(LOCKS));
        let master = home(cluster, &key).await;
        cluster.kill(master);
        cluster.until_ok().await;
        chaos.goes_on().await;
        cluster.restart(master).await;
        cluster.until_ok().await;
        chaos.goes_on().await;
    }
    chaos.end(cluster).await;
}

/// The masters that have slots.
async fn masters(cluster: &Cluster) -> Vec<usize> {
    let mut masters = Vec::new();
    for slot in [0, 6000, 12_000] {
        let master = cluster.master_of_slot(slot).await;
        if !masters.contains(&master) {
            masters.push(master);
        }
    }
    masters
}
