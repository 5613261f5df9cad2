//! Callers that go away: every future is dropped at every await it has.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use dlock::{LockError, LockGuard, LockKey, LockManager, Wait, distributed_lock, store::LockStore};
use dlock_testkit::{Polled, eventually};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{Instant, timeout},
};

use crate::{
    common::{Env, LIMIT, OneKey, Wire, assert_idle, soon},
    driver::{Drops, at_every_await, poll, until_the_end},
};

/// A few processes over one store, and a key for each experiment.
///
/// In front of each manager is a [`Wire`]: it makes every request an await of its own, and knows the
/// owners that have asked for something and not given it back.
struct Processes<E: Env> {
    env: E,
    managers: Vec<LockManager>,
    wires: Vec<Wire<E::Store>>,
    keys: AtomicUsize,
}

impl<E: Env> Processes<E> {
    async fn start(count: usize) -> Self {
        let env = E::start().await;
        let (mut managers, mut wires) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let wire = Wire::new(env.store().await);
            managers.push(
                LockManager::builder()
                    .build_with_store(wire.clone())
                    .unwrap(),
            );
            wires.push(wire);
        }
        Self {
            env,
            managers,
            wires,
            keys: AtomicUsize::new(0),
        }
    }

    /// A key that was not used before.
    fn key(&self) -> String {
        format!("order:{}", self.keys.fetch_add(1, Ordering::Relaxed))
    }

    async fn hold(&self, process: usize, key: &str) -> LockGuard {
        soon(self.managers[process].lock(key).acquire())
            .await
            .unwrap()
    }

    /// Another process gets the lock at once, and the one before has nothing left.
    async fn assert_free(&self, key: &str) {
        let taker = self.managers.last().unwrap();
        let before = Instant::now();
        let guard = soon(taker.lock(key).acquire()).await.unwrap();
        assert!(before.elapsed() <= E::PROMPT, "{:?}", before.elapsed());
        soon(guard.release()).await.unwrap();
        self.assert_clean().await;
    }

    async fn assert_clean(&self) {
        let managers: Vec<_> = self.managers.iter().collect();
        let keys = self.keys.load(Ordering::Relaxed);
        self.env.assert_clean(keys, &managers).await;
        for wire in &self.wires {
            wire.assert_nothing_is_owed();
        }
    }
}

pub(crate) async fn an_uncontended_acquisition_dropped_anywhere_leaves_nothing<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let key = processes.key();
        let outcome = soon(poll(
            processes.managers[0].lock(&key).acquire(),
            polls,
            drops,
        ))
        .await;
        let finished = matches!(outcome, Polled::Finished(Ok(_)));
        drop(outcome);
        processes.assert_free(&key).await;
        finished
    })
    .await;
    assert!(parked.max(woken) >= 2, "{parked} {woken}");
}

pub(crate) async fn a_waiter_dropped_anywhere_leaves_its_place<E: Env>() {
    // Most of the time is the waiter's, so both ways go side by side, each over a store of its own.
    let (parked, woken) = tokio::join!(
        a_waiter_is_dropped::<E>(Drops::Parked),
        a_waiter_is_dropped::<E>(Drops::Woken),
    );
    // It asked, waited and asked again.
    assert!(parked.max(woken) >= 3, "{parked} {woken}");
}

async fn a_waiter_is_dropped<E: Env>(drops: Drops) -> usize {
    let processes = Processes::<E>::start(3).await;
    let probe = processes.env.store().await;
    let mut probe = OneKey::new(probe, "order");
    until_the_end(0.., async |polls| {
        let key = processes.key();
        probe.key = LockKey::new(&key).unwrap();
        let holder = processes.hold(1, &key).await;
        let lock = processes.managers[0].lock(&key).wait(E::BRIEF);
        let outcome = soon(poll(lock.acquire(), polls, drops)).await;
        let finished = match outcome {
            Polled::Finished(Err(error)) => {
                assert!(error.is_busy(), "{error}");
                true
            }
            Polled::Finished(Ok(guard)) => {
                panic!("broken promise: two hold the key: {guard:?}")
            }
            Polled::Dropped => false,
        };
        assert_idle(&[&processes.managers[0]]).await;
        // The release was its last request, so nothing is granted to a waiter that is gone.
        processes.wires[0].assert_nothing_is_owed();
        probe.until_waiting(0).await;
        soon(holder.release()).await.unwrap();
        processes.assert_free(&key).await;
        finished
    })
    .await
}

