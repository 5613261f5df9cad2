//! One key, as those see it who talk to the store without a manager.

use std::time::Duration;

use dlock::{
    LockKey,
    random::SystemRandom,
    store::{
        AcquireOutcome, AcquireRequest, ClientId, Holder, LockStore, OwnerId, Queue,
        ReleaseRequest, Released, RenewRequest, Renewal,
    },
};
use dlock_waiting::eventually;

use super::LIMIT;

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// What everybody here says of itself.
pub(crate) const LABEL: &str = "test@host/1";

pub(crate) struct OneKey<S> {
    pub(crate) store: S,
    pub(crate) key: LockKey,
}

impl<S: LockStore> OneKey<S> {
    pub(crate) fn new(store: S, key: &str) -> Self {
        let key = LockKey::new(key).unwrap();
        Self { store, key }
    }

    /// Somebody of another process than everybody before.
    pub(crate) fn owner() -> OwnerId {
        OwnerId::new(ClientId::new(&SystemRandom), 1)
    }

    /// Asks, and waits in the queue if the key is held.
    pub(crate) async fn ask(&self, owner: OwnerId, ttl: Duration) -> AcquireOutcome {
        self.question(owner, ttl, Queue::ForLease).await
    }

    /// Asks without waiting in the queue.
    pub(crate) async fn ask_once(&self, owner: OwnerId, ttl: Duration) -> AcquireOutcome {
        self.question(owner, ttl, Queue::No).await
    }

    async fn question(&self, owner: OwnerId, ttl: Duration, queue: Queue) -> AcquireOutcome {
        let request = AcquireRequest::new(&self.key, owner, ttl)
            .queue(queue)
            .label(LABEL);
        self.store.acquire(request).await.unwrap()
    }

    /// The fence with which `owner` gets the key, or has it already.
    pub(crate) async fn granted(&self, owner: OwnerId, ttl: Duration) -> u64 {
        match self.ask(owner, ttl).await {
            AcquireOutcome::Granted { fence, .. } => fence,
            other => panic!("it is held: {other:?}"),
        }
    }

    /// Who holds the key; `owner` waits from now on.
    pub(crate) async fn busy(&self, owner: OwnerId) -> Holder {
        match self.ask(owner, TTL).await {
            AcquireOutcome::Busy(holder) => holder,
            other => panic!("broken promise: two hold the key: {other:?}"),
        }
    }

    pub(crate) async fn renew(&self, owner: OwnerId) -> Renewal {
        self.store.renew_one(self.renewal(owner)).await.unwrap()
    }

    /// A renewal for [`TTL`].
    pub(crate) fn renewal(&self, owner: OwnerId) -> RenewRequest<'_> {
        RenewRequest::new(&self.key, owner, TTL).label(LABEL)
    }

    pub(crate) async fn release(&self, owner: OwnerId) -> Released {
        self.store
            .release(ReleaseRequest::new(&self.key, owner))
            .await
            .unwrap()
    }

    /// Waits until `count` owners wait for the key, which must be held meanwhile.
    pub(crate) async fn until_waiting(&self, count: u64) {
        eventually(LIMIT, "the waiters are in the queue", async || {
            // One more would come behind them. It leaves at once.
            let probe = Self::owner();
            let AcquireOutcome::Busy(holder) = self.ask(probe, TTL).await else {
                panic!("it is held no longer");
            };
            let place = holder.position;
            self.release(probe).await;
            place == Some(count)
        })
        .await;
    }
}
