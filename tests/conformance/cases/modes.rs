//! Managers that share a key: readers, writers and permits. A store that does not support a mode refuses it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    FencingToken, LockError, LockManager, LockMode, LostCause, Wait,
    store::{LockModes, LockStore},
};
use dlock_testkit::within;
use tokio::{
    sync::Barrier,
    task::{JoinSet, yield_now},
    time::sleep,
};

use super::TTL;
use crate::common::{Env, assert_idle, soon};

const MANAGERS: usize = 3;
const TASKS: usize = 4;
const SECTIONS: usize = 6;

/// Long enough for all sections on a machine that is busy.
const ALL: Duration = Duration::from_secs(60);

async fn modes<E: Env>(env: &E) -> LockModes {
    env.store().await.properties().modes
}

async fn managers<E: Env>(env: &E) -> Vec<LockManager> {
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(env.manager().await);
    }
    managers
}

/// Who is inside: readers count up, a writer far down.
#[derive(Default)]
struct Inside(AtomicI64);

const WRITER: i64 = -1_000_000;

impl Inside {
    async fn stay(&self, change: i64) -> i64 {
        let before = self.0.fetch_add(change, Ordering::SeqCst);
        for _ in 0..3 {
            yield_now().await;
        }
        self.0.fetch_sub(change, Ordering::SeqCst);
        before
    }
}

pub(crate) async fn readers_and_writers_never_overlap<E: Env>() {
    let env = E::start().await;
    if !modes(&env).await.contains(LockMode::Shared) {
        return;
    }
    let managers = managers(&env).await;
    let inside = Arc::new(Inside::default());
    // Of every section: whether it wrote, and its token.
    let tokens: Arc<Mutex<Vec<(bool, FencingToken)>>> = Arc::default();
    let mut tasks = JoinSet::new();
    for (task, manager) in managers.iter().flat_map(|it| [it; TASKS]).enumerate() {
        let lock = manager.lock("shelf").wait(Wait::Forever);
        let (inside, tokens) = (inside.clone(), tokens.clone());
        tasks.spawn(async move {
            for section in 0..SECTIONS {
                let writes = (task + section) % 4 == 0;
                let lock = lock.clone();
                let lock = if writes { lock } else { lock.shared() };
                let guard = lock.acquire().await.unwrap();
                let before = inside.stay(if writes { WRITER } else { 1 }).await;
                assert!(
                    before >= 0 && (!writes || before == 0),
                    "broken promise: {before} are inside"
                );
                guard.ensure_held().unwrap();
                tokens.lock().unwrap().push((writes, guard.fencing_token()));
                guard.release().await.unwrap();
            }
        });
    }
    within(ALL, tasks.join_all()).await.expect("all end");
    let tokens = tokens.lock().unwrap().clone();
    assert_eq!(tokens.len(), MANAGERS * TASKS * SECTIONS);
    let mut last: Option<(bool, FencingToken)> = None;
    for (writes, token) in tokens.iter().copied() {
        if let Some((_, before)) = last.filter(|(wrote, _)| *wrote || writes) {
            assert!(
                token > before,
                "broken promise: the token did not grow: {token} after {before}"
            );
        }
        // Readers of one time may come in any order, and a quorum gives each of them a token of its own.
        last = Some(last.map_or((writes, token), |(_, before)| (writes, token.max(before))));
    }
    let managers: Vec<_> = managers.iter().collect();
    env.assert_clean(1, &managers).await;
}

