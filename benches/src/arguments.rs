//! The words for one measured process, of the form `key=value`.

use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use tokio::runtime::{Builder, Runtime};

use crate::pin::Processors;

/// The prefix of a cluster's URL; the hosts of some of its nodes follow.
pub(crate) const CLUSTER: &str = "redis-cluster://";

/// The prefix of a quorum's URL.
const QUORUM: &str = "redlock://";

const USAGE: &str = "dlock-bench KEY=VALUE...";

/// How one process measures.
#[derive(Clone, Debug, Parser)]
// Every key is a long option of clap's, which then reads the values.
#[command(
    name = "dlock-bench",
    rename_all = "snake_case", disable_help_flag = true, override_usage = USAGE
)]
pub(crate) struct Settings {
    /// The peer to measure; text after an `@` is a name for this way to run it
    #[arg(long, default_value = "dlock")]
    pub(crate) peer: PeerName,

    /// The task of the process
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: Mode,

    /// How many tasks take locks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tasks: u32,

    /// Whether the tasks share one key or have one each
    #[arg(long, value_enum, default_value_t)]
    pub(crate) keys: Keys,

    /// How long it is measured, or the lock held
    #[arg(long, default_value = "3", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// How long a section takes, in µs
    #[arg(long, default_value_t = 0)]
    pub(crate) hold_us: u64,

    /// How long a task rests after a section, in µs
    #[arg(long, default_value_t = 0)]
    pub(crate) think_us: u64,

    /// The name of the lock
    #[arg(long, default_value = "bench")]
    pub(crate) key: String,

    /// The server, some nodes of a cluster, or the servers of a quorum: `redlock://host1,host2,host3`
    #[arg(long, default_value = "redis://127.0.0.1:7301", value_parser = servers)]
    pub(crate) url: String,

    /// How often those ask again that poll, in ms [default: 10, rslock 200]
    #[arg(long)]
    pub(crate) poll_ms: Option<u64>,

    /// The longest wait at the end for tasks that still wait for a lock
    #[arg(long, default_value_t = 10)]
    pub(crate) drain_s: u64,

    /// A file for a line about every section
    #[arg(long)]
    pub(crate) log: Option<PathBuf>,

    /// When to begin, in ns of `CLOCK_MONOTONIC` [default: soon]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) start_ns: u64,

    /// The runtime: of many threads or of one
    #[arg(long, value_enum, default_value_t)]
    pub(crate) rt: Flavour,

    /// The processors to run on, such as 2,3 [default: those of the scheduler's choice]
    #[arg(long)]
    pub(crate) cpus: Option<Processors>,

    /// Whether dlock hands a lock over inside the process
    #[arg(long, value_enum, default_value_t)]
    pub(crate) handover: Switch,

    /// The things to make very many of, with `mode=many`
    #[arg(long, value_enum, default_value_t)]
    pub(crate) what: What,

    /// How many, with `mode=many`
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..))]
    pub(crate) n: u32,

    /// How long a lease lasts, with `what=held`: short, so that there are several renewals in it
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..=600))]
    pub(crate) ttl_s: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Peer {
    /// dlock over Redis
    Dlock,
    /// The limit: SET NX PX, and a script that compares and deletes
    Raw,
    /// The scripts of dlock, sent by hand
    Scripts,
    /// The crate rslock
    Rslock,
    /// How long a message takes from one connection to another
    Publish,
    /// dlock inside this process
    Memory,
    /// A mutex of tokio
    Mutex,
}

/// A peer, and the name it has in the results: `rslock@10ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerName {
    pub(crate) peer: Peer,
    pub(crate) shown: String,
}

impl PeerName {
    pub(crate) fn is(&self, peer: Peer) -> bool {
        self.peer == peer
    }
}

