//! dlock, as its users call it.

use std::time::Duration;

use ::dlock::{LockGuard, LockManager, LockManagerBuilder, Wait};

use super::{Locker, TTL_MS};
use crate::Failure;
use crate::arguments::{Settings, Switch};

#[derive(Clone)]
pub(super) struct Dlock(LockManager);

impl Dlock {
    pub(super) async fn connect(settings: &Settings) -> Result<Self, Failure> {
        Ok(Self(builder(settings).connect(&settings.url).await?))
    }

    pub(super) fn memory(settings: &Settings) -> Result<Self, Failure> {
        Ok(Self(builder(settings).connect_lazy("memory://")?))
    }
}

/// A manager as the settings want it.
pub(crate) fn builder(settings: &Settings) -> LockManagerBuilder {
    LockManager::builder()
        .ttl(Duration::from_millis(TTL_MS))
        .wait(Wait::Forever)
        .handover(settings.handover == Switch::On)
}

impl Locker for Dlock {
    type Held = LockGuard;

    async fn acquire(&self, key: &str) -> Result<LockGuard, Failure> {
        Ok(self.0.lock(key).acquire().await?)
    }

    async fn release(&self, guard: LockGuard) -> Result<(), Failure> {
        Ok(guard.release().await?)
    }
}
