//! The part that a service would copy: a sale under a lock, whose writes contain the fencing token.

use std::time::Duration;

use dlock::{LockError, LockManager, distributed_lock};

use crate::stock::{Stock, StockError};

pub(crate) const ITEM: &str = "apple";
// A service uses the default, 30 s. Pauses of that length are rare but occur.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// The output of a seller that the coordinator waits for.
pub(crate) const STALLS: &str = "is about to write";
pub(crate) const SOLD: &str = "sold one";

/// One of two replicas of a service.
pub(crate) struct Seller {
    pub(crate) locks: LockManager,
    pub(crate) stock: Stock,
    pub(crate) say: Box<dyn Fn(String) + Send + Sync>,
    /// Blocks the thread of the late seller.
    pub(crate) stall: Option<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SaleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Stock(#[from] StockError),
}

// With `on_lost = finish`, the body receives the database's answer to its write. With `stop`, the body would end
// without that answer.
#[distributed_lock(
    key = "stock:<item>",
    ttl = TTL,
    wait = "60s",
    on_lost = finish,
    lease = lease,
    manager = seller.locks
)]
async fn sell(item: &str, seller: &Seller, stalls: bool) -> Result<(), SaleError> {
    let token = lease.fencing_token();
    let left = seller.stock.open(item, token).await?;
    seller.say(format!("holds the lock with token {token}, reads {left}"));
    // The last check before the step that cannot be undone. It is not sufficient: the process can be paused after any
    // check.
    lease.ensure_held()?;
    if let (true, Some(stall)) = (stalls, &seller.stall) {
        seller.say(STALLS);
        stall();
    }
    seller.say(format!("writes {} with token {token}", left - 1));
    seller.stock.write(item, left - 1, token).await?;
    Ok(())
}

impl Seller {
    fn say(&self, text: impl Into<String>) {
        (self.say)(text.into());
    }

    /// Sells one item. A sale that was too late has no effect and is repeated.
    pub(crate) async fn run(&self) -> Result<(), SaleError> {
        let mut stalls = true;
        loop {
            match sell(ITEM, self, stalls).await {
                Ok(()) => break,
                Err(SaleError::Stock(error @ StockError::TooLate(_))) => {
                    self.say(format!("is late: {error}"));
                }
                // From `ensure_held`, before the write.
                Err(SaleError::Lock(error @ LockError::Lost { .. })) => {
                    self.say(format!("is late: {error}"));
                }
                Err(error) => return Err(error),
            }
            stalls = false;
        }
        self.locks.shutdown(Duration::from_secs(5)).await;
        self.say(SOLD);
        Ok(())
    }
}
