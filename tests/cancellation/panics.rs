//! Panics in the parts that users supply: the body, the values of a key, the store, the clock and the
//! randomness. The panic is the caller's or ends a task of the manager; the lock is given back.

use std::{
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook},
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    KeyPart, LockError, LockManager, PartWriter,
    clock::{Clock, Moment},
    distributed_lock,
    random::{Random, SystemRandom},
    store::memory::MemoryStore,
};
use futures_util::FutureExt;
use tokio::{
    task::{JoinHandle, yield_now},
    time::timeout,
};

use crate::{
    common::{Kind, TestClock, assert_idle, soon},
    driver::{ONE_STORE, QUORUM, at_every_step},
    operations::Operation,
    stage::{ETERNITY, PATIENCE, PAUSED, Scale, Stage, Tasks},
    stepwise::Steps,
};

const ON_PURPOSE: &str = "on purpose";

/// The TTL where no task is left that could give back the lock.
const BRIEF: Duration = Duration::from_secs(3);

/// Panics that no test wanted.
static OTHERS: AtomicUsize = AtomicUsize::new(0);

/// From now on panics that are wanted are not printed, and the others counted.
pub(crate) fn watch_for_others() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !is_wanted(panic) {
                OTHERS.fetch_add(1, Ordering::Relaxed);
                print(panic);
            }
        }));
    });
}

fn is_wanted(panic: &PanicHookInfo<'_>) -> bool {
    let payload = panic.payload();
    let text = match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("", String::as_str),
    };
    // The second is tokio's for a poll of a timer whose runtime has ended.
    text.contains(ON_PURPOSE)
        || text.contains("A Tokio 1.x context was found, but it is being shutdown")
}

/// Neither a destructor nor a task of the manager has panicked by itself.
pub(crate) fn assert_no_others() {
    let others = OTHERS.load(Ordering::Relaxed);
    assert_eq!(others, 0, "panics that no test wanted");
}

