//! The builder's options for Redis and Valkey, and the managers that use them.

use super::LockManagerBuilder;
#[cfg(feature = "tls")]
use crate::store::redis::Tls;
#[cfg(feature = "redis")]
use crate::{
    api::manager::LockManager,
    observe,
    store::{
        StoreKind,
        redis::{
            Credentials, CredentialsProvider, Independent, RedisConfig, RedisStore,
            without_password,
        },
    },
};
use crate::{error::ConnectError, store::StoreErrorKind};

impl LockManagerBuilder {
    /// Sets whether a lock is stored at the server key that equals the lock's key. The default is `false`.
    ///
    /// Raw keys share locks with clients in other languages that lock with `SET key token NX PX ms`, such as
    /// the `Lock` of redis-py. Without raw keys, a lock is stored at `dlock:{key}`. The memory store has no
    /// other clients and ignores this option.
    ///
    /// Both sides must use the same text. A value in a key template is percent-encoded: `"file:<name>"` with
    /// the name `a/b` is `file:a%2Fb`.
    ///
    /// **Guarantees towards third-party clients.** While a third-party client holds the key, the lock is busy
    /// for the TTL that this client has set. Waiters poll about once a second, because such a client sends no
    /// wake-up message when it releases. While a manager holds the key, `SET … NX` of other clients fails.
    /// Scripts of other clients that compare the token before they delete or extend change nothing. A value
    /// without a TTL is never overwritten; [`Holder`](crate::store::Holder) reports it.
    ///
    /// **Not guaranteed.**
    /// - A third-party holder has no fencing token. The tokens of managers increase all the same.
    /// - A third-party client has no place in the queue. Managers grant the lock to the first waiter in the
    ///   queue, so a third-party client acquires it only when the queue is empty.
    /// - A client that deletes or overwrites the key without a comparison ends the lease. The holder detects
    ///   it at its next renewal.
    /// - Managers with and without raw keys do not see each other's locks. Managers that share a raw key must
    ///   use the same [namespace](Self::namespace). Otherwise they have neither a common queue nor a common
    ///   fence counter.
    ///
    /// The server's user also needs a key pattern for the locks, such as `~order:*`.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::builder().raw_keys(true).connect("redis://localhost").await?;
    /// // In Python: redis.Redis().lock("order:42", timeout=30)
    /// let guard = manager.lock("order:42").acquire().await?;
    /// # guard.release().await?; Ok(()) }
    /// ```
    pub fn raw_keys(mut self, raw_keys: bool) -> Self {
        self.redis.raw_keys = raw_keys;
        self
    }

    /// Sets a callback that supplies user and password before each connection.
    ///
    /// The callback is used for URLs without credentials. With it, a password can change while the program
    /// runs.
    ///
    /// `provider` has half the time of one connection attempt: 1 s, or half of
    /// [`connect_timeout`](Self::connect_timeout) if that timeout is less than 2 s. If the callback fails,
    /// panics or takes longer, the attempt fails and the next attempt follows. Errors and logs show the text
    /// of the callback's error, so the text must not contain a secret.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{LockManager, store::redis::Credentials};
    ///
    /// let builder = LockManager::builder().credentials(|| async {
    ///     let password = tokio::fs::read_to_string("/run/secrets/redis").await?;
    ///     Ok::<_, std::io::Error>(Credentials::new("billing", password.trim_end()))
    /// });
    /// # drop(builder);
    /// ```
    #[cfg(feature = "redis")]
    pub fn credentials<F, Fut, E>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        self.redis.credentials = Some(CredentialsProvider::new(provider));
        self
    }

    /// Sets an existing [`CredentialsProvider`]; see [`credentials`](Self::credentials).
    #[cfg(feature = "redis")]
    #[doc(hidden)]
    pub fn credentials_provider(mut self, provider: CredentialsProvider) -> Self {
        self.redis.credentials = Some(provider);
        self
    }

    /// Sets the certificates for TLS connections, such as those of `rediss://`.
    ///
    /// By default, the connection trusts the certificate authorities of the machine and presents no client
    /// certificate. A URL can also name certificate files, as in `?ca=/path.pem`.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::redis::Tls};
    ///
    /// let builder = LockManager::builder().tls(Tls::new().ca_file("/etc/redis/ca.pem"));
    /// let manager = builder.connect("rediss://redis.internal").await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.redis.tls = Some(tls);
        self
    }

    /// Sets how many replicas must confirm each lease and each renewal. The default is 0.
    ///
    /// With 0, a failover can lose a lease while its holder still relies on it. With more, a lock is
    /// [`Unavailable`](crate::LockError::Unavailable) if too few replicas confirm in time, and a held lease
    /// ends at its deadline. Each acquire request and each renewal takes one more round trip, to the
    /// replicas.
    ///
    /// Only a replica that has confirmed the lease knows it. If the server has more than `replicas` replicas,
    /// a failover may promote one that has not. A URL can set the same option with `?min_replicas=1`; the
    /// greater number applies.
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
    /// use dlock::LockManager;
    ///
    /// let manager = LockManager::builder()
    ///     .min_replicas(1)
    ///     .connect("redis-sentinel://one,two,three/mymaster")
    ///     .await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.redis.min_replicas = replicas;
        self
    }
}

