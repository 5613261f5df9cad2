//! Runs bodies that return a `Result`, and bodies that outlive their caller.

use std::{future::Future, pin::Pin};

use super::LockRequest;
use crate::{
    api::{
        detach::Detach,
        guard::{Lease, finish},
    },
    error::LockError,
};

impl LockRequest {
    /// Acquires the lock, runs the fallible async closure `body` and releases the lock.
    ///
    /// It works like [`run`](Self::run), but has one error type: that of the body, into which a [`LockError`]
    /// is converted with `From`. If the body fails and the lease is lost as well, the error is
    /// [`LockError::Lost`], because the failure may be a consequence of the loss.
    ///
    /// `try` refers to the body: the call waits for the lock. Set [`Wait::Never`](crate::Wait::Never) to
    /// acquire without waiting.
    ///
    /// # Errors
    ///
    /// Returns the errors of `body` and those of [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockError, LockManager};
    ///
    /// #[derive(Debug)]
    /// enum PayError {
    ///     NoMoney,
    ///     Lock(LockError),
    /// }
    ///
    /// impl From<LockError> for PayError {
    ///     fn from(error: LockError) -> Self {
    ///         Self::Lock(error)
    ///     }
    /// }
    ///
    /// async fn withdraw(locks: &LockManager, cents: i64) -> Result<i64, PayError> {
    ///     let account = locks.lock("account:7");
    ///     account
    ///         .try_run(async |lease| {
    ///             lease.ensure_held()?;
    ///             if cents > 500 { Err(PayError::NoMoney) } else { Ok(500 - cents) }
    ///         })
    ///         .await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), PayError> {
    /// let locks = LockManager::memory();
    /// assert_eq!(withdraw(&locks, 100).await?, 400);
    /// assert!(matches!(withdraw(&locks, 900).await, Err(PayError::NoMoney)));
    /// # Ok(()) }
    /// ```
    pub async fn try_run<T, E: From<LockError>>(
        self,
        body: impl AsyncFnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(body).await?
    }

    /// Acquires the lock and runs `body` to its end, even if the future is dropped.
    ///
    /// It works like an annotated function with `on_cancel = detach`:
    /// - While the future is polled, the body runs in place. It sees the caller's task-locals, and its panics
    ///   reach the caller.
    /// - If the future is dropped before the body starts, the call leaves the queue and the body never runs.
    /// - If the future is dropped later, the body is spawned as a task. It keeps its lease and the manager in
    ///   scope, and releases the lock at its end. Its output is dropped.
    ///
    /// A body whose lease is lost is cancelled in either case, unless
    /// [`OnLost::Finish`](crate::OnLost::Finish) is set. When the runtime shuts down, it drops the body.
    ///
    /// A body that may be spawned owns its values and is `Send`. Rust cannot yet express that for an async
    /// closure, so `body` is a closure that returns a boxed future.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// While the call waits for the lock, dropping the future leaves the queue. Later, dropping it moves the
    /// body to a task, which runs to the end and then releases the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    /// use tokio::{sync::oneshot, time::timeout};
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let (done, is_done) = oneshot::channel();
    /// let paying = manager.lock("order:42").run_detached(move |lease| {
    ///     Box::pin(async move {
    ///         println!("token {}", lease.fencing_token());
    ///         tokio::time::sleep(Duration::from_millis(20)).await; // charges the card, ships the goods
    ///         done.send(()).ok();
    ///     })
    /// });
    /// // The payment completes even if the client disconnects.
    /// assert!(timeout(Duration::from_millis(1), paying).await.is_err());
    /// assert!(is_done.await.is_ok());
    /// # Ok(()) }
    /// ```
    pub async fn run_detached<T, F>(self, body: F) -> Result<T, LockError>
    where
        F: for<'a> FnOnce(&'a Lease) -> Pin<Box<dyn Future<Output = T> + Send + 'a>>
            + Send
            + 'static,
        T: Send + 'static,
    {
        let guard = self.acquire().await?;
        let section = Detach::of(&guard).run(async move {
            let lease = guard.lease();
            // The closure is called inside the block: its own code needs a valid lease as well.
            let output = guard.run_while_held(async move { body(lease).await }).await;
            finish(guard, output).await
        });
        section.await
    }
}
