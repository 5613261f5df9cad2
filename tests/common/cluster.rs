//! A Redis Cluster as one of the stores that suites are run against.

use std::time::Duration;

use dlock::{
    LockManager, LockManagerBuilder,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Cluster, Pooled};

use super::{ANSWER, Env, LIMIT, assert_idle, delete_lock, stored, without_fences};

/// Three masters for one test at a time.
pub(crate) struct RedisCluster {
    pub(crate) cluster: Pooled<Cluster>,
}

impl Env for RedisCluster {
    type Store = RedisStore;

    const BRIEF: Duration = Duration::from_secs(3);
    const PROMPT: Duration = LIMIT;

    async fn start() -> Self {
        Self {
            cluster: Cluster::pooled().await,
        }
    }

    async fn store(&self) -> RedisStore {
        let config = RedisConfig::new(self.cluster.url()).response_timeout(ANSWER);
        RedisStore::connect(config).await.unwrap()
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        let builder = change(LockManager::builder().response_timeout(ANSWER));
        builder.connect(&self.cluster.url()).await.unwrap()
    }

    async fn locks(&self) -> Vec<String> {
        without_fences(self.cluster.keys("*").await)
    }

    async fn delete(&self, key: &str) {
        let lock = stored(key);
        let master = self.cluster.master_of(&lock).await;
        delete_lock(self.cluster.node(master), &lock).await;
    }

    async fn assert_clean(&self, keys: usize, managers: &[&LockManager]) {
        assert_idle(managers).await;
        assert_eq!(self.locks().await, Vec::<String>::new());
        let fences = self.cluster.keys("*").await;
        assert!(fences.len() <= keys, "{fences:?}");
    }
}
