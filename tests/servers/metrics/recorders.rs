//! Recorders come and go: what was raised in one is lowered there, and each hears what metrics mean.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::LockManager;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::timeout;

use crate::metrics::recorded::Recorded;

#[tokio::test(start_paused = true)]
async fn a_recorder_that_comes_later_sees_no_gauge_below_zero() {
    let manager = LockManager::memory();
    let guard = manager.lock("k").acquire().await.unwrap();
    let recorded = Recorded::default();
    let _recorder = recorded.start();
    guard.release().await.unwrap();
    assert_eq!(
        recorded.count("dlock_held{template=none,mode=exclusive}"),
        0.0
    );
    manager.lock("k").run(async |_| ()).await.unwrap();
    assert_eq!(
        recorded.count("dlock_acquired_total{template=none,mode=exclusive}"),
        1.0
    );
    recorded.assert_settled();
}

#[tokio::test(start_paused = true)]
async fn a_gauge_is_lowered_where_it_was_raised() {
    let manager = LockManager::memory();
    let (first, second) = (Recorded::default(), Recorded::default());
    let recorder = first.start();
    let guard = manager.lock("k").acquire().await.unwrap();
    drop(recorder);
    let _recorder = second.start();
    guard.release().await.unwrap();
    first.assert_settled();
    second.assert_settled();
    assert_eq!(first.sum("dlock_acquired_total"), 1.0);
    assert_eq!(second.sum("dlock_acquired_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_comes_later_is_told_what_the_metrics_mean() {
    let manager = LockManager::memory();
    manager.lock("k").run(async |_| ()).await.unwrap();
    let recorder = DebuggingRecorder::new();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    manager.lock("k").run(async |_| ()).await.unwrap();
    for (key, unit, text, _) in recorder.snapshotter().snapshot().into_vec() {
        let name = key.key().name();
        assert!(text.is_some_and(|text| text.ends_with('.')), "{name}");
        assert!(unit.is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_watched_is_there_before_it_happens() {
    let manager = LockManager::memory();
    let recorders = [DebuggingRecorder::new(), DebuggingRecorder::new()];
    for recorder in &recorders {
        let _recorder = metrics::set_default_local_recorder(recorder);
        let lock = manager.lock("k").metric("watched");
        lock.run(async |_| ()).await.unwrap();
        let snapshot = recorder.snapshotter().snapshot().into_vec();
        let lost = snapshot
            .into_iter()
            .filter(|(key, ..)| key.key().name() == "dlock_lost_total");
        let values: Vec<_> = lost.map(|(.., value)| value).collect();
        assert_eq!(values, [(); 3].map(|()| DebugValue::Counter(0)));
    }
}

/// Counts what it is told.
#[derive(Default)]
struct Counts {
    described: AtomicUsize,
    registered: AtomicUsize,
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.fetch_add(1, Ordering::Relaxed);
    }

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "dlock_lost_total" {
            self.registered.fetch_add(1, Ordering::Relaxed);
        }
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// A recorder may lie where an earlier one lay.
#[tokio::test(start_paused = true)]
async fn a_new_manager_describes_the_metrics_again_and_counters_for_alerts_are_announced_once() {
    let counts = Counts::default();
    let _recorder = metrics::set_default_local_recorder(&counts);
    let described = || counts.described.load(Ordering::Relaxed);
    drop(LockManager::memory());
    let once = described();
    let manager = LockManager::memory();
    assert!(
        once > 0 && described() >= 2 * once,
        "{once}, {}",
        described()
    );
    for _ in 0..5 {
        let lock = manager.lock("k").metric("announced-once");
        lock.run(async |_| ()).await.unwrap();
    }
    assert_eq!(counts.registered.load(Ordering::Relaxed), 3, "the causes");
}

/// Has a metric of this name that panics, and no other.
struct Broken(&'static str);

/// A gauge that can only be raised, and a counter that can only be told of nothing.
struct Panics;

impl GaugeFn for Panics {
    fn increment(&self, _: f64) {}

    fn decrement(&self, _: f64) {
        panic!("on purpose")
    }

    fn set(&self, _: f64) {}
}

impl CounterFn for Panics {
    fn increment(&self, value: u64) {
        assert_eq!(value, 0, "on purpose");
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == self.0 {
            Counter::from_arc(Arc::new(Panics))
        } else {
            Counter::noop()
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        if key.name() == self.0 {
            Gauge::from_arc(Arc::new(Panics))
        } else {
            Gauge::noop()
        }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_keeps_no_lock() {
    let manager = LockManager::memory();
    let recorder = metrics::set_default_local_recorder(&Broken("dlock_held"));
    drop(manager.lock("dropped").acquire().await.unwrap());
    let guard = manager.lock("released").acquire().await.unwrap();
    guard.release().await.unwrap();
    drop(recorder);
    let shutdown = manager.shutdown(Duration::from_secs(1)).await;
    assert_eq!(shutdown, dlock::ShutdownReport::default());
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_keeps_nobody_from_hearing_of_a_loss() {
    let manager = crate::metrics::exact();
    let _recorder = metrics::set_default_local_recorder(&Broken("dlock_lost_total"));
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        let lock = manager.lock(key).ttl(Duration::from_secs(10)).renew(false);
        guards.push(lock.acquire().await.unwrap());
    }
    for guard in &guards {
        let lost = timeout(Duration::from_secs(20), guard.lost()).await;
        assert!(lost.is_ok(), "{} has no end", guard.key());
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_panics_costs_no_renewal() {
    let manager = crate::metrics::exact();
    let _recorder = metrics::set_default_local_recorder(&Broken("dlock_renewals_total"));
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        let lock = manager.lock(key).ttl(Duration::from_secs(10));
        guards.push(lock.acquire().await.unwrap());
    }
    let lost = timeout(Duration::from_secs(60), guards[0].lost()).await;
    assert!(lost.is_err(), "nobody has renewed it");
    for guard in guards {
        guard.release().await.unwrap();
    }
}
