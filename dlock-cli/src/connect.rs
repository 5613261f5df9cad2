//! Connects commands to the store that the arguments name.

use dlock::{
    LockManager, LockManagerBuilder,
    store::redis::{CredentialsProvider, RedisConfig},
};

use crate::{exit::Failure, global::Global};

impl Global {
    /// Takes user and password from the environment, if the URL has none.
    pub(crate) fn read_login(&mut self) -> Result<(), Failure> {
        self.login = CredentialsProvider::from_env(&self.url)?;
        Ok(())
    }

    /// For commands that look at a server.
    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig::new(&self.url)
            .namespace(self.namespace.clone())
            .raw_keys(self.raw_keys)
            .credentials(self.login.clone())
    }

    /// For commands that take locks themselves.
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

    /// A manager that is connected.
    pub(crate) async fn manager(&self) -> Result<LockManager, Failure> {
        Ok(self.builder().connect(&self.url).await?)
    }
}
