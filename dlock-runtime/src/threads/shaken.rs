//! Threads that run at once, including the renewal thread, with random delays at mutexes, clocks and requests.

use std::{
    cell::Cell,
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

use super::{SHAKEN, SHAKING, draw, interrupt, row, sections::Resource, seeds};
use crate::{
    api::{
        guard::{Lease, LockGuard},
        manager::{LockManager, ShutdownReport},
    },
    clock::{Clock, Moment, SystemClock},
    error::LockError,
    store::memory::MemoryStore,
};

/// Longer than a renewal is delayed on a busy machine.
const TTL: Duration = Duration::from_secs(5);

/// The length of the sections that need renewals, longer than the TTL.
const LONG: Duration = Duration::from_secs(6);

/// An operation that takes longer counts as one that waits forever.
const DEADLINE: Duration = Duration::from_secs(60);

/// Fewer acquisitions would say little.
const ENOUGH: u64 = 50;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// The clock of the machine. From its first read of the clock, a thread is shaken.
struct ShakingClock(AtomicU64);

impl Clock for ShakingClock {
    fn now(&self) -> Moment {
        if SHAKEN.try_with(Cell::get) == Ok(0) {
            SHAKEN.set(row(self.0.fetch_add(1, Ordering::Relaxed)));
        }
        interrupt();
        SystemClock.now()
    }

    fn time_of_day(&self) -> Option<SystemTime> {
        SystemClock.time_of_day()
    }
}

/// Threads are shaken while this value lives.
struct Shaking;

impl Shaking {
    fn begin() -> Self {
        SHAKING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Shaking {
    fn drop(&mut self) {
        SHAKING.fetch_sub(1, Ordering::SeqCst);
    }
}

struct World {
    managers: [LockManager; 2],
    store: MemoryStore,
    resources: BTreeMap<&'static str, Resource>,
    /// Guards that any thread may drop.
    left: Mutex<Vec<LockGuard>>,
    until: Instant,
    acquisitions: AtomicU64,
}

impl World {
    fn new(seed: u64) -> Self {
        let store = MemoryStore::new();
        let manager = |seed| {
            let builder = LockManager::builder().ttl(TTL).renewal_thread(true);
            let clock = ShakingClock(AtomicU64::new(seed));
            builder.clock(clock).over(store.clone()).unwrap()
        };
        Self {
            managers: [manager(seed << 32), manager(seed << 32 | 1 << 31)],
            resources: KEYS.map(|key| (key, Resource::default())).into(),
            store,
            left: Mutex::default(),
            until: Instant::now() + LONG,
            acquisitions: AtomicU64::new(0),
        }
    }

    fn begin(&self, lease: &Lease) {
        lease.ensure_held().unwrap();
        self.acquisitions.fetch_add(1, Ordering::Relaxed);
        for (key, token) in lease.fencing_tokens() {
            self.resources[key.as_str()].begin(token);
        }
    }

    fn end(&self, lease: &Lease) {
        lease.ensure_held().unwrap();
        for (key, _) in lease.fencing_tokens() {
            self.resources[key.as_str()].end();
        }
    }

    fn tidy(&self) {
        let left = mem::take(&mut *self.left.lock().unwrap());
        for guard in &left {
            self.end(guard);
        }
    }

    /// Runs one random operation.
    async fn step(&self, drawn: u64) {
        self.tidy();
        let (which, choice) = (drawn >> 16 & 3, drawn >> 24 & 7);
        let manager = &self.managers[usize::from(which == 0)];
        let key = KEYS[usize::try_from(drawn >> 32 & 0xffff).unwrap() % KEYS.len()];
        let lock = manager.lock(key);
        let body = async |lease: &Lease| {
            self.begin(lease);
            tokio::task::yield_now().await;
            self.end(lease);
        };
        match choice {
            0 | 1 => lock.run(body).await.unwrap(),
            2 => manager.lock_all(["c", "a"]).run(body).await.unwrap(),
            3 => {
                if let Some(guard) = lock.try_acquire().await.unwrap() {
                    self.begin(&guard);
                    self.end(&guard);
                }
            }
            4 => {
                // Dropped at any await.
                let limit = Duration::from_micros(drawn >> 48 & 1023);
                drop(timeout(limit, lock.acquire()).await.map(Result::unwrap));
            }
            5 => {
                let limit = Duration::from_micros(drawn >> 48 & 4095);
                match lock.wait(limit).acquire().await {
                    Ok(guard) => {
                        self.begin(&guard);
                        self.end(&guard);
                        guard.release().await.unwrap();
                    }
                    // `Unavailable` if the previous attempt has no answer by then.
                    Err(LockError::Busy { .. } | LockError::Unavailable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            6 => {
                let guard = lock.acquire().await.unwrap();
                self.begin(&guard);
                self.left.lock().unwrap().push(guard);
            }
            _ => {
                let guard = lock.acquire().await.unwrap();
                self.begin(&guard);
                self.end(&guard);
                drop(timeout(Duration::ZERO, guard.release()).await);
            }
        }
    }

    async fn steps(&self, seed: u64) {
        let mut drawn = row(seed);
        // A busy machine does less in the same time.
        let is_enough = || self.acquisitions.load(Ordering::Relaxed) >= ENOUGH;
        while Instant::now() < self.until || !is_enough() {
            drawn = draw(drawn);
            let step = timeout(DEADLINE, self.step(drawn)).await;
            step.expect("an operation waits forever");
        }
        self.tidy();
    }

    /// Runs a section that is longer than the TTL. `hold` may block its thread.
    async fn hold(&self, key: &'static str, hold: impl AsyncFnOnce()) {
        let body = async |lease: &Lease| {
            hold().await;
            lease.ensure_held().unwrap();
        };
        self.managers[0].lock(key).run(body).await.unwrap();
    }
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn run(seed: u64) {
    let _shaking = Shaking::begin();
    let world = Arc::new(World::new(seed));
    let mut threads = Vec::new();
    for thread in 0..3 {
        let world = world.clone();
        threads.push(thread::spawn(move || {
            // Runtimes end with unfinished tasks.
            for (seed, _) in (seed << 8 | thread << 5..).zip(0..4) {
                let mut drawn = row(seed);
                for _ in 0..50 {
                    drawn = draw(drawn);
                    if Instant::now() > world.until {
                        break;
                    }
                    one_thread().block_on(world.step(drawn));
                }
                one_thread().block_on(async {
                    let quarter = LONG / 4;
                    let until = Instant::now() + quarter;
                    while Instant::now() < until.min(world.until) {
                        drawn = draw(drawn);
                        let step = timeout(DEADLINE, world.step(drawn)).await;
                        step.expect("an operation waits forever");
                    }
                });
            }
            world.tidy();
        }));
    }
    let several = world.clone();
    threads.push(thread::spawn(move || {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..3)
                .map(|task| {
                    let world = several.clone();
                    tokio::spawn(async move { world.steps(seed << 8 | task << 2 | 3).await })
                })
                .collect();
            several
                .hold("waits", async || tokio::time::sleep(LONG).await)
                .await;
            for task in tasks {
                task.await.unwrap();
            }
        });
    }));
    let hogs = world.clone();
    threads.push(thread::spawn(move || {
        one_thread().block_on(hogs.hold("hogs", async || thread::sleep(LONG)));
    }));
    let (done, all_done) = mpsc::channel();
    for thread in threads {
        let done = done.clone();
        thread::spawn(move || done.send(thread.join().is_ok()));
    }
    drop(done);
    for _ in 0..5 {
        let ended = all_done.recv_timeout(LONG + DEADLINE);
        assert_eq!(ended, Ok(true), "a thread waits forever or has panicked");
    }
    world.tidy();
    for manager in &world.managers {
        let shutdown = one_thread().block_on(manager.shutdown(DEADLINE));
        assert_eq!(shutdown, ShutdownReport::default());
        assert_eq!(manager.active_keys(), 0);
    }
    assert!(world.store.is_empty());
    let acquisitions = world.acquisitions.load(Ordering::Relaxed);
    println!("seed {seed}: {acquisitions} acquisitions");
}

/// The renewal thread runs too, and keeps leases for longer than their TTL.
#[test]
fn threads_that_run_at_once_hold_one_after_the_other_and_leave_nothing() {
    seeds(1).for_each(run);
}
