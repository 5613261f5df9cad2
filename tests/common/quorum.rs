//! Quorums of five stores, for the suite that all stores are run against.

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder, store::quorum::Quorum};
use dlock_waiting::eventually;

use super::{
    LIMIT,
    env::{Env, assert_idle},
    node::{Mood, Node},
};

/// How many stores there are in a quorum here.
pub(crate) const NODES: usize = 5;

/// A quorum of stores in memory, for tests with paused time.
pub(crate) struct QuorumOfMemory {
    pub(crate) nodes: [Node; NODES],
    /// The test's own. Managers have one of theirs, as processes do.
    quorum: Quorum,
}

impl QuorumOfMemory {
    pub(crate) fn new() -> Self {
        let nodes = [(); NODES].map(|()| Node::new());
        Self {
            quorum: Quorum::of(nodes.clone()).unwrap(),
            nodes,
        }
    }

    /// Another process' view of the same stores.
    pub(crate) fn quorum(&self) -> Quorum {
        Quorum::of(self.nodes.clone()).unwrap()
    }

    /// What is left on each node.
    pub(crate) fn left(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.store.len()).collect()
    }
}

impl Env for QuorumOfMemory {
    type Store = Quorum;

    const BRIEF: Duration = Duration::from_secs(6);
    const PROMPT: Duration = Duration::from_millis(100);

    async fn start() -> Self {
        Self::new()
    }

    async fn store(&self) -> Quorum {
        self.quorum.clone()
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        let builder = change(LockManager::builder());
        builder.build_with_store(self.quorum()).unwrap()
    }

    async fn locks(&self) -> Vec<String> {
        let most = self.left().into_iter().max().unwrap_or(0);
        vec!["a lock".to_owned(); most]
    }

    async fn delete(&self, _key: &str) {
        for node in &self.nodes {
            node.store.forget();
        }
    }

    async fn assert_clean(&self, _keys: usize, managers: &[&LockManager]) {
        assert_idle(managers).await;
        // The last of them are told in the background.
        eventually(LIMIT, "no node has a lock left", async || {
            self.left() == [0; NODES]
        })
        .await;
    }
}

/// The same; one node does nothing, and the answers of another are late.
pub(crate) struct QuorumWithFaults(QuorumOfMemory);

impl Env for QuorumWithFaults {
    type Store = Quorum;

    const BRIEF: Duration = QuorumOfMemory::BRIEF;
    const PROMPT: Duration = QuorumOfMemory::PROMPT;

    async fn start() -> Self {
        let quorum = QuorumOfMemory::new();
        quorum.nodes[1].is(Mood::Hung);
        quorum.nodes[3].is(Mood::Late(Duration::from_millis(70)));
        Self(quorum)
    }

    async fn store(&self) -> Quorum {
        self.0.store().await
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        self.0.manager_with(change).await
    }

    async fn locks(&self) -> Vec<String> {
        self.0.locks().await
    }

    async fn delete(&self, key: &str) {
        self.0.delete(key).await;
    }

    async fn assert_clean(&self, keys: usize, managers: &[&LockManager]) {
        self.0.assert_clean(keys, managers).await;
    }
}

#[cfg(feature = "redis")]
pub(crate) use redis::QuorumOfRedis;

#[cfg(feature = "redis")]
mod redis {
    use dlock::store::redis::{RedisConfig, RedisStore};
    use dlock_testkit::{Pooled, RedisServer};
    use futures_util::future::join_all;

    use super::{
        Duration, Env, LIMIT, LockManager, LockManagerBuilder, NODES, Quorum, assert_idle,
        eventually,
    };
    use crate::common::{stored, without_fences};

    /// How long a server may take that is there: a machine that runs many of them, and has half of its
    /// processors taken by others, is slow. No test is about this limit.
    const PATIENCE: Duration = Duration::from_secs(4);

    /// A quorum of five Redis servers for one test at a time.
    pub(crate) struct QuorumOfRedis {
        pub(crate) servers: Pooled<Vec<RedisServer>>,
        quorum: Quorum,
    }

    impl QuorumOfRedis {
        pub(crate) async fn new() -> Self {
            let servers = RedisServer::pooled_quorum(NODES).await;
            let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
            Self {
                quorum: Self::over(&urls).await,
                servers,
            }
        }

        fn config(url: &str) -> RedisConfig {
            RedisConfig::new(url)
                .response_timeout(2 * PATIENCE)
                .connect_timeout(4 * PATIENCE)
        }

        /// A quorum of the stores at these places.
        pub(crate) async fn over(urls: &[String]) -> Quorum {
            let connect = |url: &String| RedisStore::connect(Self::config(url));
            let stores = join_all(urls.iter().map(connect)).await;
            let quorum = Quorum::of(stores.into_iter().map(Result::unwrap)).unwrap();
            quorum.node_timeout(PATIENCE)
        }

        /// Another process' connections to the same servers.
        pub(crate) async fn quorum(&self) -> Quorum {
            let urls: Vec<_> = self.servers.iter().map(RedisServer::url).collect();
            Self::over(&urls).await
        }

        /// A manager although some of the servers are down.
        pub(crate) fn manager_of_majority(&self) -> LockManager {
            let config = |server: &RedisServer| RedisConfig::new(server.url());
            let stores = self
                .servers
                .iter()
                .map(|server| RedisStore::connect_lazy(config(server)));
            let quorum = Quorum::of(stores.map(Result::unwrap)).unwrap();
            LockManager::builder().build_with_store(quorum).unwrap()
        }

        /// What the servers have of locks and queues, each with its number.
        pub(crate) async fn left(&self) -> Vec<(usize, String)> {
            let mut left = Vec::new();
            for (number, server) in self.servers.iter().enumerate() {
                let keys = without_fences(server.keys("*").await);
                left.extend(keys.into_iter().map(|key| (number, key)));
            }
            left
        }
    }

    impl Env for QuorumOfRedis {
        type Store = Quorum;

        // Twice that of one server: five have to answer within a fraction of it.
        const BRIEF: Duration = Duration::from_secs(5);
        const PROMPT: Duration = LIMIT;
        const KEEPS_PLACES: bool = false;

        async fn start() -> Self {
            Self::new().await
        }

        async fn store(&self) -> Quorum {
            self.quorum.clone()
        }

        async fn manager_with(
            &self,
            change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
        ) -> LockManager {
            let builder = LockManager::builder().response_timeout(2 * PATIENCE);
            change(builder)
                .build_with_store(self.quorum().await)
                .unwrap()
        }

        async fn locks(&self) -> Vec<String> {
            let mut keys: Vec<_> = self.left().await.into_iter().map(|(_, key)| key).collect();
            keys.sort();
            keys.dedup();
            keys
        }

        async fn delete(&self, key: &str) {
            for server in self.servers.iter() {
                let mut connection = server.connection().await;
                redis::cmd("DEL")
                    .arg(stored(key))
                    .exec_async(&mut connection)
                    .await
                    .unwrap();
            }
        }

        async fn assert_clean(&self, _keys: usize, managers: &[&LockManager]) {
            assert_idle(managers).await;
            // The last of them are told in the background.
            eventually(LIMIT, "no server has a lock left", async || {
                self.left().await.is_empty()
            })
            .await;
        }
    }
}
