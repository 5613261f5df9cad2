//! Numbers that no table, queue or schedule may choke on.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockManager, Wait, store::memory::MemoryStore};
use dlock_testkit::eventually;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::common::{Env, Kind, LIMIT, TestClock, Wire};

/// They take a while on a loaded machine.
const LONG: Duration = Duration::from_secs(120);

pub(crate) async fn ten_thousand_waiters_get_their_turn_in_order<E: Env>() {
    const WAITERS: usize = 10_000;

    let env = E::start().await;
    let manager = env.manager().await;
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let (order, mut tasks) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    let entered = Arc::new(AtomicUsize::new(0));
    for number in 0..WAITERS {
        let lock = manager.lock("order:42").wait(Wait::Forever);
        let (order, entered) = (order.clone(), entered.clone());
        tasks.spawn(async move {
            entered.fetch_add(1, Ordering::Relaxed);
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push((number, guard.fencing_token()));
            guard.release().await.unwrap();
        });
    }
    // One turn of each task, in the order in which they were spawned. A task that gets the lease before the others have
    // had theirs is polled after all of them: where that takes three seconds, it is passed over.
    while entered.load(Ordering::Relaxed) < WAITERS {
        tokio::task::yield_now().await;
    }
    let drained = async {
        guard.release().await.unwrap();
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    timeout(LONG, drained).await.expect("all get their turn");
    let order = std::mem::take(&mut *order.lock().unwrap());
    let numbers = order.iter().map(|(number, _)| *number);
    let wrong: Vec<_> = numbers
        .enumerate()
        .filter(|(turn, it)| turn != it)
        .take(10)
        .collect();
    assert!(wrong.is_empty(), "turns and numbers: {wrong:?}");
    assert_eq!(order.len(), WAITERS);
    assert!(order.is_sorted_by(|(_, one), (_, next)| one < next));
    env.assert_clean(1, &[&manager]).await;
}

pub(crate) async fn five_thousand_keys_leave_nothing_but_fences<E: Env>() {
    const KEYS: usize = 5_000;

    let env = E::start().await;
    let manager = env.manager().await;
    let (next, mut tasks) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
    for _ in 0..32 {
        let (manager, next) = (manager.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= KEYS {
                    break;
                }
                let lock = manager.lock(format!("order:{number}"));
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    let done = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    timeout(LONG, done).await.expect("all have had their turn");
    env.assert_clean(KEYS, &[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn two_thousand_leases_are_all_renewed() {
    const KEYS: usize = 2_000;
    const TTL: Duration = Duration::from_secs(3);

    let store = MemoryStore::new();
    let wire = Wire::new(store.clone());
    let builder = LockManager::builder().ttl(TTL).clock(TestClock::new());
    let manager = builder.build_with_store(wire.clone()).unwrap();
    let mut guards = Vec::new();
    for number in 0..KEYS {
        let lock = manager.lock(format!("order:{number}"));
        guards.push(lock.acquire().await.unwrap());
    }
    assert_eq!(manager.active_keys(), KEYS);
    sleep(5 * TTL).await;
    assert_eq!(store.len(), KEYS);
    let lost = guards.iter().filter(|guard| guard.is_lost()).count();
    assert_eq!(lost, 0);
    // Each after a third of its TTL, or somewhat later where time jumps.
    let renewals = wire.count(Kind::Renew);
    assert!((10 * KEYS..=16 * KEYS).contains(&renewals), "{renewals}");
    drop(guards);
    eventually(LIMIT, "all are given back", async || {
        manager.active_keys() == 0
    })
    .await;
    assert!(store.is_empty());
}
