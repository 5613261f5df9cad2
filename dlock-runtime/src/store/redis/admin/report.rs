//! Facts about a server and the permissions of its user, for `doctor`.

mod permissions;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, Cmd, Value};
use tokio::time::Instant;

use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        RedisConfig,
        admin::reader::RedisReader,
        config::url::{Address, Endpoint, Location, UrlLayout},
        net::{
            node::Node,
            session::{self, Session, answered},
        },
        protocol::{command::Command, errors},
        topology::servers::Servers,
    },
};

const PINGS: usize = 20;

/// The number of readings of the clock. The fastest answer is the most exact.
const READINGS: usize = 5;

/// The facts about one server.
pub struct NodeFacts {
    pub server: String,
    pub failure: Option<StoreError>,
    pub info: BTreeMap<String, String>,
    /// The answer to `CONFIG GET appendfsync`.
    pub appendfsync: Option<String>,
    pub clock: Option<ClockOffset>,
    pub round_trips: Vec<Duration>,
    /// The rule, its purpose, and whether locks require it.
    pub denied: Vec<(String, &'static str, bool)>,
    /// The reason why a script cannot publish a wake-up message that a client can publish; one answer for all
    /// servers.
    pub unpublished: Option<String>,
    /// The clocks of the replicas that would replace it.
    pub replicas: Vec<(String, Result<ClockOffset, StoreError>)>,
}

/// The microseconds by which a clock is ahead, and the error of this value.
pub type ClockOffset = (i64, Duration);

impl NodeFacts {
    fn of(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            failure: None,
            info: BTreeMap::new(),
            appendfsync: None,
            clock: None,
            round_trips: Vec::new(),
            denied: Vec::new(),
            unpublished: None,
            replicas: Vec::new(),
        }
    }
}

impl RedisReader {
    /// Returns the facts about each of the servers.
    pub async fn facts(&self) -> Vec<NodeFacts> {
        let masters = match self.masters() {
            Ok(masters) => masters,
            Err(error) => {
                let failure = Some(error);
                let facts = NodeFacts::of(&self.store.shown);
                return vec![NodeFacts { failure, ..facts }];
            }
        };
        let in_cluster = matches!(&*self.store.servers, Servers::Cluster(_));
        let waits = self.store.confirmer.is_some();
        // The URL of a single server does not permit connections to its replicas.
        let follows = Location::parse(&self.store.config.url)
            .is_ok_and(|it| matches!(it.layout(), UrlLayout::Sentinel(_) | UrlLayout::Cluster));
        let unpublished = self.unpublished().await;
        let mut all = Vec::with_capacity(masters.len());
        for master in masters {
            let mut facts = NodeFacts::of(master.shown());
            let asked = ask_all(&master, &self.store.config, in_cluster, waits, &mut facts);
            facts.failure = asked.await.err();
            let may_publish = !facts
                .denied
                .iter()
                .any(|(rule, ..)| is_about_publishing(rule));
            facts.unpublished = unpublished.clone().filter(|_| may_publish);
            if follows && let Ok(place) = master.place().await {
                let limit = self.store.config.response_timeout;
                let clocks: Vec<_> = replicas(&facts.info)
                    .map(|it| clock_at(place.moved_to(it), limit))
                    .collect();
                facts.replicas = join_all(clocks).await;
            }
            all.push(facts);
        }
        all
    }

    /// Returns the reason why a script of a lock cannot publish, as far as the server reports it. Other
    /// failures are reported elsewhere.
    async fn unpublished(&self) -> Option<String> {
        let command = Command::publish_in_script(&self.store.config);
        match self.store.servers.execute(&command).await {
            Ok(Value::BulkString(reason)) => {
                Some(errors::quoted(&String::from_utf8_lossy(&reason)))
            }
            _ => None,
        }
    }
}

/// Returns `true` if a missing rule is about messages. Nothing else is then reported about them.
fn is_about_publishing(rule: &str) -> bool {
    rule == "+publish" || rule.starts_with('&')
}

