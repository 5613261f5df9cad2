//! The answers of the scripts themselves, also where no store would send them.

mod answers;

use std::time::Duration;

use dlock_testkit::RedisServer;
use redis::{
    ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use super::super::{RedisConfig, protocol::command::Command};
use crate::{
    key::LockKey,
    mode::LockMode,
    owner::{ClientId, OwnerId},
    random::SystemRandom,
    store::{AcquireRequest, Queue, RaiseRequest, ReleaseRequest, RenewRequest},
};

const TTL: Duration = Duration::from_secs(30);

/// The modes of leases that lie in a server in different forms.
const MODES: [LockMode; 3] = [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(2)];

struct Scripts {
    server: RedisServer,
    connection: MultiplexedConnection,
    config: RedisConfig,
}

impl Scripts {
    async fn start() -> Self {
        let server = RedisServer::start().await;
        Self {
            connection: server.connection().await,
            config: RedisConfig::new(server.url()),
            server,
        }
    }

    async fn run<T: FromRedisValue>(&mut self, command: &Command) -> RedisResult<T> {
        command.whole().query_async(&mut self.connection).await
    }

    async fn command<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.connection).await.unwrap()
    }

    async fn acquire(&mut self, key: &LockKey, owner: OwnerId, mode: LockMode) -> Value {
        let request = AcquireRequest::new(key, owner, TTL).mode(mode).label("x");
        let command = Command::acquire(&self.config, &request.queue(Queue::ForLease));
        self.run(&command).await.unwrap()
    }

    /// Acquires a lock that is free for this owner; its fence.
    async fn take(&mut self, key: &LockKey, owner: OwnerId, mode: LockMode) -> u64 {
        match self.acquire(key, owner, mode).await {
            Value::Int(fence) => u64::try_from(fence).unwrap(),
            other => panic!("`{key}` is not free: {other:?}"),
        }
    }

    fn release(&self, key: &LockKey, owner: OwnerId, mode: LockMode) -> Command {
        Command::release(&self.config, &ReleaseRequest::new(key, owner).mode(mode))
    }

    /// The release of a lock while its keys lie on two servers.
    async fn drop_alone(
        &mut self,
        key: &LockKey,
        owner: OwnerId,
        mode: LockMode,
    ) -> RedisResult<i64> {
        let alone = self.release(key, owner, mode).of_the_lock_alone();
        self.run(&alone.expect("it is a release")).await
    }
}

fn owner() -> OwnerId {
    OwnerId::new(ClientId::new(&SystemRandom), 1)
}

fn key(text: &str) -> LockKey {
    LockKey::new(text).unwrap()
}

#[tokio::test]
async fn a_release_of_the_lock_alone_is_its_owners() {
    let mut scripts = Scripts::start().await;
    for mode in MODES {
        let (lock, me, stranger) = (key("k"), owner(), owner());
        let waiter = owner();
        scripts.take(&lock, me, mode).await;
        scripts.acquire(&lock, waiter, LockMode::Exclusive).await;
        let longer: OwnerId = format!("{me}7").parse().unwrap();
        for other in [stranger, longer] {
            for mode in MODES {
                assert_eq!(
                    scripts.drop_alone(&lock, other, mode).await,
                    Ok(0),
                    "{mode:?}"
                );
            }
        }
        // Leases of another kind are not those of this request.
        for other in MODES
            .into_iter()
            .filter(|it| it.is_exclusive() != mode.is_exclusive())
        {
            assert_eq!(
                scripts.drop_alone(&lock, me, other).await,
                Ok(0),
                "{other:?}"
            );
        }
        assert_eq!(scripts.server.keys("dlock:{k}").await, ["dlock:{k}"]);
        assert_eq!(scripts.drop_alone(&lock, me, mode).await, Ok(1), "{mode:?}");
        assert_eq!(scripts.drop_alone(&lock, me, mode).await, Ok(0), "{mode:?}");
        assert_eq!(scripts.server.keys("dlock:{k}").await, [""; 0], "{mode:?}");
        // The waiter is not told, and keeps its place.
        let places: u64 = scripts.command(&["ZCARD", "dlock:{k}:q"]).await;
        assert_eq!(places, 1);
        scripts.take(&lock, waiter, LockMode::Exclusive).await;
        let release = scripts.release(&lock, waiter, LockMode::Exclusive);
        assert_eq!(scripts.run(&release).await, Ok(1));
    }
}

