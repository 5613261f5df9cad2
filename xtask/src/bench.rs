//! The cost of dlock, beside other libraries that lock over Redis, in PostgreSQL or in etcd.
//!
//! The program that measures knows its options, starts its servers and compares; here is what it needs of the machine.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::cargo::{self, Call};
use crate::tools;

#[derive(Args)]
pub(crate) struct Bench {
    /// The subject and its options; without one: `--only WORKLOADS`, `--seconds` of a run [default: 2], `--reps` [default:
    /// 3] and `--json FILE` for all that was measured
    #[arg(
        value_name = "SUBJECT|OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<String>,
}

/// Builds the command `dlock`.
const COMMAND: Call = Call::new("build --release --locked --package dlock-cli");

impl Bench {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut words = self.words();
        match &*words[0] {
            "postgres" => {
                tools::provide(&[&tools::POSTGRES])?;
                name_peer(&mut words, lease_peer)?;
            }
            "etcd" => {
                tools::provide(tools::ETCDS)?;
                name_peer(&mut words, mutex_peer)?;
            }
            "zookeeper" => tools::provide(tools::ZOOKEEPER)?,
            "serve" => {
                tools::provide(&[&tools::REDIS])?;
                if !COMMAND.run() {
                    return Err(format!("this failed: {}", COMMAND.line()));
                }
                let program = cargo::target().join("release").join("dlock");
                words.push(format!("--program={}", program.display()));
            }
            _ => tools::provide(&[&tools::REDIS])?,
        }
        let build = Call::new("build --release --locked --package dlock-bench");
        cargo::build_and_start(&build, "dlock-bench", &words)
    }

    /// The subject, and the rest.
    fn words(&self) -> Vec<String> {
        let mut words = self.words.clone();
        if words.first().is_none_or(|it| it.starts_with('-')) {
            words.insert(0, "compare".to_owned());
        }
        words
    }
}

/// Puts the program behind `--peer`, which is built for it.
fn name_peer(
    words: &mut [String],
    build: impl FnOnce() -> Result<PathBuf, String>,
) -> Result<(), String> {
    if let Some(word) = words.iter_mut().find(|it| *it == "--peer") {
        *word = format!("--peer={}", build()?.display());
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn options_without_a_subject_compare() {
        let of = |words: &[&str]| {
            let words = owned(words);
            Bench { words }.words()
        };
        assert_eq!(of(&[]), ["compare"]);
        assert_eq!(of(&["--reps", "2"]), ["compare", "--reps", "2"]);
        assert_eq!(of(&["etcd", "--json=a b"]), ["etcd", "--json=a b"]);
    }

    #[test]
    fn a_peer_is_built_where_it_is_asked_for() {
        let mut words = owned(&["etcd", "--rounds=1"]);
        let built = || Ok(PathBuf::from("/x/mutex"));
        assert_eq!(
            name_peer(&mut words, || Err("it is not built".to_owned())),
            Ok(())
        );
        words.push("--peer".to_owned());
        assert_eq!(name_peer(&mut words, built), Ok(()));
        assert_eq!(words, ["etcd", "--rounds=1", "--peer=/x/mutex"]);
    }
}
