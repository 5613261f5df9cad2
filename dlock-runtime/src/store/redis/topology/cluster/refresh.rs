//! Maintains the map of slots: decides when the nodes receive a request, and how their answers change the map.
//!
//! A task sends requests when the map is in doubt (after a redirection, or when a node does not serve), when a
//! node is unreachable, and from time to time. Only one round runs at a time, with pauses between rounds. A
//! round sends requests to a few nodes at once, over existing connections, and ends when two of them agree, so
//! a hanging node causes no delay.
//!
//! An isolated node continues to announce an old map, which would lead back to old owners. The answer of a
//! single node therefore counts only for slots that no other node is known to serve, and closes no connection.
//! If a node reports that a slot has moved, answers to earlier requests say nothing about that slot.

mod round;

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use self::round::SlotsAnswer;
use super::{
    map::Map,
    state::{ClusterState, Knowledge, Members},
};
use crate::{
    random::{Random, SystemRandom, jittered},
    store::{
        StoreError, StoreErrorKind,
        redis::{
            config::url::Address,
            net::{events::Events, service::Work},
        },
    },
};

/// The first pause between two rounds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The longest interval while a node is unreachable: another one may replace it at any time.
const WHILE_UNHEALTHY: Duration = Duration::from_secs(1);

/// The longest interval while a node has no slot and may be about to get one.
const WHILE_UNSETTLED: Duration = Duration::from_secs(5);

/// The longest interval while no request casts doubt on the map.
const WHILE_HEALTHY: Duration = Duration::from_secs(30);

/// The task that maintains the map.
pub(super) struct Watcher {
    shared: Arc<ClusterState>,
    events: Events,
}

impl Watcher {
    pub(super) fn new(shared: Arc<ClusterState>, events: Events) -> Self {
        Self { shared, events }
    }

    /// Records that no node has answered.
    fn failed(&mut self, error: StoreError) {
        self.events.failed(&error);
        self.shared.knowledge.send_if_modified(|knowledge| {
            let is_news = !matches!(knowledge, Knowledge::Known);
            if is_news {
                *knowledge = Knowledge::Failed(error);
            }
            is_news
        });
    }
}

impl Work for Watcher {
    /// Never ends.
    async fn run(&mut self) {
        let mut pause = FIRST_PAUSE;
        let mut was_told = false;
        let mut hopeless = false;
        loop {
            let shared = &*self.shared;
            let round = Instant::now();
            let lessons = shared.read(Map::lessons);
            let outcome = shared.ask(hopeless).await;
            let is_told = outcome.is_ok();
            hopeless = false;
            let mut longest = WHILE_HEALTHY;
            match outcome {
                Ok(told) => {
                    let start = |address: &Address| shared.start_node(address);
                    let is_settled = shared.write(|map| match told {
                        SlotsAnswer::Agreed(topology) => map.apply(topology, lessons, start),
                        SlotsAnswer::Alone(topology) => {
                            map.fill(topology, start);
                            false
                        }
                    });
                    if !is_settled {
                        longest = WHILE_UNSETTLED;
                    }
                    shared.knowledge.send_replace(Knowledge::Known);
                    if !was_told {
                        self.events.connected();
                    }
                }
                Err(error) => {
                    hopeless = error.is_final();
                    self.failed(error);
                }
            }
            was_told = is_told;
            let rest = if hopeless { WHILE_UNHEALTHY } else { pause };
            sleep(jittered(rest, SystemRandom.next_u64())).await;
            if is_told {
                self.shared.doubts(longest).await;
            }
            pause = if round.elapsed() < 2 * LONGEST_PAUSE {
                (pause * 2).min(LONGEST_PAUSE)
            } else {
                FIRST_PAUSE
            };
        }
    }

    fn interrupted(&mut self, panic: Option<&str>) {
        if let Some(panic) = panic {
            let message = format!("the task that reads the cluster's slots panicked: {panic}");
            self.failed(StoreError::new(StoreErrorKind::Unreachable, message));
        }
    }
}

impl ClusterState {
    /// Returns when the map may be wrong or outdated.
    async fn doubts(&self, longest: Duration) {
        let end = Instant::now() + longest;
        loop {
            let mut members = Members::of(self);
            let is_healthy = members.look().failure.is_none();
            let rest = if is_healthy {
                end.saturating_duration_since(Instant::now())
            } else {
                WHILE_UNHEALTHY
            };
            tokio::select! {
                () = self.is_doubted.notified() => return,
                () = sleep(rest) => return,
                () = members.change(), if is_healthy => {
                    if members.look().failure.is_some() {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
