//! Sends the requests of an acquisition to the store, each with its limit, and reports them to logs and
//! metrics.

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
            .mode(self.timing.mode)
            .queue(if queue { Queue::ForLease } else { Queue::No })
            .label(&self.core.label)
            .function(&self.function);
        let answer = store.acquire(request);
        self.within(limit, RequestKind::Acquire, answer).await
    }

    pub(crate) fn release_at_once(&self, owner: OwnerId) -> bool {
        // A release now would free the key too early. Its TTL still excludes other clients.
        let is_kept = self.kept_for().is_some();
        let store = self.core.store.at(self.now());
        let release = self.releasing(owner);
        !is_kept && store.is_ok_and(|store| store.release_at_once(release))
    }

    /// Releases the lease, or lets the store keep it for the rest of its `min_hold`: this process may end and
    /// need not wait for that.
    pub(crate) async fn ask_release(
        &self,
        owner: OwnerId,
        mut now: Moment,
    ) -> Result<Released, StoreError> {
        let limit = self.core.response_limit;
        // If a renewal is carried out after this request, it replaces the rest by the lease's TTL and keeps
        // the lock for longer. It has no other effect, so a renewal without an answer is not awaited without
        // a limit.
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
            let release = store.release(self.releasing(owner));
            return self.within(limit, RequestKind::Release, release).await;
        };
        // The lease may end long before that time is over. As for a renewal, time for another try must
        // remain.
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
            .mode(self.timing.mode)
            .label(&self.core.label)
            .function(&self.function)
    }

    fn releasing(&self, owner: OwnerId) -> ReleaseRequest<'_> {
        ReleaseRequest::new(self.key(), owner).mode(self.timing.mode)
    }

    /// Returns the answer to a request, or the error that it did not arrive in time.
    async fn within<T>(
        &self,
        limit: Duration,
        request: RequestKind,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent = SentRequest::now(request);
        let mut answer = pin!(answer);
        // A memory store answers at once and needs no timer. Any other store has sent the request.
        let answer = match poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
            Poll::Ready(answer) => answer,
            // One timer per request is enough.
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
