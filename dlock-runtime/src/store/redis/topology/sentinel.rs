//! Finds the master of a service through its Sentinels, and detects a change of the master.
//!
//! All Sentinels receive the request at once. Among the answers of a majority, the one with the greatest
//! configuration epoch decides, because an isolated Sentinel continues to name an old master.
//!
//! The epoch is requested before the address: both change during a failover, and an old address must not be
//! combined with a new epoch. `SENTINEL MASTER` alone is not sufficient: until a failover ends, the Sentinel
//! that leads it returns the old address with the new epoch.
//!
//! The requests use persistent connections, one to each Sentinel: a fleet that logs in for every request would
//! overload the Sentinels.
//!
//! A master with an older epoch than a known one needs a majority, and the other Sentinels must have answered
//! or failed. This rule applies to the search for a master and to its watch. A server that answers as a replica
//! is refused, and the Sentinels receive the request again after the usual pause.
//!
//! A connection to a master that hangs or was replaced stays open. While there is a connection, the supervisor
//! therefore listens to `+switch-master` at one Sentinel, switches to the next when that fails, and sends a
//! request to all of them at intervals. When the master has moved, the connection is replaced, and every waiter
//! polls. If no Sentinel is reachable, a known master stays the master.
//!
//! **[S]** A failover does not shorten a deadline: a lease is valid as long as the last confirmed request
//! allows. The new master's answer, *renewed* or *not the owner*, decides from then on. Its clock makes fences
//! increase although it may have missed the last of them.
//! (`tokens_grow_although_the_replica_missed_the_last_writes`)

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{AsyncConnectionConfig, Pipeline, PushInfo, PushKind, Value};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{sleep, timeout},
};

use crate::{
    random::{Random, SystemRandom, jittered},
    store::{
        StoreError, StoreErrorKind,
        redis::{
            config::url::{Address, Endpoint, Location},
            net::session::{self, Session, answered},
            protocol::errors,
        },
    },
};

/// The channel on which a Sentinel announces a new master of a service.
const SWITCHED: &str = "+switch-master";

/// The minimum time between requests to all Sentinels without a message about a change.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// After such a message, all processes send requests, each after a random part of this time.
const SCATTER_MS: u64 = 200;

/// The Sentinels of a URL.
pub(crate) struct Sentinels {
    location: Location,
    service: String,
    all: Vec<Endpoint>,
    /// A connection to each of them, unless it is in use or has failed.
    kept: Vec<Mutex<Option<Session>>>,
    /// The master that was selected last.
    latest: Mutex<Option<NamedMaster>>,
}

/// A master as one Sentinel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedMaster {
    /// It increases with each failover; 0 if the user may not request it.
    epoch: u64,
    address: Address,
}

impl Sentinels {
    pub(crate) fn new(location: &Location, service: &str) -> Self {
        let all = location.sentinels();
        Self {
            location: location.clone(),
            service: service.to_owned(),
            kept: all.iter().map(|_| Mutex::default()).collect(),
            all,
            latest: Mutex::new(None),
        }
    }

    /// Returns the same Sentinels and the known master for another runtime, with separate connections.
    pub(crate) fn apart(&self) -> Self {
        let latest = self.latest().clone();
        Self {
            latest: Mutex::new(latest),
            ..Self::new(&self.location, &self.service)
        }
    }

    /// Returns the address of the master. It uses a part of `limit`: the rest is for the connection to the master.
    pub(crate) async fn find(&self, limit: Duration) -> Result<Endpoint, StoreError> {
        let address = self.master(share(limit), self.majority()).await?;
        let endpoint = self.location.endpoint(address);
        let shown = format!("{endpoint}, which the Sentinels name as the master of");
        Ok(endpoint.shown_as(format!("{shown} `{}`", self.service)))
    }

