//! The part that a service would copy: a function that must not run twice at the same time for one order.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use dlock::{Lease, LockError, distributed_lock};
use tokio::time::{Instant, sleep};

use crate::{input::Order, ledger::Ledger, message::Message};

/// The time for which an order stays locked after a crash. A service uses the default, 30 s. The lease is
/// renewed while the body runs, so the TTL may be shorter than the work. With one or two seconds, a busy machine loses
/// leases.
pub(crate) const TTL: Duration = Duration::from_secs(5);

const WORK: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot use the ledger")]
    Ledger(#[from] io::Error),
}

/// The data that a worker's calls share.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) worker: usize,
    pub(crate) ledger: Ledger,
    /// Makes the next call that settles an order stop in the middle.
    pub(crate) stall: AtomicBool,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) waited: Duration,
    /// `true` if this call settled the order, `false` if an earlier one had.
    pub(crate) settled: bool,
}

#[distributed_lock(key = "order:<order.id>", ttl = TTL, wait = "30s", lease = lease)]
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
        // The last check before the step that cannot be undone. This process may have been paused for longer than
        // its lease.
        lease.ensure_held()?;
        let token = lease.fencing_token().to_i64();
        desk.ledger.settle(order, desk.worker, token).await?;
    }
    Ok(Section {
        waited,
        settled: !settled,
    })
}

/// The same without the lock, to show that the final check detects double settlements.
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
    /// Reports the order and waits, in the worker that is to be killed.
    async fn stall(&self, order: &Order, lease: &Lease) {
        /// The limit, in case the worker is not killed.
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
