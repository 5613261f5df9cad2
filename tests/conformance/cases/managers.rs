//! Managers that contend for one key.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockError, Wait, distributed_lock, with_manager};
use tokio::{
    sync::Notify,
    task::{JoinSet, yield_now},
    time::{Instant, sleep, timeout},
};

use super::{TTL, one_key};
use crate::common::{Env, OneKey, assert_idle, soon};

pub(crate) async fn locks_of_different_keys_are_independent<E: Env>() {
    let env = E::start().await;
    let manager = env.manager().await;
    let names = ["a", "b", "a:1", "A", "ä", "a b"];
    let mut guards = Vec::new();
    for name in names {
        let guard = soon(manager.lock(name).try_acquire()).await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("`{name}` is free")));
    }
    assert_eq!(manager.active_keys(), names.len());
    for guard in guards {
        soon(guard.release()).await.unwrap();
    }
    env.assert_clean(names.len(), &[&manager]).await;
}

pub(crate) async fn no_two_bodies_overlap_and_their_tokens_grow<E: Env>() {
    const MANAGERS: usize = 3;
    const TASKS: usize = 4;
    const SECTIONS: usize = 6;

    let env = E::start().await;
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(env.manager().await);
    }
    let counter = Arc::new(AtomicUsize::new(0));
    let inside = Arc::new(AtomicBool::new(false));
    let tokens = Arc::new(Mutex::new(Vec::new()));

    let mut tasks = JoinSet::new();
    for manager in managers.iter().flat_map(|it| [it; TASKS]) {
        let lock = manager.lock("counter").wait(Wait::Forever);
        let (counter, inside, tokens) = (counter.clone(), inside.clone(), tokens.clone());
        tasks.spawn(async move {
            for _ in 0..SECTIONS {
                let guard = lock.clone().acquire().await.unwrap();
                assert!(
                    !inside.swap(true, Ordering::Relaxed),
                    "broken promise: two are inside"
                );
                tokens.lock().unwrap().push(guard.fencing_token());
                // A read and a write that lose an update as soon as two are inside.
                let seen = counter.load(Ordering::Relaxed);
                for _ in 0..3 {
                    yield_now().await;
                }
                sleep(Duration::from_millis(1)).await;
                counter.store(seen + 1, Ordering::Relaxed);
                inside.store(false, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    assert_eq!(
        counter.load(Ordering::Relaxed),
        MANAGERS * TASKS * SECTIONS,
        "broken promise: an update was lost"
    );
    let tokens = tokens.lock().unwrap().clone();
    assert!(
        tokens.is_sorted_by(|one, two| one < two),
        "broken promise: the token did not grow: {tokens:?}"
    );
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

pub(crate) async fn managers_get_their_turn_in_order<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let holder = env.manager().await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();

    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let mut managers = vec![holder];
    for turn in 0..4 {
        let manager = env.manager().await;
        let lock = manager.lock("order:42").wait(Wait::Forever);
        managers.push(manager);
        let order = order.clone();
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(turn);
            guard.release().await.unwrap();
        });
        key.until_waiting(turn + 1).await;
    }
    soon(guard.release()).await.unwrap();
    while let Some(task) = soon(tasks.join_next()).await {
        task.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    env.assert_clean(1, &managers.iter().collect::<Vec<_>>())
        .await;
}

/// Without hints a waiter looks again after a second.
pub(crate) async fn a_release_wakes_the_next_manager<E: Env>() {
    const TURNS: u64 = 40;
    const ALL: Duration = Duration::from_secs(4 * TURNS);
    /// No turn without a hint is so short.
    const SHORT: Duration = Duration::from_millis(500);

    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    let mut short = 0;
    let turns = async {
        for turn in 0..TURNS {
            let [holder, waiter] = if turn % 2 == 0 {
                [&managers[0], &managers[1]]
            } else {
                [&managers[1], &managers[0]]
            };
            let guard = holder.lock("order:42").acquire().await.unwrap();
            let next = waiter.lock("order:42").wait(TTL);
            let next = tokio::spawn(async move { next.acquire().await });
            key.until_waiting(1).await;
            let before = Instant::now();
            guard.release().await.unwrap();
            next.await.unwrap().unwrap().release().await.unwrap();
            let took = before.elapsed();
            assert!(took <= E::PROMPT);
            short += u64::from(took < SHORT);
        }
    };
    timeout(ALL, turns).await.expect("all turns end");
    // The others are for a machine that is busy.
    assert!(
        short > TURNS / 4,
        "hints wake the waiters: {short} of {TURNS}"
    );
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn a_wait_ends_in_busy_and_leaves_no_place<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    let guard = soon(managers[0].lock("order:42").acquire()).await.unwrap();

    // A machine that stands still for a second asks in time.
    let limit = E::BRIEF;
    let before = Instant::now();
    let error = soon(managers[1].lock("order:42").wait(limit).acquire())
        .await
        .expect_err("it is held all the time");
    assert!(before.elapsed() >= limit);
    let LockError::Busy { waited, .. } = &error else {
        panic!("{error}");
    };
    assert!(*waited >= limit, "{waited:?}");
    assert!(error.retry_after().is_some());
    assert!(error.to_string().contains("`order:42`"), "{error}");

    // What it left is given back in the background.
    assert_idle(&[&managers[1]]).await;
    key.until_waiting(0).await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn a_wait_for_ever_outlasts_the_holder<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    // It dies: nobody renews and nobody releases.
    let dead = OneKey::<E::Store>::owner();
    let fence = key.granted(dead, E::BRIEF).await;
    let lock = managers[1].lock("order:42").wait(Wait::Forever);
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(
        guard.fencing_token().fence() > fence,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn try_acquire_does_not_wait<E: Env>() {
    let (env, key) = one_key::<E>().await;
    let managers = [env.manager().await, env.manager().await];
    let guard = soon(managers[0].lock("order:42").try_acquire()).await;
    let guard = guard.unwrap().expect("it is free");
    // A wait that was set before does not count, and neither does one of nothing.
    let lock = managers[1].lock("order:42");
    assert!(
        soon(lock.clone().wait(Wait::Forever).try_acquire())
            .await
            .unwrap()
            .is_none(),
        "broken promise: two hold the key"
    );
    let error = soon(lock.wait(Duration::ZERO).acquire()).await;
    assert!(error.is_err_and(|error| error.is_busy()));
    assert_eq!(
        managers[1].active_keys(),
        0,
        "there is nothing to give back"
    );
    key.until_waiting(0).await;
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&managers[0], &managers[1]]).await;
}

pub(crate) async fn busy_names_the_holder<E: Env>() {
    let env = E::start().await;
    let holder = env.manager_with(|it| it.application("billing")).await;
    let other = env.manager().await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let error = soon(other.lock("order:42").wait(Wait::Never).acquire())
        .await
        .unwrap_err();
    let LockError::Busy { holder: seen, .. } = &error else {
        panic!("{error}");
    };
    let label = seen.label.as_deref().expect("it says who it is");
    assert!(label.starts_with("billing@"), "{label}");
    assert!(
        label.ends_with(&format!("/{}", std::process::id())),
        "{label}"
    );
    let text = error.to_string();
    assert!(
        text.contains("`order:42`") && text.contains(label),
        "{text}"
    );
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&holder, &other]).await;
}

#[distributed_lock(key = "order:42")]
async fn settle(held: &Notify, done: &Notify) -> Result<(), LockError> {
    held.notify_one();
    done.notified().await;
    Ok(())
}

pub(crate) async fn busy_names_the_function<E: Env>() {
    let env = E::start().await;
    let holder = env.manager_with(|it| it.application("a#b")).await;
    let other = env.manager().await;
    let (held, done) = (Notify::new(), Notify::new());
    let looks = async {
        held.notified().await;
        let error = soon(other.lock("order:42").wait(Wait::Never).acquire()).await;
        let error = error.unwrap_err();
        let LockError::Busy { holder: seen, .. } = &error else {
            panic!("{error}");
        };
        let label = seen.label.as_deref().expect("it says who it is");
        assert!(label.starts_with("a_b@"), "{label}");
        let function = seen.function.as_deref().expect("it says where");
        assert!(function.ends_with("managers::settle"), "{function}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("`{label}` in `{function}`")),
            "{text}"
        );

        // This process knows the lock to be its own, whichever function has it.
        let error = soon(holder.lock("order:42").wait(Wait::Never).acquire()).await;
        assert!(error.unwrap_err().to_string().contains("this process"));
        done.notify_one();
    };
    let (settled, ()) = tokio::join!(
        soon(with_manager(holder.clone(), settle(&held, &done))),
        looks
    );
    settled.unwrap();
    env.assert_clean(1, &[&holder, &other]).await;
}