    /// Returns when the master is no longer at `known`. Without an answer from a Sentinel, it still is.
    ///
    /// It subscribes to one Sentinel, and sends requests to all of them after each message and after `pause`, because
    /// that Sentinel may be isolated. Each request has the same limit as in [`find`](Self::find): otherwise a slow
    /// Sentinel would count only sometimes, and the result would change back and forth.
    pub(crate) async fn moved(
        &self,
        known: &Address,
        pause: Duration,
        limit: Duration,
    ) -> StoreError {
        let limit = share(limit);
        let pause = pause.max(LEAST_PAUSE);
        let mut turn = usize::try_from(SystemRandom.next_u64() % 1024).unwrap_or(0);
        let mut news = None;
        loop {
            if news.is_none() {
                let sentinel = &self.all[turn % self.all.len()];
                turn += 1;
                // Without a subscription, the request after the pause remains.
                news = SwitchListener::listen(sentinel, limit).await.ok();
            }
            let asked = self.master(limit, self.all.len()).await;
            if let Ok(address) = asked
                && address != *known
            {
                let message = format!("the master of `{}` is now at {address}", self.service);
                return StoreError::new(StoreErrorKind::Disconnected, message);
            }
            let heard = async {
                match &mut news {
                    Some(news) => news.wait_for(&self.service).await,
                    None => std::future::pending().await,
                }
            };
            // Otherwise many processes would send requests at the same time.
            let pause = jittered(pause, SystemRandom.next_u64());
            match timeout(pause, heard).await {
                Ok(true) => {
                    let scatter = SystemRandom.next_u64() % SCATTER_MS;
                    sleep(Duration::from_millis(scatter)).await;
                }
                Ok(false) => news = None,
                Err(_) => {}
            }
        }
    }

    fn majority(&self) -> usize {
        self.all.len() / 2 + 1
    }

    /// Returns the address of the master once `enough` Sentinels have named one that is not older than the known one,
    /// or no other Sentinel can answer.
    async fn master(&self, limit: Duration, enough: usize) -> Result<Address, StoreError> {
        let each = self.all.iter().zip(&self.kept);
        let asked = each.map(|(sentinel, kept)| self.ask(sentinel, kept, limit));
        let mut answers: FuturesUnordered<_> = asked.collect();
        let (mut masters, mut errors) = (Vec::<NamedMaster>::new(), Vec::new());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(master) => masters.push(master),
                Err(error) => errors.push(error),
            }
            let least = self.latest().as_ref().map_or(0, |known| known.epoch);
            if masters.len() >= enough && masters.iter().any(|it| it.epoch >= least) {
                break;
            }
        }
        let mut latest = self.latest();
        // A Sentinel that has not answered yet may know a newer master.
        let is_all = masters.len() >= self.majority() && answers.is_empty();
        match choose(&masters, latest.as_ref(), is_all) {
            Some(master) => Ok(latest.insert(master).address.clone()),
            None => Err(self.nobody(&errors)),
        }
    }

    fn latest(&self) -> MutexGuard<'_, Option<NamedMaster>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(
        &self,
        sentinel: &Endpoint,
        kept: &Mutex<Option<Session>>,
        limit: Duration,
    ) -> Result<NamedMaster, StoreError> {
        let mut question = Pipeline::new();
        question.cmd("SENTINEL").arg("MASTER").arg(&self.service);
        let address = "GET-MASTER-ADDR-BY-NAME";
        question.cmd("SENTINEL").arg(address).arg(&self.service);
        let put = async |session: &mut Session, limit: Duration| {
            let answers = session.connection.send_packed_commands(&question, 0, 2);
            answered(limit, answers).await
        };
        let slot = || kept.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = async {
            // Nothing reads the answers on a runtime that does not run.
            let known = slot().take().filter(Session::is_on_this_runtime);
            let over_known = match known {
                // If this connection broke undetected, there is time for another one.
                Some(mut session) => {
                    let answers = put(&mut session, limit / 2).await;
                    answers.ok().map(|answers| (session, answers))
                }
                None => None,
            };
            let (session, mut answers) = if let Some(told) = over_known {
                told
            } else {
                let settings = AsyncConnectionConfig::new();
                let mut session = Session::open(sentinel, settings, limit).await?;
                let answers = put(&mut session, limit).await?;
                (session, answers)
            };
            *slot() = Some(session);
            let (address, master) = (answers.pop(), answers.pop());
            let address = address
                .unwrap_or(Value::Nil)
                .extract_error()
                .map_err(|error| errors::of_request(&error, limit))?;
            if address == Value::Nil {
                return Err(StoreError::new(
                    StoreErrorKind::UnknownService,
                    format!("{sentinel} does not know the service `{}`", self.service),
                ));
            }
            Ok(NamedMaster {
                epoch: master.as_ref().and_then(epoch).unwrap_or(0),
                address: read_address(&address).ok_or_else(|| {
                    errors::bad_answer(format!("{sentinel} returned no address of a master"))
                })?,
            })
        };
        let asked = session::named(sentinel, limit, asked).await;
        asked.map_err(|error| explained(sentinel, error))
    }

    /// Returns the reason why no Sentinel has named a master.
    fn nobody(&self, errors: &[StoreError]) -> StoreError {
        use StoreErrorKind::{UnknownService, Unreachable};
        let service = &self.service;
        if errors.iter().all(|error| error.kind() == UnknownService) {
            let message = format!("no Sentinel knows the service `{service}`");
            return StoreError::new(UnknownService, message);
        }
        // The answer of a reachable Sentinel explains more than the failure of another one.
        let told = errors.iter().find(|error| error.is_final());
        let told = told.or_else(|| errors.first());
        // An unreachable Sentinel may know a newer master.
        let hopeless = errors.iter().all(StoreError::is_final);
        let kind = told.filter(|_| hopeless).map(StoreError::kind);
        let why = told.map_or("there is no Sentinel", StoreError::message);
        let message = format!("no Sentinel returned a master of `{service}`: {why}");
        StoreError::new(kind.unwrap_or(Unreachable), message)
    }
}

