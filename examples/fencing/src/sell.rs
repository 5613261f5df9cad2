//! What a service would have: a sale under a lock, whose writes carry the fencing token.

use std::time::Duration;

use dlock::{LockError, LockManager, distributed_lock};

use crate::stock::{Stock, StockError};

pub(crate) const ITEM: &str = "apple";
// A service would take the default, 30 s; pauses as long as that are rare, and do occur.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// What a seller says, and the coordinator wants to know.
pub(crate) const STALLS: &str = "is about to write";
pub(crate) const SOLD: &str = "has sold one";

/// One of two processes of a service.
pub(crate) struct Seller {
    pub(crate) locks: LockManager,
    pub(crate) stock: Stock,
    pub(crate) say: Box<dyn Fn(String) + Send + Sync>,
    /// Blocks the thread in the seller that is to be late.
    pub(crate) stall: Option<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SaleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Stock(#[from] StockError),
}

// `on_lost = finish`: the database knows better than this process whether the section came too late,
// and says so. With `cancel` the body would end without the answer to a write that is on its way.
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
    // The last look before the step that cannot be undone. It is not enough: whatever is looked at,
    // the process may be stopped right behind it.
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

    /// Sells one item. Who came too late has done nothing, and begins again.
    pub(crate) async fn run(&self) -> Result<(), SaleError> {
        let mut stalls = true;
        loop {
            match sell(ITEM, self, stalls).await {
                Ok(()) => break,
                Err(SaleError::Stock(error @ StockError::TooLate(_))) => {
                    self.say(format!("is late: {error}"));
                }
                // By `ensure`, before anything was written.
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
