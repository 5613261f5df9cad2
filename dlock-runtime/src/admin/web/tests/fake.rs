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
        ClockReading, HandOff, HandOffs, HolderInfo, Inspect, Inspecting, LockInfo, Overview,
        ProcessInfo, ServerReport, Unlocked, WaiterInfo,
    },
    key::LockKey,
    mode::LockMode,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{StoreError, StoreErrorKind},
};

#[derive(Default)]
pub(super) struct Fake {
    pub(super) locks: Mutex<Vec<LockInfo>>,
    pub(super) processes: Mutex<Vec<ProcessInfo>>,
    pub(super) is_away: AtomicBool,
    pub(super) has_no_clock: AtomicBool,
    /// The number of readings of all locks.
    pub(super) looks: AtomicUsize,
    /// The number of readings of one lock.
    pub(super) looks_at_one: AtomicUsize,
    /// The number of times that it was told to begin without pauses.
    pub(super) begun: AtomicUsize,
    /// The leases that were ended, and the result of the next release.
    pub(super) unlocked: Mutex<Vec<(String, Option<OwnerId>)>>,
    pub(super) outcome: Mutex<Option<Result<Unlocked, StoreError>>>,
    grants: Mutex<Option<mpsc::UnboundedSender<HandOff>>>,
    /// The time that a reading takes.
    pub(super) takes: Mutex<Duration>,
}

/// Returns owner `number` of a process that each test has for itself.
pub(super) fn owner(number: u64) -> OwnerId {
    static CLIENT: std::sync::LazyLock<ClientId> =
        std::sync::LazyLock::new(|| ClientId::new(&SystemRandom));
    OwnerId::new(*CLIENT, number)
}

/// Returns an exclusive lock with a holder.
pub(super) fn held(key: &str, number: u64, label: &str) -> LockInfo {
    let mut lock = LockInfo::new(key);
    lock.mode = Some(LockMode::Exclusive);
    let mut holder = HolderInfo::new(Some(owner(number)), number, SystemTime::now());
    holder.label = Some(label.to_owned());
    holder.ttl = Some(Duration::from_secs(30));
    holder.since = Some(SystemTime::now());
    lock.add_holder(holder);
    lock
}

pub(super) fn waiter(number: u64, waiting: Duration) -> WaiterInfo {
    let mut waiter = WaiterInfo::new(owner(number), LockMode::Exclusive);
    waiter.label = Some(format!("waiter@host/{number}"));
    waiter.waiting = waiting;
    waiter
}

impl Fake {
    pub(super) fn with(locks: Vec<LockInfo>) -> Arc<Self> {
        let fake = Self::default();
        fake.set(locks);
        Arc::new(fake)
    }

    pub(super) fn set(&self, locks: Vec<LockInfo>) {
        *guard(&self.locks) = locks;
    }

    pub(super) fn grant(&self, key: &str, owner: OwnerId, fence: u64) {
        let grants = guard(&self.grants);
        let grants = grants.as_ref().expect("the page listens");
        grants.send(HandOff::new(key, owner, fence)).unwrap();
    }

    pub(super) fn looks(&self) -> usize {
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
        self.looks_at_one.fetch_add(1, SeqCst);
        let locks = guard(&self.locks);
        let lock = locks.iter().find(|lock| lock.key == key.as_str());
        self.answer(lock.cloned())
    }

    fn overview(&self) -> Inspecting<'_, Result<Overview, StoreError>> {
        self.looks.fetch_add(1, SeqCst);
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

    fn hand_offs(&self) -> Inspecting<'_, Result<HandOffs, StoreError>> {
        let (grants, mut heard) = mpsc::unbounded_channel();
        *guard(&self.grants) = Some(grants);
        let hand_offs = HandOffs::new(move |context| heard.poll_recv(context));
        Box::pin(async move { Ok(hand_offs) })
    }

    fn servers(&self) -> Inspecting<'_, Vec<ServerReport>> {
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
