//! The parts of managers under a schedule: a clock that only a test advances, and a slow store.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::yield_now;

use super::{draw, interrupt, row};
use crate::{
    api::manager::LockManager,
    clock::{Clock, Moment, SystemClock},
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreError, StoreProperties, memory::MemoryStore,
    },
};

/// Returns the start of all clocks under a schedule. It is a day ahead, so that the clock of a runtime that is created
/// later can be advanced to it. Otherwise, a timer that has fired would still be early by this clock and start again.
pub(super) fn start() -> Moment {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    static START: OnceLock<Moment> = OnceLock::new();
    *START.get_or_init(|| SystemClock.now().plus(DAY))
}

/// A clock that only a test advances.
#[derive(Clone)]
pub(crate) struct StillClock {
    start: Moment,
    milliseconds: Arc<AtomicU64>,
}

impl StillClock {
    pub(crate) fn new() -> Self {
        Self {
            start: start(),
            milliseconds: Arc::default(),
        }
    }

    pub(crate) fn advance(&self, time: Duration) {
        let milliseconds = u64::try_from(time.as_millis()).expect("a short time");
        self.milliseconds.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Moment {
        interrupt();
        let milliseconds = self.milliseconds.load(Ordering::SeqCst);
        self.start.plus(Duration::from_millis(milliseconds))
    }
}

/// A store in memory that delays some of its answers and counts the renewals of each lease.
#[derive(Clone)]
pub(crate) struct Requests {
    pub(crate) store: MemoryStore,
    /// `true` if it answers no acquire request.
    is_silent: bool,
    drawn: Arc<AtomicU64>,
    renewed: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Requests {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            store: MemoryStore::new(),
            is_silent: false,
            drawn: Arc::new(AtomicU64::new(row(seed))),
            renewed: Arc::default(),
        }
    }

    pub(crate) fn silent(seed: u64) -> Self {
        let mut silent = Self::new(seed);
        silent.is_silent = true;
        silent
    }

    /// Creates a manager for this store. Its leases are renewed on the callers' runtimes.
    pub(crate) fn manager(&self, clock: impl Clock) -> LockManager {
        let builder = LockManager::builder().renewal_thread(false).clock(clock);
        builder.over(self.clone()).unwrap()
    }

    /// Returns the number of renewals of each lease.
    pub(crate) fn renewed(&self) -> BTreeMap<String, usize> {
        let renewed = self.renewed.lock();
        renewed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn take_time(&self) {
        interrupt();
        let drawn = draw(self.drawn.load(Ordering::SeqCst));
        self.drawn.store(drawn, Ordering::SeqCst);
        if (drawn >> 20).is_multiple_of(4) {
            yield_now().await;
        }
        interrupt();
    }
}

impl LockStore for Requests {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.take_time().await;
        let answer = self.store.acquire(request).await;
        self.take_time().await;
        if self.is_silent {
            pending::<()>().await;
        }
        answer
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = Vec::new();
        for request in batch.requests {
            self.take_time().await;
            let answer = self.store.renew_one(*request).await;
            if answer == Ok(Renewal::Renewed) {
                let renewed = self.renewed.lock();
                let mut renewed = renewed.unwrap_or_else(PoisonError::into_inner);
                *renewed.entry(request.key.to_string()).or_default() += 1;
            }
            answers.push(answer);
        }
        answers
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.take_time().await;
        let answer = self.store.release(request).await;
        self.take_time().await;
        answer
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}
