//! The options of a manager.

use std::{sync::Arc, time::Duration};

use super::LockManagerBuilder;
use crate::{
    clock::Clock,
    options::{OnLost, Wait},
    random::Random,
};

impl LockManagerBuilder {
    /// Sets how long the store keeps a lease without a sign of life, 100 ms to 24 h. If not set,
    /// 30 s.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // A killed process holds nothing for longer than this.
    /// let manager = LockManager::builder().ttl(Duration::from_secs(10)).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// Sets how long to wait while another holder has a lock. If not set, 10 s.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // The callers of this service give up after three seconds.
    /// let manager = LockManager::builder().wait(Duration::from_secs(2)).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.defaults.wait = wait.into();
        self
    }

    /// Sets whether leases are renewed while their bodies run. If not set, they are.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // No lease is longer than a minute, even if its body runs on.
    /// let builder = LockManager::builder().ttl(Duration::from_secs(60)).renew(false);
    /// let manager = builder.connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.defaults.renew = renew;
        self
    }

    /// Sets what happens to a body whose lease is lost. If not set, it is cancelled.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, OnLost};
    ///
    /// // Bodies that must not be cut off half-way, and whose writes carry the fencing token.
    /// let manager = LockManager::builder().on_lost(OnLost::Finish).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.defaults.on_lost = on_lost;
        self
    }

    /// Cancels the body and releases the lease after this time. If not set, never.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // A body that hangs keeps its lock for no longer than this.
    /// let manager = LockManager::builder().max_hold(Duration::from_secs(300)).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.defaults.max_hold = Some(max_hold);
        self
    }

    /// Sets whether a lease that is still fresh is handed over from one task of this process to the
    /// next without a request, for at most 10 ms and 4095 bodies in a row. If not set, it is.
    ///
    /// Every body has its own fencing token either way. Without hand-overs each call costs two
    /// requests, and processes take turns after every call.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// // Long bodies, each of which tells something outside the name of the holder.
    /// let manager = LockManager::builder().handover(false).connect("memory://").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn handover(mut self, handover: bool) -> Self {
        self.handover = handover;
        self
    }

    /// Sets whether leases are renewed on a thread of dlock's own, with connections of their own.
    /// If not set, they are, except where tokio's clock is paused when the manager's first lease
    /// comes.
    ///
    /// One thread serves all managers of the process. It starts with the first lease, its connection with the first
    /// renewal. So a body that blocks its thread loses neither its own lease nor those of others. It
    /// keeps its lock for as long as it blocks: [`max_hold`](Self::max_hold) limits that.
    ///
    /// With `false` leases are renewed on the runtimes of the program, where a body that blocks its thread may hold
    /// up the renewal of every lease of the process. Set it for a test whose clock is paused later, or for a
    /// program that must not have another thread.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// // A test that pauses the clock after it has taken its first lock.
    /// let manager = LockManager::builder().renewal_thread(false).connect("memory://").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn renewal_thread(mut self, wanted: bool) -> Self {
        self.renewal_thread = Some(wanted);
        self
    }

    /// Sets the name that others see for this process when it holds a lock, beside host and process
    /// id. If not set, they see only those.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockError, LockManager, store::memory::MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let billing = LockManager::builder().application("billing").build_with_store(store.clone())?;
    /// let shipping = LockManager::builder().application("shipping").build_with_store(store)?;
    /// let guard = billing.lock("order:42").acquire().await?;
    /// let refused = shipping.lock("order:42").wait(dlock::Wait::Never).acquire().await;
    /// let Err(LockError::Busy { holder, .. }) = refused else {
    ///     panic!("it is held");
    /// };
    /// assert!(holder.label.is_some_and(|label| label.starts_with("billing@")));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.application = Some(name.into());
        self
    }

    /// Sets the prefix of all keys in the store: managers with different ones never meet, unless they use
    /// [raw keys](Self::raw_keys). If not set, `dlock`. It is 1 to 64 printable ASCII characters
    /// without spaces and braces. Each namespace keeps up to 16384 fences in the server for good, so
    /// do not make new ones on the fly.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// // Two services that share a server and not their locks.
    /// let billing = LockManager::builder().namespace("billing").connect_lazy("memory://")?;
    /// let shipping = LockManager::builder().namespace("shipping").connect_lazy("memory://")?;
    /// # drop((billing, shipping));
    /// # Ok(()) }
    /// ```
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.store.namespace = namespace.into();
        self
    }

    /// Sets how long to wait for one answer of the store before asking again, an hour at the most.
    /// If not set, 1 s.
    ///
    /// With more than 1.5 s a waiter of a slow store may be taken for dead and lose its place.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // The server is in another building.
    /// let builder = LockManager::builder()
    ///     .response_timeout(Duration::from_millis(1500))
    ///     .connect_timeout(Duration::from_secs(20));
    /// # drop(builder);
    /// ```
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.store.response_timeout = limit;
        self
    }

    /// Sets how many calls of this manager may wait for locks at once. If not set, 1,000,000.
    ///
    /// Each waiting call takes some hundred bytes. One more is refused at once with
    /// [`Overloaded`](crate::StoreErrorKind::Overloaded), before anything is asked.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockManager;
    ///
    /// let builder = LockManager::builder().max_waiters(50_000);
    /// # drop(builder);
    /// ```
    pub fn max_waiters(mut self, calls: usize) -> Self {
        self.limits.waiters = calls;
        self
    }

    /// Sets how many calls of this manager may wait for one key at once. If not set, 10,000.
    ///
    /// One more is refused at once with [`Overloaded`](crate::StoreErrorKind::Overloaded), before
    /// anything is asked.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockManager;
    ///
    /// // A queue of 100 calls takes longer than the callers would wait.
    /// let builder = LockManager::builder().max_waiters_per_key(100);
    /// # drop(builder);
    /// ```
    pub fn max_waiters_per_key(mut self, calls: usize) -> Self {
        self.limits.waiters_per_key = calls;
        self
    }

    /// Sets how many releases of this manager may be pending in the background before new calls are
    /// refused. If not set, 100,000.
    ///
    /// A release goes to the background when a guard or a call is dropped, or when the store did not
    /// answer. While so many are pending, new calls are refused at once with
    /// [`Overloaded`](crate::StoreErrorKind::Overloaded), before anything is asked. No release is dropped. At
    /// most 256 are sent at once.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockManager;
    ///
    /// // This program drops more than 100,000 guards at once.
    /// let builder = LockManager::builder().max_pending_releases(500_000);
    /// # drop(builder);
    /// ```
    pub fn max_pending_releases(mut self, releases: usize) -> Self {
        self.limits.pending_releases = releases;
        self
    }

    /// Sets how long [`connect`](Self::connect) tries, an hour at the most. If not set, 5 s.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // Started together with its server, which takes some time to load its data.
    /// let builder = LockManager::builder().connect_timeout(Duration::from_secs(30));
    /// # drop(builder);
    /// ```
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.store.connect_timeout = limit;
        self
    }

    /// Sets the clock of the manager, for tests. If not set, the machine's clocks.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManager, testing::SystemClock};
    ///
    /// // A clock of your own, as in the example of `Clock`, in place of this one.
    /// let builder = LockManager::builder().clock(SystemClock);
    /// # drop(builder);
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Where the manager's random bits come from, for tests. If not set, a generator that the
    /// operating system seeds.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManager, testing::SystemRandom};
    ///
    /// // A generator of your own, as in the example of `Random`, in place of this one.
    /// let builder = LockManager::builder().random(SystemRandom);
    /// # drop(builder);
    /// ```
    pub fn random(mut self, random: impl Random) -> Self {
        self.random = Arc::new(random);
        self
    }
}
