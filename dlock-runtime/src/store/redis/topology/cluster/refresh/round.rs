//! One round of requests for the slots: the choice of nodes, and of the deciding answer.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{
    random::{Random, SystemRandom},
    store::{
        StoreError, StoreErrorKind,
        redis::{
            config::url::Address,
            net::session,
            protocol::errors,
            topology::cluster::{state::ClusterState, topology::Topology},
        },
    },
};

/// The longest wait for the answer of one node before others receive the request.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);

const ASKED_AT_ONCE: usize = 3;

/// The delay before another node receives the request as well.
const PATIENCE: Duration = Duration::from_millis(100);

/// After the first answer, the time for other nodes to confirm it.
const GRACE: Duration = Duration::from_millis(200);

/// The outcome of a round.
pub(super) enum SlotsAnswer {
    /// Two nodes agree on it, or a single node knows no other.
    Agreed(Topology),
    /// One node has answered so, and no other confirms it.
    Alone(Topology),
}

impl ClusterState {
    /// Runs one round. After a `hopeless` one, only one node receives the request while it refuses this client.
    pub(super) async fn ask(&self, hopeless: bool) -> Result<SlotsAnswer, StoreError> {
        let mut failure: Option<StoreError> = None;
        for candidates in self.candidates() {
            match self.ask_some(candidates, hopeless).await {
                Some(Err(error)) if failure.is_none() || error.is_final() => {
                    let is_over = hopeless && error.is_final();
                    failure = Some(error);
                    if is_over {
                        break;
                    }
                }
                Some(Ok(told)) => return Ok(told),
                Some(Err(_)) | None => {}
            }
        }
        Err(failure.expect("a cluster's URL names a server"))
    }

    /// Returns `None` without a node to ask.
    async fn ask_some(
        &self,
        candidates: Vec<Address>,
        hopeless: bool,
    ) -> Option<Result<SlotsAnswer, StoreError>> {
        let mut candidates = candidates.into_iter();
        let mut asked = FuturesUnordered::new();
        let at_once = if hopeless { 1 } else { ASKED_AT_ONCE };
        for address in candidates.by_ref().take(at_once) {
            asked.push(self.ask_one(address));
        }
        let mut failure: Option<StoreError> = None;
        let mut answers: Vec<Topology> = Vec::new();
        let mut end = None;
        while !asked.is_empty() || candidates.len() > 0 {
            let grace = sleep_until(end.unwrap_or_else(Instant::now));
            let is_next = tokio::select! {
                Some(outcome) = asked.next() => match outcome {
                    Ok(topology) => {
                        let is_confirmed = answers.iter().any(|it| it.agrees_with(&topology));
                        if is_confirmed || topology.is_of_one_node() {
                            return Some(Ok(SlotsAnswer::Agreed(topology)));
                        }
                        answers.push(topology);
                        end.get_or_insert_with(|| Instant::now() + GRACE);
                        asked.is_empty()
                    }
                    Err(error) if hopeless && error.is_final() => return Some(Err(error)),
                    Err(error) => {
                        if failure.is_none() || error.is_final() {
                            failure = Some(error);
                        }
                        true
                    }
                },
                () = sleep(PATIENCE), if candidates.len() > 0 => true,
                () = grace, if end.is_some() => break,
                else => break,
            };
            if is_next {
                asked.extend(candidates.next().map(|next| self.ask_one(next)));
            }
        }
        let first = answers.into_iter().next();
        let told = first.map(|first| Ok(SlotsAnswer::Alone(first)));
        told.or_else(|| failure.map(Err))
    }

    /// Returns the nodes that may know the slots, in two lists, each in random order. The second list is used if the
    /// first has no answer. It has the nodes that were unreachable before, and those of the URL, which may be other
    /// names of nodes in the first list.
    fn candidates(&self) -> [Vec<Address>; 2] {
        let (mut known, mut others) = self.read(|map| {
            let fails = |address: &&Address| map.at(address).is_some_and(|it| it.has_failed());
            let (fail, known): (Vec<_>, Vec<_>) = map.addresses().partition(fails);
            let owned = |all: Vec<&Address>| all.into_iter().cloned().collect::<Vec<_>>();
            (owned(known), owned(fail))
        });
        for seed in self.location.addresses() {
            if !known.contains(seed) && !others.contains(seed) {
                others.push(seed.clone());
            }
        }
        // A request over an existing connection is cheap.
        let is_linked = |address: &Address| {
            self.read(|map| map.at(address).is_some_and(|it| it.link().is_some()))
        };
        known.sort_by_cached_key(|address| (!is_linked(address), SystemRandom.next_u64()));
        others.sort_by_cached_key(|_| SystemRandom.next_u64());
        [known, others]
    }

    async fn ask_one(&self, address: Address) -> Result<Topology, StoreError> {
        let endpoint = self.location.endpoint(address);
        let limit = self.config.connect_timeout.min(LONGEST_ATTEMPT);
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let link = self.read(|map| map.at(endpoint.address())?.link());
        let told = match link {
            // An existing connection saves a login.
            Some(link) => timeout(limit, link.ask(&question))
                .await
                .unwrap_or_else(|_| Err(StoreError::timed_out(limit))),
            None => session::ask(&endpoint, &question, limit).await,
        };
        let told = told.and_then(|answer| {
            let topology = Topology::read(&answer, endpoint.address());
            let topology = topology
                .ok_or_else(|| errors::bad_answer("the answer to `CLUSTER SLOTS` is invalid"))?;
            if topology.masters.is_empty() {
                let message = "the node knows no slots, because it has not joined a cluster yet";
                return Err(StoreError::new(StoreErrorKind::Refused, message));
            }
            Ok(topology)
        });
        told.map_err(|error| error.at(&endpoint.to_string()))
    }
}
