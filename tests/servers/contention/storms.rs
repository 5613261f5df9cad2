//! Crowds that leave all at once: the lock passes to the waiters that are left, and nothing stays behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockError, LockManager, Wait};
use dlock_testkit::{Polled, poll_times, poll_times_then_wake};
use tokio::{
    task::{JoinSet, yield_now},
    time::timeout,
};

use crate::common::{Env, LIMIT, soon};

const TASKS: usize = 200;
const ROUNDS: usize = 5;

/// Who is inside, and how often anybody was.
#[derive(Default)]
struct Inside {
    now: AtomicBool,
    times: AtomicUsize,
}

impl Inside {
    async fn be(&self) {
        assert!(
            !self.now.swap(true, Ordering::Relaxed),
            "broken promise: two are inside"
        );
        self.times.fetch_add(1, Ordering::Relaxed);
        let _leaves = Leaves(self);
        yield_now().await;
    }
}

struct Leaves<'a>(&'a Inside);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.now.store(false, Ordering::Relaxed);
    }
}

/// One round of a task that is dropped after `polls` polls: while it waits, when it has just been
/// woken, in its section, or not at all.
async fn be_dropped(manager: &LockManager, inside: &Inside, [polls, round]: [usize; 2]) {
    let lock = manager.lock("order:42").wait(Wait::Forever);
    let section = async {
        let guard = lock.acquire().await.unwrap();
        inside.be().await;
        if round % 2 == 0 {
            drop(guard);
        } else {
            guard.release().await.unwrap();
        }
    };
    // What is never woken is dropped as well.
    let some = Duration::from_millis(50);
    if round % 3 == 0 {
        drop(timeout(some, poll_times_then_wake(section, polls)).await);
    } else if let Ok(Polled::Dropped) = timeout(some, poll_times(section, polls)).await {
        yield_now().await;
    }
}

/// Dropped at any poll while the lock goes round: nothing leaks, and those that stay get it.
pub(crate) async fn a_storm_of_cancellations_leaves_nothing<E: Env>() {
    let env = E::start().await;
    let managers = [
        env.manager().await,
        env.manager_with(|builder| builder.handover(false)).await,
    ];
    let (inside, mut tasks) = (Arc::new(Inside::default()), JoinSet::new());
    for task in 0..TASKS {
        let (manager, inside) = (managers[task % 2].clone(), inside.clone());
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                let polls = (task * 7 + round * 5) % 9;
                be_dropped(&manager, &inside, [polls, round]).await;
            }
        });
    }
    for manager in &managers {
        let (lock, inside) = (manager.lock("order:42"), inside.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let lock = lock.clone().wait(Wait::Forever);
                let guard = lock.acquire().await.unwrap();
                inside.be().await;
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    let times = inside.times.load(Ordering::Relaxed);
    assert!(times >= 2 * ROUNDS, "{times}");
    // Whatever was left with somebody who had gone comes back at once, not by its TTL.
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

/// The manager of half of the crowd is shut down while the lock goes round.
pub(crate) async fn a_shutdown_amid_a_crowd_leaves_nothing<E: Env>() {
    let env = E::start().await;
    let managers = [env.manager().await, env.manager().await];
    let (inside, mut tasks) = (Arc::new(Inside::default()), JoinSet::new());
    let refused = Arc::new(AtomicUsize::new(0));
    for task in 0..TASKS {
        let (manager, inside) = (managers[task % 2].clone(), inside.clone());
        let refused = refused.clone();
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let lock = manager.lock("order:42").wait(Wait::Forever);
                match lock.run(async |_| inside.be().await).await {
                    Ok(()) => {}
                    Err(LockError::Closed { .. }) => {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    while inside.times.load(Ordering::Relaxed) < TASKS / 2 {
        yield_now().await;
    }
    let left = soon(managers[0].shutdown(LIMIT)).await;
    assert_eq!((left.cut_short, left.unreleased), (0, 0));
    assert_eq!(managers[0].active_keys(), 0);
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    let had = inside.times.load(Ordering::Relaxed);
    assert_eq!(had + refused.load(Ordering::Relaxed), TASKS * ROUNDS);
    assert!(had >= TASKS / 2 * ROUNDS, "the other half had all: {had}");
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}