pub(crate) async fn a_waiter_dropped_while_it_is_granted_passes_the_lock_on<E: Env>() {
    let processes = Processes::<E>::start(3).await;
    let probe = processes.env.store().await;
    let mut probe = OneKey::new(probe, "order");
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let key = processes.key();
        probe.key = LockKey::new(&key).unwrap();
        let holder = processes.hold(1, &key).await;
        let is_over = Cell::new(false);
        let waiter = async {
            let lock = processes.managers[0].lock(&key).wait(Wait::Forever);
            let outcome = soon(poll(lock.acquire(), polls, drops)).await;
            is_over.set(true);
            let finished = matches!(outcome, Polled::Finished(Ok(_)));
            // Dropping an unused guard is one more way to leave.
            drop(outcome);
            finished
        };
        let releaser = async {
            // As soon as there is a waiter to be granted, or there will be none.
            until_waiting_or(&probe, &is_over).await;
            soon(holder.release()).await.unwrap();
        };
        let (finished, ()) = tokio::join!(waiter, releaser);
        processes.assert_free(&key).await;
        finished
    })
    .await;
    // It asked, waited and asked again.
    assert!(parked.max(woken) >= 3, "{parked} {woken}");
}

/// Waits until somebody waits for the held key, or nobody will. No look is dropped: its place would stay.
pub(crate) async fn until_waiting_or<S: LockStore>(key: &OneKey<S>, is_over: &Cell<bool>) {
    eventually(LIMIT, "somebody waits, or nobody will", async || {
        let probe = OneKey::<S>::owner();
        let place = key.busy(probe).await.position;
        key.release(probe).await;
        is_over.get() || place == Some(1)
    })
    .await;
}

/// A reader is inside, the writer waits for it, and another reader behind that writer.
pub(crate) async fn a_writer_dropped_anywhere_lets_in_the_reader_behind_it<E: Env>() {
    let processes = Processes::<E>::start(3).await;
    let probe = processes.env.store().await;
    let mut probe = OneKey::new(probe, "order");
    at_every_await(0.., async |polls, drops| {
        let key = processes.key();
        probe.key = LockKey::new(&key).unwrap();
        let shared = |process: usize| processes.managers[process].lock(&key).shared();
        let inside = soon(shared(1).acquire()).await.unwrap();
        let (is_over, over) = (Cell::new(false), Notify::new());
        let writer = async {
            let lock = processes.managers[0].lock(&key).wait(E::BRIEF);
            let outcome = soon(poll(lock.acquire(), polls, drops)).await;
            is_over.set(true);
            over.notify_one();
            outcome
        };
        let reader = async {
            until_waiting_or(&probe, &is_over).await;
            let reader = tokio::spawn(shared(2).acquire());
            soon(over.notified()).await;
            let since = Instant::now();
            let guard = soon(reader).await.unwrap().unwrap();
            assert!(since.elapsed() <= E::PROMPT, "{:?}", since.elapsed());
            guard
        };
        let (outcome, reader) = tokio::join!(writer, reader);
        inside.ensure_held().unwrap();
        soon(reader.release()).await.unwrap();
        soon(inside.release()).await.unwrap();
        processes.assert_free(&key).await;
        match outcome {
            Polled::Finished(Err(error)) => {
                assert!(error.is_busy(), "{error}");
                true
            }
            Polled::Finished(Ok(guard)) => {
                panic!("broken promise: a writer is beside readers: {guard:?}")
            }
            Polled::Dropped => false,
        }
    })
    .await;
}

