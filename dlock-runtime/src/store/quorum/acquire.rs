//! Requests a lock from all nodes, in rounds, until a majority has granted it to this claim or to another one.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    claims::Standing,
    node_set::NodeSet,
    nodes::{self, Ask, Reply, Requests, Timer, in_background},
    outcome::{self, Refusal},
    owed::Owed,
    shared::{Shared, in_all, limit_of_one},
    tally::{Step, Tally, Vote},
};
use crate::store::{
    ALIVE, AcquireOutcome, AcquireRequest, GRANT_TTL, Queue, Raised, StoreError, StoreErrorKind,
};

/// The number of times a split vote is repeated before the lock counts as held.
const MOST_ROUNDS: u32 = 8;

/// The longest pause after a split vote, if twice the time of the round is not longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The minimum time for nodes to answer after a refusal is certain. Their answers are then known, and a place
/// in their queues is kept.
const LEAST_GRACE: Duration = Duration::from_millis(1);

enum NodeAnswer {
    Acquired(Reply<AcquireOutcome>),
    Raised(Reply<Raised>),
}

/// One request to all nodes.
struct Round<'a> {
    shared: &'a Arc<Shared>,
    ask: &'a Arc<Ask>,
    waits: bool,
    before: &'a Standing,
    number: u32,
    begun: Instant,
    until: Instant,
}

pub(super) async fn acquire(
    shared: &Arc<Shared>,
    request: AcquireRequest<'_>,
    node_timeout: Duration,
) -> Result<AcquireOutcome, StoreError> {
    let end = Instant::now() + in_all(node_timeout).min(request.ttl);
    let limit = limit_of_one(node_timeout, request.ttl);
    let ask = Arc::new(Ask {
        key: request.key.clone(),
        owner: request.owner,
        ttl: request.ttl,
        mode: request.mode,
        label: request.label.into(),
        function: request.function.into(),
    });
    // Only for a notice: otherwise each node could make a different waiter the holder.
    let waits = request.queue != Queue::No;
    let mut number = 0;
    loop {
        number += 1;
        let begun = Instant::now();
        let before = shared
            .claims
            .ask(ask.owner, &ask.key, ask.ttl, shared.all())
            .ok_or_else(no_room)?;
        let round = Round {
            shared,
            ask: &ask,
            waits,
            before: &before,
            number,
            begun,
            until: end.min(begun + limit),
        };
        let tally = match round.run().await {
            Ok(fence) => return Ok(AcquireOutcome::granted(fence)),
            Err(tally) => tally,
        };
        let is_latest = round.give_back(&tally, limit);
        match outcome::of_round(&tally) {
            Refusal::Held(holder) => return Ok(AcquireOutcome::Busy(holder)),
            // A node may still hold a lease of an earlier round, although this round left none.
            Refusal::Failed(error) if number > 1 || !before.touched.is_empty() => {
                return Err(error.with_possible_effect());
            }
            Refusal::Failed(error) => return Err(error),
            Refusal::Split(holder) => {
                let pause = pause_after(number, begun.elapsed(), shared.random.next_u64());
                let is_last = number == MOST_ROUNDS || Instant::now() + pause >= end;
                // Another request would invalidate a later request of the same owner.
                if is_last || !is_latest {
                    return Ok(AcquireOutcome::Busy(holder));
                }
                sleep(pause).await;
            }
        }
    }
}

fn no_room() -> StoreError {
    let message = "the number of this attempt is too large for the rounds of a quorum";
    StoreError::new(StoreErrorKind::Unsupported, message).unsent()
}

