//! The builder's options that apply to every store.

use std::{sync::Arc, time::Duration};

use super::LockManagerBuilder;
use crate::{
    clock::Clock,
    options::{OnLost, Wait},
    random::Random,
};

impl LockManagerBuilder {
    /// Sets the TTL of leases: how long the store keeps a lease that is not renewed.
    ///
    /// The range is 100 ms to 24 h. The default is 30 s.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // If this process crashes, its locks are free after 10 s at the latest.
    /// let manager = LockManager::builder().ttl(Duration::from_secs(10)).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// Sets how long a call waits while another holder has the lock. The default is 10 s.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // The clients of this service time out after three seconds.
    /// let manager = LockManager::builder().wait(Duration::from_secs(2)).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.defaults.wait = wait.into();
        self
    }

    /// Sets whether leases are renewed while their bodies run. The default is `true`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // A lease ends after one minute, even if its body is still running.
    /// let builder = LockManager::builder().ttl(Duration::from_secs(60)).renew(false);
    /// let manager = builder.connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.defaults.renew = renew;
        self
    }

    /// Sets what happens to a body whose lease is lost. The default is [`OnLost::Stop`]: the body is
    /// cancelled.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, OnLost};
    ///
    /// // These bodies must not be cancelled halfway, and their writes carry the fencing token.
    /// let manager = LockManager::builder().on_lost(OnLost::Finish).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.defaults.on_lost = on_lost;
        self
    }

    /// Sets the time after which the body is cancelled and its lease is released. The default is no limit.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // A body that hangs holds its lock for at most this long.
    /// let manager = LockManager::builder().max_hold(Duration::from_secs(300)).connect_lazy("memory://")?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.defaults.max_hold = Some(max_hold);
        self
    }

    /// Sets whether a fresh lease passes from one task of this process to the next without a request. The
    /// default is `true`.
    ///
    /// A series of hand-overs lasts at most 10 ms and 4095 bodies. Every body under an exclusive
    /// lock has its own fencing token either way. `false` also gives each reader a lease of its own. Without hand-overs, each call sends two requests, and processes take turns after every
    /// call.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// // Long bodies that publish the name of the lock's holder.
    /// let manager = LockManager::builder().handover(false).connect("memory://").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn handover(mut self, handover: bool) -> Self {
        self.handover = handover;
        self
    }

    /// Sets whether leases are renewed on a separate thread with its own connections.
    ///
    /// The default is `true`, unless tokio's clock is paused when the manager acquires its first lease.
    ///
    /// One thread serves all managers of the process. The thread starts with the first lease, and its
    /// connection with the first renewal. A body that blocks its thread therefore loses neither its own lease
    /// nor those of other tasks. It keeps its lock while it blocks; [`max_hold`](Self::max_hold) limits that
    /// time.
    ///
    /// With `false`, leases are renewed on the runtimes of the program. There, a body that blocks its thread
    /// can delay the renewal of every lease of the process. Set `false` in a test that pauses the clock
    /// later, or in a program that must not start another thread.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// // This test pauses the clock after it has acquired its first lock.
    /// let manager = LockManager::builder().renewal_thread(false).connect("memory://").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn renewal_thread(mut self, wanted: bool) -> Self {
        self.renewal_thread = Some(wanted);
        self
    }

    /// Sets the name under which other processes see this one when it holds a lock.
    ///
    /// The name precedes the host name and the process id. By default, they see only the host name and the
    /// process id.
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
    ///     panic!("the lock is held");
    /// };
    /// assert!(holder.label.is_some_and(|label| label.starts_with("billing@")));
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.application = Some(name.into());
        self
    }

    /// Sets the prefix of all keys in the store. The default is `dlock`.
    ///
    /// Managers with different namespaces do not share locks, unless they use [raw keys](Self::raw_keys). A
    /// namespace is 1 to 64 printable ASCII characters without spaces or braces. The server keeps up to
    /// 16,384 fence counters per namespace forever, so do not generate namespaces at run time.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// // Two services share a server, but not their locks.
    /// let billing = LockManager::builder().namespace("billing").connect_lazy("memory://")?;
    /// let shipping = LockManager::builder().namespace("shipping").connect_lazy("memory://")?;
    /// # drop((billing, shipping));
    /// # Ok(()) }
    /// ```
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.store.namespace = namespace.into();
        self
    }

    /// Sets how long a request waits for an answer of the store before it is repeated.
    ///
    /// The maximum is one hour. The default is 1 s. With more than 1.5 s, a slow store may treat a live
    /// waiter as crashed and drop it from the queue.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // The server is in another data center.
    /// let builder = LockManager::builder()
    ///     .response_timeout(Duration::from_millis(1500))
    ///     .connect_timeout(Duration::from_secs(20));
    /// # drop(builder);
    /// ```
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.store.response_timeout = limit;
        self
    }

    /// Sets how many calls of this manager may wait for locks at the same time. The default is 1,000,000.
    ///
    /// A waiting call takes some hundred bytes. A further call fails at once with
    /// [`Overloaded`](crate::StoreErrorKind::Overloaded), before a request is sent.
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

    /// Sets how many calls of this manager may wait for one key at the same time. The default is 10,000.
    ///
    /// A further call fails at once with [`Overloaded`](crate::StoreErrorKind::Overloaded), before a request
    /// is sent.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockManager;
    ///
    /// // A queue of 100 calls takes longer than the callers are ready to wait.
    /// let builder = LockManager::builder().max_waiters_per_key(100);
    /// # drop(builder);
    /// ```
    pub fn max_waiters_per_key(mut self, calls: usize) -> Self {
        self.limits.waiters_per_key = calls;
        self
    }

    /// Sets how many background releases may be pending before new calls are refused. The default is 100,000.
    ///
    /// A release moves to the background when a guard or a call is dropped, or when the store does not
    /// answer. At the limit, new calls fail at once with [`Overloaded`](crate::StoreErrorKind::Overloaded),
    /// before a request is sent. No release is discarded. At most 256 releases are in flight at the same
    /// time.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::LockManager;
    ///
    /// // This program drops more than 100,000 guards at the same time.
    /// let builder = LockManager::builder().max_pending_releases(500_000);
    /// # drop(builder);
    /// ```
    pub fn max_pending_releases(mut self, releases: usize) -> Self {
        self.limits.pending_releases = releases;
        self
    }

    /// Sets how long [`connect`](Self::connect) tries to reach the store. The maximum is one hour, the
    /// default 5 s.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::LockManager;
    ///
    /// // The server starts together with this program and takes some time to load its data.
    /// let builder = LockManager::builder().connect_timeout(Duration::from_secs(30));
    /// # drop(builder);
    /// ```
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.store.connect_timeout = limit;
        self
    }

    /// Sets the manager's clock, for tests. The default is the machine's clocks.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManager, clock::SystemClock};
    ///
    /// // Pass your own clock here, as in the example of `Clock`.
    /// let builder = LockManager::builder().clock(SystemClock);
    /// # drop(builder);
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the source of the manager's random bits, for tests. The default is a generator seeded by the
    /// operating system.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManager, random::SystemRandom};
    ///
    /// // Pass your own generator here, as in the example of `Random`.
    /// let builder = LockManager::builder().random(SystemRandom);
    /// # drop(builder);
    /// ```
    pub fn random(mut self, random: impl Random) -> Self {
        self.random = Arc::new(random);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::manager::LockManager,
        key::LockKey,
        mode::LockMode,
        options::{Options, Timing},
        store::memory::MemoryStore,
    };

    #[test]
    fn each_option_is_the_default_of_the_locks_of_the_manager() {
        let seconds = Duration::from_secs;
        let builder = LockManager::builder()
            .ttl(seconds(7))
            .wait(seconds(8))
            .renew(false)
            .on_lost(OnLost::Finish)
            .max_hold(seconds(9));
        let manager = builder.build_with_store(MemoryStore::new()).unwrap();
        let key = LockKey::new("k").unwrap();
        let timing = manager.core().timing(Options::new(), &key).unwrap();
        let expected = Timing {
            ttl: seconds(7),
            wait: Wait::For(seconds(8)),
            renew: false,
            on_lost: OnLost::Finish,
            max_hold: Some(seconds(9)),
            min_hold: None,
            mode: LockMode::Exclusive,
            on_trial: false,
        };
        assert_eq!(timing, expected);
    }

    #[test]
    fn each_option_of_a_manager_reaches_it() {
        let builder = LockManager::builder();
        let by_default = builder.clone().build_with_store(MemoryStore::new());
        let by_default = by_default.unwrap().core();
        assert!(by_default.handover && by_default.renewal_thread.is_none());
        let builder = builder
            .handover(false)
            .renewal_thread(true)
            .response_timeout(Duration::from_secs(3))
            .application("billing");
        let core = builder.build_with_store(MemoryStore::new()).unwrap().core();
        assert!(!core.handover);
        assert_eq!(core.renewal_thread, Some(true));
        assert_eq!(core.response_limit, Duration::from_secs(3));
        assert!(core.label.starts_with("billing@"), "{}", core.label);
    }
}
