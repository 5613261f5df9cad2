//! Renewals: one stream of keep-alives and one read for many leases.
//!
//! # Rules
//!
//! - **Safety.** A renewal counts only if the claim's key was still there after the keep-alive, with its create revision.
//! - A renewal that changes the TTL or the label, or the first one of a waiter, is a transaction of its own. A full database
//!   refuses it: the lease goes on without a new label, and a waiter has no lease of its own then.

use std::time::Duration;

use dlock_runtime::{
    clock::{Clock, Moment, SystemClock},
    store::{RenewBatch, RenewRequest, Renewal, StoreError, StoreErrorKind},
};
use futures_util::future::{join, join_all};
use tokio::time::timeout;

use crate::{
    claims::{Claim, Entered},
    core::{Core, Wish},
    ops,
    release::End,
    requests::seconds,
};

/// Reads in one transaction. The default limit of etcd is 128.
const MOST: usize = 100;

/// A lease that is only to be kept alive.
struct Plain<'a> {
    index: usize,
    name: Vec<u8>,
    claim: Entered<'a>,
    asked: Moment,
}

impl Core {
    pub(crate) async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        let mut answers: Vec<_> = batch
            .requests
            .iter()
            .map(|_| Ok(Renewal::NotOwner))
            .collect();
        let (mut plain, mut others) = (Vec::new(), Vec::new());
        let asked = SystemClock.now();
        for (index, request) in batch.requests.iter().enumerate() {
            if self.claims.is_unknown(request.key, request.owner) {
                continue;
            }
            match self.claims.try_enter(request.key, request.owner) {
                Some(claim) if is_plain(&claim, request) => plain.push(Plain {
                    index,
                    name: self
                        .names(request.key.as_str(), request.owner)
                        .own(claim.named_by),
                    claim,
                    asked,
                }),
                _ => others.push((index, request)),
            }
        }
        let mut chunks = Vec::new();
        while !plain.is_empty() {
            chunks.push(plain.split_off(plain.len().saturating_sub(MOST)));
        }
        let limit = batch.limit;
        let kept = join_all(chunks.into_iter().map(|chunk| self.keep_each(chunk, limit)));
        let changed = join_all(others.into_iter().map(|(index, request)| async move {
            let renewed = limited(limit, Box::pin(self.renew_one(*request))).await;
            (index, renewed.and_then(|renewed| renewed))
        }));
        let (kept, changed) = join(kept, changed).await;
        for (index, answer) in kept.into_iter().flatten().chain(changed) {
            answers[index] = answer;
        }
        answers
    }

    async fn keep_each(
        &self,
        mut chunk: Vec<Plain<'_>>,
        limit: Option<Duration>,
    ) -> Vec<(usize, Result<Renewal, StoreError>)> {
        let kept = limited(limit, self.keep(&mut chunk)).await;
        match kept.and_then(|kept| kept) {
            Ok(renewed) => chunk.iter().map(|it| it.index).zip(renewed).collect(),
            Err(error) => chunk
                .iter()
                .map(|it| (it.index, Err(error.clone())))
                .collect(),
        }
    }

    async fn keep(
        &self,
        chunk: &mut [Plain<'_>],
    ) -> Result<Vec<Result<Renewal, StoreError>>, StoreError> {
        let conn = self.session.conn().await?;
        let leases: Vec<_> = chunk
            .iter()
            .map(|it| it.claim.place.as_ref().map_or(0, |place| place.lease.id))
            .collect();
        for it in &mut *chunk {
            let seconds = it.claim.place.as_ref().map(|place| place.lease.seconds);
            it.claim.lasts(it.asked.monotonic, seconds.unwrap_or(0));
        }
        let reads = chunk.iter().map(|it| ops::get(&it.name)).collect();
        let (exist, answer) = conn.confirm_read(&leases, &ops::read(reads)).await?;
        let found = ops::found(&answer);
        let renewed = chunk.iter_mut().zip(exist).map(|(it, exists)| {
            let kv = found.get(&*it.name);
            let claim = &mut *it.claim;
            let place = claim.place.as_mut().filter(|place| {
                let create = kv.map(|kv| kv.create_revision);
                create == Some(place.create)
            });
            match (place, kv) {
                (Some(place), Some(kv)) if kv.lease != place.lease.id => {
                    place.moved_to(self.places.lease(kv.lease));
                    let text = "the key has another lease than its claim; the renewal is repeated";
                    Err(StoreError::new(StoreErrorKind::Disconnected, text))
                }
                (Some(place), _) if exists => {
                    place.since = it.asked;
                    Ok(Renewal::Renewed)
                }
                _ => {
                    claim.place = None;
                    Ok(Renewal::NotOwner)
                }
            }
        });
        Ok(renewed.collect())
    }

    /// Renews one lease, whatever is known of its claim.
    async fn renew_one(&self, request: RenewRequest<'_>) -> Result<Renewal, StoreError> {
        let names = self.names(request.key.as_str(), request.owner);
        let conn = self.session.conn().await?;
        let mut claim = self.claims.enter(request.key, request.owner).await;
        if claim.is_ending {
            let id = (request.key, request.owner);
            let ended = self.end(&conn, &mut claim, &names, id, End::Displaced);
            return ended.await.map(|_| Renewal::NotOwner);
        }
        if claim.place.is_none() && !claim.unsettled.is_empty() {
            self.adopt(&conn, &mut claim, &names, request.owner).await?;
        }
        let Some((queue, ..)) = self.look(&conn, &mut claim, &names).await? else {
            if claim.is_empty() {
                // No watch says that its key is gone: it watches that no longer.
                self.follow.leave(request.key, request.owner);
            }
            return not_held(&claim);
        };
        if !queue.holds(&names.own(claim.named_by)) {
            return Ok(Renewal::NotOwner);
        }
        if is_plain(&claim, &request) {
            return Ok(Renewal::Renewed);
        }
        let wish = Wish {
            seconds: seconds(request.ttl),
            label: request.label,
            function: request.function,
        };
        let queue = ((request.key, request.owner), queue);
        let settled = self.settle(&conn, &mut claim, &names, queue, wish).await;
        match settled {
            Ok(Some(_)) => {
                self.follow.leave(request.key, request.owner);
                Ok(Renewal::Renewed)
            }
            Ok(None) => not_held(&claim),
            // A full database refuses the label. The lease was kept alive before.
            Err(error)
                if error.kind() == StoreErrorKind::OutOfMemory && is_held(&claim, &request) =>
            {
                Ok(Renewal::Renewed)
            }
            Err(error) => Err(error),
        }
    }
}