/// Returns the Sentinels' part of the connect timeout; the rest is for the master.
fn share(limit: Duration) -> Duration {
    limit / 2
}

/// Describes the failure of a request, with its Sentinel and a remedy.
fn explained(sentinel: &Endpoint, error: StoreError) -> StoreError {
    use StoreErrorKind::{Unauthenticated, UnknownService, Unreachable, Unsupported};
    let message = error.message();
    let message = match error.kind() {
        Unreachable | UnknownService => return error,
        Unauthenticated => format!(
            "{sentinel}: {message} (set a Sentinel's own password in the URL as `?sentinel_pass=…`, \
             and its user as `sentinel_user`)"
        ),
        Unsupported => format!("{sentinel} is not a Sentinel: {message}"),
        _ => format!("{sentinel}: {message}"),
    };
    StoreError::new(error.kind(), message)
}

/// Selects the master: the latest epoch wins, then the known master, then the most votes. No Sentinel leads back to
/// an older master, unless a majority names it and no other Sentinel can answer.
fn choose(
    answers: &[NamedMaster],
    known: Option<&NamedMaster>,
    is_all: bool,
) -> Option<NamedMaster> {
    let rank = |master: &&NamedMaster| {
        let votes = answers.iter().filter(|it| it == master).count();
        let is_known = Some(*master) == known;
        // Sentinels may write one address in two forms, which is not a change. Without an epoch, two addresses may
        // also mean two servers.
        (master.epoch, master.epoch > 0 && is_known, votes, is_known)
    };
    let best = answers.iter().max_by_key(rank)?;
    let known = known.filter(|known| !is_all && known.epoch > best.epoch);
    Some(known.unwrap_or(best).clone())
}

/// Returns the epoch in a Sentinel's answer about a master.
pub(crate) fn epoch(told: &Value) -> Option<u64> {
    let fields: HashMap<String, String> = redis::from_redis_value_ref(told).ok()?;
    fields.get("config-epoch")?.parse().ok()
}

pub(crate) fn read_address(answer: &Value) -> Option<Address> {
    let (host, port): (String, u16) = redis::from_redis_value_ref(answer).ok()?;
    Some(Address::Tcp(host, port))
}

/// A subscription to one Sentinel's messages about masters.
struct SwitchListener {
    _session: Session,
    pushed: UnboundedReceiver<PushInfo>,
}

impl SwitchListener {
    async fn listen(sentinel: &Endpoint, limit: Duration) -> Result<Self, StoreError> {
        // A Sentinel that accepts a connection and never answers must not end the watch.
        let listening = async {
            let (sender, pushed) = unbounded_channel();
            let settings = AsyncConnectionConfig::new().set_push_sender(sender);
            let mut session = Session::open(sentinel, settings, limit).await?;
            answered(limit, session.connection.subscribe(SWITCHED)).await?;
            Ok(Self {
                _session: session,
                pushed,
            })
        };
        session::named(sentinel, limit, listening).await
    }

    /// Returns `true` after a message about `service`, and `false` when the connection has broken.
    async fn wait_for(&mut self, service: &str) -> bool {
        while let Some(push) = self.pushed.recv().await {
            if push.kind == PushKind::Disconnection {
                return false;
            }
            // The service, then the old and the new address.
            if push.kind == PushKind::Message
                && let Some(Value::BulkString(text)) = push.data.get(1)
                && text.split(|byte| *byte == b' ').next() == Some(service.as_bytes())
            {
                return true;
            }
        }
        false
    }
}
