//! Keeps up with which node has which slots.
//!
//! A task asks when a request casts doubt on the map (a redirect, a node that does not serve), when a node
//! cannot be reached, and from time to time. One round is under way at a time, and the rounds have
//! pauses between them. A round asks a few nodes at once, over the connections there are, and ends
//! when two agree, so that one that stands still delays nobody.
//!
//! A node that was cut off goes on telling an old map, and would lead back to old owners. So what
//! one alone says counts only for slots that nobody else is known to serve, and ends no connection.
//! An answer that was asked for before a node said that a slot has moved says nothing of that slot.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{
    map::Map,
    state::{ClusterState, Knowledge, Members},
    topology::Topology,
};
use crate::{
    random::{Random, SystemRandom, jittered},
    store::{
        StoreError, StoreErrorKind,
        redis::{
            config::url::Address,
            net::{events::Events, service::Work, session},
            protocol::errors,
        },
    },
};

/// Between two rounds, when there is one after another.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// While a node cannot be reached: another one may take its place at any time.
const WHILE_UNHEALTHY: Duration = Duration::from_secs(1);

/// While a node has no slot, and may be about to get one.
const WHILE_UNSETTLED: Duration = Duration::from_secs(5);

/// While no request casts doubt.
const WHILE_HEALTHY: Duration = Duration::from_secs(30);

/// A node that has not answered by then need not: others are asked.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);

const ASKED_AT_ONCE: usize = 3;

/// After this, another node is asked besides.
const PATIENCE: Duration = Duration::from_millis(100);

/// After the first answer, others have this long to agree with it.
const GRACE: Duration = Duration::from_millis(200);

/// The outcome of a round.
enum SlotsAnswer {
    /// Two nodes say so, or one that knows of no other.
    Agreed(Topology),
    /// One node says so, and no other confirms it.
    Alone(Topology),
}

/// The task.
pub(super) struct Watcher {
    shared: Arc<ClusterState>,
    events: Events,
}

impl Watcher {
    pub(super) fn new(shared: Arc<ClusterState>, events: Events) -> Self {
        Self { shared, events }
    }

    /// No node has told the slots.
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
            let message = format!("the task that asks who has which slots panicked: {panic}");
            self.failed(StoreError::new(StoreErrorKind::Unreachable, message));
        }
    }
}

impl ClusterState {
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

    /// One round. After a `hopeless` one a single node has to do, for as long as it refuses us.
    async fn ask(&self, hopeless: bool) -> Result<SlotsAnswer, StoreError> {
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

    /// `None` if there is no node to ask.
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

    /// The nodes that may know, each list in the order in which it is asked, which is at random. The second is for
    /// the case that the first does not know: nodes that cannot be reached anyway, and those of the
    /// URL, whose names may be other ones of nodes that have been asked.
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
        // Over a connection that is there already, a question costs little.
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
            // Hardly any process has to log in for it.
            Some(link) => timeout(limit, link.ask(&question))
                .await
                .unwrap_or_else(|_| Err(StoreError::timed_out(limit))),
            None => session::ask(&endpoint, &question, limit).await,
        };
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use dlock_testkit::eventually;

    use super::*;
    use crate::store::redis::{
        Cluster, RedisConfig,
        config::url::Location,
        fake::{Fake, courtesy},
    };

    const LONG: Duration = Duration::from_secs(60);

    fn over(fakes: &[&Fake]) -> Cluster {
        let hosts: Vec<_> = fakes
            .iter()
            .map(|fake| format!("127.0.0.1:{}", fake.port))
            .collect();
        let url = format!("redis-cluster://{}", hosts.join(","));
        let location = Location::parse(&url).unwrap();
        let config = Arc::new(RedisConfig::new(url));
        let home = tokio::runtime::Handle::current();
        let events = Events::new(location.to_string());
        Cluster::start(location, &config, &Arc::default(), &home, events)
    }

    /// All slots are the first one's, and the others are its replicas.
    fn slots(ports: [u16; 3]) -> String {
        let node = |port| format!("*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        let nodes = ports.map(node).concat();
        format!("*1\r\n*5\r\n:0\r\n:16383\r\n{nodes}")
    }

    #[tokio::test]
    async fn a_node_that_was_cut_off_does_not_lead_back() {
        let ports = Arc::new(std::sync::Mutex::new(None::<[u16; 3]>));
        let rounds = Arc::new(AtomicUsize::new(0));
        let node = async |is_stale: bool| {
            let (ports, rounds) = (ports.clone(), rounds.clone());
            Fake::start(move |words| {
                let known = *ports.lock().unwrap();
                let rounds = rounds.clone();
                async move {
                    match (words[0].as_str(), known) {
                        ("CLUSTER", Some([stale, new, other])) if is_stale => {
                            rounds.fetch_add(1, Ordering::Relaxed);
                            slots([stale, new, other])
                        }
                        ("CLUSTER", Some([stale, new, other])) => {
                            // The stale one is always the first to answer.
                            sleep(Duration::from_millis(20)).await;
                            slots([new, other, stale])
                        }
                        _ => courtesy(&words),
                    }
                }
            })
            .await
        };
        let (stale, new, other) = (node(true).await, node(false).await, node(false).await);
        *ports.lock().unwrap() = Some([stale.port, new.port, other.port]);
        let cluster = over(&[&stale, &new, &other]);
        let owner = || {
            let owner = cluster.shared.read(|map| map.owner(0));
            owner.filter(|it| it.address == Address::Tcp("127.0.0.1".into(), new.port))
        };
        eventually(LONG, "two nodes agree", async || owner().is_some()).await;
        let member = owner().expect("it was waited for");
        eventually(LONG, "it is connected", async || member.link().is_some()).await;
        let (logins, before) = (new.logins(), rounds.load(Ordering::Relaxed));
        eventually(LONG, "some rounds have passed", async || {
            cluster.shared.doubt();
            assert!(owner().is_some(), "it leads back");
            rounds.load(Ordering::Relaxed) >= before + 5
        })
        .await;
        assert!(!member.is_gone());
        assert_eq!(new.logins(), logins, "there is a connection already");
    }

    #[tokio::test]
    async fn who_is_refused_for_good_asks_one_node_at_a_time() {
        let node = async || {
            Fake::start(|words| async move {
                match words[0].as_str() {
                    "HELLO" => "-WRONGPASS invalid username-password pair\r\n".to_owned(),
                    _ => courtesy(&words),
                }
            })
            .await
        };
        let fakes = [node().await, node().await, node().await];
        let cluster = over(&[&fakes[0], &fakes[1], &fakes[2]]);
        // Nobody else shall ask.
        cluster.watcher.close();
        let logins = || fakes.iter().map(Fake::logins).sum::<usize>();
        for (hopeless, number) in [(false, 3), (true, 1), (true, 1)] {
            let before = logins();
            let refused = cluster
                .shared
                .ask(hopeless)
                .await
                .err()
                .expect("all refuse");
            assert_eq!(refused.kind(), StoreErrorKind::Unauthenticated);
            assert_eq!(logins() - before, number, "{hopeless}");
        }
    }
}
