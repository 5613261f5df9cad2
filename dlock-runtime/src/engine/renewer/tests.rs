//! Tests that the renewer's task, which ends by itself or with its runtime, misses no lease that other
//! threads add.

use std::{
    sync::atomic::AtomicUsize,
    thread::{self, Thread},
};

use super::{schedule::Renewer, *};
use crate::{
    api::{guard::LockGuard, manager::LockManager},
    clock::Clock as _,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreError, StoreProperties, memory::MemoryStore,
    },
    telemetry::log::Log,
    threads::{Body, Me, Requests, StillClock, explore, interrupt, seeds},
};

impl Renewer<Acquisition> {
    /// Returns the scheduled leases, in the order in which they are due.
    pub(crate) fn leases(&self) -> Vec<(OwnerId, Arc<Acquisition>)> {
        let schedule = self.schedule();
        let due = schedule.due.iter();
        due.map(|((_, owner), acquisition)| (*owner, acquisition.clone()))
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.schedule().due.is_empty() && self.renewals.is_empty()
    }
}

const THREADS: usize = 3;

/// Renewals are due before the task would check by itself.
const TTL: Duration = Duration::from_millis(1500);

struct World {
    manager: LockManager,
    store: Requests,
    clock: StillClock,
    /// The number of threads that have done their work.
    ready: AtomicUsize,
    guards: std::sync::Mutex<Vec<LockGuard>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (store, clock) = (Requests::new(seed), StillClock::new());
        Self {
            manager: store.manager(clock.clone()),
            store,
            clock,
            ready: AtomicUsize::new(0),
            guards: std::sync::Mutex::default(),
        }
    }

    fn acquire(&self, me: &mut Me, key: &str) -> LockGuard {
        let lock = self.manager.lock(key).ttl(TTL);
        me.block_on(lock.acquire()).unwrap()
    }

    /// Acquires and releases, and then holds its lock.
    fn hold(&self, me: &mut Me, key: &str) {
        for _ in 0..me.draw(5) {
            let guard = self.acquire(me, key);
            me.on_runtime(|| drop(guard));
            if me.draw(4) == 0 {
                me.end_runtime();
            }
        }
        let guard = self.acquire(me, key);
        self.guards.lock().unwrap().push(guard);
        self.end(me);
    }

    /// Makes the task check, so that it ends if it has no lease, and ends the runtime on which it may run.
    fn disturb(&self, me: &mut Me) {
        for _ in 0..12 {
            for _ in 0..me.draw(6) {
                interrupt();
            }
            match me.draw(12) {
                0 => {
                    let guard = self.acquire(me, "c");
                    me.on_runtime(|| drop(guard));
                }
                1 => me.end_runtime(),
                _ => me.on_runtime(|| self.manager.core().renewer.wake()),
            }
        }
        self.end(me);
    }

    /// With the last thread, all leases are due, and a thread has to notice that by itself.
    fn end(&self, me: &Me) {
        if self.ready.fetch_add(1, Ordering::SeqCst) == THREADS - 1 {
            let time = TTL / 2;
            self.clock.advance(time);
            // A timer of tokio fires at the next whole millisecond, and these clocks then stop.
            me.advance(time + Duration::from_millis(1));
        }
    }
}

/// A lease that is added while the task ends must get another task.
#[test]
fn what_is_held_is_renewed_whenever_the_task_ended() {
    for seed in seeds(700) {
        let world = Arc::new(World::new(seed));
        let mut bodies: Vec<Body> = Vec::new();
        for key in ["a", "b"] {
            let world = world.clone();
            bodies.push(Box::new(move |me| world.hold(me, key)));
        }
        let disturbs = world.clone();
        bodies.push(Box::new(move |me| disturbs.disturb(me)));
        assert_eq!(bodies.len(), THREADS);
        explore(seed, bodies, || {
            let renewed = world.store.renewed();
            assert_eq!(renewed.len(), 2, "only {renewed:?} were renewed");
        });
    }
}

#[test]
fn a_time_of_day_that_runs_ahead_by_more_than_a_second_has_jumped() {
    const SECOND: Duration = Duration::from_secs(1);
    let (begin, day) = (StillClock::new().now(), SystemTime::UNIX_EPOCH);
    let mut last = None;
    let mut look = |seconds: u32, of_day: Option<Duration>| {
        let of_day = of_day.map(|it| day + it);
        jump(&mut last, of_day, begin.plus(SECOND * seconds))
    };
    assert_eq!(
        look(0, Some(100 * SECOND)),
        None,
        "there is nothing to compare"
    );
    assert_eq!(
        look(1, Some(102 * SECOND)),
        None,
        "it may be set by a second"
    );
    assert_eq!(look(2, None), None, "it cannot be read");
    let brief = Duration::from_millis(1);
    let ahead = SECOND + brief;
    assert_eq!(look(3, Some(105 * SECOND + brief)), Some(ahead));
    assert_eq!(look(4, Some(106 * SECOND + brief)), None, "once for each");
    assert_eq!(look(5, Some(50 * SECOND)), None, "it was put back");
    assert_eq!(look(6, Some(51 * SECOND)), None);
}

#[tokio::test]
async fn a_jump_of_the_time_of_day_is_a_warning_with_the_time_by_which_it_is_ahead() {
    let (log, _capturing) = Log::capture();
    let running = Running {
        core: LockManager::memory().core(),
        generation: 0,
        has_waited: true,
    };
    running.doubt_all(Duration::from_millis(1500));
    let event = "WARN time of day jumped ahead: all leases are renewed now ahead_ms=1500";
    assert_eq!(log.lines("WARN"), [event]);
}

#[test]
fn a_machine_has_slept_if_its_boot_clock_runs_ahead() {
    let begin = StillClock::new().now();
    let later = begin.plus(Duration::from_secs(1));
    let after = |milliseconds| Moment {
        boot: later.boot + Duration::from_millis(milliseconds),
        ..later
    };
    assert!(!slept(begin, later));
    // The clocks are not read at the same moment.
    assert!(!slept(begin, after(10)));
    assert!(slept(begin, after(11)));
    assert!(!slept(later, begin));
}

/// Notes on which thread each renewal is sent.
#[derive(Clone, Default)]
struct Where {
    store: MemoryStore,
    threads: Arc<std::sync::Mutex<Vec<Thread>>>,
}

impl LockStore for Where {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.threads.lock().unwrap().push(thread::current());
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}

#[test]
fn renewals_are_sent_on_the_thread_that_the_manager_has_chosen() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    for is_separate in [false, true] {
        let store = Where::default();
        let builder = LockManager::builder().renewal_thread(is_separate);
        let manager = builder.ttl(TTL).over(store.clone()).unwrap();
        runtime.block_on(async {
            let guard = manager.lock("k").acquire().await.unwrap();
            let limit = Duration::from_secs(60);
            dlock_testkit::eventually(limit, "it is renewed", async || {
                !store.threads.lock().unwrap().is_empty()
            })
            .await;
            drop(guard);
        });
        for thread in store.threads.lock().unwrap().iter() {
            let is_here = thread.id() == thread::current().id();
            let is_own = thread.name() == Some("dlock-renewals");
            assert_eq!((is_here, is_own), (!is_separate, is_separate), "{thread:?}");
        }
    }
}
