//! What the list of the public API does not show: values that tasks and threads share.

use dlock::{
    AlreadyInstalled, ConnectError, FencingToken, Holder, Lease, LockError, LockGuard, LockKey,
    LockKeyBuilder, LockManager, LockManagerBuilder, LockRequest, LostCause, OnLost, Release,
    RunWhileHeld, ShutdownReport, StoreError, Wait,
    store::{AcquireRequest, Hint, HintSink, StoreProperties, memory::MemoryStore, quorum::Quorum},
};

fn is_shared<T: Send + Sync>() {}

fn is_shown<T: std::fmt::Debug>(value: &T) -> String {
    format!("{value:?}")
}

#[test]
fn every_value_can_go_to_another_thread() {
    is_shared::<AlreadyInstalled>();
    is_shared::<ConnectError>();
    is_shared::<FencingToken>();
    is_shared::<Holder>();
    is_shared::<Lease>();
    is_shared::<LockError>();
    is_shared::<LockGuard>();
    is_shared::<LockKey>();
    is_shared::<LockKeyBuilder>();
    is_shared::<LockManager>();
    is_shared::<LockManagerBuilder>();
    is_shared::<LockRequest>();
    is_shared::<LostCause>();
    is_shared::<OnLost>();
    is_shared::<Release>();
    is_shared::<RunWhileHeld<'_, std::future::Ready<()>>>();
    is_shared::<ShutdownReport>();
    is_shared::<StoreError>();
    is_shared::<Wait>();
    is_shared::<AcquireRequest<'_>>();
    is_shared::<Hint<'_>>();
    is_shared::<HintSink>();
    is_shared::<StoreProperties<'_>>();
    is_shared::<MemoryStore>();
    is_shared::<Quorum>();
}

#[tokio::test(start_paused = true)]
async fn a_future_shows_its_lease_and_not_its_body() {
    let manager = LockManager::memory();
    let guard = manager.lock("order:42").acquire().await.unwrap();
    let running = guard.run_while_held(async {});
    let shown = is_shown(&running);
    assert!(
        shown.contains("RunWhileHeld") && shown.contains("order:42"),
        "{shown}"
    );
    running.await.unwrap();
    guard.release().await.unwrap();
}