/// Whether the operation and what it leaves behind have ended before the step at which the store
/// panics.
async fn store_panics_at(
    operation: &Operation,
    step: usize,
    (stage, steps): (Stage, Arc<Steps>),
) -> bool {
    let tasks = Tasks::counted();
    let around = stage.surround(operation).await;
    steps.count();
    steps.panic_at(step);
    let scene = stage.noting((operation.begin)(stage.clone()));
    // A panic is the task's, and ends it.
    let scene = timeout(ETERNITY, tokio::spawn(scene));
    scene.await.expect("it hangs").ok();
    stage.is_over();
    // It may be what the rest of the world has asked that panics.
    soon(around).await.ok();
    stage.assert_clean().await;
    let has_panicked = steps.taken() > step;
    drop(stage);
    tasks.assert_none_is_left().await;
    !has_panicked
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_once_at_any_step_keeps_no_lock() {
    watch_for_others();
    at_every_step("the store panics", ONE_STORE, store_panics_at).await;
    assert_no_others();
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_quorum_that_panics_once_at_any_step_keeps_no_lock() {
    watch_for_others();
    at_every_step("a node of a quorum panics", QUORUM, store_panics_at).await;
    assert_no_others();
}

/// A lease in such a store cannot be given back: it ends with its TTL, and here nothing stays.
#[tokio::test(start_paused = true)]
async fn a_store_that_always_panics_leaves_no_entry_and_no_task() {
    watch_for_others();
    for kind in [Kind::Acquire, Kind::Renew, Kind::Release] {
        let tasks = Tasks::counted();
        let scale = Scale {
            ttl: BRIEF,
            ..PAUSED
        };
        let (stage, steps) = Stage::stepwise(scale, false);
        steps.count();
        steps.always_panic(kind);
        let body = stage.lock().run(async |_| {
            tokio::time::sleep(4 * BRIEF).await;
        });
        let outcome = tokio::spawn(body).await;
        match kind {
            Kind::Renew => assert!(matches!(outcome, Ok(Err(LockError::Lost { .. })))),
            _ => assert!(outcome.unwrap_err().is_panic()),
        }
        assert_idle(&[stage.manager()]).await;
        stage.assert_clean().await;
        drop(stage);
        tasks.assert_none_is_left().await;
    }
    assert_no_others();
}

async fn awaits_and_panics(awaits: usize) {
    for _ in 0..awaits {
        yield_now().await;
    }
    panic!("{ON_PURPOSE}");
}

#[distributed_lock(key = "<key>", manager = manager)]
async fn panics(manager: &LockManager, key: &str, awaits: usize) -> Result<(), LockError> {
    awaits_and_panics(awaits).await;
    Ok(())
}

#[distributed_lock(key = "<key>", manager = manager, on_cancel = detach)]
async fn panics_detached(
    manager: LockManager,
    key: String,
    awaits: usize,
) -> Result<(), LockError> {
    awaits_and_panics(awaits).await;
    Ok(())
}

/// A task with a body that panics after so many awaits, under a lock or several.
type Body = fn(Stage, usize) -> JoinHandle<()>;

const BODIES: [(&str, Body); 6] = [
    ("a section", |stage, awaits| {
        tokio::spawn(async move {
            let run = stage.lock().run(async |_| awaits_and_panics(awaits).await);
            run.await.ok();
        })
    }),
    ("a section of several keys", |stage, awaits| {
        tokio::spawn(async move {
            let run = stage.locks().run(async |_| awaits_and_panics(awaits).await);
            run.await.ok();
        })
    }),
    ("a guard", |stage, awaits| {
        tokio::spawn(async move {
            let guard = stage.lock().acquire().await.unwrap();
            awaits_and_panics(awaits).await;
            drop(guard);
        })
    }),
    ("a guard that watches", |stage, awaits| {
        tokio::spawn(async move {
            let guard = stage.lock().acquire().await.unwrap();
            guard.run_while_held(awaits_and_panics(awaits)).await.ok();
        })
    }),
    ("a locked function", |stage, awaits| {
        tokio::spawn(async move {
            panics(stage.manager(), stage.key(), awaits).await.ok();
        })
    }),
    ("a detached function", |stage, awaits| {
        tokio::spawn(async move {
            let key = stage.key().to_owned();
            panics_detached(stage.manager().clone(), key, awaits)
                .await
                .ok();
        })
    }),
];

#[tokio::test(start_paused = true)]
async fn a_body_that_panics_at_any_await_gives_the_lock_back() {
    watch_for_others();
    for (name, begin) in BODIES {
        for awaits in 0..4 {
            let tasks = Tasks::counted();
            let (stage, steps) = Stage::stepwise(PAUSED, false);
            steps.count();
            // A task of the same process is behind it.
            let behind = stage.lock();
            let task = begin(stage.clone(), awaits);
            let behind = tokio::spawn(async move {
                yield_now().await;
                behind.run(async |_| ()).await
            });
            let outcome = soon(task).await;
            assert!(outcome.unwrap_err().is_panic(), "{name}");
            assert_eq!(soon(behind).await.unwrap(), Ok(()), "{name}");
            stage.assert_clean().await;
            steps.assert_nothing_is_owed(false);
            drop(stage);
            tasks.assert_none_is_left().await;
        }
    }
    assert_no_others();
}

/// A value of which no key can be made.
struct Explosive;

impl KeyPart for Explosive {
    fn write_part(&self, _out: &mut PartWriter<'_>) {
        panic!("{ON_PURPOSE}");
    }
}

#[distributed_lock(key = "order:<value>", manager = manager)]
async fn lights(manager: &LockManager, value: Explosive) -> Result<(), LockError> {
    unreachable!("there is no key")
}

#[tokio::test(start_paused = true)]
async fn a_value_that_panics_has_taken_nothing() {
    watch_for_others();
    let (stage, steps) = Stage::stepwise(PAUSED, false);
    steps.count();
    let manager = stage.manager().clone();
    let call = tokio::spawn(async move { lights(&manager, Explosive).await });
    assert!(soon(call).await.unwrap_err().is_panic());
    assert_eq!((stage.manager().active_keys(), steps.taken()), (0, 0));
    stage.assert_clean().await;
    assert_no_others();
}

/// A clock and a source of randomness, which panic when they are asked for the n-th time.
#[derive(Clone)]
struct Faulty {
    asked: Arc<AtomicUsize>,
    panics_at: usize,
    clock: TestClock,
}

impl Faulty {
    fn ask(&self) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        assert_ne!(asked, self.panics_at, "{ON_PURPOSE}");
    }
}

impl Clock for Faulty {
    fn now(&self) -> Moment {
        self.ask();
        self.clock.now()
    }
}

impl Random for Faulty {
    fn next_u64(&self) -> u64 {
        self.ask();
        SystemRandom.next_u64()
    }
}

/// Neither may panic, as a manager without a clock does not know when to stop; but a panic that gets past
/// the caller, or ends a task of the manager, does no lasting harm.
#[tokio::test(start_paused = true)]
async fn a_clock_or_randomness_that_panics_once_keeps_no_lock() {
    watch_for_others();
    let mut times = 0;
    for panics_at in 0.. {
        let faulty = Faulty {
            asked: Arc::default(),
            panics_at,
            clock: TestClock::new(),
        };
        let store = MemoryStore::new();
        let builder = LockManager::builder()
            .clock(faulty.clone())
            .random(faulty.clone());
        let made = catch_unwind(AssertUnwindSafe(|| builder.build_with_store(store.clone())));
        let Ok(manager) = made else { continue };
        let manager = manager.unwrap();
        let other = LockManager::builder()
            .build_with_store(store.clone())
            .unwrap();
        let holder = soon(other.lock("a").acquire()).await.unwrap();
        let lock = manager.lock("a").ttl(BRIEF).wait(PATIENCE);
        let body = lock.run(async |_| tokio::time::sleep(BRIEF).await);
        let task = tokio::spawn(body);
        tokio::time::sleep(PAUSED.wait).await;
        // It tells the waiter, in whose name the clock is asked.
        AssertUnwindSafe(holder.release()).catch_unwind().await.ok();
        soon(task).await.ok();
        assert_idle(&[&manager]).await;
        soon(other.lock("a").acquire())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        if faulty.asked.load(Ordering::Relaxed) <= panics_at {
            break;
        }
        times += 1;
    }
    println!("a clock or randomness that panics: {times} interruptions");
    assert!(times >= 20, "{times}");
    assert_no_others();
}
