//! Ways to reach a Redis server: the suite that every store passes holds for each of them.

use std::marker::PhantomData;

use dlock::{
    LockManager, LockManagerBuilder,
    store::redis::{RedisConfig, RedisStore},
};
use dlock_testkit::{Authority, RedisServer};

use super::{
    ANSWER, LIMIT,
    env::{Env, Redis},
};

/// The rule that the documentation shows: user `app`, password `change-me`.
pub(crate) const PERMISSIONS: &str =
    include_str!("../../dlock-runtime/src/store/redis/permissions.txt");

pub(crate) trait Way {
    async fn start() -> Reached;
}

/// A server, and the URL by which it is reached.
pub(crate) struct Reached {
    pub(crate) server: RedisServer,
    pub(crate) url: String,
    /// Its files are named in the URL.
    pub(crate) authority: Option<Authority>,
}

/// A Redis server of the test's own that is reached in this way.
pub(crate) struct By<W> {
    redis: Redis,
    url: String,
    _authority: Option<Authority>,
    way: PhantomData<W>,
}

/// By a user who may do no more than the documentation says.
pub(crate) struct Acl;
/// With hints over a connection of their own.
pub(crate) struct Resp2;
/// Over TLS.
pub(crate) struct Tls;

pub(crate) type RedisUnderAcl = By<Acl>;
pub(crate) type RedisByResp2 = By<Resp2>;
pub(crate) type RedisOverTls = By<Tls>;

impl Way for Acl {
    async fn start() -> Reached {
        let server = RedisServer::start().await;
        set_permissions(&server, PERMISSIONS).await;
        Reached {
            url: format!("redis://app:change-me@127.0.0.1:{}", server.port()),
            server,
            authority: None,
        }
    }
}

impl Way for Resp2 {
    async fn start() -> Reached {
        let server = RedisServer::start().await;
        Reached {
            url: format!("{}?protocol=resp2", server.url()),
            server,
            authority: None,
        }
    }
}

impl Way for Tls {
    async fn start() -> Reached {
        let authority = Authority::new();
        let identity = authority.issue(&["127.0.0.1"]);
        let server = RedisServer::start_with_tls(&identity, None, &[]).await;
        Reached {
            url: server.tls_url(&authority),
            server,
            authority: Some(authority),
        }
    }
}

/// Sends one of the server's commands, as it stands in a text.
pub(crate) async fn set_permissions(server: &RedisServer, rule: &str) {
    let mut words = rule.split_whitespace();
    redis::cmd(words.next().unwrap())
        .arg(words.collect::<Vec<_>>())
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
}

impl<W: Way> Env for By<W> {
    type Store = RedisStore;

    const BRIEF: std::time::Duration = Redis::BRIEF;
    const PROMPT: std::time::Duration = LIMIT;

    async fn start() -> Self {
        let reached = W::start().await;
        Self {
            redis: Redis::over(reached.server),
            url: reached.url,
            _authority: reached.authority,
            way: PhantomData,
        }
    }

    async fn store(&self) -> RedisStore {
        let config = RedisConfig::new(&self.url).response_timeout(ANSWER);
        let connected = RedisStore::connect(config.connect_timeout(LIMIT)).await;
        connected.unwrap()
    }

    async fn manager_with(
        &self,
        change: impl FnOnce(LockManagerBuilder) -> LockManagerBuilder,
    ) -> LockManager {
        let builder = LockManager::builder().response_timeout(ANSWER);
        let builder = change(builder.connect_timeout(LIMIT));
        builder.connect(&self.url).await.unwrap()
    }

    async fn locks(&self) -> Vec<String> {
        self.redis.locks().await
    }

    async fn delete(&self, key: &str) {
        self.redis.delete(key).await;
    }

    async fn assert_clean(&self, keys: usize, managers: &[&LockManager]) {
        self.redis.assert_clean(keys, managers).await;
    }
}
