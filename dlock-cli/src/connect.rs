//! Connects commands to the store in the arguments.

use std::{sync::Arc, time::Duration};

use dlock::{
    ConnectError, LockManager, LockManagerBuilder,
    store::{StoreOptions, redis::RedisConfig},
};
use dlock_admin::{Inspect, doctor::Judge};

use crate::{
    exit::{Exit, Failure},
    global::Global,
    stores::{self, STORES, Store},
};

/// The time limit of a request to another store than Redis. An operator prefers a late answer to none.
const PATIENCE: Duration = Duration::from_secs(10);

impl Global {
    /// Reads user and password from the environment, if the URL has none.
    pub(crate) fn read_login(&mut self) -> Result<(), Failure> {
        self.store().read_login(self)
    }

    /// Returns the store of the URL.
    pub(crate) fn store(&self) -> &'static dyn Store {
        stores::of_url(&self.url)
    }

    /// Connects to the store, for commands that only inspect it.
    pub(crate) async fn inspector(&self) -> Result<Arc<dyn Inspect>, Failure> {
        Ok(self.store().connect(self).await??)
    }

    /// Connects to the store, also if it lacks what locks need, or does not answer.
    pub(crate) async fn examiner(&self) -> Result<Result<Arc<dyn Inspect>, ConnectError>, Failure> {
        self.store().examine(self).await
    }

    /// Returns the checks of the servers, if the arguments say more about them than an inspector knows.
    pub(crate) fn judge(&self) -> Result<Option<Arc<dyn Judge>>, Failure> {
        self.store().judge(self)
    }

    /// Returns the options for stores other than Redis.
    pub(crate) fn options(&self) -> Result<StoreOptions, Failure> {
        if self.raw_keys {
            let name = self.store().name();
            let text = format!("invalid option `--raw-keys`: {name} has no raw keys. Remove it");
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
    pub(crate) fn builder(&self) -> Result<LockManagerBuilder, Failure> {
        if !self.store().is_built() {
            return Err(self.store().missing());
        }
        let builder = LockManager::builder()
            .application("dlock")
            .namespace(&self.namespace)
            .raw_keys(self.raw_keys);
        let builder = STORES
            .iter()
            .fold(builder, |builder, it| it.register(builder));
        Ok(match &self.login {
            Some(login) => builder.credentials_provider(login.clone()),
            None => builder,
        })
    }

    /// Returns a connected manager.
    pub(crate) async fn manager(&self) -> Result<LockManager, Failure> {
        Ok(self.builder()?.connect(&self.url).await?)
    }
}
