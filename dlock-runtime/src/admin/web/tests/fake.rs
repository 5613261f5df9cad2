//! A store in memory whose locks a test sets.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use tokio::sync::mpsc;

use crate::{
    admin::{
        ClockReading, Grant, Grants, HolderInfo, Inspect, Inspecting, LockInfo, Overview,
        ProcessInfo, ServerReport, Unlocked, WaiterInfo,
    },
    key::LockKey,
    mode::LockMode,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{StoreError, StoreErrorKind},
};

#[derive(Default)]
pub(in crate::admin::web) struct Fake {
    pub(in crate::admin::web) locks: Mutex<Vec<LockInfo>>,
    pub(in crate::admin::web) processes: Mutex<Vec<ProcessInfo>>,
    pub(in crate::admin::web) is_away: AtomicBool,
    pub(in crate::admin::web) has_no_clock: AtomicBool,
    /// The number of readings of all locks.
    pub(in crate::admin::web) looks: AtomicUsize,
    /// The number of readings of one lock.
    pub(in crate::admin::web) looks_at_one: AtomicUsize,
    /// The number of reports on the server.
    pub(in crate::admin::web) reports: AtomicUsize,
    /// The reading of all locks that panics, and that of one lock.
    panics: [Option<usize>; 2],
    /// The number of times that it was told to begin without pauses.
    pub(in crate::admin::web) begun: AtomicUsize,
    /// The leases that were ended, and the result of the next release.
    pub(in crate::admin::web) unlocked: Mutex<Vec<(String, Option<OwnerId>)>>,
    pub(in crate::admin::web) outcome: Mutex<Option<Result<Unlocked, StoreError>>>,
    grants: Mutex<Option<mpsc::UnboundedSender<Grant>>>,
    /// The time that a reading takes.
    pub(in crate::admin::web) takes: Mutex<Duration>,
}

/// Returns owner `number` of a process that each test has for itself.
pub(in crate::admin::web) fn owner(number: u64) -> OwnerId {
    static CLIENT: std::sync::LazyLock<ClientId> =
        std::sync::LazyLock::new(|| ClientId::new(&SystemRandom));
    OwnerId::new(*CLIENT, number)
}

/// Returns an exclusive lock with a holder.
pub(in crate::admin::web) fn held(key: &str, number: u64, label: &str) -> LockInfo {
    let mut lock = LockInfo::new(key);
    lock.mode = Some(LockMode::Exclusive);
    let mut holder = HolderInfo::new(Some(owner(number)), number, SystemTime::now());
    holder.label = Some(label.to_owned());
    holder.ttl = Some(Duration::from_secs(30));
    holder.since = Some(SystemTime::now());
    lock.add_holder(holder);
    lock
}

pub(in crate::admin::web) fn waiter(number: u64, waiting: Duration) -> WaiterInfo {
    let mut waiter = WaiterInfo::new(owner(number), LockMode::Exclusive);
    waiter.label = Some(format!("waiter@host/{number}"));
    waiter.waiting = waiting;
    waiter
}

impl Fake {
    pub(in crate::admin::web) fn with(locks: Vec<LockInfo>) -> Arc<Self> {
        let fake = Self::default();
        fake.set(locks);
        Arc::new(fake)
    }

    /// Returns a store without locks. The reading of all locks with this number panics, and that of one lock with the other.
    pub(in crate::admin::web) fn that_panics(panics: [Option<usize>; 2]) -> Arc<Self> {
        Arc::new(Self {
            panics,
            ..Self::default()
        })
    }

    pub(in crate::admin::web) fn set(&self, locks: Vec<LockInfo>) {
        *guard(&self.locks) = locks;
    }

    pub(in crate::admin::web) fn grant(&self, key: &str, owner: OwnerId, fence: u64) {
        let grants = guard(&self.grants);
        let grants = grants.as_ref().expect("the page listens");
        grants.send(Grant::new(key, owner, fence)).unwrap();
    }

    pub(in crate::admin::web) fn looks(&self) -> usize {
        self.looks.load(SeqCst)
    }

    fn answer<T: Send + 'static>(&self, value: T) -> Inspecting<'_, Result<T, StoreError>> {
        let takes = *guard(&self.takes);
        let is_away = self.is_away.load(SeqCst);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            if is_away {
                let text = "the store is away";
                return Err(StoreError::new(StoreErrorKind::Unreachable, text));
            }
            Ok(value)
        })
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Inspect for Fake {
    fn locks<'a>(
        &'a self,
        _: Option<&'a str>,
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        self.answer(guard(&self.locks).clone())
    }

    fn locks_of<'a>(
        &'a self,
        _: &'a [LockKey],
    ) -> Inspecting<'a, Result<Vec<LockInfo>, StoreError>> {
        self.answer(guard(&self.locks).clone())
    }

    fn lock<'a>(
        &'a self,
        key: &'a LockKey,
    ) -> Inspecting<'a, Result<Option<LockInfo>, StoreError>> {
        let number = self.looks_at_one.fetch_add(1, SeqCst);
        assert_ne!(Some(number), self.panics[1], "a mistake of this store");
        let locks = guard(&self.locks);
        let lock = locks.iter().find(|lock| lock.key == key.as_str());
        self.answer(lock.cloned())
    }

    fn overview(&self) -> Inspecting<'_, Result<Overview, StoreError>> {
        let number = self.looks.fetch_add(1, SeqCst);
        assert_ne!(Some(number), self.panics[0], "a mistake of this store");
        let processes = guard(&self.processes).clone();
        self.answer(Overview {
            locks: guard(&self.locks).clone(),
            process_count: Some(processes.len()),
            processes,
        })
    }

    fn unlock<'a>(
        &'a self,
        seen: &'a LockInfo,
        holder: Option<OwnerId>,
    ) -> Inspecting<'a, Result<Unlocked, StoreError>> {
        guard(&self.unlocked).push((seen.key.clone(), holder));
        let outcome = guard(&self.outcome).take();
        Box::pin(async move { outcome.unwrap_or(Ok(Unlocked::Freed)) })
    }

    fn grants(&self) -> Inspecting<'_, Result<Grants, StoreError>> {
        let (grants, mut heard) = mpsc::unbounded_channel();
        *guard(&self.grants) = Some(grants);
        let grants = Grants::new(move |context| heard.poll_recv(context));
        Box::pin(async move { Ok(grants) })
    }

    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
        self.reports.fetch_add(1, SeqCst);
        let mut report = ServerReport::new("redis://fake:6379");
        let told = ("redis_version".to_owned(), "7.2.4".to_owned());
        report.info.extend([told]);
        let has_clock = !self.has_no_clock.load(SeqCst);
        report.clock = has_clock.then(|| ClockReading::new(0, Duration::ZERO));
        Box::pin(async move { vec![report] })
    }

    fn progress(&self) -> Option<f64> {
        Some(0.25)
    }

    fn lift_limit(&self) {}

    fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }
}
