//! A body that is not polled keeps its lock, and is reported.

use std::{
    fmt::{Debug, Write as _},
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use dlock::LockManager;
use dlock_testkit::eventually;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::{select, time::sleep};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer, Registry,
    layer::{Context, SubscriberExt as _},
};

use crate::hogs::{BLOCKED, TTL, runtime};

const LIMIT: Duration = Duration::from_secs(60);

static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Those of the whole process: renewals are told of on a thread of their own.
fn listen() -> &'static Snapshotter {
    static METRICS: OnceLock<Snapshotter> = OnceLock::new();
    METRICS.get_or_init(|| {
        tracing::subscriber::set_global_default(Registry::default().with(Listens)).unwrap();
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        recorder.install().unwrap();
        snapshotter
    })
}

struct Listens;

impl<S: Subscriber> Layer<S> for Listens {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                write!(self.0, "{}={value:?} ", field.name()).unwrap();
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(text.0);
    }
}

fn stalls_told(key: &str) -> usize {
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("key={key} ");
    let is_stall = |text: &&String| text.contains("not polled") && text.contains(&key);
    told.iter().filter(is_stall).count()
}

/// Read once: a snapshot takes what it shows.
fn stalls_counted(metrics: &Snapshotter) -> u64 {
    let snapshot = metrics.snapshot().into_vec().into_iter();
    let stalls = snapshot.filter_map(|(key, _, _, value)| match value {
        DebugValue::Counter(count) if key.key().name() == "dlock_stalled_total" => Some(count),
        _ => None,
    });
    stalls.sum()
}

#[test]
fn a_body_that_is_not_polled_is_reported_once_and_one_that_only_waits_is_not() {
    let metrics = listen();
    runtime(Some(2)).block_on(async {
        let manager = LockManager::builder()
            .ttl(TTL)
            .connect("memory://")
            .await
            .unwrap();
        let waits = manager
            .lock("only-waits")
            .run(async |_| sleep(BLOCKED).await);
        let waits = tokio::spawn(waits);
        let blocks = manager
            .lock("thread-is-blocked")
            .run(async |_| thread::sleep(BLOCKED));
        tokio::spawn(blocks).await.unwrap().unwrap();
        // It shares the lease of another body, which is polled.
        let shared = || manager.lock("shared-one-is-blocked").shared();
        let bears = shared().run(async |_| sleep(BLOCKED).await);
        let joins = shared().run(async |_| thread::sleep(BLOCKED));
        let (bears, joins) = (tokio::spawn(bears), tokio::spawn(joins));
        joins.await.unwrap().unwrap();
        bears.await.unwrap().unwrap();
        // A guard that is kept after its body has ended has nothing to be polled.
        let kept = manager.lock("body-has-ended").acquire().await.unwrap();
        kept.run_while_held(async {}).await.unwrap();
        // Its future is there, and is not polled.
        let forgotten = manager.lock("forgotten").run(async |_| sleep(LIMIT).await);
        let mut forgotten = Box::pin(forgotten);
        select! {
            _ = &mut forgotten => panic!("it sleeps"),
            () = sleep(TTL / 10) => {}
        }
        let told = eventually(LIMIT, "it is told of", async || {
            stalls_told("forgotten") == 1
        });
        told.await;
        drop(forgotten);
        waits.await.unwrap().unwrap();
        assert_eq!(stalls_told("thread-is-blocked"), 1);
        assert_eq!(stalls_told("shared-one-is-blocked"), 1);
        assert_eq!(stalls_told("forgotten"), 1);
        assert_eq!(
            stalls_told("only-waits"),
            0,
            "it could be polled at any time"
        );
        assert_eq!(stalls_told("body-has-ended"), 0);
        kept.release().await.unwrap();
        assert!(stalls_counted(metrics) >= 2);
    });
}
