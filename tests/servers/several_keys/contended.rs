//! Calls that contend for the same keys.

use std::{
    array,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use dlock::{FencingToken, LockError, Wait};
use dlock_testkit::eventually;
use tokio::{
    task::{JoinSet, yield_now},
    time::Instant,
};

use crate::common::{Env, LIMIT, OneKey, soon};
use crate::several_keys::{Process, assert_clean, two};

/// A ring of accounts, of which each call takes two neighbours, or the same one twice, or three.
pub(crate) async fn calls_in_both_directions_never_wait_for_each_other<E: Env>() {
    const KEYS: [&str; 4] = ["a", "b", "c", "d"];
    const SECTIONS: usize = 4;

    #[derive(Default)]
    struct Account {
        inside: AtomicBool,
        last: Mutex<Option<FencingToken>>,
    }

    let (env, one, other) = two::<E>().await;
    let accounts: Arc<[Account; 4]> = Arc::new(array::from_fn(|_| Account::default()));
    let mut tasks = JoinSet::new();
    for process in [&one, &other] {
        for at in 0..KEYS.len() {
            for steps in [&[0, 1][..], &[1, 0], &[0, 0], &[0, 3], &[2, 0, 1]] {
                let keys: Vec<_> = steps.iter().map(|step| (at + step) % KEYS.len()).collect();
                let names: Vec<_> = keys.iter().map(|key| KEYS[*key]).collect();
                let call = process.manager.lock_all(names).wait(Wait::Forever);
                let accounts = accounts.clone();
                tasks.spawn(async move {
                    for _ in 0..SECTIONS {
                        let body = call.clone().run(async |lease| {
                            let mut held = keys.clone();
                            held.sort_unstable();
                            held.dedup();
                            for key in &held {
                                let account = &accounts[*key];
                                let is_first = !account.inside.swap(true, Ordering::Relaxed);
                                assert!(is_first, "broken promise: two hold {}", KEYS[*key]);
                                let token = lease.fencing_token_for(KEYS[*key]);
                                let last = account.last.lock().unwrap().replace(token.unwrap());
                                assert!(last < token, "broken promise: the token did not grow: {last:?} before {token:?}");
                            }
                            yield_now().await;
                            for key in held {
                                accounts[key].inside.store(false, Ordering::Relaxed);
                            }
                        });
                        body.await.unwrap();
                    }
                });
            }
        }
    }
    let all = async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    };
    soon(all).await;
    assert_clean(&env, KEYS.len(), &[&one, &other]).await;
}

pub(crate) async fn one_that_is_busy_leaves_the_others_free<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let keys = ["c", "b", "a"];
    for busy in keys {
        let holder = soon(other.manager.lock(busy).acquire()).await.unwrap();
        let call = one.manager.lock_all(keys).wait(Wait::Never);
        let error = soon(call.clone().acquire()).await.unwrap_err();
        assert!(error.is_busy(), "{error}");
        assert_eq!(error.key(), busy);
        assert!(
            soon(call.try_acquire()).await.unwrap().is_none(),
            "broken promise: two hold a key"
        );
        assert_eq!(one.manager.active_keys(), 0, "all is given back by then");
        for key in keys.into_iter().filter(|key| *key != busy) {
            other.assert_free(key).await;
        }
        soon(holder.release()).await.unwrap();
    }
    assert_clean(&env, 3, &[&one, &other]).await;
}

/// Waits until `process` is the only one in the queue of `key`.
async fn until_waiting<E: Env>(env: &E, key: &str) {
    let probe = OneKey::new(env.store().await, key);
    soon(probe.until_waiting(1)).await;
}

pub(crate) async fn who_waits_holds_what_comes_before_and_nothing_behind<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let holder = soon(other.manager.lock("b").acquire()).await.unwrap();
    let call = one.manager.lock_all(["c", "b", "a"]).wait(Wait::Forever);
    let call = tokio::spawn(call.acquire());
    until_waiting(&env, "b").await;
    eventually(LIMIT, "what comes behind is given back", async || {
        other.is_free("c").await
    })
    .await;
    assert!(
        !other.is_free("a").await,
        "broken promise: two hold the key: what comes before is kept"
    );

    soon(holder.release()).await.unwrap();
    let guard = soon(call).await.unwrap().unwrap();
    assert_eq!(guard.key().as_str(), "c");
    for key in ["a", "b", "c"] {
        assert!(
            !other.is_free(key).await,
            "broken promise: two hold `{key}`"
        );
    }
    soon(guard.release()).await.unwrap();
    assert_clean(&env, 3, &[&one, &other]).await;
}

pub(crate) async fn a_wait_that_is_over_gives_everything_back<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let holder = soon(other.manager.lock("b").acquire()).await.unwrap();
    let before = Instant::now();
    let call = one.manager.lock_all(["a", "b", "c"]).wait(E::BRIEF);
    let error = soon(call.acquire()).await.unwrap_err();
    let LockError::Busy { key, waited, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(key.as_str(), "b");
    // Where tokio's time is paused, what this test takes itself is counted by the boot clock.
    let nearly = E::BRIEF * 9 / 10;
    assert!(*waited >= nearly && before.elapsed() >= nearly);
    eventually(LIMIT, "all is given back", async || {
        one.manager.active_keys() == 0
    })
    .await;
    for key in ["a", "c"] {
        other.assert_free(key).await;
    }
    soon(holder.release()).await.unwrap();
    assert_clean(&env, 3, &[&one, &other]).await;
}

pub(crate) async fn a_shutdown_refuses_who_waits_for_one_of_several<E: Env>() {
    let (env, one, other) = two::<E>().await;
    let holder = soon(other.manager.lock("b").acquire()).await.unwrap();
    let call = one.manager.lock_all(["a", "b", "c"]).wait(Wait::Forever);
    let call = tokio::spawn(call.acquire());
    until_waiting(&env, "b").await;
    let outcome = soon(one.manager.shutdown(LIMIT)).await;
    assert_eq!((outcome.cut_short, outcome.unreleased), (0, 0));
    let error = soon(call).await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Closed { .. }), "{error}");
    let late = soon(one.manager.lock_all(["d", "e"]).acquire()).await;
    assert!(matches!(late, Err(LockError::Closed { .. })), "{late:?}");
    other.assert_free("a").await;
    soon(holder.release()).await.unwrap();
    assert_clean(&env, 3, &[&one, &other]).await;
    shutdown_cuts_all_leases_short(env).await;
}

/// Those that run at its end lose all leases, and give all of them back.
async fn shutdown_cuts_all_leases_short<E: Env>(env: E) {
    let one = Process::start(env.store().await);
    let call = one.manager.lock_all(["a", "b"]).acquire();
    let guard = soon(call).await.unwrap();
    let outcome = one.manager.shutdown(std::time::Duration::ZERO);
    let body = async {
        let lost = guard.lost().await;
        assert!(guard.release().await.is_err());
        lost
    };
    let (outcome, lost) = soon(async { tokio::join!(outcome, body) }).await;
    assert!(matches!(lost, LockError::Lost { .. }), "{lost}");
    assert_eq!((outcome.cut_short, outcome.unreleased), (2, 0));
    assert_clean(&env, 3, &[&one]).await;
}
