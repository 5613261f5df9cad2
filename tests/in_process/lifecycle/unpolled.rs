//! A lease reaches a task that is busy with another future, such as an arm of `select!`, and does not poll its acquire.

use std::time::Duration;

use dlock::{LockManager, LockRequest, Wait, store::memory::MemoryStore};
use tokio::time::Instant;

use crate::common::{TestClock, assert_idle, begin, soon};

const KEY: &str = "order:42";
const TTL: Duration = Duration::from_secs(60);
/// The time for which a lease waits for its task.
const TAKEN_WITHIN: Duration = Duration::from_millis(250);

/// Two processes, by their managers.
fn processes() -> (MemoryStore, [LockManager; 2]) {
    let store = MemoryStore::new();
    let managers = [(); 2].map(|()| {
        let builder = LockManager::builder().ttl(TTL).wait(Wait::Forever);
        let builder = builder.clock(TestClock::new());
        builder.build_with_store(store.clone()).unwrap()
    });
    (store, managers)
}

/// Asserts that a call of another process waits for moments, and the task is served when it is polled again.
async fn assert_given_back(
    store: &MemoryStore,
    [one, other]: &[LockManager; 2],
    mode: impl Fn(LockRequest) -> LockRequest,
    unpolled: impl Future<Output = Result<dlock::LockGuard, dlock::LockError>>,
) {
    let since = Instant::now();
    let guard = soon(mode(other.lock(KEY)).acquire()).await.unwrap();
    let waited = since.elapsed();
    assert!(
        (TAKEN_WITHIN..2 * TAKEN_WITHIN).contains(&waited),
        "{waited:?}"
    );
    soon(guard.release()).await.unwrap();
    let guard = soon(unpolled).await.unwrap();
    soon(guard.release()).await.unwrap();
    assert_idle(&[one, other]).await;
    assert!(store.is_empty(), "{} locks are left", store.len());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_handed_over_goes_to_another_process() {
    let modes: [fn(LockRequest) -> LockRequest; 3] = [
        |request| request,
        |request| request.renew(false),
        |request| request.permits(1),
    ];
    for mode in modes {
        let (store, managers) = processes();
        let [one, _] = &managers;
        let guard = soon(mode(one.lock(KEY)).acquire()).await.unwrap();
        let mut unpolled = Box::pin(mode(one.lock(KEY)).acquire());
        begin(&mut unpolled).await;
        soon(guard.release()).await.unwrap();
        assert_given_back(&store, &managers, mode, unpolled).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_store_has_granted_goes_to_another_process() {
    let (store, managers) = processes();
    let [one, other] = &managers;
    let guard = soon(other.lock(KEY).acquire()).await.unwrap();
    let mut unpolled = Box::pin(one.lock(KEY).acquire());
    begin(&mut unpolled).await;
    soon(guard.release()).await.unwrap();
    assert_given_back(&store, &managers, |request| request, unpolled).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_without_another_poll_leaves_nothing() {
    let (store, managers) = processes();
    let [one, other] = &managers;
    let guard = soon(one.lock(KEY).acquire()).await.unwrap();
    let mut unpolled = Box::pin(one.lock(KEY).acquire());
    begin(&mut unpolled).await;
    soon(guard.release()).await.unwrap();
    let guard = soon(other.lock(KEY).acquire()).await.unwrap();
    drop(unpolled);
    soon(guard.release()).await.unwrap();
    assert_idle(&[one, other]).await;
    assert!(store.is_empty(), "{} locks are left", store.len());
}
