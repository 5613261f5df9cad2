//! Numbers that no table, queue or schedule may choke on.

use std::{
    collections::BTreeSet,
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
    time::{Instant, sleep, timeout},
};

use crate::common::{Env, Kind, LIMIT, TestClock, Wire};

/// A test that hangs ends; so many sections take a while on a machine that is busy.
const LONG: Duration = Duration::from_secs(600);

/// After this time a lease is given to the next task, if its task has not been polled.
const TAKEN_WITHIN: Duration = Duration::from_millis(250);

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
            let token = guard.fencing_token();
            order.lock().unwrap().push((number, token, Instant::now()));
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
    let mut left: BTreeSet<_> = (0..WAITERS).collect();
    let mut before = None;
    for (number, _, at) in &order {
        let first = left.first().copied();
        let waited = at.duration_since(before.replace(*at).unwrap_or(*at));
        // The lease had been there for this time, and its task was not polled: it was passed over.
        let is_in_turn = first == Some(*number) || waited >= TAKEN_WITHIN;
        assert!(
            is_in_turn,
            "{number} instead of {first:?}, after {waited:?}"
        );
        assert!(left.remove(number), "{number} has had its turn");
    }
    assert!(left.is_empty(), "{} have had no turn", left.len());
    assert!(order.is_sorted_by(|(_, one, _), (_, next, _)| one < next));
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
