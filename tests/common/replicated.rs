//! A master with a replica, found through a Sentinel.

use std::time::Duration;

use dlock::{
    LockManager, LockManagerBuilder,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Pooled, Sentinels};

use super::{Env, assert_idle, delete_lock, stored, without_fences};

/// A replica has its part of it, on a machine that runs many servers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Leases count when the master has granted them.
pub(crate) type Sentinel = Replicated<0>;

/// Leases count when the replica knows of them.
pub(crate) type Confirmed = Replicated<1>;

/// Servers for one test at a time, where `N` replicas have to confirm a lease.
pub(crate) struct Replicated<const N: u32> {
    all: Pooled<Sentinels>,
}

impl<const N: u32> Replicated<N> {
    fn url(&self) -> String {
        format!("{}?min_replicas={N}", self.all.url())
    }
}

impl<const N: u32> Env for Replicated<N> {
    type Store = RedisStore;

    const BRIEF: Duration = Duration::from_secs(3);
    const PROMPT: Duration = super::LIMIT;

    async fn start() -> Self {
        Self {
            all: Sentinels::pooled().await,
        }
    }

    async fn store(&self) -> RedisStore {
        let config = RedisConfig::new(self.url()).response_timeout(PATIENCE);
        RedisStore::connect(config).await.unwrap()
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        let builder = change(LockManager::builder().response_timeout(PATIENCE));
        builder.connect(&self.url()).await.unwrap()
    }

    async fn locks(&self) -> Vec<String> {
        without_fences(self.all.master().await.keys("*").await)
    }

    async fn delete(&self, key: &str) {
        delete_lock(self.all.master().await, &stored(key)).await;
    }

    async fn assert_clean(&self, keys: usize, managers: &[&LockManager]) {
        assert_idle(managers).await;
        assert_eq!(self.locks().await, Vec::<String>::new());
        let fences = self.all.master().await.keys("*").await;
        assert!(fences.len() <= keys, "{fences:?}");
    }
}