/// The answer when a claim has got no lease of its own. Its lease is lost only if its key is gone.
fn not_held(claim: &Claim) -> Result<Renewal, StoreError> {
    if claim.place.is_none() {
        return Ok(Renewal::NotOwner);
    }
    let text = "the claims on the key changed with every attempt; the renewal is repeated";
    Err(StoreError::new(StoreErrorKind::Disconnected, text))
}

/// Returns `true` if nothing is to be written.
fn is_plain(claim: &Claim, request: &RenewRequest<'_>) -> bool {
    let is_written = |wished: &str, written: &Option<String>| {
        wished.is_empty() || written.as_deref() == Some(wished)
    };
    is_held(claim, request)
        && claim.place.as_ref().is_some_and(|place| {
            is_written(request.label, &place.label) && is_written(request.function, &place.function)
        })
}

/// Returns `true` if the claim has a lease of the requested TTL.
fn is_held(claim: &Claim, request: &RenewRequest<'_>) -> bool {
    let place = claim.place.as_ref();
    place.is_some_and(|it| it.held.is_some() && it.lease.seconds == seconds(request.ttl))
}

async fn limited<T>(
    limit: Option<Duration>,
    future: impl Future<Output = T>,
) -> Result<T, StoreError> {
    match limit {
        Some(limit) => timeout(limit, future)
            .await
            .map_err(|_| StoreError::timed_out(limit)),
        None => Ok(future.await),
    }
}

#[cfg(test)]
mod tests;
