//! Bodies that can fail, and bodies that outlive their caller.

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
    /// Runs `body`, an async closure that can fail, while holding the lock.
    ///
    /// As [`run`](Self::run), with one error for both: that of the body, which a [`LockError`] becomes
    /// by `From`. When the body has failed and the lease was lost as well, the error is
    /// [`LockError::Lost`]: what the body says of its failure may be a consequence of the loss.
    ///
    /// `try` is about the body: the lock is waited for. Set [`Wait::Never`](crate::Wait::Never) for a
    /// request that does not wait.
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
    ///
    /// # Errors
    ///
    /// Those of `body`, and those of [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lock in the background.
    pub async fn try_run<T, E: From<LockError>>(
        self,
        body: impl AsyncFnOnce(&Lease) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(body).await?
    }

    /// Runs `body` while holding the lock, to its end even if the future is dropped.
    ///
    /// As an annotated function with `on_cancel = detach`: as long as the future is polled, the body
    /// runs in place, sees the task-locals of its caller and panics there. Dropped after the body has
    /// begun, it is spawned: it keeps its lease and the manager in scope, releases the lock, and its
    /// output is dropped. Dropped before, it leaves the queue, and the body never runs. A body whose
    /// lease is lost is stopped all the same, unless [`OnLost::Finish`](crate::OnLost::Finish) was
    /// asked for. A runtime that ends takes the body with it.
    ///
    /// A body that may be spawned owns what it uses, and is `Send`. Rust cannot say that of an async
    /// closure yet, so this one is a closure that returns a boxed future.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    /// use tokio::{sync::oneshot, time::timeout};
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let (done, is_done) = oneshot::channel();
    /// let paying = manager.lock("order:42").run_detached(move |lease| {
    ///     Box::pin(async move {
    ///         println!("token {}", lease.fencing_token());
    ///         tokio::time::sleep(Duration::from_millis(20)).await; // takes the money, sends the goods
    ///         done.send(()).ok();
    ///     })
    /// });
    /// // A client that hangs up does not tear the payment.
    /// assert!(timeout(Duration::from_millis(1), paying).await.is_err());
    /// assert!(is_done.await.is_ok());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future while the lock is waited for gives up the place in the queue. Dropping it
    /// later lets the body run to its end in a task of its own, which then releases the lock.
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
            // Called inside, the closure needs a valid lease for what it does by itself as well.
            let output = guard.run_while_held(async move { body(lease).await }).await;
            finish(guard, output).await
        });
        section.await
    }
}
