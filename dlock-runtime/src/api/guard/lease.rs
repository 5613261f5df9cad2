//! The lease that a body sees: one for each key of its call.

use std::{fmt, sync::Arc, time::Duration};

use super::woken::Woken;
use crate::{
    clock::Moment,
    engine::{acquire::Taken, acquisition::Acquisition, release::Occupied},
    error::LockError,
    fence::FencingToken,
    key::LockKey,
};

/// The right to hold a key until a deadline, or several keys.
///
/// A helper that must only run under the lock takes `&Lease`: the compiler then asks its caller
/// for the proof.
///
/// Of several keys that were taken together each has a lease of its own, with its own token and
/// deadline; what is said here of "the lease" is said of all of them: it is valid while every one
/// is, and lost with the first.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// # let manager = dlock::LockManager::memory();
/// use dlock::{Lease, LockError};
///
/// /// Runs under the lock only: its callers have to show the lease.
/// fn book(lease: &Lease, cents: i64) -> Result<(), LockError> {
///     lease.ensure_held()?;
///     println!("{cents} for {}, token {}", lease.key(), lease.fencing_token());
///     Ok(())
/// }
///
/// manager.lock("account:7").try_run(async |lease| book(lease, 100)).await?;
/// # Ok(()) }
/// ```
pub struct Lease {
    pub(super) place: Occupied,
    pub(super) token: FencingToken,
    /// The leases of the other keys, in the order of the call. One pointer, since it is part of the
    /// future of every locked function.
    pub(super) others: Option<Box<OtherLeases>>,
}

pub(super) struct OtherLeases(pub(super) Vec<Lease>);

impl Lease {
    pub(super) fn new(taken: Taken) -> Self {
        let Taken { place, token } = taken;
        Self {
            place,
            token,
            others: None,
        }
    }

    /// The lock; of several keys that which was named first.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert_eq!(guard.key().as_str(), "order:42");
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn key(&self) -> &LockKey {
        self.place.acquisition.key()
    }

    /// The number by which a protected resource can refuse a late writer: that of
    /// [`key`](Self::key).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let lock = manager.lock("order:42");
    /// let first = lock.clone().run(async |lease| lease.fencing_token()).await?;
    /// let second = lock.run(async |lease| lease.fencing_token()).await?;
    /// // What the first section writes after the second one has begun is refused.
    /// assert!(first < second);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// All keys of the lease with their fencing tokens, in the order in which they were named, each
    /// once.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock_all(["account:7", "account:4"]).acquire().await?;
    /// for (key, token) in guard.fencing_tokens() {
    ///     println!("UPDATE … SET fence = {token} … for {key}");
    /// }
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&LockKey, FencingToken)> {
        self.each().map(|lease| (lease.key(), lease.token))
    }

    /// The fencing token of one of the keys; `None` if the lease is not about `key`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # async fn demo() -> Result<(), dlock::LockError> {
    /// let manager = dlock::LockManager::memory();
    /// let guard = manager.lock_all(["account:7", "account:4"]).acquire().await?;
    /// assert!(guard.fencing_token_for("account:4").is_some());
    /// assert_eq!(guard.fencing_token_for("account:7"), Some(guard.fencing_token()));
    /// assert_eq!(guard.fencing_token_for("account:1"), None);
    /// guard.release().await?;
    /// # Ok(()) }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
    /// ```
    #[must_use]
    pub fn fencing_token_for(&self, key: impl AsRef<str>) -> Option<FencingToken> {
        let key = key.as_ref();
        let mut tokens = self.fencing_tokens();
        tokens.find_map(|(held, token)| (held.as_str() == key).then_some(token))
    }

    /// Returns how long the lease is valid without another renewal; zero once it is lost.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// let sent = manager.lock("upload").run(async |lease| {
    ///     // No longer than is certain now, whatever becomes of the lease.
    ///     tokio::time::timeout(lease.remaining(), async { /* a request */ }).await
    /// });
    /// assert!(sent.await?.is_ok());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let remaining = self.acquisitions().map(|acquisition| {
            acquisition.check().map_or(Duration::ZERO, |held| {
                held.deadline.remaining(acquisition.now())
            })
        });
        remaining.min().unwrap_or_default()
    }

    /// Returns `true` if the lease ended before it was released.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert!(!guard.is_lost());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.acquisitions()
            .any(|acquisition| acquisition.check().is_err())
    }

    /// Says whether the lease is valid right now. Call it before a step that cannot be undone.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use dlock::{Lease, LockError};
    ///
    /// fn send_mail(lease: &Lease) -> Result<(), LockError> {
    ///     lease.ensure_held()?; // `LockError::Lost` if this process stood still for too long
    ///     println!("sent");
    ///     Ok(())
    /// }
    /// # let manager = dlock::LockManager::memory();
    /// manager.lock("mail").try_run(async |lease| send_mail(lease)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] once the lease is lost; of several keys it names the one that was lost.
    pub fn ensure_held(&self) -> Result<(), LockError> {
        self.acquisitions()
            .try_for_each(|acquisition| acquisition.ensure_at(acquisition.now()))
    }

    /// The same for a caller that has just read the clock.
    pub(super) fn ensure_at(&self, now: Moment) -> Result<(), LockError> {
        self.acquisitions()
            .try_for_each(|acquisition| acquisition.ensure_at(now))
    }

    /// Waits until the lease is lost and says how.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use std::time::Duration;
    /// use dlock::OnLost;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let led = manager.lock("leader").on_lost(OnLost::Finish).run(async |lease| {
    ///     tokio::select! {
    ///         error = lease.lost() => println!("steps down: {error}"),
    ///         () = tokio::time::sleep(Duration::from_millis(5)) => println!("has done its work"),
    ///     }
    /// });
    /// led.await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// May be dropped and called again at any time.
    pub async fn lost(&self) -> LockError {
        loop {
            // Made before the check, it misses no loss.
            let woken = self.woken();
            if let Err(error) = self.ensure_held() {
                return error;
            }
            woken.await;
        }
    }

    /// The next wake of any of the leases.
    pub(super) fn woken(&self) -> Woken<'_> {
        let others = self.others.as_deref();
        let others = others.map(|others| others.0.iter().map(|lease| &*lease.place.acquisition));
        Woken::of(&self.place.acquisition, others)
    }

    /// The keys of this lease and of the others.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &LockKey> {
        self.each().map(Self::key)
    }

    /// This lease and the others, which have none.
    pub(super) fn each(&self) -> impl Iterator<Item = &Self> {
        let others = self.others.iter().flat_map(|others| &others.0);
        std::iter::once(self).chain(others)
    }

    pub(super) fn acquisitions(&self) -> impl Iterator<Item = &Arc<Acquisition>> {
        self.each().map(|lease| &lease.place.acquisition)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", self.key())
            .field("token", &self.token)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
