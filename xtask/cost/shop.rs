//! The parts that the functions of a measured program share: an error of its own, and data to work
//! on.

use std::collections::HashMap;
use std::time::Duration;

use dlock::{LockError, LockManager};
use tokio::sync::Mutex;

#[derive(Debug)]
pub enum Error {
    Lock(LockError),
    NoLocks,
    Missing(u64),
    Refused,
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Error {}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The installed manager, as code that takes locks by hand asks for it.
pub fn locks() -> Result<&'static LockManager> {
    dlock::installed().ok_or(Error::NoLocks)
}

pub struct Shop {
    pub tenant: String,
    pub locks: LockManager,
    amounts: Mutex<HashMap<u64, u64>>,
}

impl Shop {
    pub fn new(tenant: String, locks: LockManager) -> Self {
        let amounts = Mutex::default();
        Self {
            tenant,
            locks,
            amounts,
        }
    }

    pub async fn load(&self, id: u64) -> Result<u64> {
        let amounts = self.amounts.lock().await;
        amounts.get(&id).copied().ok_or(Error::Missing(id))
    }

    pub async fn save(&self, id: u64, amount: u64) -> Result<()> {
        self.amounts.lock().await.insert(id, amount);
        Ok(())
    }

    pub async fn tell(&self, text: &str) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        println!("{}: {text}", self.tenant);
        Ok(())
    }
}
