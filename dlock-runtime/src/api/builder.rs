//! Builds a manager from defaults, limits and a store.

// Rustdoc lists the methods in the order of these modules.
mod entry;
mod options;
mod redis;
mod redis_options;
mod schemes;
mod start;

use std::{fmt, sync::Arc};

use self::redis_options::RedisOptions;
use crate::{
    clock::{Clock, SystemClock},
    engine::limits::Limits,
    error::ConnectError,
    options::{Timing, fault_of_limit},
    random::{Random, SystemRandom},
    store::{Schemes, StoreOptions},
};

/// Configures and creates a [`LockManager`](crate::LockManager).
///
/// The options are the defaults of every lock of the manager. A request or an annotated function can override
/// most of them.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
/// use std::time::Duration;
/// use dlock::LockManager;
///
/// let manager = LockManager::builder()
///     .application("billing")
///     .ttl(Duration::from_secs(20))
///     .connect("memory://")
///     .await?;
/// # drop(manager); Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a manager is made by `connect`, `connect_env`, `connect_lazy` or `build_with_store`"]
pub struct LockManagerBuilder {
    defaults: Timing,
    application: Option<String>,
    store: StoreOptions,
    redis: RedisOptions,
    schemes: Schemes,
    handover: bool,
    renewal_thread: Option<bool>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Default for LockManagerBuilder {
    fn default() -> Self {
        Self {
            defaults: Timing::default(),
            application: None,
            store: StoreOptions::default(),
            redis: RedisOptions::default(),
            schemes: Schemes::default(),
            handover: true,
            renewal_thread: None,
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        }
    }
}

impl LockManagerBuilder {
    fn check(&self) -> Result<(), ConnectError> {
        let fault = self.defaults.fault().or_else(|| self.limits.fault());
        let fault = fault.or_else(|| {
            let limits = [
                ("response_timeout", self.store.response_timeout),
                ("connect_timeout", self.store.connect_timeout),
            ];
            limits
                .into_iter()
                .find_map(|(option, limit)| Some((option, fault_of_limit(limit)?)))
        });
        fault.map_or(Ok(()), |(option, reason)| {
            let reason = reason.into();
            Err(ConnectError::InvalidOption { option, reason })
        })
    }
}

impl fmt::Debug for LockManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerBuilder")
            .field("defaults", &self.defaults)
            .field("application", &self.application)
            .field("namespace", &self.store.namespace)
            .field("raw_keys", &self.redis.raw_keys)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{api::manager::LockManager, store::memory::MemoryStore};

    #[test]
    fn defaults_out_of_bounds_are_refused_at_once() {
        let no_ttl = LockManager::builder()
            .ttl(Duration::ZERO)
            .build_with_store(MemoryStore::new());
        assert!(matches!(
            no_ttl,
            Err(ConnectError::InvalidOption { option: "ttl", .. })
        ));
        let no_answer = LockManager::builder().response_timeout(Duration::ZERO);
        assert!(no_answer.build_with_store(MemoryStore::new()).is_err());
        let answers_never = LockManager::builder().response_timeout(Duration::MAX);
        let refused = answers_never.build_with_store(MemoryStore::new());
        let option = "response_timeout";
        assert!(
            matches!(refused, Err(ConnectError::InvalidOption { option: it, .. }) if it == option)
        );
        let connects_never = LockManager::builder().connect_timeout(Duration::MAX);
        let refused = connects_never.build_with_store(MemoryStore::new());
        let option = "connect_timeout";
        assert!(
            matches!(refused, Err(ConnectError::InvalidOption { option: it, .. }) if it == option)
        );
        let replicas = LockManager::builder().min_replicas(1);
        assert!(replicas.build_with_store(MemoryStore::new()).is_err());
    }
}
