//! The cost of dlock, beside other libraries that lock over Redis, in PostgreSQL or in etcd.
//!
//! The program that measures also starts its server and compares; it is built and started here.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};

use crate::cargo::{self, Call};
use crate::tools;

#[derive(Args)]
pub(crate) struct Compare {
    /// The workloads to run, such as W1,W3 [default: all]
    #[arg(long, value_name = "WORKLOADS")]
    only: Option<String>,

    /// How long each run measures
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// How often everything is run; medians count
    #[arg(long, default_value_t = 3)]
    reps: u32,

    /// A file for all that was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Apart {
    /// Holds, waits for and takes very many locks in one process
    ///
    /// Fails if a lease is lost, anything but fences is left in the server, or memory grows beyond
    /// the bounds that the table shows.
    Many {
        /// How many leases are held at once
        #[arg(long, default_value_t = 100_000)]
        leases: u32,

        /// How many tasks wait for one key
        #[arg(long, default_value_t = 10_000)]
        waiters: u32,

        /// How many keys are taken one after another
        #[arg(long, default_value_t = 1_000_000)]
        keys: u32,

        /// Over a Redis Cluster of three masters in place of one server
        #[arg(long)]
        cluster: bool,
    },

    /// Measures shared locks and permits beside exclusive ones
    ///
    /// `npm install` in `benches/peers/semaphore` first to measure permits beside another library, with
    /// `--peer benches/peers/semaphore`.
    Modes {
        /// How many rounds each cycle is measured; medians count
        #[arg(long, default_value_t = 30)]
        rounds: u32,

        /// How long crowds are measured, in seconds
        #[arg(long, default_value_t = 10)]
        seconds: u64,

        /// A folder with a `bench.js` that takes permits by another library
        #[arg(long, value_name = "FOLDER")]
        peer: Option<String>,
    },

