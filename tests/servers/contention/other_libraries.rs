//! Cases that the tests of other libraries, and what users reported to them, have made known, in our terms:
//! `DistributedLock` for .NET, and Redisson, by the numbers of its reports. Those that need no server are in
//! `in_process/other_libraries.rs`.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockGuard, LockManager, Wait};
use tokio::{
    sync::Barrier,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};

use crate::common::{Env, OneKey, soon};

const KEY: &str = "export:7";

async fn processes<E: Env, const COUNT: usize>(env: &E) -> [LockManager; COUNT] {
    let mut managers = Vec::new();
    for _ in 0..COUNT {
        managers.push(env.manager_with(|it| it.wait(Wait::Forever)).await);
    }
    managers.try_into().expect("there are so many")
}

/// `DistributedLock`: ten tasks with 25 sections each, and the three permits are made use of, but no fourth.
pub(crate) async fn one_to_three_are_inside_with_three_permits<E: Env>() {
    let env = E::start().await;
    let managers = processes::<E, 5>(&env).await;
    let (inside, seen) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let shared = Arc::new((inside, seen));
    let mut tasks = JoinSet::new();
    for task in 0..10 {
        let permit = managers[task % managers.len()].lock(KEY).permits(3);
        let shared = shared.clone();
        tasks.spawn(async move {
            let (inside, seen) = &*shared;
            for section in 0..25 {
                let body = permit.clone().run(async |lease| {
                    let count = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    seen.lock().unwrap().insert(count);
                    sleep(Duration::from_millis((task + section) as u64 % 3)).await;
                    // However busy the machine is, those that come first are inside together.
                    while section == 0 && !seen.lock().unwrap().contains(&3) {
                        sleep(Duration::from_millis(1)).await;
                    }
                    lease.ensure_held().unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                body.await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    let seen = shared.1.lock().unwrap().clone();
    let most = seen.last();
    assert!(
        most <= Some(&3),
        "broken promise: {most:?} have one of 3 permits"
    );
    assert_eq!(seen, BTreeSet::from([1, 2, 3]));
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// `DistributedLock`: a permit for each, and nobody leaves before all of them are inside.
pub(crate) async fn as_many_as_there_are_permits_are_inside_at_once<E: Env>() {
    const PERMITS: u32 = 10;
    let env = E::start().await;
    let managers = processes::<E, 3>(&env).await;
    let all = Arc::new(Barrier::new(PERMITS as usize));
    let mut tasks = JoinSet::new();
    for task in 0..PERMITS as usize {
        let permit = managers[task % managers.len()].lock(KEY).permits(PERMITS);
        let all = all.clone();
        tasks.spawn(async move {
            for _ in 0..5 {
                let body = permit.clone().run(async |_| all.wait().await);
                body.await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// Redisson 1542: readers that had waited for a writer came in one after the other.
pub(crate) async fn readers_that_waited_for_a_writer_are_inside_together<E: Env>() {
    let env = E::start().await;
    let managers = processes::<E, 4>(&env).await;
    let writer = soon(managers[0].lock(KEY).acquire()).await.unwrap();
    let probe = OneKey::new(env.store().await, KEY);
    let mut readers: Vec<JoinHandle<_>> = Vec::new();
    for (count, manager) in (1..).zip(&managers[1..]) {
        readers.push(tokio::spawn(manager.lock(KEY).shared().acquire()));
        probe.until_waiting(count).await;
    }
    soon(writer.release()).await.unwrap();
    let since = Instant::now();
    // Each keeps what it has.
    let mut guards: Vec<LockGuard> = Vec::new();
    for reader in readers {
        guards.push(soon(reader).await.unwrap().unwrap());
    }
    assert!(since.elapsed() <= E::PROMPT, "{:?}", since.elapsed());
    for guard in &guards {
        guard.ensure_held().unwrap();
        assert_eq!(
            guard.fencing_token(),
            guards[0].fencing_token(),
            "broken promise: two tokens together"
        );
    }
    for guard in guards {
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// Redisson 3046: nobody looked after permits, and a body that took longer than its lease lost its place.
pub(crate) async fn a_permit_is_renewed_while_its_body_runs<E: Env>() {
    let env = E::start().await;
    let [one, two] = processes::<E, 2>(&env).await;
    let permit = |manager: &LockManager| manager.lock(KEY).permits(2).ttl(E::BRIEF);
    let body = permit(&one).run(async |lease| {
        let beside = soon(permit(&two).acquire()).await.unwrap();
        sleep(E::BRIEF * 2).await;
        lease.ensure_held().unwrap();
        beside.ensure_held().unwrap();
        let third = soon(permit(&two).try_acquire()).await.unwrap();
        assert!(
            third.is_none(),
            "broken promise: there is one permit more: {third:?}"
        );
        soon(beside.release()).await.unwrap();
    });
    // The body asks its own key, for another task.
    soon(body).await.unwrap();
    env.assert_clean(1, &[&one, &two]).await;
}

/// Redisson 3891: a writer was not woken when the lock was free, and went on when the lease would have ended.
pub(crate) async fn nobody_sleeps_on_when_it_is_their_turn<E: Env>() {
    let env = E::start().await;
    let managers = processes::<E, 4>(&env).await;
    let probe = OneKey::new(env.store().await, KEY);
    for round in 0..5 {
        let first = managers[round % 4].lock(KEY);
        let first = if round % 2 == 0 {
            first
        } else {
            first.shared()
        };
        let first = soon(first.acquire()).await.unwrap();
        let mut waiting: Vec<JoinHandle<_>> = Vec::new();
        // Writers and readers, but always a writer first.
        for number in 1..4 {
            let lock = managers[(round + number) % 4].lock(KEY);
            let lock = if number == 2 { lock.shared() } else { lock };
            waiting.push(tokio::spawn(lock.acquire()));
            probe.until_waiting(number as u64).await;
        }
        let mut inside = first;
        for next in waiting {
            soon(inside.release()).await.unwrap();
            let since = Instant::now();
            inside = soon(next).await.unwrap().unwrap();
            assert!(since.elapsed() <= E::PROMPT, "{:?}", since.elapsed());
        }
        soon(inside.release()).await.unwrap();
    }
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}
