//! Keeps up with which node has which slots.
//!
//! A task asks when somebody doubts the map (a redirect, a node that does not serve), when a node
//! cannot be reached, and from time to time. One round is under way at a time, and the rounds have
//! pauses between them. A round asks a few nodes at once and takes the first good answer, so that
//! one that stands still delays nobody.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep};

use super::{Knowledge, Members, Shared, topology::Topology};
use crate::{
    random::{Random, SystemRandom, jittered},
    store::{
        StoreError, StoreErrorKind,
        redis::{errors, events::Events, session, url::Address},
    },
};

/// Between two rounds, when there is one after another.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// While a node cannot be reached: another one may take its place at any time.
const WHILE_UNHEALTHY: Duration = Duration::from_secs(1);

/// While a node has no slot, and may be about to get one.
const WHILE_UNSETTLED: Duration = Duration::from_secs(5);

/// While nobody complains.
const WHILE_HEALTHY: Duration = Duration::from_secs(30);

/// A node that has not answered by then need not: others are asked.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);

const ASKED_AT_ONCE: usize = 3;

/// After this, another node is asked besides.
const PATIENCE: Duration = Duration::from_millis(100);

impl Shared {
    /// Runs until it is aborted.
    pub(super) async fn keep_up(self: Arc<Self>, mut events: Events) {
        let mut pause = FIRST_PAUSE;
        let mut was_told = false;
        loop {
            let round = Instant::now();
            let outcome = self.ask().await;
            let is_told = outcome.is_ok();
            let mut hopeless = false;
            let mut longest = WHILE_HEALTHY;
            match outcome {
                Ok(topology) => {
                    let start = |address: &Address| self.start_node(address);
                    if !self.write(|map| map.apply(topology, start)) {
                        longest = WHILE_UNSETTLED;
                    }
                    self.knowledge.send_replace(Knowledge::Known);
                    if !was_told {
                        events.connected();
                    }
                }
                Err(error) => {
                    events.failed(&error);
                    hopeless = error.is_final();
                    self.knowledge.send_if_modified(|knowledge| {
                        let is_news = !matches!(knowledge, Knowledge::Known);
                        if is_news {
                            *knowledge = Knowledge::Failed(error);
                        }
                        is_news
                    });
                }
            }
            was_told = is_told;
            let rest = if hopeless { WHILE_UNHEALTHY } else { pause };
            sleep(jittered(rest, SystemRandom.next_u64())).await;
            if is_told {
                self.doubts(longest).await;
            }
            pause = if round.elapsed() < 2 * LONGEST_PAUSE {
                (pause * 2).min(LONGEST_PAUSE)
            } else {
                FIRST_PAUSE
            };
        }
    }

    /// Returns when the map may be wrong, and when it is old.
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

    /// One round.
    async fn ask(&self) -> Result<Topology, StoreError> {
        let mut candidates = self.candidates().into_iter();
        let mut asked = FuturesUnordered::new();
        for address in candidates.by_ref().take(ASKED_AT_ONCE) {
            asked.push(self.ask_one(address));
        }
        let mut failure: Option<StoreError> = None;
        loop {
            tokio::select! {
                Some(outcome) = asked.next() => match outcome {
                    Ok(topology) => return Ok(topology),
                    Err(error) => {
                        if failure.is_none() || error.is_final() {
                            failure = Some(error);
                        }
                        asked.extend(candidates.next().map(|next| self.ask_one(next)));
                    }
                },
                () = sleep(PATIENCE), if candidates.len() > 0 => {
                    asked.extend(candidates.next().map(|next| self.ask_one(next)));
                }
                else => return Err(failure.expect("a cluster's URL names a server")),
            }
        }
    }

    /// Who may know, in the order in which they are asked: at random, but those last that cannot be
    /// reached anyway.
    fn candidates(&self) -> Vec<Address> {
        let unreachable = |address: &Address| {
            self.read(|map| {
                map.members()
                    .any(|it| it.address == *address && it.has_failed())
            })
        };
        let mut all: Vec<_> = self.read(|map| map.addresses().cloned().collect());
        for seed in self.location.addresses() {
            if !all.contains(seed) {
                all.push(seed.clone());
            }
        }
        all.sort_by_cached_key(|address| (unreachable(address), SystemRandom.next_u64()));
        all
    }

    async fn ask_one(&self, address: Address) -> Result<Topology, StoreError> {
        let endpoint = self.location.endpoint(address);
        let limit = self.config.connect_timeout.min(LONGEST_ATTEMPT);
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let told = session::ask(&endpoint, &question, limit).await;
        let told = told.and_then(|answer| {
            let topology = Topology::read(&answer, endpoint.address());
            let topology = topology.ok_or_else(|| {
                errors::bad_answer("the answer to `CLUSTER SLOTS` makes no sense")
            })?;
            if topology.masters.is_empty() {
                let message = "the node knows of no slots: it is in no cluster yet";
                return Err(StoreError::new(StoreErrorKind::Refused, message));
            }
            Ok(topology)
        });
        told.map_err(|error| error.at(&endpoint.to_string()))
    }
}
