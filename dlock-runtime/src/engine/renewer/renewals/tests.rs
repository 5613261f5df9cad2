//! Tests that renewals which several threads add and send are all sent.

use std::{future::pending, time::Duration};

use super::*;
use crate::{
    api::manager::LockManager,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, StoreProperties,
        memory::MemoryStore,
    },
    threads::{Body, Requests, StillClock, explore, runtime, seeds},
};

const KEYS: u32 = 9;

impl Renewals<Acquisition> {
    /// Returns `true` if nothing is due or in flight.
    pub(in crate::engine::renewer) fn is_empty(&self) -> bool {
        let queue = self.queue();
        queue.waiting.is_empty() && queue.under_way == 0
    }
}

/// Returns the renewals of all leases of `manager`, so different that each one forms its own group.
fn all_due(manager: &LockManager) -> Vec<Due<Acquisition>> {
    let leases = manager.core().renewer.leases().into_iter();
    let due = leases.enumerate().map(|(index, (owner, acquisition))| {
        let longer = 3u32.pow(u32::try_from(index).unwrap());
        let limit = Duration::from_secs(1) * longer;
        Due {
            deadline: Instant::now() + limit,
            acquisition,
            owner,
            on_answer: crate::engine::renewer::on_event,
            limit,
        }
    });
    due.collect()
}

/// Threads add renewals while others send and end some. A renewal that no thread serves would be sent only
/// when something else is due, if that is before the lease ends.
#[test]
fn whoever_serves_sends_what_others_bring_meanwhile() {
    for seed in seeds(200) {
        let (store, before) = (Requests::new(seed), runtime());
        let manager = store.manager(StillClock::new());
        let guards: Vec<_> = (0..KEYS)
            .map(|key| before.block_on(manager.lock(format!("k{key}")).acquire()))
            .collect();
        let mut due = all_due(&manager);
        assert_eq!(due.len(), guards.len());
        let mut bodies: Vec<Body> = Vec::new();
        while !due.is_empty() {
            // A runtime that ends also ends its renewals, which are due again later.
            let ends = seed % 3 == 0;
            let (core, mut some) = (manager.core(), due.split_off(due.len() - 3));
            bodies.push(Box::new(move |me| {
                // Together they exceed the limit of groups in flight.
                let at_once = if me.draw(2) == 0 { some.len() } else { 1 };
                while !some.is_empty() {
                    let now = some.split_off(some.len() - at_once);
                    me.on_runtime(|| renew(&core, now));
                    if ends && me.draw(3) == 0 {
                        me.end_runtime();
                    }
                }
            }));
        }
        explore(seed, bodies, || {
            let core = manager.core();
            let queue = core.renewer.renewals.queue();
            assert_eq!(queue.waiting.len(), 0, "no thread sends them");
            assert_eq!((queue.under_way, queue.is_served), (0, false));
            drop(queue);
            let renewed = store.renewed().len();
            assert!(
                seed % 3 == 0 || renewed == guards.len(),
                "only {renewed} were sent"
            );
        });
        drop(guards);
    }
}

/// A renewal may still wait here when the claim has lost its lease, and has been granted another one that is due.
#[test]
fn a_claim_is_renewed_once_in_a_batch() {
    let (store, runtime) = (Requests::new(1), runtime());
    let manager = store.manager(StillClock::new());
    let guard = runtime.block_on(manager.lock("k").acquire()).unwrap();
    let core = manager.core();
    let both = [0, 1].map(|later| {
        let mut due = all_due(&manager);
        due[0].deadline += Duration::from_millis(later);
        due.remove(0)
    });
    runtime.block_on(async {
        renew(&core, both.into());
        assert_eq!(
            core.renewer.renewals.queue().under_way,
            1,
            "they are one group"
        );
        while !core.renewer.renewals.is_empty() {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(store.renewed().values().sum::<usize>(), 1);
    drop(guard);
}

/// A store in memory that answers no renewal.
#[derive(Clone, Default)]
struct Mute(MemoryStore);

impl LockStore for Mute {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        LockStore::acquire(&self.0, request).await
    }

    async fn renew(&self, _: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        pending().await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        LockStore::release(&self.0, request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        LockStore::properties(&self.0)
    }
}

/// The lease that ends first needs time for another request.
#[tokio::test(start_paused = true)]
async fn a_store_has_the_shortest_limit_of_a_group_and_a_quarter_of_it_to_answer() {
    let manager = LockManager::builder().build_with_store(Mute::default());
    let manager = manager.unwrap();
    let mut guards = Vec::new();
    for key in ["a", "b"] {
        guards.push(manager.lock(key).acquire().await.unwrap());
    }
    let (core, due) = (manager.core(), VecDeque::from(all_due(&manager)));
    let begun = Instant::now();
    let answers = ask(core.store.at(core.clock.now()), &due, None).await;
    // The limits are one and three seconds.
    assert_eq!(begun.elapsed(), Duration::from_millis(1250));
    let late: Result<Renewal, _> = Err(StoreError::timed_out(Duration::from_secs(1)));
    assert_eq!(answers, [late.clone(), late]);
    drop(guards);
}
