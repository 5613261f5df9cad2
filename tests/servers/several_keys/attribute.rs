//! Functions with several keys.

use std::{future::pending, sync::Arc, time::Duration};

use dlock::{LockError, LockManager, distributed_lock};
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};

use crate::common::{Log, assert_idle, soon};
use crate::several_keys::tokens;

#[derive(Debug, PartialEq)]
enum Outcome {
    Moved(Vec<String>),
    Skipped,
}

#[distributed_lock(
    key = ["account:<from>", "account:<to>"],
    ttl = "10s",
    wait = never,
    on_busy = Ok(Outcome::Skipped),
    lease = lease,
    manager = locks
)]
async fn transfer(locks: &LockManager, from: u64, to: u64) -> Result<Outcome, LockError> {
    let inner = audit(locks, to).await;
    assert!(matches!(inner, Err(LockError::WouldDeadlock { .. })));
    lease.ensure_held()?;
    let keys = tokens(lease).into_iter().map(|(key, _)| key);
    Ok(Outcome::Moved(keys.collect()))
}

#[distributed_lock(key = "account:<id>", manager = locks)]
async fn audit(locks: &LockManager, id: u64) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn take_all_of_them_or_none() {
    let manager = LockManager::memory();
    for (from, to, expected) in [
        (1, 2, &["account:1", "account:2"][..]),
        (2, 1, &["account:2", "account:1"]),
        (7, 7, &["account:7"]),
    ] {
        let expected = expected.iter().map(|key| (*key).to_owned()).collect();
        let outcome = transfer(&manager, from, to).await;
        assert_eq!(outcome, Ok(Outcome::Moved(expected)));
    }
    let guard = manager.lock("account:2").acquire().await.unwrap();
    for (from, to) in [(1, 2), (2, 1), (2, 2)] {
        let outcome = transfer(&manager, from, to).await;
        assert_eq!(outcome, Ok(Outcome::Skipped));
    }
    let free = manager.lock("account:1").try_acquire().await.unwrap();
    drop(free.expect("it was given back"));
    guard.release().await.unwrap();
    assert_idle(&[&manager]).await;
}

#[distributed_lock(
    key = ["account:<from>", "account:<to>",],
    on_error = |error: LockError| error.to_string(),
)]
async fn tell(from: &str, to: &str) -> String {
    format!("{from} to {to}")
}

#[tokio::test(start_paused = true)]
async fn tell_what_is_wrong_with_one_of_them() {
    let manager = LockManager::memory();
    let told = dlock::with_manager(manager, async {
        assert_eq!(tell("a", "b").await, "a to b");
        tell("a", "").await
    });
    let told = told.await;
    assert!(
        told.contains("`account:<to>` is not a valid lock key"),
        "{told}"
    );
    let told = tell("a", "b").await;
    assert!(told.contains("`account:a` has no manager"), "{told}");
}

#[distributed_lock(key = ["account:<from>", "account:<to>"], manager = locks, on_cancel = detach)]
async fn go_on(
    locks: LockManager,
    from: u64,
    to: u64,
    begun: Arc<Notify>,
    end: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    begun.notify_one();
    end.await.expect("somebody ends it");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn go_on_with_all_of_them_without_their_caller() {
    let manager = LockManager::memory();
    let (end, ended) = oneshot::channel();
    let begun = Arc::new(Notify::new());
    let call = go_on(manager.clone(), 1, 2, begun.clone(), ended);
    tokio::select! {
        outcome = call => panic!("{outcome:?}"),
        () = begun.notified() => {}
    }
    let brief = Duration::from_millis(100);
    for key in ["account:1", "account:2"] {
        let free = manager.lock(key).wait(brief).acquire().await;
        assert!(
            free.unwrap_err().is_busy(),
            "broken promise: two hold `{key}`"
        );
    }
    end.send(()).unwrap();
    soon(assert_idle(&[&manager])).await;
}

#[distributed_lock(key = ["<a>", "<b>"], manager = locks)]
async fn never_ends(locks: &LockManager, a: u64, b: u64) -> Result<(), LockError> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn are_named_in_the_log() {
    let (log, _guard) = Log::capture();
    let manager = LockManager::memory();
    let call = never_ends(&manager, 7, 4);
    assert!(timeout(Duration::from_secs(1), call).await.is_err());
    assert_idle(&[&manager]).await;
    let text = log.text();
    let span = text.lines().find(|line| line.starts_with("lock "));
    assert!(span.is_some_and(|span| span.contains("key=7")), "{text}");
    for expected in ["keys=7, 4", "template=\"<a>, <b>\"", "token=", "waited_ms="] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}