async fn ask_all(
    node: &Node,
    config: &RedisConfig,
    in_cluster: bool,
    waits: bool,
    facts: &mut NodeFacts,
) -> Result<(), StoreError> {
    for _ in 0..PINGS {
        let sent = Instant::now();
        unless_denied(node.ask(&redis::cmd("PING")).await)?;
        facts.round_trips.push(sent.elapsed());
    }
    let mut info = redis::cmd("INFO");
    if let Some(text) = unless_denied(node.ask(info.arg("all")).await)? {
        facts.info = fields(&text);
    }
    // An error is ignored: few users have this permission, and the next request detects an unreachable server.
    let mut settings = redis::cmd("CONFIG");
    let told = node.ask(settings.arg("GET").arg("appendfsync")).await;
    facts.appendfsync = told.ok().as_ref().and_then(setting);
    facts.clock = clock(&mut TimeSource::Master(node)).await?;
    facts.denied = permissions::denied(node, config, in_cluster, waits).await?;
    Ok(())
}

/// The server whose time is read.
enum TimeSource<'a> {
    Master(&'a Node),
    /// A replica over a separate connection, with the limit of each answer.
    Replica(Session, Duration),
}

impl TimeSource<'_> {
    async fn ask(&mut self, question: &Cmd) -> Result<Value, StoreError> {
        match self {
            Self::Master(node) => node.ask(question).await,
            Self::Replica(session, limit) => {
                let answer = session.connection.send_packed_command(question);
                let answer = answered(*limit, answer).await?.extract_error();
                answer.map_err(|error| errors::of_request(&error, *limit))
            }
        }
    }
}

/// Reads a clock several times. Returns `None` if that is not permitted.
async fn clock(asked: &mut TimeSource<'_>) -> Result<Option<ClockOffset>, StoreError> {
    let mut clock: Option<ClockOffset> = None;
    for _ in 0..READINGS {
        let (begun, sent) = (SystemTime::now(), Instant::now());
        let Some(answer) = unless_denied(asked.ask(&redis::cmd("TIME")).await)? else {
            break;
        };
        let uncertainty = sent.elapsed() / 2;
        let best = clock.map_or(Duration::MAX, |(_, known)| known);
        if let Some(time) = time(&answer).filter(|_| uncertainty < best) {
            let here = begun.duration_since(UNIX_EPOCH).unwrap_or_default() + uncertainty;
            clock = Some((difference(time, here), uncertainty));
        }
    }
    Ok(clock)
}

/// Reads the clock of a replica over a new connection.
async fn clock_at(replica: Endpoint, limit: Duration) -> (String, Result<ClockOffset, StoreError>) {
    let read = async {
        let settings = AsyncConnectionConfig::new();
        let session = Session::open(&replica, settings, limit).await?;
        let read = clock(&mut TimeSource::Replica(session, limit)).await?;
        let denied = || StoreError::new(StoreErrorKind::Denied, "it does not tell its time");
        read.ok_or_else(denied)
    };
    let read = session::named(&replica, limit, read).await;
    (replica.address().to_string(), read)
}

/// Returns the addresses of the replicas in `INFO`.
fn replicas(info: &BTreeMap<String, String>) -> impl Iterator<Item = Address> {
    let lines = (0..).map_while(|index| info.get(&format!("slave{index}")));
    lines.filter_map(|line| {
        let field = |name: &str| {
            let mut pairs = line.split(',').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value))
        };
        Some(Address::Tcp(
            field("ip")?.to_owned(),
            field("port")?.parse().ok()?,
        ))
    })
}

/// Omits a refused answer; its consequences are reported elsewhere.
fn unless_denied(answer: Result<Value, StoreError>) -> Result<Option<Value>, StoreError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if permissions::is_denial(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the lines of the form `name:value`, from all sections.
fn fields(info: &Value) -> BTreeMap<String, String> {
    let text: String = redis::from_redis_value_ref(info).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the value of the only requested setting.
fn setting(answer: &Value) -> Option<String> {
    let pairs: BTreeMap<String, String> = redis::from_redis_value_ref(answer).ok()?;
    pairs.into_values().next()
}

fn time(answer: &Value) -> Option<Duration> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value_ref(answer).ok()?;
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
}

/// Returns the microseconds by which one is ahead of the other.
fn difference(one: Duration, other: Duration) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    micros(one).saturating_sub(micros(other))
}