pub(crate) async fn no_more_than_n_permits_are_held<E: Env>() {
    const MOST: usize = 3;
    let env = E::start().await;
    let manager = env.manager().await;
    let permits = u32::try_from(MOST).unwrap();
    if !modes(&env).await.contains(LockMode::Permits(permits)) {
        let refused = soon(manager.lock("export").permits(permits).acquire()).await;
        let error = refused.expect_err("it is not supported");
        assert!(
            matches!(
                &error,
                LockError::InvalidOption {
                    option: "permits",
                    ..
                }
            ),
            "{error}"
        );
        return;
    }
    let managers = managers(&env).await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for manager in managers.iter().flat_map(|it| [it; TASKS]) {
        let lock = manager.lock("export").permits(permits).wait(Wait::Forever);
        let (inside, most) = (inside.clone(), most.clone());
        tasks.spawn(async move {
            for _ in 0..SECTIONS {
                let section = lock.clone().run(async |_lease| {
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_millis(1)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                section.await.unwrap();
            }
        });
    }
    within(ALL, tasks.join_all()).await.expect("all end");
    let most = most.load(Ordering::SeqCst);
    assert!(
        most <= MOST,
        "broken promise: {most} have one of {MOST} permits"
    );
    assert_eq!(most, MOST);
    let managers: Vec<_> = managers.iter().collect();
    env.assert_clean(1, &managers).await;
}

pub(crate) async fn a_shared_lease_is_renewed_until_its_last_body_ends<E: Env>() {
    let env = E::start().await;
    if !modes(&env).await.contains(LockMode::Shared) {
        return;
    }
    let brief = env.manager_with(|builder| builder.ttl(E::BRIEF)).await;
    let other = env.manager().await;
    let shared = || brief.lock("shelf").shared();
    let first = soon(shared().acquire()).await.unwrap();
    let second = soon(shared().acquire()).await.unwrap();
    sleep(E::BRIEF).await;
    first.release().await.unwrap();
    sleep(E::BRIEF).await;
    second.ensure_held().unwrap();
    assert!(
        soon(other.lock("shelf").try_acquire())
            .await
            .unwrap()
            .is_none(),
        "broken promise: a writer holds the key beside a reader"
    );
    second.release().await.unwrap();
    drop(soon(other.lock("shelf").ttl(TTL).acquire()).await.unwrap());
    env.assert_clean(1, &[&brief, &other]).await;
}

pub(crate) async fn a_lost_shared_lease_ends_all_of_its_bodies<E: Env>() {
    let env = E::start().await;
    if !modes(&env).await.contains(LockMode::Shared) {
        return;
    }
    // The renewal that finds it out is long before the deadline.
    let manager = env.manager_with(|builder| builder.ttl(4 * E::BRIEF)).await;
    let inside = Arc::new(Barrier::new(4));
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let (manager, inside) = (manager.clone(), inside.clone());
        readers.spawn(async move {
            let lock = manager.lock("shelf").shared();
            lock.run(async |_lease| {
                inside.wait().await;
                std::future::pending::<()>().await;
            })
            .await
        });
    }
    soon(inside.wait()).await;
    env.delete("shelf").await;
    while let Some(ended) = soon(readers.join_next()).await {
        let error = ended.unwrap().unwrap_err();
        let LockError::Lost { cause, .. } = &error else {
            panic!("{error}");
        };
        assert!(matches!(cause, LostCause::Revoked), "{error}");
    }
    assert_idle(&[&manager]).await;
}

pub(crate) async fn calls_for_keys_of_mixed_modes_all_end<E: Env>() {
    let env = E::start().await;
    if !modes(&env).await.contains(LockMode::Shared) {
        return;
    }
    let managers = managers(&env).await;
    let mut tasks = JoinSet::new();
    for (task, manager) in managers.iter().flat_map(|it| [it; TASKS]).enumerate() {
        let manager = manager.clone();
        tasks.spawn(async move {
            for _ in 0..SECTIONS {
                let request = match task % 4 {
                    0 => manager.lock_all(["a", "b"]).also_shared("c"),
                    1 => manager.lock("c").also_shared("a"),
                    2 => manager.lock_all(["c", "b", "a"]).shared(),
                    _ => manager.lock("b"),
                };
                let request = request.wait(Wait::Forever);
                request.run(async |_lease| yield_now().await).await.unwrap();
            }
        });
    }
    within(ALL, tasks.join_all()).await.expect("all end");
    let managers: Vec<_> = managers.iter().collect();
    env.assert_clean(3, &managers).await;
}
