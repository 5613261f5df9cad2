//! The owner ids by which the nodes know the attempts of this process, and the leases that they may hold.
//!
//! **Safety.** A release may be carried out late, by a retry or over an old connection. It must not release a
//! lease that a later round was granted, or the quorum would count a majority that it does not have. A node to
//! which a release was sent therefore never receives the same id again: an id consists of the attempt's number
//! and a number of its own, see [`OwnerId::in_round`].
//!
//! A claim whose request was cancelled repeats the request under the same ids. The first request alone is therefore
//! not a reason to release anything: only the latest request determines the outcome of the claim.
//!
//! Nodes identify a claim by its number and a round in the upper 20 bits. Hints reach the attempt under the id
//! of any round.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::node_set::NodeSet;
use crate::{
    key::LockKey,
    owner::OwnerId,
    store::{ALIVE, GRANT_TTL},
};

/// The time after which memory is no longer kept for a request that may still be in progress.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// The attempts that nodes may know.
pub(super) struct Claims {
    known: Mutex<KnownClaims>,
    rounds: AtomicU32,
}

struct KnownClaims {
    claims: HashMap<(OwnerId, LockKey), NodeClaim>,
    /// The number of claims at which expired ones are removed. Claims with `min_hold` end without a call.
    sweep_at: usize,
    /// The number of the latest request.
    asks: u64,
}

struct NodeClaim {
    /// The number of its latest request.
    ask: u64,
    ids: Ids,
    /// The nodes that may have a lease or a place under its current id.
    touched: NodeSet,
    /// The fence of its grant.
    fence: Option<u64>,
    /// The time until which a majority may keep the lease with this fence.
    held_until: Instant,
    /// The number of renewals that have begun.
    renewals: u64,
    released: bool,
    /// The time at which the nodes have forgotten it by themselves.
    until: Instant,
}

/// The ids of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    all: OwnerId,
    /// The nodes that know the attempt by another id.
    others: Vec<(usize, OwnerId)>,
}

impl Ids {
    /// Returns the id by which the node knows the attempt.
    pub(super) fn at(&self, node: usize) -> OwnerId {
        let other = self.others.iter().find(|(it, _)| *it == node);
        other.map_or(self.all, |(_, id)| *id)
    }

    fn set(&mut self, node: usize, id: OwnerId) {
        match self.others.iter_mut().find(|(it, _)| *it == node) {
            Some(known) => known.1 = id,
            None => self.others.push((node, id)),
        }
    }
}

/// The state of an attempt before a request.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// The number of the latest request.
    ask: u64,
    /// The number of renewals of the claim that have begun.
    renewals: u64,
    pub(super) ids: Ids,
    pub(super) touched: NodeSet,
    /// The fence of a lease that may still exist.
    pub(super) fence: Option<u64>,
    pub(super) until: Instant,
}

/// The outcome of a request that was not granted.
#[derive(Debug)]
pub(super) struct GivenBack {
    /// The ids to release, by node.
    pub(super) ids: Vec<(usize, OwnerId)>,
    /// `true` if the claim was neither released nor requested again.
    pub(super) is_latest: bool,
}

impl Default for Claims {
    fn default() -> Self {
        let known = KnownClaims {
            claims: HashMap::new(),
            sweep_at: 64,
            asks: 0,
        };
        Self {
            known: Mutex::new(known),
            rounds: AtomicU32::new(0),
        }
    }
}

