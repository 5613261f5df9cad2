//! The Redis store against a real server: what the scripts do, what is answered when a server
//! refuses, and what becomes of the connection.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod connection;
mod log;
mod outages;
mod protocol;
mod refusals;
mod start_up;

use std::time::Duration;

use dlock_runtime::{
    ClientId, LockKey, LockStore, OwnerId, SystemRandom,
    store::{
        AcquireRequest, Acquisition, Holder, RenewRequest, StoreError,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::RedisServer;
use redis::aio::MultiplexedConnection;

const TTL: Duration = Duration::from_secs(30);

/// Longer than anything here takes on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(15);

async fn connect(url: &str) -> RedisStore {
    RedisStore::connect(RedisConfig::new(url))
        .await
        .expect("the server is there")
}

/// A server, a store, and a connection to look behind the store's back.
async fn server_and_store() -> (RedisServer, RedisStore, MultiplexedConnection) {
    let server = RedisServer::start().await;
    let store = connect(&server.url()).await;
    let behind = server.connection().await;
    (server, store, behind)
}

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

fn key(text: &str) -> LockKey {
    LockKey::new(text).unwrap()
}

fn request(key: &LockKey, owner: OwnerId) -> AcquireRequest<'_> {
    AcquireRequest {
        key,
        owner,
        ttl: TTL,
        queue: false,
        label: "svc@host/1",
    }
}

fn renewal(key: &LockKey, owner: OwnerId) -> RenewRequest<'_> {
    RenewRequest {
        key,
        owner,
        ttl: TTL,
        label: "svc@host/1",
    }
}

async fn try_take(
    store: &RedisStore,
    key: &LockKey,
    owner: OwnerId,
) -> Result<Acquisition, StoreError> {
    store.acquire(request(key, owner)).await
}

/// Takes a lock that is free or the owner's; its fence.
async fn take(store: &RedisStore, key: &LockKey, owner: OwnerId) -> u64 {
    match try_take(store, key, owner).await.unwrap() {
        Acquisition::Granted { fence } => fence,
        Acquisition::Busy(holder) => panic!("`{key}` is not free: {holder}"),
    }
}

/// Enters the queue of a lock that is held, or stays in it.
async fn queue(store: &RedisStore, key: &LockKey, owner: OwnerId) -> Holder {
    match store
        .acquire(AcquireRequest {
            queue: true,
            ..request(key, owner)
        })
        .await
        .unwrap()
    {
        Acquisition::Busy(holder) => holder,
        Acquisition::Granted { .. } => panic!("`{key}` was free"),
    }
}

async fn run(connection: &mut MultiplexedConnection, command: &str) {
    let mut words = command.split(' ');
    let mut request = redis::cmd(words.next().unwrap());
    request
        .arg(words.collect::<Vec<_>>())
        .exec_async(connection)
        .await
        .unwrap();
}

async fn get(connection: &mut MultiplexedConnection, key: &str) -> Option<String> {
    redis::cmd("GET")
        .arg(key)
        .query_async(connection)
        .await
        .unwrap()
}
