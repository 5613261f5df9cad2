//! What a user would write: a function that must not run twice at a time for the same order.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use dlock::{Lease, LockError, distributed_lock};
use tokio::time::{Instant, sleep};

use crate::{input::Order, ledger::Ledger, message::Message};

/// For how long an order stays locked when its worker is killed. A service would rather take the
/// default of 30 s: the lease is renewed while the body runs, so it need not outlast the work.
pub(crate) const TTL: Duration = Duration::from_secs(2);

const WORK: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the ledger cannot be used")]
    Ledger(#[from] io::Error),
}

/// What a worker's sections work with.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) worker: usize,
    pub(crate) ledger: Ledger,
    /// Makes the next section that has something to settle stop half-way.
    pub(crate) stall: AtomicBool,
}

/// How a section went.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) waited: Duration,
    /// Whether it settled the order; else an earlier section had.
    pub(crate) settled: bool,
}

#[distributed_lock(key = "order:<order.id>", ttl = TTL, wait = "10s", lease = lease)]
pub(crate) async fn settle(
    order: &Order,
    desk: &Desk,
    asked: Instant,
) -> Result<Section, SettleError> {
    let waited = asked.elapsed();
    let settled = desk.ledger.is_settled(order).await?;
    if !settled {
        desk.stall(order, lease).await;
        sleep(WORK).await;
        // The last look before the step that cannot be undone: this process may have been
        // stopped for longer than its lease.
        lease.ensure_held()?;
        let token = lease.fencing_token().to_i64();
        desk.ledger.settle(order, desk.worker, token).await?;
    }
    Ok(Section {
        waited,
        settled: !settled,
    })
}

/// The same without the lock, to show that the check at the end would notice.
pub(crate) async fn settle_unlocked(order: &Order, desk: &Desk) -> Result<Section, SettleError> {
    let settled = desk.ledger.is_settled(order).await?;
    if !settled {
        sleep(WORK).await;
        desk.ledger.settle(order, desk.worker, 0).await?;
    }
    Ok(Section {
        waited: Duration::ZERO,
        settled: !settled,
    })
}

impl Desk {
    /// In the worker that is to be killed: says where it is and goes no further.
    async fn stall(&self, order: &Order, lease: &Lease) {
        /// Ends it all the same should nobody come to kill it.
        const AT_MOST: Duration = Duration::from_secs(30);
        if self.stall.swap(false, Ordering::SeqCst) {
            let stalled = Message::Stalled {
                order: order.id.clone(),
                token: lease.fencing_token().to_i64(),
            };
            println!("{stalled}");
            sleep(AT_MOST).await;
        }
    }
}
