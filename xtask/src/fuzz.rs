//! Tries whatever comes from outside with inputs that a fuzzer finds: `fuzz/`.
//!
//! On a stable compiler: no sanitizer is needed where there is no unsafe code. What is kept of earlier
//! runs, `fuzz/corpus`, is read and not changed; it is tried by plain tests as well.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::cargo::{self, Call};
use crate::crates::Crate;

const CARGO_FUZZ: Crate = Crate {
    name: "cargo-fuzz",
    version: "0.13.2",
    install: Call::new("install --locked cargo-fuzz --version 0.13.2"),
};

/// The beginning of a message of the fuzzer.
const REPRODUCER: &str = "Test unit written to ";

#[derive(Args)]
pub(crate) struct Fuzz {
    /// For how long each target is run
    // The fuzzer takes 0 for no limit.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// The only target to run [default: all of them, one after another]
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

impl Fuzz {
    pub(crate) fn run(&self) -> Result<(), String> {
        let targets = self.chosen(targets()?)?;
        let fuzzer = CARGO_FUZZ.provide()?;
        build(&fuzzer)?;
        let mut lines = Vec::new();
        let mut findings = Vec::new();
        for target in targets {
            let seen = try_out(&fuzzer, &target, self.seconds)?;
            lines.push(seen.line(&target));
            if !seen.is_well {
                eprintln!("{}", seen.last.join("\n"));
                let input = seen.reproducer.as_deref().unwrap_or("no input was kept");
                findings.push(format!("{target}: {input}"));
            }
        }
        println!("\n{}\n{}", heading(), lines.join("\n"));
        if findings.is_empty() {
            return Ok(());
        }
        Err(format!(
            "a rule was broken:\n  {}\nput the input into fuzz/corpus/TARGET under a name that says what \
             it is: the tests try it from then on",
            findings.join("\n  ")
        ))
    }

    fn chosen(&self, mut all: Vec<String>) -> Result<Vec<String>, String> {
        if let Some(name) = &self.target {
            let known = all.join(", ");
            all.retain(|target| target == name);
            if all.is_empty() {
                return Err(format!("there is no target `{name}`: there are {known}"));
            }
        }
        Ok(all)
    }
}

/// The names of all targets.
fn targets() -> Result<Vec<String>, String> {
    let folder = cargo::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder)
        .map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let mut names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Everything below `target`, as what others build.
fn folder() -> PathBuf {
    cargo::target().join("fuzz")
}

fn call(fuzzer: &Path, verb: &str) -> Command {
    let mut command = Command::new(fuzzer);
    command.current_dir(cargo::root()).stdin(Stdio::null());
    command.args(["fuzz", verb, "--sanitizer", "none", "--target-dir"]);
    command.arg(folder());
    command
}

fn build(fuzzer: &Path) -> Result<(), String> {
    println!("$ cargo fuzz build --sanitizer none");
    let status = call(fuzzer, "build").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err("the targets could not be built: they need a C++ compiler".to_owned()),
    }
}

fn try_out(fuzzer: &Path, target: &str, seconds: u32) -> Result<Seen, String> {
    println!("==> {target}");
    let failed = |error: std::io::Error| format!("{target} cannot be run: {error}");
    // New inputs go to the first folder.
    let found = folder().join("corpus").join(target);
    fs::create_dir_all(&found).map_err(failed)?;
    let mut running = call(fuzzer, "run")
        .arg(target)
        .arg(found)
        .arg(cargo::root().join("fuzz/corpus").join(target))
        .arg("--")
        .args(["-print_final_stats=1", "-timeout=10", "-max_len=4096"])
        .arg(format!("-max_total_time={seconds}"))
        // The finding would drown in it.
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let said = running.stderr.take().expect("it was asked for");
    let mut seen = Seen::default();
    for line in BufReader::new(said).lines() {
        seen.take(line.map_err(failed)?);
    }
    seen.is_well = running.wait().map_err(failed)?.success();
    Ok(seen)
}

/// The output of the fuzzer so far.
#[derive(Debug, Default)]
struct Seen {
    executions: u64,
    per_second: u64,
    covered: u64,
    inputs: u64,
    reproducer: Option<String>,
    /// The end of it, which shows the cause of a failure.
    last: Vec<String>,
    is_well: bool,
}

