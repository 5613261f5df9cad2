//! Releases in the background, repeated until each node has answered or its lease has expired.

use std::{
    mem,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use super::{
    nodes::{Ask, Requests, Timer, in_background, release},
    shared::Shared,
};
use crate::{
    key::LockKey,
    mode::LockMode,
    owner::OwnerId,
    random::jittered,
    store::{ALIVE, GRANT_TTL, ReleaseRequest},
};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of repeated releases: a node that is unreachable for a long time must not fill the
/// memory. The other leases are left to their TTL after the first attempt.
const MOST_AT_ONCE: usize = 4096;

impl Shared {
    /// Handles a late grant of a node: it is kept if the lease is still wanted, and released if not.
    pub(super) fn keep_or_give_back(
        self: &Arc<Self>,
        ask: &Ask,
        node: usize,
        id: OwnerId,
        limit: Duration,
    ) {
        if self.claims.touch(ask.owner, &ask.key, node, id) {
            return;
        }
        let until = Instant::now() + ask.ttl.max(ALIVE + GRANT_TTL);
        Owed::new(self, &ask.key, ask.mode, vec![(node, id)], until, limit).give_back();
    }
}

/// The nodes that may hold a lease of an attempt. Dropping it releases the lease there, if there is a runtime.
pub(super) struct Owed {
    shared: Arc<Shared>,
    key: LockKey,
    mode: LockMode,
    ids: Vec<(usize, OwnerId)>,
    /// The time at which the nodes have forgotten the lease by themselves.
    until: Instant,
    /// The time limit of one answer.
    limit: Duration,
    /// Runtimes that may still exist when the current one has ended.
    elsewhere: Option<Handle>,
}

impl Owed {
    /// Creates the releases of `ids`, each on its node. The nodes forget the lease by themselves at `until`. Each
    /// answer has the limit `limit`.
    pub(super) fn new(
        shared: &Arc<Shared>,
        key: &LockKey,
        mode: LockMode,
        ids: Vec<(usize, OwnerId)>,
        until: Instant,
        limit: Duration,
    ) -> Self {
        Self {
            shared: shared.clone(),
            key: key.clone(),
            mode,
            ids,
            until,
            limit,
            elsewhere: shared.home().clone(),
        }
    }

    /// Releases the leases. The requests have been sent when this returns.
    pub(super) fn give_back(self) {
        if !self.ids.is_empty() {
            in_background(self.pay());
        }
    }

    async fn pay(mut self) {
        self.ask().await;
        let shared = self.shared.clone();
        let counted = Counted::enter(&shared);
        let mut pause = FIRST_PAUSE;
        while counted.is_some() && !self.ids.is_empty() && Instant::now() + pause < self.until {
            sleep(jittered(pause, shared.random.next_u64())).await;
            self.ask().await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        self.ids.clear();
    }

    /// Records the answer of a node.
    pub(super) fn settle(&mut self, node: usize, id: OwnerId) {
        self.ids.retain(|known| *known != (node, id));
    }

    async fn ask(&mut self) {
        let nodes = &self.shared.nodes;
        let mut requests = Requests::with_capacity(self.ids.len());
        for (node, id) in &self.ids {
            requests.add(release(
                nodes.clone(),
                self.key.clone(),
                self.mode,
                *node,
                *id,
            ));
        }
        let mut timer = Timer::new(Instant::now() + self.limit);
        while let Some(reply) = requests.next(&mut timer).await {
            if reply.answer.is_ok() {
                self.settle(reply.node, reply.id);
            }
        }
    }
}

/// A runtime that ends drops its tasks; the releases then continue elsewhere.
impl Drop for Owed {
    fn drop(&mut self) {
        let ids = mem::take(&mut self.ids);
        if ids.is_empty() {
            return;
        }
        let Some(runtime) = self.elsewhere.take() else {
            for (node, id) in ids {
                let release = ReleaseRequest::new(&self.key, id).mode(self.mode);
                self.shared.nodes[node].release_at_once(release);
            }
            return;
        };
        let rest = Self {
            shared: self.shared.clone(),
            key: self.key.clone(),
            mode: self.mode,
            ids,
            until: self.until,
            limit: self.limit,
            elsewhere: None,
        };
        runtime.spawn(rest.pay());
    }
}

/// One of the repeated releases, which are counted.
struct Counted<'a>(&'a Shared);

impl<'a> Counted<'a> {
    fn enter(shared: &'a Shared) -> Option<Self> {
        let counted = Self(shared);
        let before = shared.owed.fetch_add(1, Ordering::Relaxed);
        (before < MOST_AT_ONCE).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.owed.fetch_sub(1, Ordering::Relaxed);
    }
}
