//! The options of stores in Redis, and managers over them.

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
    /// Sets whether a lock is stored at the key's own text in the server, so that it can be shared
    /// with clients in other languages that lock by `SET key token NX PX ms`, such as the `Lock` of
    /// redis-py. If not set, it is not, and is stored at `dlock:{key}`. The memory store has no
    /// other clients and ignores this option.
    ///
    /// Both sides must use the same text. A value in a key template is percent-encoded:
    /// `"file:<name>"` with the name `a/b` is `file:a%2Fb`.
    ///
    /// **Guarantees between them.** While a third-party client has the key, a lock is busy, for the
    /// TTL that the client has set; waiters poll every second or so, since such a client sends no
    /// message when it releases. While a manager has it, the `SET … NX` of others fails, and their
    /// scripts, which compare a token before they delete or prolong, do nothing. A value without a
    /// TTL is never overwritten: [`Holder`](crate::store::Holder) shows it.
    ///
    /// **No guarantees.**
    /// - A third-party holder has no fencing token. Those of managers grow all the same.
    /// - It has no place in the queue. Managers grant a lock to the first waiter of the queue, so
    ///   others get it only when the queue is empty.
    /// - A client that deletes or overwrites the key without comparing ends the lease; the holder
    ///   notices at the next renewal.
    /// - Managers with and without raw keys do not see each other, and no two managers of one raw key
    ///   should have different [namespaces](Self::namespace): they would have neither a common queue
    ///   nor a common counter of fences.
    ///
    /// A user of the server needs a key pattern for the locks as well, such as `~order:*`.
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

    /// Sets a callback that supplies user and password before each connection, for a URL without them:
    /// so a password may change while the program runs.
    ///
    /// `provider` has half the time of one attempt to connect, that is a second, or half the
    /// [`connect_timeout`](Self::connect_timeout) if that is less than two seconds. If it fails,
    /// panics or takes longer, the attempt has failed, and others follow. The text of its error is
    /// shown in errors and logs: it must hold no secret.
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

    /// Sets [`credentials`](Self::credentials) by a provider that exists already.
    #[cfg(feature = "redis")]
    #[doc(hidden)]
    pub fn credentials_provider(mut self, provider: CredentialsProvider) -> Self {
        self.redis.credentials = Some(provider);
        self
    }

    /// Sets the certificates for a server that is reached over TLS, by `rediss://` and the like. If not
    /// set, the machine's authorities are trusted and no certificate is shown; a URL may name
    /// files as well, as `?ca=/path.pem`.
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

    /// Sets how many replicas of the server have to confirm a lease, and each renewal of it, before
    /// it counts. If not set, none: a failover may then lose a lease while its holder trusts it.
    ///
    /// With too few of them in time a lock is [`Unavailable`](crate::LockError::Unavailable), and a
    /// lease that is held ends at its deadline. Each acquire request and renewal costs one more round
    /// trip, to the replicas. Only a replica that has confirmed the lease knows it: if there are more
    /// than `replicas`, one of the others may be promoted. A URL can set the same, with
    /// `?min_replicas=1`; the greater number counts.
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
    /// With the login of the environment, if neither the URL nor an option has one.
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

    /// Returns `true` if the environment has a password that stays unused although there is no
    /// other; the log says so. It is not sent to a server that the environment does not name.
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

/// The failure to connect, where the environment has a password that was not read.
pub(super) fn unread(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::Unavailable { url, reason }
            if reason.kind() == StoreErrorKind::Unauthenticated =>
        {
            let reason = reason.reworded(|message| {
                format!(
                    "{message}, and `DLOCK_PASSWORD` is set but read by `connect_env` and `from_env` only"
                )
            });
            ConnectError::Unavailable { url, reason }
        }
        error => error,
    }
}