/// Both permits are taken, and the operation waits for one; somebody else waits behind it.
pub(crate) async fn a_permit_dropped_while_it_is_granted_goes_to_the_next<E: Env>() {
    let processes = Processes::<E>::start(3).await;
    let probe = processes.env.store().await;
    let mut probe = OneKey::new(probe, "order");
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let key = processes.key();
        probe.key = LockKey::new(&key).unwrap();
        let permit = |process: usize| {
            let lock = processes.managers[process].lock(&key).permits(2);
            lock.wait(Wait::Forever)
        };
        let stays = soon(permit(1).acquire()).await.unwrap();
        let leaves = soon(permit(1).acquire()).await.unwrap();
        let is_over = Cell::new(false);
        let waiter = async {
            let outcome = soon(poll(permit(0).acquire(), polls, drops)).await;
            is_over.set(true);
            let finished = matches!(outcome, Polled::Finished(Ok(_)));
            drop(outcome);
            finished
        };
        let releaser = async {
            until_waiting_or(&probe, &is_over).await;
            let next = tokio::spawn(permit(2).acquire());
            soon(leaves.release()).await.unwrap();
            let next = soon(next).await.unwrap().unwrap();
            stays.ensure_held().unwrap();
            next
        };
        let (finished, next) = tokio::join!(waiter, releaser);
        let third = soon(permit(0).try_acquire()).await.unwrap();
        assert!(
            third.is_none(),
            "broken promise: three have one of two permits: {third:?}"
        );
        soon(next.release()).await.unwrap();
        soon(stays.release()).await.unwrap();
        processes.assert_free(&key).await;
        finished
    })
    .await;
    assert!(parked.max(woken) >= 3, "{parked} {woken}");
}

pub(crate) async fn a_run_dropped_anywhere_gives_the_lock_back<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let bodies = AtomicUsize::new(0);
    at_every_await(0.., async |polls, drops| {
        let key = processes.key();
        let run = processes.managers[0].lock(&key).run(async |_| {
            for _ in 0..3 {
                bodies.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let outcome = soon(poll(run, polls, drops)).await;
        processes.assert_free(&key).await;
        outcome == Polled::Finished(Ok(()))
    })
    .await;
    // 1 + 2 + 3 + 3 times each step, at least: it was dropped at each of them.
    assert!(bodies.load(Ordering::Relaxed) >= 2 * 9);
}

pub(crate) async fn a_release_dropped_anywhere_is_still_carried_out<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let key = processes.key();
        let guard = processes.hold(0, &key).await;
        let outcome = soon(poll(guard.release(), polls, drops)).await;
        processes.assert_free(&key).await;
        outcome == Polled::Finished(Ok(()))
    })
    .await;
    assert!(parked.max(woken) >= 2, "{parked} {woken}");
}

#[distributed_lock(key = "<order>", ttl = "30s", manager = locks)]
async fn settle(locks: &LockManager, order: &str, settling: &Notify) -> Result<(), LockError> {
    settling.notify_one();
    std::future::pending::<()>().await;
    unreachable!("it never ends by itself")
}

pub(crate) async fn a_locked_function_under_a_timeout_gives_the_lock_back<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let settling = Notify::new();
    let call = settle(&processes.managers[0], "order-7", &settling);
    assert!(timeout(E::BRIEF, call).await.is_err());
    soon(settling.notified()).await;
    processes.key();
    processes.assert_free("order-7").await;
}

pub(crate) async fn a_locked_function_that_loses_a_select_gives_the_lock_back<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let settling = Notify::new();
    tokio::select! {
        outcome = settle(&processes.managers[0], "order-7", &settling) => panic!("{outcome:?}"),
        () = soon(settling.notified()) => {}
    }
    processes.key();
    processes.assert_free("order-7").await;
}
