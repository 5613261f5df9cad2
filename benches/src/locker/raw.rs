//! The limit: what a lock over Redis costs that does nothing but lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::sleep;
use uuid::Uuid;

use super::{Locker, TTL_MS, by_hand};
use crate::Failure;
use crate::arguments::Settings;

const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0";

#[derive(Clone)]
pub(super) struct Raw {
    connection: MultiplexedConnection,
    release: Arc<str>,
    /// The part that the owners of this process have in common.
    client: Arc<str>,
    next: Arc<AtomicU64>,
    poll: Duration,
}

pub(super) struct Held {
    key: String,
    owner: String,
}

impl Raw {
    pub(super) async fn connect(settings: &Settings) -> Result<Self, Failure> {
        let mut connection = by_hand::connect(&settings.url).await?;
        let release = by_hand::load(&mut connection, RELEASE).await?;
        Ok(Self {
            connection,
            release: release.into(),
            client: Uuid::new_v4().simple().to_string().into(),
            next: Arc::default(),
            poll: settings.poll(),
        })
    }
}

impl Locker for Raw {
    type Held = Held;

    async fn acquire(&self, key: &str) -> Result<Held, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}.{number}", self.client);
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("SET");
        command.arg(key).arg(&owner).arg("NX").arg("PX").arg(TTL_MS);
        while !command.query_async(&mut connection).await? {
            sleep(self.poll).await;
        }
        let key = key.to_owned();
        Ok(Held { key, owner })
    }

    async fn release(&self, held: Held) -> Result<(), Failure> {
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(&*self.release)
            .arg(1)
            .arg(held.key)
            .arg(held.owner);
        if command.query_async(&mut self.connection.clone()).await? {
            Ok(())
        } else {
            Err("the lock was somebody else's".into())
        }
    }
}
