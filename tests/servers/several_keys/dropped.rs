//! Callers dropped at any await.

use std::sync::atomic::{AtomicUsize, Ordering};

use dlock::{LockManager, LockRequest, Wait};
use dlock_testkit::{Polled, poll_times, poll_times_then_wake};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::task::yield_now;

use crate::common::{Env, assert_idle, soon};
use crate::several_keys::{Process, assert_clean, two};

/// How a future is dropped: while it waits, or when what it waited for has come.
#[derive(Clone, Copy, Debug)]
enum Drops {
    Parked,
    Woken,
}

async fn poll<F: Future>(future: F, polls: usize, drops: Drops) -> Polled<F::Output> {
    // Boxed: what is polled here is large, and there are many of it.
    let future = Box::pin(future);
    match drops {
        Drops::Parked => soon(poll_times(future, polls)).await,
        Drops::Woken => soon(poll_times_then_wake(future, polls)).await,
    }
}

/// Two processes, of which one is dropped at every await, and three keys for each experiment.
struct Experiment<E: Env> {
    env: E,
    one: Process<E::Store>,
    other: Process<E::Store>,
    round: AtomicUsize,
}

impl<E: Env> Experiment<E> {
    async fn start() -> Self {
        let (env, one, other) = two::<E>().await;
        Self {
            env,
            one,
            other,
            round: AtomicUsize::new(0),
        }
    }

    /// Keys that nobody has used, in their order.
    fn keys(&self) -> [String; 3] {
        let round = self.round.fetch_add(1, Ordering::Relaxed);
        ["a", "b", "c"].map(|key| format!("{key}:{round}"))
    }

    /// Tries `trial` with every second number of polls until the future lives to its end, and looks what
    /// is left; says how many awaits there were.
    async fn run(
        &self,
        first: usize,
        drops: Drops,
        trial: &impl AsyncFn(&Self, &[String; 3], usize, Drops) -> bool,
    ) -> usize {
        for polls in (first..).step_by(2) {
            let keys = self.keys();
            let is_over = trial(self, &keys, polls, drops).await;
            assert_idle(&[&self.one.manager]).await;
            for key in &keys {
                self.other.assert_free(key).await;
            }
            let used = 3 * self.round.load(Ordering::Relaxed);
            assert_clean(&self.env, used, &[&self.one, &self.other]).await;
            if is_over {
                return polls;
            }
        }
        unreachable!("a future has an end");
    }
}

/// Tries `trial` with every number of polls and both ways of dropping; says how many awaits there were.
async fn dropped_anywhere<E: Env>(
    trial: impl AsyncFn(&Experiment<E>, &[String; 3], usize, Drops) -> bool,
) -> usize {
    // Side by side, as most of their time they wait. Each is polled only when it is woken: polls count.
    let experiments: FuturesUnordered<_> = [Drops::Parked, Drops::Woken]
        .into_iter()
        .flat_map(|drops| [(0, drops), (1, drops)])
        .map(async |(first, drops)| {
            let experiment = Experiment::start().await;
            experiment.run(first, drops, &trial).await
        })
        .collect();
    let awaits: Vec<_> = experiments.collect().await;
    awaits.into_iter().max().unwrap_or(0)
}

/// In an order that is not theirs.
fn all_of(manager: &LockManager, [a, b, c]: &[String; 3]) -> LockRequest {
    manager.lock_all([b, c, a]).wait(Wait::Forever)
}

pub(crate) async fn an_acquisition_dropped_anywhere_leaves_nothing<E: Env>() {
    let awaits = dropped_anywhere::<E>(async |experiment, keys, polls, drops| {
        let call = all_of(&experiment.one.manager, keys);
        let outcome = poll(call.acquire(), polls, drops).await;
        matches!(outcome, Polled::Finished(Ok(_)))
    });
    let awaits = awaits.await;
    assert!(awaits >= 2, "there was an await to be dropped at: {awaits}");
}

pub(crate) async fn a_waiter_dropped_anywhere_leaves_nothing<E: Env>() {
    let awaits = dropped_anywhere::<E>(async |experiment, keys, polls, drops| {
        let holder = experiment.other.manager.lock(&keys[1]).acquire();
        let holder = soon(holder).await.unwrap();
        let call = all_of(&experiment.one.manager, keys).wait(E::BRIEF);
        let is_over = match poll(call.acquire(), polls, drops).await {
            Polled::Finished(Err(error)) => {
                assert!(error.is_busy() && error.key() == keys[1], "{error}");
                true
            }
            Polled::Finished(Ok(guard)) => panic!("one was held all the time: {guard:?}"),
            Polled::Dropped => false,
        };
        assert_idle(&[&experiment.one.manager]).await;
        soon(holder.release()).await.unwrap();
        is_over
    });
    let awaits = awaits.await;
    assert!(awaits >= 3, "it asked and waited and asked: {awaits}");
}

pub(crate) async fn a_waiter_dropped_while_it_is_granted_passes_all_keys_on<E: Env>() {
    let awaits = dropped_anywhere::<E>(async |experiment, keys, polls, drops| {
        let mut holders = Vec::new();
        for key in &keys[..2] {
            let holder = experiment.other.manager.lock(key).acquire();
            holders.push(soon(holder).await.unwrap());
        }
        let call = all_of(&experiment.one.manager, keys);
        let waiter = poll(call.acquire(), polls, drops);
        let releases = async {
            for holder in holders {
                for _ in 0..3 {
                    yield_now().await;
                }
                soon(holder.release()).await.unwrap();
            }
        };
        let (outcome, ()) = tokio::join!(waiter, releases);
        matches!(outcome, Polled::Finished(Ok(_)))
    });
    let awaits = awaits.await;
    assert!(awaits >= 4, "it waited for one after the other: {awaits}");
}

pub(crate) async fn a_run_dropped_anywhere_gives_all_keys_back<E: Env>() {
    let awaits = dropped_anywhere::<E>(async |experiment, keys, polls, drops| {
        let call = all_of(&experiment.one.manager, keys);
        let body = call.run(async |_| {
            for _ in 0..3 {
                yield_now().await;
            }
        });
        poll(body, polls, drops).await == Polled::Finished(Ok(()))
    });
    let awaits = awaits.await;
    assert!(awaits >= 5, "before, in and after the body: {awaits}");
}

pub(crate) async fn a_release_dropped_anywhere_is_carried_out_for_all_keys<E: Env>() {
    let awaits = dropped_anywhere::<E>(async |experiment, keys, polls, drops| {
        let call = all_of(&experiment.one.manager, keys);
        let guard = soon(call.acquire()).await.unwrap();
        poll(guard.release(), polls, drops).await == Polled::Finished(Ok(()))
    });
    let awaits = awaits.await;
    assert!(awaits >= 2, "there was an await to be dropped at: {awaits}");
}
