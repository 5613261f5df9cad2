//! Mutexes of tokio, one for each key: what a lock costs that stays inside a process.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Locker;
use crate::Failure;

#[derive(Clone, Default)]
pub(super) struct Mutexes(Arc<std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>>);

impl Locker for Mutexes {
    type Held = OwnedMutexGuard<()>;

    async fn acquire(&self, key: &str) -> Result<Self::Held, Failure> {
        let mutex = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(key) {
                Some(mutex) => mutex.clone(),
                None => known.entry(key.to_owned()).or_default().clone(),
            }
        };
        Ok(mutex.lock_owned().await)
    }

    async fn release(&self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}
