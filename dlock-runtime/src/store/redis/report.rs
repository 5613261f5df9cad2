//! What a server tells of itself and of what its user may do, for `doctor`.

mod rights;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redis::Value;
use tokio::time::Instant;

use super::{RedisConfig, RedisStore, node::Node, servers::Servers};
use crate::store::{StoreError, StoreErrorKind};

const PINGS: usize = 20;

/// How often the clock is read, as the quickest answer says most.
const READINGS: usize = 5;

/// What one server tells.
pub(crate) struct Facts {
    pub(crate) server: String,
    pub(crate) failure: Option<StoreError>,
    pub(crate) info: BTreeMap<String, String>,
    /// By how much its clock is ahead, in microseconds, and by how much that may be wrong.
    pub(crate) clock: Option<(i64, Duration)>,
    pub(crate) round_trips: Vec<Duration>,
    /// Rule, purpose, and whether no lock works without it.
    pub(crate) denied: Vec<(String, &'static str, bool)>,
}

impl Facts {
    fn of(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            failure: None,
            info: BTreeMap::new(),
            clock: None,
            round_trips: Vec::new(),
            denied: Vec::new(),
        }
    }
}

impl RedisStore {
    /// What each of the servers tells.
    pub(crate) async fn facts(&self) -> Vec<Facts> {
        let masters = match self.masters() {
            Ok(masters) => masters,
            Err(error) => {
                let failure = Some(error);
                let facts = Facts::of(&self.shown);
                return vec![Facts { failure, ..facts }];
            }
        };
        let in_cluster = matches!(&*self.servers, Servers::Cluster(_));
        let waits = self.confirmer.is_some();
        let mut all = Vec::with_capacity(masters.len());
        for master in masters {
            let mut facts = Facts::of(master.shown());
            let asked = ask_all(&master, &self.config, in_cluster, waits, &mut facts);
            facts.failure = asked.await.err();
            all.push(facts);
        }
        all
    }
}

async fn ask_all(
    node: &Node,
    config: &RedisConfig,
    in_cluster: bool,
    waits: bool,
    facts: &mut Facts,
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
    for _ in 0..READINGS {
        let (begun, sent) = (SystemTime::now(), Instant::now());
        let Some(answer) = unless_denied(node.ask(&redis::cmd("TIME")).await)? else {
            break;
        };
        let uncertainty = sent.elapsed() / 2;
        let best = facts.clock.map_or(Duration::MAX, |(_, known)| known);
        if let Some(time) = time(&answer).filter(|_| uncertainty < best) {
            let here = begun.duration_since(UNIX_EPOCH).unwrap_or_default() + uncertainty;
            facts.clock = Some((difference(time, here), uncertainty));
        }
    }
    facts.denied = rights::denied(node, config, in_cluster, waits).await?;
    Ok(())
}

/// What is refused is left out; whether that matters is told elsewhere.
fn unless_denied(answer: Result<Value, StoreError>) -> Result<Option<Value>, StoreError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_denial(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_denial(error: &StoreError) -> bool {
    // A command that was renamed or taken out of the server is not known.
    matches!(
        error.kind(),
        StoreErrorKind::Denied | StoreErrorKind::Unsupported
    )
}

/// Lines of `name:value`, whatever sections they are in.
fn fields(info: &Value) -> BTreeMap<String, String> {
    let text: String = redis::from_redis_value_ref(info).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn time(answer: &Value) -> Option<Duration> {
    let (seconds, micros): (u64, u64) = redis::from_redis_value_ref(answer).ok()?;
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
}

/// By how many microseconds one is ahead of the other.
fn difference(one: Duration, other: Duration) -> i64 {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    micros(one).saturating_sub(micros(other))
}
