//! The stores that one suite is run against.

use std::time::Duration;

use dlock::{
    LockManager, LockManagerBuilder,
    store::{LockStore, memory::MemoryStore},
};
use dlock_waiting::eventually;

use super::LIMIT;

/// How long a server of a test may take for an answer: half of the machine may be busy with other work.
#[cfg(feature = "redis")]
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// A store that no other test uses meanwhile, managers over it, and a view into it.
///
/// Every manager stands for a process: it shares nothing with the others but the store.
pub(crate) trait Env {
    type Store: LockStore;

    /// The TTL of a lease that is to run out during the test.
    const BRIEF: Duration;

    /// How long it takes at most until a lock that was given back is somebody else's. It is
    /// exact where time is paused.
    const PROMPT: Duration;

    /// Whether who asks again keeps its place in the queue, however late an answer is. A quorum gives back
    /// what a node may have that answers late, the place with it.
    const KEEPS_PLACES: bool = true;

    async fn start() -> Self;

    /// The store itself.
    async fn store(&self) -> Self::Store;

    /// A manager with other defaults.
    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager;

    async fn manager(&self) -> LockManager {
        self.manager_with(|builder| builder).await
    }

    /// What the store has of locks and queues.
    async fn locks(&self) -> Vec<String>;

    /// Somebody deletes the lock in the store.
    async fn delete(&self, key: &str);

    /// Nothing stays behind: no lock, no waiter, no more than one fence for each of `keys`, and
    /// no key in the table of a manager.
    async fn assert_clean(&self, keys: usize, managers: &[&LockManager]);
}

/// No process has anything of a lock left.
pub(crate) async fn assert_idle(managers: &[&LockManager]) {
    eventually(LIMIT, "no manager has a key left", async || {
        managers.iter().all(|manager| manager.active_keys() == 0)
    })
    .await;
}

/// [`MemoryStore`], for tests with paused time.
pub(crate) struct Memory(MemoryStore);

impl Env for Memory {
    type Store = MemoryStore;

    const BRIEF: Duration = Duration::from_secs(6);
    const PROMPT: Duration = Duration::from_millis(100);

    async fn start() -> Self {
        Self(MemoryStore::new())
    }

    async fn store(&self) -> MemoryStore {
        self.0.clone()
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        let builder = change(LockManager::builder());
        builder.build_with_store(self.0.clone()).unwrap()
    }

    async fn locks(&self) -> Vec<String> {
        vec!["a lock".to_owned(); self.0.len()]
    }

    async fn delete(&self, _key: &str) {
        self.0.forget();
    }

    async fn assert_clean(&self, _keys: usize, managers: &[&LockManager]) {
        assert_idle(managers).await;
        assert!(self.0.is_empty(), "{} locks are left", self.0.len());
    }
}

#[cfg(feature = "redis")]
pub(crate) use redis::{
    HasServer, OldRedis, RawKeys, Redis, Valkey, delete_lock, stored, without_fences,
};

#[cfg(feature = "redis")]
mod redis {
    use std::marker::PhantomData;

    use dlock::store::redis::{RedisConfig, RedisStore};
    use dlock_testkit::{Make, Pooled, RedisServer};

    use super::{ANSWER, Duration, Env, LockManager, LockManagerBuilder, assert_idle};

    /// Which server it is, and where locks lie in it.
    pub(crate) trait Server {
        const MAKE: Make = Make::Usual;
        const RAW_KEYS: bool = false;
    }

    pub(crate) enum Usual {}

    impl Server for Usual {}

    pub(crate) enum InValkey {}

    impl Server for InValkey {
        const MAKE: Make = Make::Valkey;
    }

    pub(crate) enum InOldRedis {}

    impl Server for InOldRedis {
        const MAKE: Make = Make::OldRedis;
    }

    pub(crate) enum Raw {}

    impl Server for Raw {
        const RAW_KEYS: bool = true;
    }

    /// The key at which the server keeps a lock.
    pub(crate) fn stored(key: &str) -> String {
        format!("dlock:{{{key}}}")
    }

    /// All but what a server keeps for good.
    pub(crate) fn without_fences(mut keys: Vec<String>) -> Vec<String> {
        keys.retain(|key| !key.starts_with("dlock:fence:"));
        keys
    }

    /// Somebody deletes the lock that lies at `lock`.
    pub(crate) async fn delete_lock(server: &RedisServer, lock: &str) {
        let deleted: u32 = redis::cmd("DEL")
            .arg(lock)
            .query_async(&mut server.connection().await)
            .await
            .unwrap();
        assert_eq!(deleted, 1, "there was a lock to delete");
    }

    /// A server for one test at a time.
    pub(crate) struct RedisKind<S> {
        pub(crate) server: Pooled<RedisServer>,
        kind: PhantomData<S>,
    }

    pub(crate) type Redis = RedisKind<Usual>;
    pub(crate) type Valkey = RedisKind<InValkey>;
    pub(crate) type OldRedis = RedisKind<InOldRedis>;
    pub(crate) type RawKeys = RedisKind<Raw>;

    impl<S> RedisKind<S> {
        /// Over a server that runs already.
        pub(crate) fn over(server: RedisServer) -> Self {
            Self {
                server: server.into(),
                kind: PhantomData,
            }
        }
    }

    /// An [`Env`] with a server that can be looked into.
    pub(crate) trait HasServer {
        fn server(&self) -> &RedisServer;
    }

    impl<S> HasServer for RedisKind<S> {
        fn server(&self) -> &RedisServer {
            &self.server
        }
    }

    impl<S: Server> Env for RedisKind<S> {
        type Store = RedisStore;

        // Long enough for a machine that is paused for a second.
        const BRIEF: Duration = Duration::from_secs(3);
        const PROMPT: Duration = super::LIMIT;

        async fn start() -> Self {
            Self {
                server: RedisServer::pooled(S::MAKE).await,
                kind: PhantomData,
            }
        }

        async fn store(&self) -> RedisStore {
            let config = RedisConfig::new(self.server.url())
                .raw_keys(S::RAW_KEYS)
                .response_timeout(ANSWER);
            RedisStore::connect(config).await.unwrap()
        }

        async fn manager_with(
            &self,
            change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
        ) -> LockManager {
            let builder = LockManager::builder().raw_keys(S::RAW_KEYS);
            let builder = builder.response_timeout(ANSWER);
            let builder = change(builder.connect_timeout(super::LIMIT));
            builder.connect(&self.server.url()).await.unwrap()
        }

        async fn locks(&self) -> Vec<String> {
            without_fences(self.server.keys("*").await)
        }

        async fn delete(&self, key: &str) {
            let lock = if S::RAW_KEYS {
                key.to_owned()
            } else {
                stored(key)
            };
            delete_lock(&self.server, &lock).await;
        }

        async fn assert_clean(&self, keys: usize, managers: &[&LockManager]) {
            assert_idle(managers).await;
            assert_eq!(self.locks().await, Vec::<String>::new());
            let fences = self.server.keys("*").await;
            assert!(fences.len() <= keys, "{fences:?}");
        }
    }
}