    /// Measures locks in PostgreSQL beside the same statements by hand
    ///
    /// Fails if a lease is lost, or if the holder of many locks has more than two connections. A missed aim is no
    /// failure.
    Postgres {
        /// How many rounds each way is measured; medians count
        #[arg(long, default_value_t = 30)]
        rounds: u32,

        /// Measures hand-offs also by `benches/peers/lease`, which is built first: some minutes the first time
        #[arg(long)]
        peer: bool,

        /// A file for all that was measured
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Measures locks in etcd beside the same transactions by hand, and beside etcd's own lock
    ///
    /// A missed aim is no failure.
    Etcd {
        /// How many rounds each way is measured; medians count
        #[arg(long, default_value_t = 30)]
        rounds: u32,

        /// Measures hand-offs also by the mutex of the client for Go. It needs Debian's `golang-go` and `golang-etcd-server-dev`
        #[arg(long)]
        peer: bool,

        /// A file for all that was measured
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Measures locks in ZooKeeper beside the same writes by hand, and beside its usual recipe
    ///
    /// Three servers, and a crowd of a hundred sessions that waits for a minute. A missed aim is no failure.
    #[command(name = "zookeeper")]
    ZooKeeper {
        /// How many rounds each way is measured; medians count
        #[arg(long, default_value_t = 30)]
        rounds: u32,

        /// A file for all that was measured
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Measures the page of `dlock serve`: its first picture, its memory, and locks beside it
    ///
    /// It takes some six minutes, since the page reads 100,000 locks several times at its own pace. A missed aim is no failure.
    Serve {
        /// How many rounds are measured with a page and without; medians count
        #[arg(long, default_value_t = 15)]
        rounds: u32,

        /// A file for all that was measured
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },

    /// Measures sections of threads beside those of tasks, by the attribute and by hand
    Blocking {
        /// How many rounds each way is measured; medians count
        #[arg(long, default_value_t = 30)]
        rounds: u32,
    },
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), String> {
        start(&self.words())
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec![
            "compare".to_owned(),
            format!("--seconds={}", self.seconds),
            format!("--reps={}", self.reps),
        ];
        words.extend(self.only.iter().map(|it| format!("--only={it}")));
        words.extend(
            self.json
                .iter()
                .map(|path| format!("--json={}", path.display())),
        );
        words
    }
}

impl Apart {
    pub(crate) fn run(&self) -> Result<(), String> {
        let (leases, waiters, keys, cluster) = match self {
            Self::Many {
                leases,
                waiters,
                keys,
                cluster,
            } => (leases, waiters, keys, cluster),
            Self::Modes {
                rounds,
                seconds,
                peer,
            } => {
                let mut words = vec![
                    "modes".to_owned(),
                    format!("--rounds={rounds}"),
                    format!("--seconds={seconds}"),
                ];
                words.extend(peer.iter().map(|folder| format!("--peer={folder}")));
                return start(&words);
            }
            Self::Postgres { rounds, peer, json } => {
                tools::provide(&[&tools::POSTGRES])?;
                let mut words = words("postgres", *rounds, json.as_deref());
                if *peer {
                    words.push(format!("--peer={}", lease_peer()?.display()));
                }
                return build_and_start(&words);
            }
            Self::Etcd { rounds, peer, json } => {
                tools::provide(tools::ETCDS)?;
                let mut words = words("etcd", *rounds, json.as_deref());
                if *peer {
                    words.push(format!("--peer={}", mutex_peer()?.display()));
                }
                return build_and_start(&words);
            }
            Self::ZooKeeper { rounds, json } => {
                tools::provide(tools::ZOOKEEPER)?;
                return build_and_start(&words("zookeeper", *rounds, json.as_deref()));
            }
            Self::Serve { rounds, json } => {
                tools::provide(&[&tools::REDIS])?;
                if !COMMAND.run() {
                    return Err(format!("this failed: {}", COMMAND.line()));
                }
                let mut words = words("serve", *rounds, json.as_deref());
                let program = cargo::target().join("release").join("dlock");
                words.push(format!("--program={}", program.display()));
                return build_and_start(&words);
            }
            Self::Blocking { rounds } => {
                return start(&["blocking".to_owned(), format!("--rounds={rounds}")]);
            }
        };
        let mut words = vec![
            "many".to_owned(),
            format!("--leases={leases}"),
            format!("--waiters={waiters}"),
            format!("--keys={keys}"),
        ];
        words.extend(cluster.then(|| "--cluster".to_owned()));
        start(&words)
    }
}

/// Builds the command `dlock`.
const COMMAND: Call = Call::new("build --release --locked --package dlock-cli");

/// The words of what is measured in rounds.
fn words(subject: &str, rounds: u32, json: Option<&Path>) -> Vec<String> {
    let mut words = vec![subject.to_owned(), format!("--rounds={rounds}")];
    words.extend(json.map(|path| format!("--json={}", path.display())));
    words
}

/// Builds the other library that locks in PostgreSQL. Its waiters pause for 50 ms, so it need not be optimized.
fn lease_peer() -> Result<PathBuf, String> {
    const BUILD: Call =
        Call::new("build --locked --manifest-path benches/peers/lease/Cargo.toml --target-dir");
    let folder = cargo::target().join("peers");
    if BUILD.run_with(&[&folder.display().to_string()]) {
        Ok(folder.join("debug").join("dlock-bench-lease"))
    } else {
        Err(format!("this failed: {}", BUILD.line()))
    }
}

/// Builds the program with the mutex of etcd's client for Go, of the sources that Debian has.
fn mutex_peer() -> Result<PathBuf, String> {
    let program = cargo::target().join("peers").join("mutex");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program])
        .arg("main.go")
        .current_dir(cargo::root().join("benches/peers/mutex"))
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOCACHE", cargo::target().join("peers").join("go"))
        .status()
        .map_err(|error| {
            format!("no Go: {error}; run `apt-get install golang-go golang-etcd-server-dev`")
        })?;
    built.success().then_some(program).ok_or_else(|| {
        "benches/peers/mutex does not compile; it needs `golang-etcd-server-dev`".to_owned()
    })
}

fn start(words: &[String]) -> Result<(), String> {
    tools::provide(&[&tools::REDIS])?;
    build_and_start(words)
}

fn build_and_start(words: &[String]) -> Result<(), String> {
    let build = Call::new("build --release --locked --package dlock-bench");
    cargo::build_and_start(&build, "dlock-bench", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_passed_on() {
        let options = Compare {
            only: Some("W1,W3".to_owned()),
            seconds: 0.5,
            reps: 2,
            json: Some("a b.json".into()),
        };
        let words = [
            "compare",
            "--seconds=0.5",
            "--reps=2",
            "--only=W1,W3",
            "--json=a b.json",
        ];
        assert_eq!(options.words(), words);
    }
}
