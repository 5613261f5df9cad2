//! Renews leases on all nodes, and restores them on nodes that have lost them.
//!
//! **Safety.** A lease with exactly a majority is lost when one more node restarts without data: other clients
//! can then get a majority. If a majority renews and a node answers "not the owner", that node therefore
//! receives an acquire request with the fence of the lease. The restored lease must not outlive the release of
//! the lease.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use super::{
    claims::Standing,
    node_set::{NodeSet, majority},
    nodes::{self, Ask, Requests, Timer, in_background},
    outcome,
    shared::Shared,
};
use crate::{
    owner::OwnerId,
    store::{AcquireOutcome, RaiseRequest, RenewBatch, Renewal, StoreError},
};

type Asks = Arc<[(Ask, Standing)]>;
type Answers = (usize, Vec<Result<Renewal, StoreError>>);

/// The nodes' answers about one lease.
#[derive(Default)]
struct Count {
    renewed: usize,
    gone: NodeSet,
    failures: Vec<(usize, StoreError)>,
}

pub(super) async fn renew_all(
    shared: &Arc<Shared>,
    batch: RenewBatch<'_>,
    own_limit: Duration,
) -> Vec<Result<Renewal, StoreError>> {
    let (requests, limit) = (batch.requests, batch.limit.unwrap_or(own_limit));
    let mut asks = Vec::with_capacity(requests.len());
    let mut places = Vec::with_capacity(requests.len());
    for request in requests {
        let standing = shared.claims.renew(request.owner, request.key, request.ttl);
        places.push(standing.as_ref().map(|_| asks.len()));
        if let Some(standing) = standing {
            let ask = Ask {
                key: request.key.clone(),
                owner: request.owner,
                ttl: request.ttl,
                mode: request.mode,
                label: request.label.into(),
                function: request.function.into(),
            };
            asks.push((ask, standing));
        }
    }
    let answers = if asks.is_empty() {
        Vec::new()
    } else {
        renew_known(shared, asks.into(), limit, batch.runtime).await
    };
    // A lease of another client is not renewed, so an unknown claim has no lease.
    let answer =
        |place: Option<usize>| place.map_or(Ok(Renewal::NotOwner), |at| answers[at].clone());
    places.into_iter().map(answer).collect()
}

async fn renew_known(
    shared: &Arc<Shared>,
    asks: Asks,
    limit: Duration,
    runtime: Option<&Handle>,
) -> Vec<Result<Renewal, StoreError>> {
    let count = shared.nodes.len();
    let mut requests = Requests::with_capacity(count);
    for node in 0..count {
        requests.add(nodes::renew_all(
            shared.nodes.clone(),
            asks.clone(),
            node,
            limit,
            runtime.cloned(),
        ));
    }
    let mut timer = Timer::new(Instant::now() + limit);
    let mut counts: Vec<_> = asks.iter().map(|_| Count::default()).collect();
    let mut pending = shared.all();
    while let Some((node, answers)) = requests.next(&mut timer).await {
        pending = pending.without(NodeSet::default().with(node));
        for (count, answer) in counts.iter_mut().zip(answers) {
            match answer {
                Ok(Renewal::Renewed) => count.renewed += 1,
                Ok(Renewal::NotOwner) => count.gone = count.gone.with(node),
                Err(error) => count.failures.push((node, error)),
            }
        }
        if counts
            .iter()
            .all(|it| it.verdict(count, pending.len()).is_some())
        {
            break;
        }
    }
    let mut missing = Vec::new();
    let mut renewed = Vec::with_capacity(counts.len());
    let mut verdicts = Vec::with_capacity(counts.len());
    for (at, mut it) in counts.into_iter().enumerate() {
        let verdict = it.verdict(count, pending.len()).unwrap_or_else(|| {
            let late = pending
                .iter()
                .map(|node| (node, StoreError::timed_out(limit)));
            it.failures.extend(late);
            Err(outcome::unavailable(count, &it.failures).with_possible_effect())
        });
        let is_renewed = verdict == Ok(Renewal::Renewed);
        if is_renewed {
            let (ask, standing) = &asks[at];
            let until = Instant::now() + ask.ttl;
            let claims = &shared.claims;
            claims.renewed(ask.owner, &ask.key, standing, until);
            missing.extend(it.gone.iter().map(|node| (at, node)));
        } else if verdict == Ok(Renewal::NotOwner) {
            let (ask, standing) = &asks[at];
            shared.claims.lost(ask.owner, &ask.key, standing);
        }
        renewed.push(is_renewed);
        verdicts.push(verdict);
    }
    if !requests.is_empty() || !missing.is_empty() {
        let shared = shared.clone();
        in_background(finish(
            shared, asks, renewed, missing, requests, timer, limit,
        ));
    }
    verdicts
}