impl FromStr for PeerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.split_once('@').map_or(text, |(name, _)| name);
        let peer = Peer::from_str(name, false)
            .map_err(|_| format!("the peers are {}", listed(values::<Peer>())))?;
        Ok(Self {
            peer,
            shown: text.to_owned(),
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Every task takes and gives back a lock until the time is up
    #[default]
    Bench,
    /// Takes the lock, prints HELD and keeps it
    Hold,
    /// Every task takes the lock once
    Wait,
    /// Very many leases, waiters or keys
    Many,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keys {
    #[default]
    Same,
    Distinct,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flavour {
    #[default]
    Mt,
    Ct,
}

impl Flavour {
    pub(crate) fn build(self) -> io::Result<Runtime> {
        let mut builder = match self {
            Self::Mt => Builder::new_multi_thread(),
            Self::Ct => Builder::new_current_thread(),
        };
        builder.enable_all().build()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    #[default]
    On,
    Off,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Leases held at once
    #[default]
    Held,
    /// Tasks that wait for one key
    Waiters,
    /// Keys, one after another
    Distinct,
}

impl Settings {
    /// The URL of each server.
    pub(crate) fn urls(&self) -> Vec<String> {
        match self.url.strip_prefix(QUORUM) {
            Some(hosts) => hosts
                .split(',')
                .map(|host| format!("redis://{host}"))
                .collect(),
            None => vec![self.url.clone()],
        }
    }

    pub(crate) fn read(words: &[String]) -> Result<Self, clap::Error> {
        let mut options = vec!["dlock-bench".to_owned()];
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                let reason = format!("`{word}` is not of the form `key=value`");
                return Err(refusal(ErrorKind::ValueValidation, reason));
            };
            if !known().any(|it| it == key) {
                let reason = format!("unknown argument `{key}`; known are {}", listed(known()));
                return Err(refusal(ErrorKind::UnknownArgument, reason));
            }
            options.push(format!("--{key}={value}"));
        }
        let settings = Self::try_parse_from(options)?;
        let wanted = match (settings.mode, settings.peer.peer) {
            (Mode::Many, peer) if peer != Peer::Dlock => Some("`mode=many` is about `peer=dlock`"),
            (Mode::Hold | Mode::Wait, Peer::Publish) => {
                Some("`peer=publish` holds nothing: it has `mode=bench` alone")
            }
            (Mode::Bench | Mode::Wait, _) if settings.seconds.is_zero() => {
                Some("`seconds` must be greater than zero to measure something")
            }
            _ => None,
        };
        match wanted {
            Some(reason) => Err(refusal(ErrorKind::ArgumentConflict, reason.to_owned())),
            None => Ok(settings),
        }
    }

    /// How often a peer asks again that polls.
    pub(crate) fn poll(&self) -> Duration {
        let usual = if self.peer.is(Peer::Rslock) { 200 } else { 10 };
        Duration::from_millis(self.poll_ms.unwrap_or(usual))
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::On { "on" } else { "off" })
    }
}

/// The keys and what they mean, for the help text.
pub(crate) fn help() -> String {
    let mut text = "Keys:\n".to_owned();
    for argument in Settings::command().get_arguments() {
        let about = argument
            .get_help()
            .map_or_else(String::new, ToString::to_string);
        let choices: Vec<_> = match argument.get_id().as_str() {
            "peer" => values::<Peer>().collect(),
            _ => argument
                .get_possible_values()
                .iter()
                .map(|it| it.get_name().to_owned())
                .collect(),
        };
        let choices = if choices.is_empty() {
            String::new()
        } else {
            format!(": {}", choices.join(", "))
        };
        _ = writeln!(text, "  {:<10}{about}{choices}", argument.get_id());
    }
    text
}

fn known() -> impl Iterator<Item = String> {
    let names: Vec<_> = Settings::command()
        .get_arguments()
        .map(|it| it.get_id().to_string())
        .collect();
    names.into_iter()
}

fn values<T: ValueEnum + 'static>() -> impl Iterator<Item = String> {
    T::value_variants()
        .iter()
        .filter_map(|it| Some(it.to_possible_value()?.get_name().to_owned()))
}

fn listed(names: impl Iterator<Item = String>) -> String {
    names
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn refusal(kind: ErrorKind, reason: String) -> clap::Error {
    Settings::command().error(kind, reason)
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

fn servers(text: &str) -> Result<String, String> {
    if text.contains(',') && !text.starts_with(QUORUM) && !text.starts_with(CLUSTER) {
        return Err(format!(
            "several servers are a quorum or a cluster: write `{QUORUM}host1,host2,host3` or \
             `{CLUSTER}host1,host2`"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Settings, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Settings::read(&words).map_err(|error| {
            assert_eq!(error.exit_code(), 2, "{error}");
            error.to_string()
        })
    }

    #[test]
    fn the_command_line_is_consistent() {
        Settings::command().debug_assert();
        assert!(help().contains("handover"), "{}", help());
    }

    #[test]
    fn words_are_read_by_their_keys() {
        let line = "peer=rslock@10ms mode=wait tasks=64 keys=distinct seconds=1.5 hold_us=7 \
                    key=a=b poll_ms=10 log=/tmp/a start_ns=99 rt=ct cpus=2,3 handover=off";
        let settings = read(line).unwrap();
        assert!(settings.peer.is(Peer::Rslock));
        assert_eq!(settings.peer.shown, "rslock@10ms");
        assert_eq!((settings.mode, settings.tasks), (Mode::Wait, 64));
        assert_eq!(settings.keys, Keys::Distinct);
        assert_eq!(settings.seconds, Duration::from_millis(1500));
        assert_eq!(settings.key, "a=b", "only the first sign counts");
        assert_eq!(settings.poll(), Duration::from_millis(10));
        assert_eq!(
            settings.cpus.map(|it| it.to_string()).as_deref(),
            Some("2,3")
        );
        assert_eq!(settings.handover, Switch::Off);
        assert_eq!((settings.hold_us, settings.think_us), (7, 0));
    }

    #[test]
    fn peers_ask_again_as_often_as_is_usual_for_them() {
        let poll = |line| read(line).unwrap().poll().as_millis();
        assert_eq!(poll("peer=rslock"), 200);
        assert_eq!(poll("peer=raw"), 10);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expected) in [
            (
                "taks=3",
                "unknown argument `taks`; known are `peer`, `mode`",
            ),
            ("help=1", "unknown argument `help`"),
            ("tasks", "`tasks` is not of the form `key=value`"),
            ("tasks=0", "0 is not in 1.."),
            ("tasks=many", "invalid value 'many'"),
            ("seconds=-1", "negative"),
            ("seconds=soon", "no number"),
            ("seconds=0", "greater than zero"),
            ("peer=redlock", "the peers are `dlock`, `raw`"),
            ("cpus=first", "`first` is not the number of a processor"),
            ("keys=all", "[possible values: same, distinct]"),
            ("tasks=1 tasks=2", "cannot be used multiple times"),
            ("url=redis://a,redis://b", "several servers are a quorum"),
            ("mode=many peer=raw", "`mode=many` is about `peer=dlock`"),
            ("mode=hold peer=publish", "holds nothing"),
        ] {
            let reason = read(line).expect_err(line);
            assert!(reason.contains(expected), "{line}: {reason}");
        }
    }
}
