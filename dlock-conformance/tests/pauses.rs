//! A machine that is paused for some seconds, before or after any one request, is not a fault of the store.
//!
//! A waiter loses its place in that time, and a grant its holder: the suite has to repeat such a case.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use dlock_conformance::{Level, Suite, cases};
use dlock_runtime::{
    StoreError,
    store::{
        ALIVE, AcquireOutcome, AcquireRequest, LockStore, Proposal, QuorumNode, RaiseRequest,
        Raised, ReleaseRequest, Released, RenewBatch, Renewal, StoreProperties,
        memory::MemoryStore,
    },
};
use tokio::time::sleep;

/// The moment at which the machine is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before(usize),
    After(usize),
}

/// A store in memory, on a machine that is paused once.
struct Paused {
    store: MemoryStore,
    when: When,
    requests: AtomicUsize,
}

impl Paused {
    async fn around<T>(&self, request: impl Future<Output = T>) -> T {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        self.at(When::Before(number)).await;
        let answer = request.await;
        self.at(When::After(number)).await;
        answer
    }

    async fn at(&self, moment: When) {
        if moment == self.when {
            sleep(ALIVE + Duration::from_secs(1)).await;
        }
    }
}

impl LockStore for Paused {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.around(self.store.acquire(request)).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.around(self.store.renew(batch)).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.around(self.store.release(request)).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}

impl QuorumNode for Paused {
    async fn propose(&self, proposal: Proposal<'_>) -> Result<AcquireOutcome, StoreError> {
        self.around(self.store.propose(proposal)).await
    }

    async fn raise(&self, request: RaiseRequest<'_>) -> Result<Raised, StoreError> {
        self.around(self.store.raise(request)).await
    }
}

#[tokio::test(start_paused = true)]
async fn no_case_fails_where_the_machine_was_paused() {
    let mut wrong = Vec::new();
    for case in cases() {
        // Later requests of a case only repeat earlier ones until a lease has expired.
        for number in 0..40 {
            let mut requests = usize::MAX;
            for when in [When::Before(number), When::After(number)] {
                let store = Paused {
                    store: MemoryStore::new(),
                    when,
                    requests: AtomicUsize::new(0),
                };
                let suite = Suite::new(Level::Grants).alone().only(case.name);
                let report = suite.run_node(&store).await;
                if !report.failures.is_empty() {
                    wrong.push(format!("{when:?}: {report}"));
                }
                requests = requests.min(store.requests.into_inner());
            }
            if requests <= number {
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
