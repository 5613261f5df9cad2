//! A process that wants locks, and sees promises kept or broken.

use std::{
    future::pending,
    ops::Deref,
    time::{Duration, Instant},
};

use dlock_runtime::{FencingToken, Lease, LockError, LockGuard, LockManager};
use dlock_testkit::{eventually, within};
use tokio::time::sleep;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// A call that fails for so long says why, and is repeated.
const ATTEMPT: Duration = Duration::from_secs(10);

/// A manager, which stands for a process.
#[derive(Clone)]
pub struct Process {
    manager: LockManager,
    /// Longer than anything takes for it.
    deadline: Duration,
}

impl Deref for Process {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.manager
    }
}

impl Process {
    /// A process for which nothing takes longer than `deadline`.
    #[must_use]
    pub fn new(manager: LockManager, deadline: Duration) -> Self {
        Self { manager, deadline }
    }

    /// Acquires a lock for leases of this TTL.
    pub async fn holds(&self, key: &str, ttl: Duration) -> LockGuard {
        self.lock(key).ttl(ttl).acquire().await.unwrap()
    }

    /// Holds a key until a fault, which comes while the body runs, has ended the lease. Returns the error of the call.
    pub async fn loses(&self, key: &str, ttl: Duration, fault: impl AsyncFnOnce()) -> LockError {
        let body = async |_: &Lease| {
            fault().await;
            pending::<()>().await;
        };
        let lost = self.lock(key).ttl(ttl).run(body).await.unwrap_err();
        assert!(lost.is_lost(), "{lost}");
        lost
    }

    /// Finds that another process holds the key, in spite of requests that fail.
    pub async fn finds_held(&self, key: &str) {
        self.finds_held_or(key, async || String::new()).await;
    }

    /// The same, with more words for a broken promise.
    pub async fn finds_held_or(&self, key: &str, words: impl AsyncFn() -> String) {
        let finds_held = async || match self.lock(key).try_acquire().await {
            Ok(None) => true,
            Ok(Some(_)) => panic!("broken promise: two hold `{key}` {}", words().await),
            Err(_) => false,
        };
        eventually(self.deadline, "the key is found held", finds_held).await;
    }

    /// Acquires and releases a lock, in spite of requests that fail.
    pub async fn works(&self, key: &str) {
        let attempt = async || {
            let guard = self.lock(key).wait(ATTEMPT).acquire().await?;
            guard.release().await
        };
        self.succeeds(key, attempt).await;
    }

    /// Acquires a lock, in spite of requests that fail.
    pub async fn acquires(&self, key: &str) -> LockGuard {
        let attempt = async || self.lock(key).wait(ATTEMPT).acquire().await;
        self.succeeds(key, attempt).await
    }

    /// The same after another holder, whose token is less.
    pub async fn acquires_after(&self, last: FencingToken, key: &str) -> LockGuard {
        let guard = self.acquires(key).await;
        grew(last, guard.fencing_token());
        guard
    }

    /// Waits until its last release is answered.
    pub async fn is_idle(&self) {
        let is_idle = async || self.active_keys() == 0;
        eventually(self.deadline, "the process forgets its keys", is_idle).await;
    }

    /// Waits until the error of a call has all these words, and returns it: at first, a call may end for another reason.
    pub async fn is_refused(&self, key: &str, wait: Duration, words: &[&str]) -> LockError {
        let mut refusal = None;
        eventually(self.deadline, "the reason is named", async || {
            let error = self.lock(key).wait(wait).acquire().await.unwrap_err();
            let text = error.to_string();
            refusal = Some(error);
            words.iter().all(|word| text.contains(word))
        })
        .await;
        refusal.unwrap()
    }

    /// Repeats a call until it succeeds. The message about one that does not has its errors.
    async fn succeeds<T>(&self, key: &str, call: impl AsyncFn() -> Result<T, LockError>) -> T {
        let mut errors = Vec::new();
        let begun = Instant::now();
        let succeeded = within(self.deadline, async {
            loop {
                let error = match call().await {
                    Ok(value) => return value,
                    Err(error) => error.to_string(),
                };
                if errors.last().is_none_or(|(_, last)| *last != error) {
                    errors.push((begun.elapsed(), error));
                }
                sleep(PAUSE).await;
            }
        });
        let value = succeeded.await;
        value.unwrap_or_else(|| panic!("`{key}` is not acquired, or not released: {errors:#?}"))
    }
}

/// The token of a holder is greater than that of the last one, if there was one.
#[track_caller]
pub fn grew(last: impl Into<Option<FencingToken>>, next: FencingToken) {
    let last = last.into();
    assert!(
        last.is_none_or(|last| last < next),
        "broken promise: the token did not grow: {last:?} before {next:?}"
    );
}

/// Releases a lease that is still held.
pub async fn is_released(guard: LockGuard) {
    guard.ensure_held().unwrap();
    guard.release().await.unwrap();
}
