//! Releases that nobody waits for, sent until each node has answered or has forgotten by itself.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    Shared,
    nodes::{Requests, Timer, in_background, release},
};
use crate::{key::LockKey, owner::OwnerId, random::jittered};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// So many may be repeated at once: a node that is away for long must not fill the memory. The
/// others are left to their TTL after the first try.
const MOST_AT_ONCE: usize = 4096;

/// What some nodes may have of an attempt.
pub(super) struct Owed {
    pub(super) key: LockKey,
    pub(super) ids: Vec<(usize, OwnerId)>,
    /// When the nodes have forgotten it by themselves.
    pub(super) until: Instant,
    /// How long to wait for an answer.
    pub(super) limit: Duration,
}

impl Owed {
    /// Gives it back; the requests have been sent when this returns.
    pub(super) fn give_back(self, shared: &Arc<Shared>) {
        if !self.ids.is_empty() {
            in_background(self.pay(shared.clone()));
        }
    }

    pub(super) async fn pay(mut self, shared: Arc<Shared>) {
        self.ask(&shared).await;
        let Some(_counted) = Counted::enter(&shared).filter(|_| !self.ids.is_empty()) else {
            return;
        };
        let mut pause = FIRST_PAUSE;
        while !self.ids.is_empty() && Instant::now() + pause < self.until {
            sleep(jittered(pause, shared.random.next_u64())).await;
            self.ask(&shared).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn ask(&mut self, shared: &Shared) {
        let mut requests = Requests::with_capacity(self.ids.len());
        for (node, id) in &self.ids {
            requests.add(release(shared.nodes.clone(), self.key.clone(), *node, *id));
        }
        let mut timer = Timer::new(Instant::now() + self.limit);
        while let Some(reply) = requests.next(&mut timer).await {
            if reply.answer.is_ok() {
                self.ids.retain(|known| *known != (reply.node, reply.id));
            }
        }
    }
}

/// One of those that are repeated.
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