impl Claims {
    fn known(&self) -> MutexGuard<'_, KnownClaims> {
        // Every change is complete before a panic is possible.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an id that no node knows. The numbers repeat after a million rounds, so the same attempt practically
    /// never gets a number twice.
    fn fresh(&self, owner: OwnerId) -> Option<OwnerId> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        owner.in_round(round % OwnerId::LAST_ROUND + 1)
    }

    /// Records that all nodes will receive a request. Returns the previous state, or `None` if there can be no
    /// ids for this owner.
    pub(super) fn ask(
        &self,
        owner: OwnerId,
        key: &LockKey,
        ttl: Duration,
        all: NodeSet,
    ) -> Option<Standing> {
        let now = Instant::now();
        let until = now + ttl.max(ALIVE + GRANT_TTL) + UNDER_WAY;
        let mut known = self.known();
        if known.claims.len() >= known.sweep_at {
            known.claims.retain(|_, claim| claim.until > now);
            known.sweep_at = 2 * known.claims.len().max(32);
        }
        known.asks += 1;
        let ask = known.asks;
        let at = (owner, key.clone());
        if let Some(claim) = known.claims.get_mut(&at).filter(|claim| !claim.released) {
            claim.ask = ask;
            // A grant after the end of a lease is a new lease, with a new fence.
            claim.fence = claim.fence.filter(|_| claim.held_until > now);
            let before = claim.standing();
            claim.touched = all;
            claim.until = claim.until.max(until);
            return Some(before);
        }
        let claim = NodeClaim {
            ask,
            ids: Ids {
                all: self.fresh(owner)?,
                others: Vec::new(),
            },
            touched: all,
            fence: None,
            held_until: now,
            renewals: 0,
            released: false,
            until,
        };
        let before = Standing {
            touched: NodeSet::default(),
            ..claim.standing()
        };
        known.claims.insert(at, claim);
        Some(before)
    }

    fn change<T>(
        &self,
        owner: OwnerId,
        key: &LockKey,
        change: impl FnOnce(&mut NodeClaim) -> T,
    ) -> Option<T> {
        let mut known = self.known();
        known.claims.get_mut(&(owner, key.clone())).map(change)
    }

    /// Records that the request which found `before` was granted. Returns `false` if the claim was released or
    /// requested again in the meantime.
    pub(super) fn granted(
        &self,
        owner: OwnerId,
        key: &LockKey,
        before: &Standing,
        touched: NodeSet,
        fence: u64,
        held_until: Instant,
    ) -> bool {
        let granted = self.change(owner, key, |claim| {
            let is_latest = claim.ask == before.ask && !claim.released;
            if is_latest {
                claim.touched = touched;
                claim.fence = Some(fence);
                claim.held_until = held_until;
            }
            is_latest
        });
        granted.unwrap_or(false)
    }

    /// Records that the request which found `before` was not granted: `held` must be released, and the nodes in
    /// `touched` have a place in a queue. Returns the ids to release, before a release is sent: later requests
    /// use other ids.
    pub(super) fn give_back(
        &self,
        owner: OwnerId,
        key: &LockKey,
        before: &Standing,
        held: NodeSet,
        touched: NodeSet,
    ) -> GivenBack {
        let mut known = self.known();
        let at = (owner, key.clone());
        let mut given_back = GivenBack {
            ids: held
                .iter()
                .map(|node| (node, before.ids.at(node)))
                .collect(),
            is_latest: false,
        };
        match known.claims.get_mut(&at) {
            Some(claim) if claim.ask == before.ask => {
                given_back.is_latest = !claim.released;
                for node in held.iter() {
                    if let Some(id) = self.fresh(owner) {
                        claim.ids.set(node, id);
                    }
                }
                claim.touched = touched;
                claim.fence = None;
                if touched.is_empty() {
                    known.claims.remove(&at);
                }
            }
            // The later request depends on these ids, and the release of the claim includes them.
            Some(later) => given_back
                .ids
                .retain(|(node, id)| later.ids.at(*node) != *id),
            None => {}
        }
        given_back
    }

    /// Records that a renewal begins. Returns `None` if the lease is unknown or is being released.
    pub(super) fn renew(&self, owner: OwnerId, key: &LockKey, ttl: Duration) -> Option<Standing> {
        let until = Instant::now() + ttl + UNDER_WAY;
        let standing = self.change(owner, key, |claim| {
            (!claim.released).then(|| {
                claim.until = claim.until.max(until);
                claim.renewals += 1;
                claim.standing()
            })
        });
        standing.flatten()
    }

    /// Records that a majority has renewed the lease in `before`.
    pub(super) fn renewed(
        &self,
        owner: OwnerId,
        key: &LockKey,
        before: &Standing,
        held_until: Instant,
    ) {
        self.change(owner, key, |claim| {
            if claim.fence == before.fence {
                claim.held_until = claim.held_until.max(held_until);
            }
        });
    }

    /// Records that a majority has lost the lease in `before`. A later request must get a new fence.
    pub(super) fn lost(&self, owner: OwnerId, key: &LockKey, before: &Standing) {
        self.change(owner, key, |claim| {
            if claim.fence == before.fence {
                claim.fence = None;
            }
        });
    }

    /// Returns `true` if a node may have a lease or place under this id, and records that it may.
    pub(super) fn touch(&self, owner: OwnerId, key: &LockKey, node: usize, id: OwnerId) -> bool {
        let touched = self.change(owner, key, |claim| claim.touch(node, id));
        touched.unwrap_or(false)
    }

    /// Does the same for a renewed lease, unless another renewal has begun since, which may be for a shorter time.
    pub(super) fn refill(
        &self,
        owner: OwnerId,
        key: &LockKey,
        node: usize,
        renewed: &Standing,
    ) -> bool {
        let touched = self.change(owner, key, |claim| {
            claim.renewals == renewed.renewals && claim.touch(node, renewed.ids.at(node))
        });
        touched.unwrap_or(false)
    }

    /// Records that the release begins. Returns `None` if the lease is unknown.
    pub(super) fn release(&self, owner: OwnerId, key: &LockKey) -> Option<Standing> {
        self.change(owner, key, |claim| {
            claim.released = true;
            claim.standing()
        })
    }

    /// Records that no node holds a lease of `released` any more, or that other releases cover it.
    pub(super) fn forget(&self, owner: OwnerId, key: &LockKey, released: &Standing) {
        let mut known = self.known();
        let at = (owner, key.clone());
        // A newer claim may exist by now.
        if known
            .claims
            .get(&at)
            .is_some_and(|it| it.ask == released.ask)
        {
            known.claims.remove(&at);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known().claims.len()
    }
}

impl NodeClaim {
    fn touch(&mut self, node: usize, id: OwnerId) -> bool {
        let is_current = !self.released && self.ids.at(node) == id;
        if is_current {
            self.touched = self.touched.with(node);
        }
        is_current
    }

    fn standing(&self) -> Standing {
        Standing {
            ask: self.ask,
            renewals: self.renewals,
            ids: self.ids.clone(),
            touched: self.touched,
            fence: self.fence,
            until: self.until,
        }
    }
}