impl Count {
    /// Returns the answer if it is certain while `pending` nodes have not answered.
    fn verdict(&self, count: usize, pending: usize) -> Option<Result<Renewal, StoreError>> {
        let majority = majority(count);
        if self.renewed >= majority {
            return Some(Ok(Renewal::Renewed));
        }
        if self.gone.len() > count - majority {
            return Some(Ok(Renewal::NotOwner));
        }
        let may_be_renewed = self.renewed + pending >= majority;
        let may_be_gone = self.gone.len() + pending > count - majority;
        if may_be_renewed || may_be_gone {
            return None;
        }
        Some(Err(
            outcome::unavailable(count, &self.failures).with_possible_effect()
        ))
    }
}

/// Restores renewed leases on nodes that have lost them, including nodes that answer late.
async fn finish(
    shared: Arc<Shared>,
    asks: Asks,
    renewed: Vec<bool>,
    mut missing: Vec<(usize, usize)>,
    mut requests: Requests<Answers>,
    mut timer: Timer,
    limit: Duration,
) {
    loop {
        let mut refills = Requests::with_capacity(missing.len());
        for (at, node) in missing.drain(..) {
            refills.add(refill(shared.clone(), asks.clone(), at, node, limit));
        }
        // Each refill has its own limit.
        let mut own_limits = Timer::new(Instant::now() + 2 * limit);
        while refills.next(&mut own_limits).await.is_some() {}
        let Some((node, answers)) = requests.next(&mut timer).await else {
            return;
        };
        for (at, answer) in answers.into_iter().enumerate() {
            if renewed[at] && answer == Ok(Renewal::NotOwner) {
                missing.push((at, node));
            }
        }
    }
}

/// Acquires the lock on one node for a lease that a majority holds.
async fn refill(shared: Arc<Shared>, asks: Asks, at: usize, node: usize, limit: Duration) {
    let (ask, standing) = &asks[at];
    let (id, Some(fence)) = (standing.ids.at(node), standing.fence) else {
        return;
    };
    // From now on a release is sent to this node too. A later renewal handles the node itself: the renewal of a
    // `min_hold` sets a shorter TTL, which must not be prolonged.
    let claims = &shared.claims;
    if !claims.refill(ask.owner, &ask.key, node, standing) {
        return;
    }
    let mut refilling = Refilling {
        shared: &shared,
        ask,
        node,
        id,
        limit,
        is_owed: true,
    };
    let proposal = ask.proposal(id, fence);
    let answer = timeout(limit, shared.nodes[node].propose(proposal)).await;
    match answer {
        Ok(Ok(AcquireOutcome::Granted { fence: found, .. })) => {
            shared.proposals.saw(found);
            // It has joined others, whose fence may be smaller. Later holders must have a greater one than it.
            if found < fence {
                let raise = RaiseRequest::new(&ask.key, id, found, fence);
                timeout(limit, shared.nodes[node].raise(raise)).await.ok();
            }
        }
        Ok(Ok(AcquireOutcome::Busy(_))) => refilling.is_owed = false,
        Ok(Err(error)) => refilling.is_owed = !error.left_nothing(),
        Err(_) => {}
    }
}

/// A sent refill. When it is completed or cancelled, it must be released if the lease was released in the
/// meantime.
struct Refilling<'a> {
    shared: &'a Arc<Shared>,
    ask: &'a Ask,
    node: usize,
    id: OwnerId,
    limit: Duration,
    is_owed: bool,
}

impl Drop for Refilling<'_> {
    fn drop(&mut self) {
        if self.is_owed {
            self.shared
                .keep_or_give_back(self.ask, self.node, self.id, self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind;

    /// For all possible answers of five nodes: the verdict is returned as soon as no other answer could change it,
    /// and not earlier.
    #[test]
    fn a_verdict_waits_for_those_who_could_change_it_and_for_nobody_else() {
        const COUNT: usize = 5;
        let verdict = |renewed, gone, failed: usize, pending| {
            let error = StoreError::new(StoreErrorKind::Disconnected, "it broke");
            let count = Count {
                renewed,
                gone: (0..gone).collect(),
                failures: (0..failed).map(|node| (node, error.clone())).collect(),
            };
            count.verdict(COUNT, pending)
        };
        let mut tried = 0;
        for renewed in 0..=COUNT {
            for gone in 0..=COUNT - renewed {
                for failed in 0..=COUNT - renewed - gone {
                    let pending = COUNT - renewed - gone - failed;
                    let told = verdict(renewed, gone, failed, pending);
                    let case = format!("{renewed} {gone} {failed} {pending}: {told:?}");
                    let is_open =
                        renewed < 3 && gone < 3 && (renewed + pending >= 3 || gone + pending >= 3);
                    match told {
                        None => assert!(is_open, "{case}"),
                        Some(Ok(Renewal::Renewed)) => assert!(renewed >= 3, "{case}"),
                        Some(Ok(Renewal::NotOwner)) => assert!(gone >= 3, "{case}"),
                        Some(Err(error)) => {
                            assert!(!is_open && renewed < 3 && gone < 3, "{case}");
                            assert!(!error.left_nothing(), "{case}");
                        }
                    }
                    tried += 1;
                }
            }
        }
        assert_eq!(tried, 56);
    }
}
