//! The crate rslock, as its documentation shows it, but for asking until it has the lock.

use std::time::Duration;

use ::rslock::{Lock, LockManager};

use super::{Locker, TTL_MS};
use crate::Failure;
use crate::arguments::Settings;

#[derive(Clone)]
pub(super) struct Rslock(LockManager);

impl Rslock {
    pub(super) fn new(settings: &Settings) -> Result<Self, Failure> {
        // From a client, because from an address it panics when that is wrong.
        let urls = settings.urls();
        let clients = urls.iter().map(|url| redis::Client::open(url.as_str()));
        let mut manager = LockManager::from_clients(clients.collect::<Result<_, _>>()?);
        manager.set_retry(u32::MAX, settings.poll());
        Ok(Self(manager))
    }
}

impl Locker for Rslock {
    type Held = Lock;

    async fn acquire(&self, key: &str) -> Result<Lock, Failure> {
        Ok(self
            .0
            .lock(key.as_bytes(), Duration::from_millis(TTL_MS))
            .await?)
    }

    async fn release(&self, lock: Lock) -> Result<(), Failure> {
        self.0.unlock(&lock).await;
        Ok(())
    }
}
