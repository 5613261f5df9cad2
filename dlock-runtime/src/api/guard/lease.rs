//! The lease that a body sees, with one part for each key of the call.

use std::{fmt, sync::Arc, time::Duration};

use super::woken::Woken;
use crate::{
    clock::Moment,
    engine::{acquire::Taken, acquisition::Acquisition, release::Occupied},
    error::LockError,
    fence::FencingToken,
    key::LockKey,
    store::LeaseRecord,
};

/// The right to hold a key, or several keys, until a deadline.
///
/// A function that must run only under the lock can take `&Lease` as a parameter: its callers then have to
/// hold the lock.
///
/// Each of several keys has its own lease, fencing token and deadline. Together they are valid while every
/// one of them is valid, and lost as soon as one is lost.
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
    /// The leases of the other keys, in the order of the call. One pointer, because it is part of the future
    /// of every locked function.
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

    /// Returns the key of the lock; for several keys, the one that was named first.
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

    /// Returns the fencing token of [`key`](Self::key).
    ///
    /// A protected resource uses this number to refuse late writers.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let lock = manager.lock("order:42");
    /// let first = lock.clone().run(async |lease| lease.fencing_token()).await?;
    /// let second = lock.run(async |lease| lease.fencing_token()).await?;
    /// // The resource refuses writes of the first body after the second one has started.
    /// assert!(first < second);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns all keys of the lease with their fencing tokens, in the order of the call. Each key occurs
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

    /// Returns the fencing token of one of the keys, or `None` if the lease does not include `key`.
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

    /// Returns the leases as the store knows them, one for each key in the order of the call, for code that checks
    /// them in the store itself, such as in a transaction.
    ///
    /// From then on the lease is not handed over to another task of this process, or shared with one: what was checked
    /// may depend on it for longer than the body. Tasks that share it already continue with it.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Lost`] if the lease is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let records = guard.records()?;
    /// assert_eq!(records[0].key, guard.key());
    /// assert_eq!(records[0].fence, guard.fencing_token().fence());
    /// guard.release().await
    /// # }
    /// ```
    pub fn records(&self) -> Result<Vec<LeaseRecord<'_>>, LockError> {
        let records = self.each().map(|lease| {
            Ok(LeaseRecord {
                key: lease.key(),
                owner: lease.place.acquisition.bind()?,
                fence: lease.token.fence(),
            })
        });
        records.collect()
    }

    /// Returns the store that granted the lease, if it is a `T`, like
    /// [`LockManager::store`](crate::LockManager::store).
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use dlock::store::memory::MemoryStore;
    ///
    /// # let manager = dlock::LockManager::memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let store = guard.store::<MemoryStore>().expect("the manager was made over one");
    /// assert_eq!(store.len(), 1);
    /// guard.release().await
    /// # }
    /// ```
    #[must_use]
    pub fn store<T: 'static>(&self) -> Option<&T> {
        self.place.acquisition.core.store.extension()
    }

    /// Returns how long the lease is valid without another renewal, or zero once it is lost.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    ///
    /// let sent = manager.lock("upload").run(async |lease| {
    ///     // The request ends before the lease can expire, even without another renewal.
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

    /// Checks that the lease is valid at this moment. Call it before a step that cannot be undone.
    ///
    /// # Errors
    ///
    /// Returns [`LockError::Lost`] if the lease is lost. For several keys, the error names the key whose
    /// lease was lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// use dlock::{Lease, LockError};
    ///
    /// fn send_mail(lease: &Lease) -> Result<(), LockError> {
    ///     lease.ensure_held()?; // `LockError::Lost` if this process was paused for too long
    ///     println!("sent");
    ///     Ok(())
    /// }
    /// # let manager = dlock::LockManager::memory();
    /// manager.lock("mail").try_run(async |lease| send_mail(lease)).await?;
    /// # Ok(()) }
    /// ```
    pub fn ensure_held(&self) -> Result<(), LockError> {
        self.acquisitions()
            .try_for_each(|acquisition| acquisition.ensure_at(acquisition.now()))
    }

    /// Checks the lease for a caller that has just read the clock.
    pub(in crate::api) fn ensure_at(&self, now: Moment) -> Result<(), LockError> {
        self.acquisitions()
            .try_for_each(|acquisition| acquisition.ensure_at(now))
    }

    /// Waits until the lease is lost and returns the error that says why.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The future can be dropped and the method called again at any time.
    ///
    /// # Examples
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
    ///         error = lease.lost() => println!("stepping down: {error}"),
    ///         () = tokio::time::sleep(Duration::from_millis(5)) => println!("work done"),
    ///     }
    /// });
    /// led.await?;
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> LockError {
        loop {
            // Registering precedes the check, so a loss in between is not missed.
            let woken = self.woken();
            if let Err(error) = self.ensure_held() {
                return error;
            }
            woken.await;
        }
    }

    /// Returns a future that resolves at the next wake-up of any of the leases.
    pub(super) fn woken(&self) -> Woken<'_> {
        let others = self.others.as_deref();
        let others = others.map(|others| others.0.iter().map(|lease| &*lease.place.acquisition));
        Woken::of(&self.place.acquisition, others)
    }

    /// Returns the keys of this lease and of the other leases.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &LockKey> {
        self.each().map(Self::key)
    }

    /// Returns this lease and the other leases of the call, which have no others themselves.
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
