//! A store in memory whose locks a test sets.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use dlock_admin::{
    ClockReading, Grant, Grants, HolderInfo, Inspect, Inspecting, LockInfo, Overview, ProcessInfo,
    ServerReport, Unlocked, WaiterInfo,
    doctor::{Facts, Finding, Judge, Topic},
};
use dlock_runtime::{
    LockKey,
    random::SystemRandom,
    store::{ClientId, LockMode, OwnerId, StoreError, StoreErrorKind},
};
use tokio::sync::mpsc;

#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) locks: Mutex<Vec<LockInfo>>,
    pub(crate) processes: Mutex<Vec<ProcessInfo>>,
    pub(crate) is_away: AtomicBool,
    pub(crate) has_no_clock: AtomicBool,
    /// The number of readings of all locks.
    pub(crate) looks: AtomicUsize,
    /// The number of readings of one lock.
    pub(crate) looks_at_one: AtomicUsize,
    /// The number of reports on the server.
    pub(crate) reports: AtomicUsize,
    /// The reading of all locks that panics, and that of one lock.
    panics: [Option<usize>; 2],
    /// The number of times that it was told to begin without pauses.
    pub(crate) begun: AtomicUsize,
    /// The leases that were ended, and the result of the next release.
    pub(crate) unlocked: Mutex<Vec<(String, Option<OwnerId>)>>,
    pub(crate) outcome: Mutex<Option<Result<Unlocked, StoreError>>>,
    grants: Mutex<Option<mpsc::UnboundedSender<Grant>>>,
    /// The time that a reading takes.
    pub(crate) takes: Mutex<Duration>,
}

/// Returns owner `number` of a process that each test has for itself.
pub(crate) fn owner(number: u64) -> OwnerId {
    static CLIENT: std::sync::LazyLock<ClientId> =
        std::sync::LazyLock::new(|| ClientId::new(&SystemRandom));
    OwnerId::new(*CLIENT, number)
}

/// Returns an exclusive lock with a holder.
pub(crate) fn held(key: &str, number: u64, label: &str) -> LockInfo {
    let mut lock = LockInfo::new(key);
    lock.mode = Some(LockMode::Exclusive);
    let mut holder = HolderInfo::new(Some(owner(number)), number, SystemTime::now());
    holder.label = Some(label.to_owned());
    holder.ttl = Some(Duration::from_secs(30));
    holder.since = Some(SystemTime::now());
    lock.add_holder(holder);
    lock
}

pub(crate) fn waiter(number: u64, waiting: Duration) -> WaiterInfo {
    let mut waiter = WaiterInfo::new(owner(number), LockMode::Exclusive);
    waiter.label = Some(format!("waiter@host/{number}"));
    waiter.waiting = waiting;
    waiter
}

impl Fake {
    pub(crate) fn with(locks: Vec<LockInfo>) -> Arc<Self> {
        let fake = Self::default();
        fake.set(locks);
        Arc::new(fake)
    }

    /// Returns a store without locks. The reading of all locks with this number panics, and that of one lock with the other.
    pub(crate) fn that_panics(panics: [Option<usize>; 2]) -> Arc<Self> {
        Arc::new(Self {
            panics,
            ..Self::default()
        })
    }

    pub(crate) fn set(&self, locks: Vec<LockInfo>) {
        *guard(&self.locks) = locks;
    }

    pub(crate) fn grant(&self, key: &str, owner: OwnerId, fence: u64) {
        let grants = guard(&self.grants);
        let grants = grants.as_ref().expect("the page listens");
        grants.send(Grant::new(key, owner, fence)).unwrap();
    }

    pub(crate) fn looks(&self) -> usize {
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
    fn locks_in_parts<'a>(
        &'a self,
        _: Option<&'a str>,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<(), StoreError>> {
        let locks = self.answer(guard(&self.locks).clone());
        Box::pin(async move {
            part(locks.await?);
            Ok(())
        })
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

    fn overview_in_parts<'a>(
        &'a self,
        part: &'a mut (dyn FnMut(Vec<LockInfo>) + Send),
    ) -> Inspecting<'a, Result<Overview, StoreError>> {
        let number = self.looks.fetch_add(1, SeqCst);
        assert_ne!(Some(number), self.panics[0], "a mistake of this store");
        let processes = guard(&self.processes).clone();
        let mut seen = Overview::default();
        seen.process_count = Some(processes.len());
        seen.processes = processes;
        let answer = self.answer((seen, guard(&self.locks).clone()));
        Box::pin(async move {
            let (seen, locks) = answer.await?;
            part(locks);
            Ok(seen)
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
        report.product = Some("Redis".to_owned());
        report.version = Some("7.2.4".to_owned());
        let has_clock = !self.has_no_clock.load(SeqCst);
        report.clock = has_clock.then(|| ClockReading::new(0, Duration::ZERO));
        Box::pin(async move { vec![report] })
    }

    fn judge(&self) -> Arc<dyn Judge> {
        Arc::new(FakeJudge)
    }

    fn progress(&self) -> Option<f64> {
        Some(0.25)
    }

    fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }
}

struct FakeJudge;

impl Judge for FakeJudge {
    fn server(&self, _: &Facts, server: &ServerReport) -> Vec<Finding> {
        let version = server.version.clone().unwrap_or_default();
        vec![
            Finding::ok(Topic::Version, version),
            Finding::unknown(Topic::Load, "the load could not be read"),
        ]
    }
}
