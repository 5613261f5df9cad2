//! Starts a manager over the store at a URL, or over the application's own store.

use std::{env::VarError, sync::Arc};

use tokio::runtime::Handle;

use super::{LockManagerBuilder, redis::unread};
use crate::{
    api::manager::LockManager,
    attempt::AttemptIds,
    engine::{core::Core, limits::Bounds, renewer::schedule::Renewer, table::Table},
    error::ConnectError,
    label::label,
    observe,
    owner::{ClientId, Owners},
    store::{HintSink, LockStore, OwnStore, StoreKind, StoreOptions, memory::MemoryStore},
};

impl LockManagerBuilder {
    /// Connects to the store at `url` and waits until it answers.
    ///
    /// This method does not read the environment. To use the password in `DLOCK_PASSWORD`, call
    /// [`connect_env`](Self::connect_env), or read the variable in the callback of
    /// [`credentials`](Self::credentials). If `DLOCK_PASSWORD` is set and there is no other password, a
    /// warning is logged, and login errors mention it.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError`] if the URL is invalid, an option is out of range, or the store does not
    /// answer within [`connect_timeout`](Self::connect_timeout).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{ConnectError, LockManager};
    ///
    /// let error = LockManager::builder().connect("http://localhost").await.err();
    /// assert!(matches!(error, Some(ConnectError::InvalidUrl { .. })));
    /// let manager = LockManager::builder().connect("memory://").await?;
    /// manager.lock("order:42").run(async |_lease| ()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(self, url: impl AsRef<str>) -> Result<LockManager, ConnectError> {
        let url = url.as_ref();
        let is_ignored = self.ignores_environment(url);
        let connected = self.connect_to(url).await;
        connected.map_err(|error| if is_ignored { unread(error) } else { error })
    }

    async fn connect_to(self, url: &str) -> Result<LockManager, ConnectError> {
        match self.schemes.find(url)?.clone() {
            StoreKind::Memory => self.in_memory(),
            // Boxed: otherwise the layers of a connection count against the recursion limit of the caller's
            // crate.
            #[cfg(feature = "redis")]
            StoreKind::Redis => Box::pin(self.connect_redis(url)).await,
            StoreKind::Registered(scheme) => {
                self.check_for_own_store()?;
                let store = scheme.open_ready(url, &self.store_options()).await?;
                self.over_own(store)
            }
        }
    }

    /// Creates a manager for the store at `url` without waiting for the store.
    ///
    /// A service can start before its server. Until the store answers, acquire requests wait for it within
    /// their own limits.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError`] if the URL is invalid, an option is out of range, or there is no current
    /// tokio runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use dlock::{LockError, LockManager, Wait};
    ///
    /// // No server listens there yet, but the program starts.
    /// let manager = LockManager::builder().connect_lazy("redis://127.0.0.1:1")?;
    /// let lock = manager.lock("order:42").wait(Wait::For(Duration::from_millis(50)));
    /// assert!(matches!(lock.acquire().await, Err(LockError::Unavailable { .. })));
    /// # Ok(()) }
    /// ```
    pub fn connect_lazy(self, url: impl AsRef<str>) -> Result<LockManager, ConnectError> {
        let url = url.as_ref();
        self.ignores_environment(url);
        match self.schemes.find(url)?.clone() {
            StoreKind::Memory => self.in_memory(),
            #[cfg(feature = "redis")]
            StoreKind::Redis => self.lazy_redis(url),
            StoreKind::Registered(scheme) => {
                self.check_for_own_store()?;
                let store = scheme.open(url, &self.store_options())?;
                self.over_own(store)
            }
        }
    }

    /// Connects to the store at the URL in the environment variable `DLOCK_URL`.
    ///
    /// If the URL has no password and [`credentials`](Self::credentials) is not set, `DLOCK_PASSWORD`
    /// supplies the password. It belongs to the user in `DLOCK_USER`, or to the server's default user.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::NoUrl`] if `DLOCK_URL` is not set or empty, and
    /// [`ConnectError::InvalidOption`] if `DLOCK_USER` is set without `DLOCK_PASSWORD`. Other errors are
    /// those of [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, like [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::LockManager;
    ///
    /// // DLOCK_URL=redis://redis.internal DLOCK_USER=billing DLOCK_PASSWORD=…
    /// let manager = LockManager::builder().application("billing").connect_env().await?;
    /// # drop(manager);
    /// # Ok(()) }
    /// ```
    pub async fn connect_env(self) -> Result<LockManager, ConnectError> {
        let url = url_in(std::env::var("DLOCK_URL"))?;
        let connected = self.of_environment(&url)?.connect_to(&url).await;
        connected.map_err(with_variable)
    }

    /// Creates a manager over your own implementation of [`LockStore`].
    ///
    /// Connection options such as [`namespace`](Self::namespace) and
    /// [`connect_timeout`](Self::connect_timeout) have no effect: the store receives keys without a prefix.
    /// Options that only a Redis server supports are refused.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectError::InvalidOption`] in these cases:
    /// - a default is out of range
    /// - the store's [properties](crate::store::StoreProperties) do not allow a default
    /// - [`min_replicas`](Self::min_replicas), [`raw_keys`](Self::raw_keys), `credentials` or `tls` is set
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dlock::{LockManager, store::memory::MemoryStore};
    ///
    /// // Two managers over one store behave like two processes.
    /// let store = MemoryStore::new();
    /// let one = LockManager::builder().build_with_store(store.clone())?;
    /// let other = LockManager::builder().build_with_store(store)?;
    /// let guard = one.lock("order:42").acquire().await?;
    /// assert!(other.lock("order:42").try_acquire().await?.is_none());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn build_with_store(self, store: impl LockStore) -> Result<LockManager, ConnectError> {
        self.check_for_own_store()?;
        self.over(store)
    }

    /// Starts a manager over a memory store. Options of a Redis connection are accepted, so that a program
    /// configured for a server can run without one.
    fn in_memory(self) -> Result<LockManager, ConnectError> {
        self.check()?;
        self.check_replicas()?;
        self.over(MemoryStore::new())
    }

    /// Refuses the options of Redis for a store that is not Redis.
    fn check_for_own_store(&self) -> Result<(), ConnectError> {
        self.check()?;
        self.check_replicas()?;
        if let Some(option) = self.redis.first_of_a_server() {
            return Err(ConnectError::InvalidOption {
                option,
                reason: "this store does not support it; set it only for a Redis or Valkey server at a URL"
                    .into(),
            });
        }
        Ok(())
    }

    fn check_replicas(&self) -> Result<(), ConnectError> {
        if self.redis.min_replicas > 0 {
            return Err(ConnectError::InvalidOption {
                option: "min_replicas",
                reason: "this store does not support it; set it only for a Redis or Valkey server at a URL".into(),
            });
        }
        Ok(())
    }

    /// Returns the options for the store at a URL.
    pub(super) fn store_options(&self) -> StoreOptions {
        StoreOptions {
            label: label(self.application.as_deref()),
            ..self.store.clone()
        }
    }

    /// Starts a manager over `store`. The caller has checked the defaults, except against the store's
    /// properties.
    pub(crate) fn over(self, store: impl LockStore) -> Result<LockManager, ConnectError> {
        self.over_own(OwnStore::new(store))
    }

    fn over_own(self, store: OwnStore) -> Result<LockManager, ConnectError> {
        store.check(&self.defaults)?;
        Ok(self.start(store))
    }

    /// Starts a manager over `store`. The store supports all defaults.
    pub(super) fn start(self, store: OwnStore) -> LockManager {
        observe::describe();
        let client = ClientId::new(&*self.random);
        let core = Arc::new(Core {
            store,
            attempts: AttemptIds::default(),
            owners: Owners::new(client),
            defaults: self.defaults,
            label: label(self.application.as_deref()),
            clock: self.clock,
            random: self.random,
            response_limit: self.store.response_timeout,
            handover: self.handover,
            renewal_thread: self.renewal_thread,
            home: Handle::try_current().ok(),
            table: Table::default(),
            renewer: Renewer::default(),
            bounds: Bounds::new(self.limits),
        });
        let hints = Arc::new(Arc::downgrade(&core));
        core.store.attach(client, HintSink::new(hints));
        LockManager::new(core)
    }
}