impl Seen {
    fn take(&mut self, line: String) {
        let statistic = |name: &str| {
            let rest = line.strip_prefix("stat::")?.strip_prefix(name)?;
            rest.strip_prefix(':')?.trim().parse().ok()
        };
        self.executions = statistic("number_of_executed_units").unwrap_or(self.executions);
        self.per_second = statistic("average_exec_per_sec").unwrap_or(self.per_second);
        let word_after = |name: &str| {
            let mut words = line.split_whitespace().skip_while(|word| *word != name);
            words.nth(1)?.split('/').next()?.parse().ok()
        };
        self.covered = word_after("cov:").unwrap_or(self.covered);
        self.inputs = word_after("corp:").unwrap_or(self.inputs);
        if let Some((_, path)) = line.split_once(REPRODUCER) {
            self.reproducer = Some(path.to_owned());
        }
        if self.last.len() == 40 {
            self.last.remove(0);
        }
        self.last.push(line);
    }

    fn line(&self, target: &str) -> String {
        let Self {
            executions,
            per_second,
            covered,
            inputs,
            ..
        } = self;
        let outcome = if self.is_well { "nothing" } else { "BROKEN" };
        format!("{target:<10}{executions:>14}{per_second:>12}{covered:>10}{inputs:>10}  {outcome}")
    }
}

fn heading() -> String {
    let [target, executions, per_second, edges, inputs] =
        ["target", "executions", "per second", "edges", "inputs"];
    format!("{target:<10}{executions:>14}{per_second:>12}{edges:>10}{inputs:>10}  found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus() {
        let targets = targets().expect("they can be listed");
        assert!(targets.len() >= 6, "{targets:?}");
        for target in targets {
            let corpus = cargo::root().join("fuzz/corpus").join(&target);
            let count = fs::read_dir(corpus).map_or(0, Iterator::count);
            assert!(count > 10, "{target} has {count}");
        }
    }

    #[test]
    fn every_target_is_built_and_replayed_by_a_test() {
        let read = |path: &str| {
            fs::read_to_string(cargo::root().join(path)).expect("it is where it always was")
        };
        let manifest = read("fuzz/Cargo.toml");
        let replays = [
            "tests/macro_shapes/texts.rs",
            "dlock-runtime/src/fuzzing/tests.rs",
        ]
        .map(read)
        .concat();
        let mut corpora: Vec<_> = fs::read_dir(cargo::root().join("fuzz/corpus"))
            .expect("it can be listed")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        corpora.sort();
        let targets = targets().expect("they can be listed");
        assert_eq!(corpora, targets, "a corpus for each, and for nothing else");
        for target in targets {
            let path = format!("path = \"fuzz_targets/{target}.rs\"");
            assert!(manifest.contains(&path), "{target} is not built");
            let replay = format!("replay(\"{target}\", ");
            let is_replayed = replays.lines().any(|line| line.trim().starts_with(&replay));
            assert!(is_replayed, "no test replays what was found by {target}");
        }
    }

    #[test]
    fn no_time_is_not_taken_for_no_limit() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            fuzz: Fuzz,
        }
        let seconds = |text| {
            let line = <Line as clap::Parser>::try_parse_from(["fuzz", "--seconds", text]);
            line.ok().map(|line| line.fuzz.seconds)
        };
        assert_eq!((seconds("1"), seconds("0")), (Some(1), None));
    }

    #[test]
    fn a_target_that_is_not_there_is_named() {
        let fuzz = |target: Option<&str>| Fuzz {
            seconds: 1,
            target: target.map(str::to_owned),
        };
        let all = || vec!["key".to_owned(), "url".to_owned()];
        assert_eq!(fuzz(None).chosen(all()), Ok(all()));
        assert_eq!(fuzz(Some("url")).chosen(all()), Ok(vec!["url".to_owned()]));
        let error = fuzz(Some("urls")).chosen(all()).expect_err("there is none");
        assert!(error.contains("key, url"), "{error}");
    }

    #[test]
    fn what_the_fuzzer_says_is_read() {
        let mut seen = Seen::default();
        for line in [
            "#4096\tpulse  cov: 301 ft: 512 corp: 30/1202b lim: 46 exec/s: 2048 rss: 40Mb",
            "stat::number_of_executed_units: 70000",
            "stat::average_exec_per_sec:     1166",
            "artifact_prefix='x/'; Test unit written to x/crash-1",
        ] {
            seen.take(line.to_owned());
        }
        assert_eq!((seen.executions, seen.per_second), (70_000, 1166));
        assert_eq!((seen.covered, seen.inputs), (301, 30));
        assert_eq!(seen.reproducer.as_deref(), Some("x/crash-1"));
        assert!(seen.line("url").ends_with("BROKEN"));
        assert_eq!(
            seen.line("url").len(),
            heading().len() + "BROKEN".len() - "found".len()
        );
    }
}
