//! How commands reach the store that the arguments name.

use dlock::{LockManager, LockManagerBuilder, store::redis::RedisConfig};

use crate::{cli::Global, exit::Failure};

impl Global {
    /// For commands that look at a server.
    pub(crate) fn config(&self) -> RedisConfig {
        RedisConfig {
            namespace: self.namespace.clone(),
            raw_keys: self.raw_keys,
            ..RedisConfig::new(&self.url)
        }
    }

    /// For commands that take locks themselves.
    pub(crate) fn builder(&self) -> LockManagerBuilder {
        LockManager::builder()
            .application("dlock")
            .namespace(&self.namespace)
            .raw_keys(self.raw_keys)
    }

    /// A manager that is connected.
    pub(crate) async fn manager(&self) -> Result<LockManager, Failure> {
        Ok(self.builder().connect(&self.url).await?)
    }
}