impl LockManagerBuilder {
    /// Adds the credentials of the environment if neither the URL nor an option has any.
    #[cfg(feature = "redis")]
    pub(super) fn of_environment(mut self, url: &str) -> Result<Self, ConnectError> {
        if matches!(self.schemes.find(url), Ok(StoreKind::Redis))
            && self.redis.credentials.is_none()
        {
            self.redis.credentials = CredentialsProvider::from_env(url)?;
        }
        Ok(self)
    }

    #[cfg(not(feature = "redis"))]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "it can fail where there is a server"
    )]
    pub(super) fn of_environment(self, _url: &str) -> Result<Self, ConnectError> {
        Ok(self)
    }

    /// Returns `true` if the environment has a password, no other password is set, and this one stays unused.
    ///
    /// A warning in the log says so. The password is not sent, because the environment does not name this
    /// server.
    #[cfg(feature = "redis")]
    pub(super) fn ignores_environment(&self, url: &str) -> bool {
        if !matches!(self.schemes.find(url), Ok(StoreKind::Redis)) {
            return false;
        }
        let password = std::env::var_os("DLOCK_PASSWORD");
        if self.redis.credentials.is_some() || password.is_none_or(|it| it.is_empty()) {
            return false;
        }
        let server = without_password(url);
        if let Some(server) = &server {
            observe::password_unread(server);
        }
        server.is_some()
    }

    #[cfg(not(feature = "redis"))]
    #[expect(clippy::unused_self, reason = "it needs it where there is a server")]
    pub(super) fn ignores_environment(&self, _url: &str) -> bool {
        false
    }

    #[cfg(feature = "redis")]
    pub(super) async fn connect_redis(self, url: &str) -> Result<LockManager, ConnectError> {
        self.check()?;
        let config = self.redis_config(url);
        if let Some(servers) = Independent::start(&config)? {
            servers.ready(config.connect_timeout).await?;
            return self.over(servers.into_quorum()?);
        }
        let store = RedisStore::connect(config).await?;
        self.over(store)
    }

    #[cfg(feature = "redis")]
    pub(super) fn lazy_redis(self, url: &str) -> Result<LockManager, ConnectError> {
        self.check()?;
        let config = self.redis_config(url);
        if let Some(servers) = Independent::start(&config)? {
            return self.over(servers.into_quorum()?);
        }
        let store = RedisStore::connect_lazy(config)?;
        self.over(store)
    }

    #[cfg(feature = "redis")]
    fn redis_config(&self, url: &str) -> RedisConfig {
        let options = self.store_options();
        RedisConfig {
            credentials: self.redis.credentials.clone(),
            #[cfg(feature = "tls")]
            tls: self.redis.tls.clone(),
            raw_keys: self.redis.raw_keys,
            min_replicas: self.redis.min_replicas,
            ..RedisConfig::with_options(url, options)
        }
    }
}

/// Adds to a connection error that the password in the environment was not used.
pub(super) fn unread(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::Unavailable { url, reason }
            if reason.kind() == StoreErrorKind::Unauthenticated =>
        {
            let reason = reason.reworded(|message| {
                format!(
                    "{message}, and `DLOCK_PASSWORD` is set, but only `connect_env` and `from_env` read it"
                )
            });
            ConnectError::Unavailable { url, reason }
        }
        error => error,
    }
}
