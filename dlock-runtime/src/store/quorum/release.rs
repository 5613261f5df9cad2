//! Releases a lock on all nodes.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    node_set::{NodeSet, majority},
    nodes::{Requests, Timer, in_background, release as release_one},
    outcome,
    owed::Owed,
    shared::Shared,
};
use crate::{
    key::LockKey,
    mode::LockMode,
    owner::OwnerId,
    store::{Released, StoreError, StoreErrorKind},
};

pub(super) async fn release(
    shared: &Arc<Shared>,
    key: &LockKey,
    mode: LockMode,
    owner: OwnerId,
    limit: Duration,
) -> Result<Released, StoreError> {
    let count = shared.nodes.len();
    let Some(standing) = shared.claims.release(owner, key) else {
        return Ok(Released::WasGone);
    };
    let mut requests = Requests::with_capacity(standing.touched.len());
    for node in standing.touched.iter() {
        let id = standing.ids.at(node);
        requests.add(release_one(
            shared.nodes.clone(),
            key.clone(),
            mode,
            node,
            id,
        ));
    }
    let mut timer = Timer::new(Instant::now() + limit);
    let mut held = 0;
    let mut gone = shared.all().without(standing.touched).len();
    let mut confirmed = NodeSet::default();
    let mut failures = Vec::new();
    let answer = loop {
        if held >= majority(count) {
            break Released::WasHeld;
        }
        // A majority that held the lock is impossible.
        if gone > count - majority(count) {
            break Released::WasGone;
        }
        let Some(reply) = requests.next(&mut timer).await else {
            let unanswered = standing.touched.without(confirmed);
            for node in unanswered.iter() {
                if failures.iter().all(|(it, _)| *it != node) {
                    failures.push((node, StoreError::timed_out(limit)));
                }
            }
            return Err(undecided(count, &failures));
        };
        match reply.answer {
            Ok(Released::WasHeld) => held += 1,
            Ok(Released::WasGone) => gone += 1,
            Err(error) => {
                failures.push((reply.node, error));
                continue;
            }
        }
        confirmed = confirmed.with(reply.node);
    };
    shared.claims.forget(owner, key, &standing);
    let unconfirmed = standing.touched.without(confirmed);
    if !unconfirmed.is_empty() {
        let ids = unconfirmed
            .iter()
            .map(|node| (node, standing.ids.at(node)))
            .collect();
        let mut rest = Owed::new(shared, key, mode, ids, standing.until, limit);
        in_background(async move {
            while let Some(reply) = requests.next(&mut timer).await {
                if reply.answer.is_ok() {
                    rest.settle(reply.node, reply.id);
                }
            }
            rest.give_back();
        });
    }
    Ok(answer)
}

fn undecided(count: usize, failures: &[(usize, StoreError)]) -> StoreError {
    if failures.len() > count - majority(count) {
        return outcome::unavailable(count, failures).with_possible_effect();
    }
    let message =
        "some stores of the quorum held the lock, others did not, and the rest did not answer";
    StoreError::new(StoreErrorKind::TimedOut, message)
}
