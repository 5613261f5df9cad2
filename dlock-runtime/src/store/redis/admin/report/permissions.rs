//! Tests the permissions of a server's user.

use redis::Cmd;

use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        RedisConfig,
        config::url::Endpoint,
        net::{listen, node::Node, session},
        protocol::names,
    },
};

/// A command that the user must be permitted to use, as it is tested.
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

const LOCKS: &str = "the scripts that acquire, renew and release locks need it";

const SHARED_LOCKS: &str = "shared locks and permits need it";

/// The commands that are tested on a key `K` that does not exist, so that they change nothing. A server checks the
/// permissions of a request before anything else but its form; in a cluster, also before it reports that a key is
/// elsewhere.
const TRIALS: [Trial; 27] = [
    needed(&["EVAL", "return 1", "0"], "runs the lock scripts"),
    needed(
        &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
        "runs the lock scripts without sending them again",
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
    useful(&["HGET", "K", "0"], SHARED_LOCKS),
    useful(&["HGETALL", "K"], SHARED_LOCKS),
    useful(&["HLEN", "K"], SHARED_LOCKS),
    // It would write, but a field without a value is an error that comes after the check of permissions.
    useful(&["HSET", "K", "0", "0", "0"], SHARED_LOCKS),
    useful(&["HDEL", "K", "0"], SHARED_LOCKS),
    useful(
        &["PING"],
        "distinguishes a dead connection from an idle one",
    ),
    useful(
        &["PUBLISH", "C", "0"],
        "wakes waiters at once; without it, waiters poll",
    ),
    useful(
        &["INFO", "server"],
        "warns of a server that may evict locks, and lets `doctor` check its settings",
    ),
    useful(&["SCAN", "0", "COUNT", "1"], "lets operators list locks"),
    needed(
        &["CLUSTER", "SLOTS"],
        "reports which node of the cluster has which locks",
    ),
    needed(&["ASKING"], "keeps leases while slots move between nodes"),
    needed(
        &["WAIT", "0", "1"],
        "lets replicas confirm leases, for `min_replicas`",
    ),
];

/// Returns the rules that the user of a server lacks.
pub(super) async fn denied(
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
    // No lock's name contains a control character.
    let key = format!("{namespace}:{{\u{1}probe}}");
    let channel = names::probe_channel(namespace);
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
        (false, "notifies a waiter that it has the lock"),
        (true, "lets operators watch the grants of locks"),
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

/// Returns the refusal if the user lacks the permission. Any other answer shows that the user has it.
async fn refusal(node: &Node, command: &Cmd) -> Result<Option<StoreError>, StoreError> {
    match node.ask(command).await {
        Err(error) if error.kind() == StoreErrorKind::Denied => Ok(Some(error)),
        // `MOVED` is such an error too, and has passed the check of permissions.
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

/// Tries to subscribe to the channel of one client, or to those of all clients.
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
                sink.subscribe(names::probe_channel(&config.namespace))
                    .await
            }
        };
        session::answered(config.response_timeout, asked).await
    };
    session::named(endpoint, limit, attempt).await
}

/// The rules that a user lacks, each of them once.
struct Denials<'a> {
    namespace: &'a str,
    list: Vec<(String, &'static str, bool)>,
}

impl Denials<'_> {
    fn note(&mut self, refusal: &StoreError, command: &str, purpose: &'static str, required: bool) {
        let message = refusal.message();
        let namespace = self.namespace;
        let (rule, purpose) = if message.contains("channel") {
            let purpose = "wakes waiters";
            (format!("&{namespace}:wake:*"), purpose)
        } else if message.contains("key") {
            (format!("~{namespace}:*"), "locks are stored at these keys")
        } else {
            (format!("+{command}"), purpose)
        };
        match self.list.iter_mut().find(|(known, ..)| *known == rule) {
            Some((_, _, is_required)) => *is_required |= required,
            None => self.list.push((rule, purpose, required)),
        }
    }
}

/// Returns `true` if the server refuses a command to this user, or does not know it.
pub(super) fn is_denial(error: &StoreError) -> bool {
    // A command that was renamed or removed is unknown.
    matches!(
        error.kind(),
        StoreErrorKind::Denied | StoreErrorKind::Unsupported
    )
}
