//! What a server tells of itself and of what its user may do, for `doctor`.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::{
    RedisConfig, RedisStore, listen, node::Node, script, servers::Servers, session, url::Endpoint,
};
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
    facts.denied = denied(node, config, in_cluster, waits).await?;
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

/// A command that the user must be allowed, as it is tried out.
struct Trial {
    words: &'static [&'static str],
    purpose: &'static str,
    is_required: bool,
}

const fn needed(words: &'static [&'static str], purpose: &'static str) -> Trial {
    Trial {
        words,
        purpose,
        is_required: true,
    }
}

const fn useful(words: &'static [&'static str], purpose: &'static str) -> Trial {
    Trial {
        words,
        purpose,
        is_required: false,
    }
}

const LOCKS: &str = "locks are taken, renewed and given back by scripts, which need it";

/// What is tried out, on a key `K` that does not exist, and so that it changes nothing there. A server
/// looks at the rights of a request before anything else but its form; in a cluster also before it says
/// that a key lies elsewhere.
const TRIALS: [Trial; 22] = [
    needed(&["EVAL", "return 1", "0"], "runs the scripts of locks"),
    needed(
        &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
        "runs the scripts of locks without sending them again",
    ),
    needed(&["TIME"], LOCKS),
    needed(&["EXISTS", "K"], LOCKS),
    needed(&["GET", "K"], LOCKS),
    needed(&["GETEX", "K"], LOCKS),
    needed(&["SET", "K", "0", "XX", "PX", "1"], LOCKS),
    needed(&["DEL", "K"], LOCKS),
    needed(&["PEXPIRE", "K", "1"], LOCKS),
    needed(&["PTTL", "K"], LOCKS),
    needed(&["ZADD", "K", "XX", "1", "0"], LOCKS),
    needed(&["ZRANGE", "K", "0", "0"], LOCKS),
    needed(&["ZRANK", "K", "0"], LOCKS),
    needed(&["ZREM", "K", "0"], LOCKS),
    needed(&["ZSCORE", "K", "0"], LOCKS),
    useful(
        &["PING"],
        "tells a connection that is dead from one that is idle",
    ),
    useful(
        &["PUBLISH", "C", "0"],
        "wakes who waits for a lock at once; without it waiters ask now and then",
    ),
    useful(
        &["INFO", "server"],
        "warns of a server that may evict locks, and lets `doctor` look at its settings",
    ),
    useful(&["SCAN", "0", "COUNT", "1"], "lets operators list locks"),
    needed(
        &["CLUSTER", "SLOTS"],
        "tells which node of the cluster has which locks",
    ),
    needed(&["ASKING"], "keeps leases while slots move between nodes"),
    needed(
        &["WAIT", "0", "1"],
        "lets replicas confirm leases, for `min_replicas`",
    ),
];

async fn denied(
    node: &Node,
    config: &RedisConfig,
    in_cluster: bool,
    waits: bool,
) -> Result<Vec<(String, &'static str, bool)>, StoreError> {
    let namespace = &config.namespace;
    let mut denied = Denials {
        namespace,
        list: Vec::new(),
    };
    // No lock has a name with a control character in it.
    let key = format!("{namespace}:{{\u{1}probe}}");
    let channel = script::probe_channel(namespace);
    for trial in TRIALS {
        let name = trial.words[0];
        let applies = match name {
            "CLUSTER" | "ASKING" => in_cluster,
            "WAIT" => waits,
            _ => true,
        };
        if !applies {
            continue;
        }
        let mut command = redis::cmd(name);
        for word in &trial.words[1..] {
            match *word {
                "K" => command.arg(&key),
                "C" => command.arg(&channel),
                word => command.arg(word),
            };
        }
        if let Some(refusal) = refusal(node, &command).await? {
            let subcommand = trial.words.get(1).filter(|_| name == "CLUSTER");
            let rule = subcommand.map_or_else(
                || name.to_lowercase(),
                |sub| format!("{name}|{sub}").to_lowercase(),
            );
            denied.note(&refusal, &rule, trial.purpose, trial.is_required);
        }
    }
    let endpoint = node.place().await?;
    for (is_pattern, purpose) in [
        (false, "lets a waiter hear that it has the lock"),
        (true, "lets operators watch how locks are handed on"),
    ] {
        let tried = subscribe(&endpoint, config, is_pattern).await;
        match tried {
            Err(error) if is_denial(&error) => {
                let rule = if is_pattern {
                    "psubscribe"
                } else {
                    "subscribe"
                };
                denied.note(&error, rule, purpose, !is_pattern);
            }
            tried => tried?,
        }
    }
    Ok(denied.list)
}

/// Why the user may not say this; any other answer is as good as one.
async fn refusal(node: &Node, command: &Cmd) -> Result<Option<StoreError>, StoreError> {
    match node.ask(command).await {
        Err(error) if error.kind() == StoreErrorKind::Denied => Ok(Some(error)),
        // `MOVED` reads as such as well, and has got past the rights.
        Err(error)
            if error.kind() == StoreErrorKind::Unsupported
                && error.message().starts_with("unknown") =>
        {
            Ok(Some(error))
        }
        Err(error)
            if matches!(
                error.kind(),
                StoreErrorKind::Disconnected
                    | StoreErrorKind::TimedOut
                    | StoreErrorKind::Unreachable
            ) =>
        {
            Err(error)
        }
        _ => Ok(None),
    }
}

/// Whether the user may listen to the channels: to that of a client, or to all of them.
async fn subscribe(
    endpoint: &Endpoint,
    config: &RedisConfig,
    is_pattern: bool,
) -> Result<(), StoreError> {
    let limit = config.connect_timeout;
    let attempt = async {
        let (mut sink, _stream) = listen::open(endpoint, config).await?;
        let asked = async {
            if is_pattern {
                sink.psubscribe(listen::pattern(config)).await
            } else {
                sink.subscribe(script::probe_channel(&config.namespace))
                    .await
            }
        };
        session::answered(config.response_timeout, asked).await
    };
    session::named(endpoint, limit, attempt).await
}

/// The rules that a user lacks, each one once.
struct Denials<'a> {
    namespace: &'a str,
    list: Vec<(String, &'static str, bool)>,
}

impl Denials<'_> {
    fn note(&mut self, refusal: &StoreError, command: &str, purpose: &'static str, required: bool) {
        let message = refusal.message();
        let namespace = self.namespace;
        let (rule, purpose) = if message.contains("channel") {
            let purpose = "wakes who waits for a lock";
            (format!("&{namespace}:wake:*"), purpose)
        } else if message.contains("key") {
            (format!("~{namespace}:*"), "locks lie at these keys")
        } else {
            (format!("+{command}"), purpose)
        };
        match self.list.iter_mut().find(|(known, ..)| *known == rule) {
            Some((_, _, is_required)) => *is_required |= required,
            None => self.list.push((rule, purpose, required)),
        }
    }
}
