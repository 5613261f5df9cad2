//! The requests of an acquisition to the store, each with its limit, and told to logs and metrics.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use tokio::time::timeout;

use super::Acquisition;
use crate::{
    clock::Moment,
    observe::{RequestKind, SentRequest},
    owner::OwnerId,
    store::{
        AcquireOutcome, AcquireRequest, Queue, ReleaseRequest, Released, RenewRequest, Renewal,
        StoreError,
    },
};

impl Acquisition {
    pub(crate) async fn ask_acquire(
        &self,
        owner: OwnerId,
        limit: Duration,
        queue: bool,
        now: Moment,
    ) -> Result<AcquireOutcome, StoreError> {
        let store = self.core.store.at(now)?;
        let request = AcquireRequest::new(self.key(), owner, self.timing.ttl)
            .queue(if queue { Queue::ForLease } else { Queue::No })
            .label(&self.core.label)
            .function(&self.function);
        let answer = store.acquire(request);
        self.within(limit, RequestKind::Acquire, answer).await
    }

    pub(crate) fn release_at_once(&self, owner: OwnerId) -> bool {
        // Freed now it would be free too early; its TTL at least keeps others out.
        let is_kept = self.kept_for().is_some();
        let store = self.core.store.at(self.now());
        let release = ReleaseRequest::new(self.key(), owner);
        !is_kept && store.is_ok_and(|store| store.release_at_once(release))
    }

    /// Gives the lease back, or leaves it to the store for the rest of its `min_hold`: this process
    /// may end, and does not have to wait for that.
    pub(crate) async fn ask_release(
        &self,
        owner: OwnerId,
        mut now: Moment,
    ) -> Result<Released, StoreError> {
        let limit = self.core.response_limit;
        // A renewal that is carried out after it would put the lease's TTL in place of the rest, and keep the
        // lock for longer. That is all it would do, so one without an answer is not awaited for ever.
        let _alone = match &self.setting_ttl {
            Some(setting) if self.kept_for().is_some() => {
                let alone = timeout(limit, setting.lock()).await.ok();
                now = self.now();
                alone
            }
            _ => None,
        };
        let store = self.core.store.at(now)?;
        let Some(rest) = self.kept_for() else {
            let release = store.release(ReleaseRequest::new(self.key(), owner));
            return self.within(limit, RequestKind::Release, release).await;
        };
        // The lease may end long before that time would be over, so as for a renewal, time for another
        // try has to be left.
        let limit = limit.min(self.timing.ttl / 3);
        let rest = rest.max(self.core.store.shortest_ttl());
        let keep = store.renew_one(self.renewal(owner, rest));
        let answer = self.within(limit, RequestKind::Keep, keep).await?;
        if answer == Renewal::Renewed {
            self.events().kept(rest);
        }
        Ok(match answer {
            Renewal::Renewed => Released::WasHeld,
            Renewal::NotOwner => Released::WasGone,
        })
    }

    pub(crate) fn renewal(&self, owner: OwnerId, ttl: Duration) -> RenewRequest<'_> {
        RenewRequest::new(self.key(), owner, ttl)
            .label(&self.core.label)
            .function(&self.function)
    }

    /// The answer to a request, or that there was none in time.
    async fn within<T>(
        &self,
        limit: Duration,
        request: RequestKind,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent = SentRequest::now(request);
        let mut answer = pin!(answer);
        // A store in memory answers at once, and needs no timer; any other has sent the request.
        let answer = match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(answer) => answer,
            // One timer is enough for a request.
            Poll::Pending if self.core.store_gives_up_within(limit) => answer.await,
            Poll::Pending => timeout(limit, answer)
                .await
                .unwrap_or_else(|_| Err(StoreError::timed_out(limit))),
        };
        match &answer {
            Ok(_) => sent.answered(),
            Err(error) => self.events().request_failed(request, error),
        }
        answer
    }
}
