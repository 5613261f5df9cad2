//! Under which owner ids the nodes know the attempts of this process, and what they may have of them.
//!
//! **Safety.** A release that was sent may be carried out late, by a retry or over an old
//! connection. It must not take what a later round was granted, or the quorum would believe in a
//! majority that it does not have. So a node that a release was sent to is never again asked under
//! the same id: an id is the attempt's and a number of its own, see [`OwnerId::in_round`].

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::nodes::NodeSet;
use crate::{
    key::LockKey,
    owner::OwnerId,
    store::{ALIVE, GRANT_TTL},
};

/// For how long a request may be under way before it is carried out, as far as memory is concerned.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// The attempts that nodes may know of.
pub(super) struct Claims {
    known: Mutex<Known>,
    rounds: AtomicU32,
}

struct Known {
    claims: HashMap<(OwnerId, LockKey), Claim>,
    /// The number of claims at which expired ones are looked for: those of a `min_hold` end without
    /// a word.
    sweep_at: usize,
}

struct Claim {
    ids: Ids,
    /// Who may have something of it under its present id.
    touched: NodeSet,
    /// The fence that it was granted with.
    fence: Option<u64>,
    released: bool,
    /// When the nodes have forgotten it by themselves.
    until: Instant,
}

/// The ids of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    all: OwnerId,
    /// Nodes that know it by another.
    others: Vec<(usize, OwnerId)>,
}

impl Ids {
    /// By what id the node knows the attempt.
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

/// What there is of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) ids: Ids,
    pub(super) touched: NodeSet,
    pub(super) fence: Option<u64>,
    pub(super) until: Instant,
}

impl Default for Claims {
    fn default() -> Self {
        let known = Known {
            claims: HashMap::new(),
            sweep_at: 64,
        };
        Self {
            known: Mutex::new(known),
            rounds: AtomicU32::new(0),
        }
    }
}

impl Claims {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change is complete before anything can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id that no node has heard of. Numbers come back after a million rounds, those of one
    /// attempt practically never.
    fn fresh(&self, owner: OwnerId) -> Option<OwnerId> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        owner.in_round(round % OwnerId::LAST_ROUND + 1)
    }

    /// All nodes are about to be asked. What was known before is returned; `None` if there can be no
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
        let at = (owner, key.clone());
        if let Some(claim) = known.claims.get_mut(&at).filter(|claim| !claim.released) {
            let before = claim.standing();
            claim.touched = all;
            claim.until = claim.until.max(until);
            return Some(before);
        }
        let claim = Claim {
            ids: Ids {
                all: self.fresh(owner)?,
                others: Vec::new(),
            },
            touched: all,
            fence: None,
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
        change: impl FnOnce(&mut Claim) -> T,
    ) -> Option<T> {
        let mut known = self.known();
        known.claims.get_mut(&(owner, key.clone())).map(change)
    }

    /// Who may have something of it now that all have been asked.
    pub(super) fn settle(&self, owner: OwnerId, key: &LockKey, touched: NodeSet) {
        self.change(owner, key, |claim| claim.touched = touched);
    }

    /// It was granted. `false` if it has been released meanwhile.
    pub(super) fn granted(
        &self,
        owner: OwnerId,
        key: &LockKey,
        touched: NodeSet,
        fence: u64,
    ) -> bool {
        let granted = self.change(owner, key, |claim| {
            claim.touched = touched;
            claim.fence = Some(fence);
            !claim.released
        });
        granted.unwrap_or(false)
    }

    /// These nodes are about to be sent a release, and will know it by other ids from now on.
    pub(super) fn give_back(&self, owner: OwnerId, key: &LockKey, nodes: NodeSet) {
        self.change(owner, key, |claim| {
            for node in nodes.iter() {
                if let Some(id) = self.fresh(owner) {
                    claim.ids.set(node, id);
                }
            }
            claim.touched = claim.touched.without(nodes);
        });
    }

    /// It is about to be renewed; `None` if nothing is known of it, or it is being given back.
    pub(super) fn renew(&self, owner: OwnerId, key: &LockKey, ttl: Duration) -> Option<Standing> {
        let until = Instant::now() + ttl + UNDER_WAY;
        let standing = self.change(owner, key, |claim| {
            (!claim.released).then(|| {
                claim.until = claim.until.max(until);
                claim.standing()
            })
        });
        standing.flatten()
    }

    /// Whether a node may have something of it under this id. If so, it is noted that it may.
    pub(super) fn touch(&self, owner: OwnerId, key: &LockKey, node: usize, id: OwnerId) -> bool {
        let is_current = self.change(owner, key, |claim| {
            let is_current = !claim.released && claim.ids.at(node) == id;
            if is_current {
                claim.touched = claim.touched.with(node);
            }
            is_current
        });
        is_current.unwrap_or(false)
    }

    /// It is being given back; `None` if nothing is known of it.
    pub(super) fn release(&self, owner: OwnerId, key: &LockKey) -> Option<Standing> {
        self.change(owner, key, |claim| {
            claim.released = true;
            claim.standing()
        })
    }

    /// Nobody has anything of it any more, or others see to that.
    pub(super) fn forget(&self, owner: OwnerId, key: &LockKey) {
        self.known().claims.remove(&(owner, key.clone()));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known().claims.len()
    }
}

impl Claim {
    fn standing(&self) -> Standing {
        Standing {
            ids: self.ids.clone(),
            touched: self.touched,
            fence: self.fence,
            until: self.until,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{owner::ClientId, random::SystemRandom};

    const TTL: Duration = Duration::from_secs(30);

    fn claim() -> (Claims, OwnerId, LockKey, NodeSet) {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 7);
        let key = LockKey::new("order:42").unwrap();
        (Claims::default(), owner, key, NodeSet::all(5))
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_sent_a_release_never_sees_that_id_again() {
        let (claims, owner, key, all) = claim();
        let mut seen = Vec::new();
        for _ in 0..50 {
            let standing = claims.ask(owner, &key, TTL, all).unwrap();
            seen.push(standing.ids.at(3));
            assert_eq!(standing.ids.at(3).in_any_round(), owner);
            assert_eq!(
                standing.ids.at(2),
                claims.ask(owner, &key, TTL, all).unwrap().ids.at(2)
            );
            claims.give_back(owner, &key, NodeSet::default().with(3));
        }
        claims.release(owner, &key).unwrap();
        seen.push(claims.ask(owner, &key, TTL, all).unwrap().ids.at(3));
        claims.forget(owner, &key);
        seen.push(claims.ask(owner, &key, TTL, all).unwrap().ids.at(3));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 52);
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_without_a_word_is_forgotten_in_time() {
        let (claims, owner, key, all) = claim();
        for number in 0..1000 {
            let owner = OwnerId::new(owner.client(), number);
            claims.ask(owner, &key, TTL, all);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(claims.len() <= 128, "{}", claims.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_given_back_is_neither_renewed_nor_touched() {
        let (claims, owner, key, all) = claim();
        let ids = claims.ask(owner, &key, TTL, all).unwrap().ids;
        assert!(claims.granted(owner, &key, all, 9));
        assert_eq!(claims.renew(owner, &key, TTL).unwrap().fence, Some(9));
        assert!(claims.touch(owner, &key, 1, ids.at(1)));
        assert!(!claims.touch(owner, &key, 1, owner), "another id");
        claims.release(owner, &key);
        assert!(claims.renew(owner, &key, TTL).is_none());
        assert!(!claims.touch(owner, &key, 1, ids.at(1)));
        assert!(
            !claims.granted(owner, &key, all, 9),
            "an answer that comes too late"
        );
    }
}