#[tokio::test]
async fn a_release_of_the_lock_alone_leaves_other_holders_and_foreign_data() {
    let mut scripts = Scripts::start().await;
    let (lock, one, other) = (key("k"), owner(), owner());
    scripts.take(&lock, one, LockMode::Shared).await;
    scripts.take(&lock, other, LockMode::Shared).await;
    assert_eq!(
        scripts.drop_alone(&lock, one, LockMode::Shared).await,
        Ok(1)
    );
    let renews = RenewRequest::new(&lock, other, TTL).mode(LockMode::Shared);
    let renews = Command::renew(&scripts.config, &renews);
    assert_eq!(scripts.run(&renews).await, Ok(1));

    for write in [
        &["HSET", "dlock:{k}", "field", "value"],
        &["RPUSH", "dlock:{k}", "a", "b"],
    ] {
        scripts.command::<Value>(&["DEL", "dlock:{k}"]).await;
        scripts.command::<Value>(write).await;
        let before: Vec<u8> = scripts.command(&["DUMP", "dlock:{k}"]).await;
        for mode in MODES {
            let answer = scripts.drop_alone(&lock, one, mode).await;
            let is_hash_to_share = write[0] == "HSET" && !mode.is_exclusive();
            assert_eq!(answer.is_ok(), is_hash_to_share, "{write:?} {mode:?}");
            let after: Vec<u8> = scripts.command(&["DUMP", "dlock:{k}"]).await;
            assert_eq!(after, before, "{write:?} {mode:?}");
        }
    }
}

/// It may know nothing of the lock, or an older state of it.
#[tokio::test]
async fn a_replica_says_of_no_lease_that_it_is_not_the_owners() {
    let mut scripts = Scripts::start().await;
    let (holder, stranger) = (owner(), owner());
    let keys = ["free", "exclusive", "shared", "permits"].map(key);
    for (lock, mode) in keys[1..].iter().zip(MODES) {
        scripts.take(lock, holder, mode).await;
    }
    scripts
        .command::<Value>(&["REPLICAOF", "127.0.0.1", "1"])
        .await;
    for lock in &keys {
        for (owner, mode) in [holder, stranger]
            .into_iter()
            .flat_map(|it| MODES.map(|mode| (it, mode)))
        {
            let renews = RenewRequest::new(lock, owner, TTL).mode(mode).label("y");
            let renews = Command::renew(&scripts.config, &renews);
            let releases = scripts.release(lock, owner, mode);
            let alone = releases.of_the_lock_alone().unwrap();
            let raises = RaiseRequest::new(lock, owner, 7, 9);
            let raises = Command::raise(&scripts.config, &raises);
            for (name, command) in [
                ("renew", renews),
                ("release", releases),
                ("drop", alone),
                ("raise", raises),
            ] {
                let answer: RedisResult<Value> = scripts.run(&command).await;
                let is_refused = answer.as_ref().is_err_and(|error| {
                    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
                });
                assert!(is_refused, "{name} of `{lock}`, {mode:?}: {answer:?}");
            }
        }
    }
}

/// Counted on from, it would leave no fence for anybody.
#[tokio::test]
async fn an_epoch_that_is_too_great_is_not_counted_on_from() {
    let mut scripts = Scripts::start().await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    let fence = scripts.take(&lock, me, LockMode::Shared).await;
    for epoch in ["4503599627370496", "9007199254740992"] {
        scripts.acquire(&lock, waiter, LockMode::Exclusive).await;
        let head: String = scripts.command(&["HGET", "dlock:{k}", "!"]).await;
        let (_, earliest) = head.split_once(' ').unwrap();
        let head = format!("{epoch} {earliest}");
        scripts
            .command::<Value>(&["HSET", "dlock:{k}", "!", &head])
            .await;
        let release = scripts.release(&lock, me, LockMode::Shared);
        assert_eq!(scripts.run(&release).await, Ok(2));
        let granted = scripts.take(&lock, waiter, LockMode::Exclusive).await;
        assert!((fence + 1..1 << 51).contains(&granted), "{granted}");
        let release = scripts.release(&lock, waiter, LockMode::Exclusive);
        assert_eq!(scripts.run(&release).await, Ok(1));
        scripts.take(&lock, me, LockMode::Shared).await;
    }
}
