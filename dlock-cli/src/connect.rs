//! Connects commands to the store in the arguments.

use std::{sync::Arc, time::Duration};

use dlock::{
    LockManager, LockManagerBuilder,
    admin::{Inspect, Inspector},
    store::{
        StoreOptions,
        redis::{CredentialsProvider, RedisConfig},
    },
};
use dlock_postgres::{Postgres, admin::PostgresInspector};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    login,
};

/// The time limit of a request to PostgreSQL. An operator prefers a late answer to none.
const PATIENCE: Duration = Duration::from_secs(10);

impl Global {
    /// Reads user and password from the environment, if the URL has none.
    pub(crate) fn read_login(&mut self) -> Result<(), Failure> {
        if self.is_postgres() {
            self.url = login::of_environment(&self.url)?;
            return Ok(());
        }
        self.login = CredentialsProvider::from_env(&self.url)?;
        Ok(())
    }

    /// Returns `true` if the locks are in PostgreSQL.
    pub(crate) fn is_postgres(&self) -> bool {
        let scheme = self.url.split(':').next().unwrap_or_default();
        ["postgres", "postgresql"]
            .iter()
            .any(|it| scheme.eq_ignore_ascii_case(it))
    }

    /// Connects to the store, for commands that only inspect it.
    pub(crate) async fn inspector(&self) -> Result<Arc<dyn Inspect>, Failure> {
        if !self.is_postgres() {
            return Ok(Arc::new(Inspector::connect(self.config()).await?));
        }
        let options = self.options()?;
        Ok(Arc::new(
            PostgresInspector::connect(&self.url, &options).await?,
        ))
    }

    /// Returns the options for stores other than Redis.
    pub(crate) fn options(&self) -> Result<StoreOptions, Failure> {
        if self.raw_keys {
            let text = "invalid option `--raw-keys`: PostgreSQL has no raw keys. Remove it";
            return Err(Failure::new(Exit::Usage, text));
        }
        let mut options = StoreOptions::default();
        options.namespace.clone_from(&self.namespace);
        options.response_timeout = PATIENCE;
        Ok(options)
    }

    /// Returns the configuration for commands that only inspect Redis.
    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig::new(&self.url)
            .namespace(self.namespace.clone())
            .raw_keys(self.raw_keys)
            .credentials(self.login.clone())
    }

    /// Returns the builder for commands that acquire locks.
    pub(crate) fn builder(&self) -> LockManagerBuilder {
        let builder = LockManager::builder()
            .application("dlock")
            .scheme("postgres", Postgres)
            .scheme("postgresql", Postgres)
            .namespace(&self.namespace)
            .raw_keys(self.raw_keys);
        match &self.login {
            Some(login) => builder.credentials_provider(login.clone()),
            None => builder,
        }
    }

    /// Returns a connected manager.
    pub(crate) async fn manager(&self) -> Result<LockManager, Failure> {
        Ok(self.builder().connect(&self.url).await?)
    }
}
