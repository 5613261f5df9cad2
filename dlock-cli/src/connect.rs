//! Connects commands to the store in the arguments.

use dlock::{
    LockManager, LockManagerBuilder,
    store::redis::{CredentialsProvider, RedisConfig},
};

use crate::{exit::Failure, global::Global};

impl Global {
    /// Reads user and password from the environment, if the URL has none.
    pub(crate) fn read_login(&mut self) -> Result<(), Failure> {
        self.login = CredentialsProvider::from_env(&self.url)?;
        Ok(())
    }

    /// Returns the configuration for commands that only inspect a server.
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