/// Claims that split a vote retry one after the other if their pauses differ.
fn pause_after(round: u32, took: Duration, random: u64) -> Duration {
    let longest = (2 * took + LEAST_GRACE).saturating_mul(1 << round.min(10));
    let longest = longest.min(LONGEST_PAUSE.max(2 * took));
    let random = u32::try_from(random >> 32).unwrap_or(u32::MAX);
    longest.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

impl Round<'_> {
    /// Returns the fence of the grant, or the reason why there is none.
    async fn run(&self) -> Result<u64, Tally> {
        let shared = self.shared;
        // A claim that repeats its request for a held lock must get the same fence, also from nodes that have
        // lost the lock.
        let proposal = self.before.fence.unwrap_or_else(|| shared.propose());
        let mut tally = Tally::new(shared.nodes.len());
        let mut requests = Requests::with_capacity(shared.nodes.len());
        for node in 0..shared.nodes.len() {
            let (nodes, ask, id) = (shared.nodes.clone(), self.ask.clone(), self.id(node));
            let request = nodes::acquire(nodes, ask, node, id, self.waits, proposal);
            requests.add(async { NodeAnswer::Acquired(request.await) });
        }
        let mut timer = Timer::new(self.until);
        let (mut is_refused, mut has_reason, mut is_hurried) = (false, false, false);
        while let Some(answer) = requests.next(&mut timer).await {
            match answer {
                NodeAnswer::Acquired(reply) => {
                    shared.saw(&reply);
                    tally.acquired(reply.node, reply.answer);
                }
                NodeAnswer::Raised(reply) => tally.raised(reply.node, reply.answer),
            }
            let step = if is_refused {
                Step::Refuse
            } else {
                tally.step()
            };
            match step {
                // Otherwise a hanging node would cost its whole time limit in every round.
                Step::Wait if tally.looks_split() && !is_hurried => {
                    is_hurried = true;
                    timer.reset(self.hurried_until());
                }
                Step::Wait => {}
                Step::Raise(behind, fence) => {
                    timer.reset(self.until);
                    for node in behind.iter() {
                        let (nodes, ask) = (shared.nodes.clone(), self.ask.clone());
                        let fences = [tally.counted(node), fence];
                        let request = nodes::raise(nodes, ask, node, self.id(node), fences);
                        requests.add(async { NodeAnswer::Raised(request.await) });
                    }
                }
                Step::Grant(fence) => {
                    return if self.granted(&tally, fence) {
                        self.leave(requests, timer);
                        Ok(fence)
                    } else {
                        Err(tally)
                    };
                }
                Step::Refuse => {
                    is_refused = true;
                    // It may be certain that this claim gets no majority before the reason is known.
                    if !has_reason && tally.has_reason() {
                        has_reason = true;
                        timer.reset(self.until.min(Instant::now() + self.grace()));
                    }
                }
            }
        }
        Err(tally)
    }

    /// Returns the time to wait for answers that cannot change the outcome.
    fn grace(&self) -> Duration {
        self.begun.elapsed().max(LEAST_GRACE)
    }

    /// Returns the time until which to wait for answers that decide a vote which looks split. The wait doubles
    /// with each round, and in the last round it is all remaining time: these nodes may only have a long round
    /// trip, and a crashed client may hold some of the others.
    fn hurried_until(&self) -> Instant {
        if self.number == MOST_ROUNDS {
            return self.until;
        }
        let patience = self.grace() * (1 << (self.number - 1));
        self.until.min(Instant::now() + patience)
    }

    fn id(&self, node: usize) -> crate::owner::OwnerId {
        self.before.ids.at(node)
    }

    /// Records the nodes that may hold the lease. Returns `false` if the lock was released or requested again
    /// in the meantime.
    fn granted(&self, tally: &Tally, fence: u64) -> bool {
        let nothing = tally.nodes(|vote| match vote {
            Vote::Failed(error) => error.left_nothing(),
            _ => false,
        });
        let nothing = nothing.without(self.before.touched);
        let touched = self.shared.all().without(nothing);
        let claims = &self.shared.claims;
        // Each node counts the TTL from its answer, which came before this time.
        let until = Instant::now() + self.ask.ttl;
        let (owner, key) = (self.ask.owner, &self.ask.key);
        claims.granted(owner, key, self.before, touched, fence, until)
    }

    /// The grant is certain without the nodes that have not answered yet. More nodes with the lease are better,
    /// but no caller waits for them.
    fn leave(&self, mut requests: Requests<NodeAnswer>, mut timer: Timer) {
        if requests.is_empty() {
            return;
        }
        let (shared, ask) = (self.shared.clone(), self.ask.clone());
        let limit = self.until.saturating_duration_since(self.begun);
        in_background(async move {
            while let Some(answer) = requests.next(&mut timer).await {
                let NodeAnswer::Acquired(reply) = answer else {
                    continue;
                };
                shared.saw(&reply);
                if matches!(reply.answer, Ok(AcquireOutcome::Granted { .. })) {
                    shared.keep_or_give_back(&ask, reply.node, reply.id, limit);
                }
            }
        });
    }

    /// Releases the leases that nodes may hold after a round without a grant, and keeps places in queues.
    /// Returns `false` if the claim was released or requested again.
    fn give_back(&self, tally: &Tally, limit: Duration) -> bool {
        let claims = &self.shared.claims;
        let (owner, key) = (self.ask.owner, &self.ask.key);
        let held = tally.may_hold();
        let places = tally.nodes(|vote| match vote {
            Vote::Busy(_) => true,
            Vote::Failed(error) => error.left_nothing(),
            _ => false,
        });
        let touched: NodeSet = places
            .iter()
            .filter(|&node| {
                let queued = matches!(tally.votes()[node], Vote::Busy(_)) && self.waits;
                queued || self.before.touched.has(node)
            })
            .collect();
        // Recorded before the releases are sent: a later request must not meet a release.
        let given_back = claims.give_back(owner, key, self.before, held, touched);
        let until = self.begun + self.ask.ttl.max(ALIVE + GRANT_TTL) + limit;
        let mode = self.ask.mode;
        Owed::new(self.shared, key, mode, given_back.ids, until, limit).give_back();
        given_back.is_latest
    }
}
