//! What the log says of calls, leases and requests: each event once, with the level and the fields that the book lists.

use std::{
    future::{pending, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use dlock::{
    LockError, LockGuard, LockManager, OnLost, StoreError, StoreErrorKind, Wait,
    store::memory::MemoryStore,
};
use tokio::{
    runtime,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::common::{Fate, Faulty, Kind, Log, TestClock, Wire, assert_idle};

const KEY: &str = "order:42";
const TTL: Duration = Duration::from_secs(6);
const SECOND: Duration = Duration::from_secs(1);

/// The events of dlock so far, each with its level; every token is the same.
fn told(log: &Log) -> Vec<String> {
    let text = log.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("dlock "));
    let hidden = events.map(|event| {
        let words = event.split(' ').map(|word| {
            let is_token = word.starts_with("token=");
            if is_token { "token=7" } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    hidden.collect()
}

/// Those that are no normal course of a call.
fn troubles(log: &Log) -> Vec<String> {
    let mut events = told(log);
    events.retain(|event| !event.starts_with("DEBUG message=acquired "));
    events
}

/// Two processes whose clocks are exact.
fn two() -> [LockManager; 2] {
    let store = MemoryStore::new();
    [(); 2].map(|()| {
        let builder = LockManager::builder().clock(TestClock::new());
        builder.build_with_store(store.clone()).unwrap()
    })
}

async fn waits(manager: &LockManager) -> JoinHandle<Result<LockGuard, LockError>> {
    let lock = manager.lock(KEY).wait(Wait::Forever);
    let waits = tokio::spawn(lock.acquire());
    sleep(Duration::from_millis(1)).await;
    waits
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_acquired_is_logged_with_the_wait_and_the_origin_of_its_lease() {
    let (log, _capturing) = Log::capture();
    let [here, there] = two();
    let first = here.lock(KEY).acquire().await.unwrap();
    let next = waits(&here).await;
    first.release().await.unwrap();
    let second = next.await.unwrap().unwrap();
    let next = waits(&there).await;
    sleep(4 * SECOND).await;
    second.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(
        told(&log),
        [
            "DEBUG message=acquired key=order:42 token=7 waited_ms=0 origin=\"requested\"",
            "TRACE message=handed over to the next task of this process key=order:42",
            "DEBUG message=acquired key=order:42 token=7 waited_ms=1 origin=\"handed-over\"",
            "DEBUG message=acquired key=order:42 token=7 waited_ms=4001 origin=\"granted\"",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_logged_with_its_holder_and_louder_for_a_call_that_has_waited() {
    let (log, _capturing) = Log::capture();
    let [here, there] = two();
    let held = there.lock(KEY).acquire().await.unwrap();
    let mut expected = Vec::new();
    for (wait, begin) in [
        (Wait::Never, "DEBUG message=busy key=order:42"),
        (
            Wait::For(SECOND),
            "INFO message=busy key=order:42 waited_ms=1000",
        ),
    ] {
        let error = here.lock(KEY).wait(wait).acquire().await.unwrap_err();
        let LockError::Busy { holder, .. } = error else {
            panic!("{error}");
        };
        expected.push(format!("{begin} holder={holder}"));
    }
    assert_eq!(troubles(&log), expected);
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_warning_with_the_error_of_the_caller() {
    let faulty = Faulty::start();
    let (log, _capturing) = Log::capture();
    let lock = faulty.manager.lock(KEY);
    let refused = lock.clone().metric("order").ttl(Duration::ZERO).acquire();
    let at_once = refused.await.unwrap_err();
    faulty
        .wire
        .always(Kind::Acquire, Fate::Refused(StoreErrorKind::Denied));
    let denied = lock.acquire().await.unwrap_err();
    let mut events = troubles(&log);
    events.retain(|event| !event.contains("message=request failed "));
    assert_eq!(
        events,
        [
            format!("WARN message=not acquired key=order:42 template=\"order\" error={at_once}"),
            format!("WARN message=not acquired key=order:42 error={denied}"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_is_logged_with_its_kind_and_its_error() {
    for (fate, error) in [
        (Fate::Lost, "the connection broke; check"),
        (Fate::Swallowed, "the store did not answer within"),
    ] {
        let faulty = Faulty::start();
        let (log, _capturing) = Log::capture();
        let lock = faulty.manager.lock(KEY).ttl(TTL);
        faulty.wire.next(Kind::Acquire, fate.clone());
        let guard = lock.clone().acquire().await.unwrap();
        faulty.wire.next(Kind::Renew, fate.clone());
        sleep(5 * SECOND).await;
        faulty.wire.next(Kind::Release, fate.clone());
        guard.release().await.unwrap();
        assert_idle(&[&faulty.manager]).await;
        // A lease that is kept for its `min_hold` is renewed in place of its release.
        let guard = lock.min_hold(4 * SECOND).acquire().await.unwrap();
        faulty.wire.next(Kind::Renew, fate);
        guard.release().await.unwrap();
        assert_idle(&[&faulty.manager]).await;
        let mut events = troubles(&log);
        events.retain(|event| event.contains("message=request failed "));
        assert_eq!(events.len(), 4, "{events:#?}");
        for (event, request) in events.iter().zip(["acquire", "renew", "release", "keep"]) {
            let begin = "DEBUG message=request failed key=order:42";
            let begin = format!("{begin} request={request} error={error}");
            assert!(event.starts_with(&begin), "{event}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_kept_for_its_min_hold_is_logged_with_the_rest_of_it() {
    let (log, _capturing) = Log::capture();
    let [manager, _] = two();
    let guard = manager.lock(KEY).min_hold(10 * SECOND).acquire();
    let guard = guard.await.unwrap();
    sleep(4 * SECOND).await;
    guard.release().await.unwrap();
    let events = troubles(&log);
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    let rest = event.strip_prefix("DEBUG message=kept for its min_hold key=order:42 rest_ms=");
    let rest: u64 = rest.expect(event).parse().unwrap();
    assert!((6000..6100).contains(&rest), "{rest}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_a_warning_with_the_cause_and_so_is_a_body_that_ends_without_it() {
    for on_lost in [OnLost::Stop, OnLost::Finish] {
        let (log, _capturing) = Log::capture();
        let store = MemoryStore::new();
        let manager = LockManager::builder().clock(TestClock::new());
        let manager = manager.build_with_store(store.clone()).unwrap();
        let lock = manager.lock(KEY).ttl(TTL).on_lost(on_lost);
        let guard = lock.acquire().await.unwrap();
        store.forget();
        let error = guard.lost().await;
        let LockError::Lost {
            cause, held_for, ..
        } = &error
        else {
            panic!("{error}");
        };
        let released = guard.release().await;
        assert_eq!(released.is_err(), on_lost == OnLost::Stop);
        assert_idle(&[&manager]).await;
        let lost =
            format!("WARN message=lease lost key=order:42 cause={cause} held_for={held_for:?}");
        let finished =
            format!("WARN message=body finished without its lease key=order:42 error={error}");
        let mut expected = vec![lost];
        if on_lost == OnLost::Finish {
            expected.push(finished);
        }
        assert_eq!(troubles(&log), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_shutdown_ends_is_a_warning_of_its_own() {
    let (log, _capturing) = Log::capture();
    let [manager, _] = two();
    let guard = manager.lock(KEY).acquire().await.unwrap();
    manager.shutdown(SECOND).await;
    drop(guard);
    assert_idle(&[&manager]).await;
    assert_eq!(
        troubles(&log),
        ["WARN message=lease given up by the manager's shutdown key=order:42"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_polled_for_longer_than_its_ttl_is_logged_once_until_it_is_polled() {
    let (log, _capturing) = Log::capture();
    let [manager, _] = two();
    let guard = manager.lock(KEY).ttl(TTL).acquire().await.unwrap();
    let mut body = pin!(guard.run_while_held(pending::<()>()));
    for times in 1..3 {
        let begun = Instant::now();
        poll_fn(|context| {
            assert!(body.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        while told(&log).len() <= times {
            sleep(SECOND / 10).await;
            assert!(begun.elapsed() < 2 * TTL);
        }
        assert!(begun.elapsed() > TTL);
        sleep(5 * TTL).await;
        assert_eq!(troubles(&log).len(), times);
    }
    for event in troubles(&log) {
        let since = event.strip_prefix(
            "WARN message=body not polled for longer than its TTL: its thread is blocked or its future is not \
             awaited key=order:42 since_ms=",
        );
        let since = since.expect(&event).parse().map(Duration::from_millis);
        let since = since.unwrap();
        assert!((TTL..2 * TTL).contains(&since), "{since:?}");
    }
}

/// The caller has its answer by then: the log alone says that others have to wait for the TTL.
#[tokio::test(start_paused = true)]
async fn a_release_that_the_store_refuses_for_good_is_sent_twice_and_is_a_warning() {
    for kind in [
        StoreErrorKind::BadAnswer,
        StoreErrorKind::Denied,
        StoreErrorKind::Unsupported,
        StoreErrorKind::WrongType,
    ] {
        let faulty = Faulty::start();
        let (log, _capturing) = Log::capture();
        let guard = faulty.manager.lock(KEY).acquire().await.unwrap();
        faulty.wire.always(Kind::Release, Fate::Refused(kind));
        let before = Instant::now();
        guard.release().await.unwrap();
        assert_idle(&[&faulty.manager]).await;
        assert!(before.elapsed() < SECOND, "it is not repeated");
        assert_eq!(faulty.wire.count(Kind::Release), 2);
        let error = StoreError::new(kind, "the store refuses it");
        let mut events = troubles(&log);
        events.retain(|event| !event.contains("message=request failed "));
        assert_eq!(
            events,
            [format!(
                "WARN message=not released: the store refused the release; the lock stays until its TTL ends \
                 key=order:42 error={error}"
            )]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_a_warning_when_the_ttl_is_over() {
    let faulty = Faulty::start();
    let (log, _capturing) = Log::capture();
    let guard = faulty.manager.lock(KEY).ttl(TTL).acquire().await.unwrap();
    faulty.wire.always(Kind::Release, Fate::Lost);
    let before = Instant::now();
    drop(guard);
    assert_idle(&[&faulty.manager]).await;
    assert!(before.elapsed() >= TTL);
    let mut events = troubles(&log);
    events.retain(|event| !event.contains("message=request failed "));
    assert_eq!(
        events,
        ["WARN message=not released: the store did not answer before the TTL ended key=order:42"]
    );
}

#[test]
fn a_release_that_no_runtime_can_send_is_a_warning() {
    let (log, _capturing) = Log::capture();
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap();
    let guard = runtime.block_on(async {
        let wire = Wire::new(MemoryStore::new());
        let manager = LockManager::builder().build_with_store(wire).unwrap();
        manager.lock(KEY).acquire().await.unwrap()
    });
    drop(runtime);
    drop(guard);
    assert_eq!(
        troubles(&log),
        [
            "WARN message=not released: the runtime ended first; the lock stays until its TTL ends. Call `shutdown` \
             before the runtime ends key=order:42"
        ]
    );
}