/// Returns the URL in the environment variable `DLOCK_URL`.
fn url_in(variable: Result<String, VarError>) -> Result<String, ConnectError> {
    match variable {
        Ok(url) if !url.is_empty() => Ok(url),
        Err(VarError::NotUnicode(_)) => Err(ConnectError::InvalidUrl {
            url: "…".to_owned(),
            reason: "`DLOCK_URL` is not valid UTF-8; set it to UTF-8 text".to_owned(),
        }),
        Ok(_) | Err(VarError::NotPresent) => Err(ConnectError::NoUrl),
    }
}

/// Adds the variable to an error about the URL in it.
fn with_variable(error: ConnectError) -> ConnectError {
    match error {
        ConnectError::InvalidUrl { url, reason } => ConnectError::InvalidUrl {
            url: format!("DLOCK_URL={url}"),
            reason,
        },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_the_environment_does_not_have_is_an_error_that_names_the_variable() {
        let found = url_in(Ok("memory://".to_owned())).unwrap();
        assert_eq!(found, "memory://");
        for missing in [Ok(String::new()), Err(VarError::NotPresent)] {
            let error = url_in(missing).unwrap_err();
            assert!(matches!(error, ConnectError::NoUrl), "{error}");
        }
        let error = url_in(Err(VarError::NotUnicode("\u{fc}".into()))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`…` is not a valid store URL: `DLOCK_URL` is not valid UTF-8; set it to UTF-8 text"
        );
        let invalid = LockManager::builder().connect_lazy("http://host");
        let error = with_variable(invalid.unwrap_err());
        let text = error.to_string();
        assert!(text.starts_with("`DLOCK_URL=http://…` is not"), "{text}");
        let other = with_variable(ConnectError::NoUrl);
        assert!(matches!(other, ConnectError::NoUrl), "{other}");
    }

    #[cfg(not(feature = "redis"))]
    #[test]
    fn nothing_of_a_url_that_cannot_be_used_is_repeated() {
        for url in ["redis://me:s3cret@host", "s3cret@host", "s3cret://host"] {
            let error = LockManager::builder().connect_lazy(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }
}
