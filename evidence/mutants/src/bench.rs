//! Tries the programs with a mistake, and reports the test that has noticed it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use super::look::{Look, Target};
use super::programs::Programs;
use super::tree::Tree;
use super::trial::{self, Ended};
use crate::workspace;

/// The seeds of one call of the simulation, which reports its findings at its end.
const AT_ONCE: u64 = 50;

/// So many tests may fail together with others and pass alone before that says something.
const MOST_UNSTEADY: usize = 3;

/// So often a test is tried alone that has failed beside others: one that draws its cases need not find a
/// mistake each time.
const TRIES_ALONE: usize = 3;

/// The test or run that has noticed a mistake.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) by: String,
    pub(super) took: Duration,
}

/// The copy in which the programs are tried.
pub(super) struct Bench {
    programs: Programs,
    /// The first seed of the simulation.
    from: u64,
}

impl Bench {
    /// Builds what these looks need, in the copy.
    pub(super) fn build(tree: &Tree, looks: &[Look], from: u64) -> Result<Self, String> {
        let mut targets: Vec<_> = looks.iter().filter_map(Look::target).collect();
        targets.sort_unstable();
        targets.dedup();
        let needs_simulation = looks.iter().any(|look| look.target().is_none());
        Self::with(tree, &targets, needs_simulation, from)
    }

    /// Builds these tests, in the copy.
    pub(super) fn of(tree: &Tree, targets: &[Target]) -> Result<Self, String> {
        Self::with(tree, targets, false, 0)
    }

    fn with(
        tree: &Tree,
        targets: &[Target],
        needs_simulation: bool,
        from: u64,
    ) -> Result<Self, String> {
        share_tools(tree)?;
        let programs = Programs::build(tree, targets, needs_simulation)?;
        Ok(Self { programs, from })
    }

    /// Sees that none of these looks finds something where there is no mistake.
    pub(super) fn finds_nothing(&self, looks: &[Look]) -> Result<(), String> {
        let mut most = 0;
        let mut filters = BTreeMap::<Target, Vec<&str>>::new();
        for look in looks {
            match look {
                Look::Simulation { seeds } => most = most.max(*seeds),
                Look::Test(target, name) => filters.entry(*target).or_default().push(name),
                Look::Tests(target, []) => {
                    // Every name contains it.
                    filters.entry(*target).or_default().push("");
                }
                Look::Tests(target, names) => filters.entry(*target).or_default().extend(*names),
            }
        }
        for (target, filters) in filters {
            let began = Instant::now();
            if let Some(found) = self.tests(target, &filters, None)? {
                return Err(format!("without a mistake there is this: {}", found.by));
            }
            println!(
                "  {}: {:.1} s",
                target.name(),
                began.elapsed().as_secs_f64()
            );
        }
        if let Some(found) = self.simulate(most, None)? {
            return Err(format!("without a mistake there is this: {}", found.by));
        }
        Ok(())
    }

    /// The finding of the first of these looks that has one.
    pub(super) fn find(&self, looks: &[Look], mistake: &str) -> Result<Option<Found>, String> {
        let began = Instant::now();
        for look in looks {
            let found = match look {
                Look::Simulation { seeds } => self.simulate(*seeds, Some(mistake))?,
                Look::Test(target, name) => self.test(*target, name, Some(mistake))?,
                Look::Tests(target, filters) => self.tests(*target, filters, Some(mistake))?,
            };
            if let Some(found) = found {
                let took = began.elapsed();
                return Ok(Some(Found { took, ..found }));
            }
        }
        Ok(None)
    }

    fn simulate(&self, seeds: u64, mistake: Option<&str>) -> Result<Option<Found>, String> {
        let began = Instant::now();
        let mut done = 0;
        while done < seeds {
            let (first, count) = (self.from + done, AT_ONCE.min(seeds - done));
            let mut command = self.programs.simulation(mistake);
            command.args([format!("--seeds={count}"), format!("--from={first}")]);
            if let Some((seed, finding)) = trial::simulate(command)? {
                let run = seed.unwrap_or(first) - self.from + 1;
                let by = format!("run {run} of the simulation: {finding}");
                let took = began.elapsed();
                return Ok(Some(Found { by, took }));
            }
            done += count;
        }
        Ok(None)
    }

    /// The names of the tests of a target.
    pub(super) fn names(&self, target: Target) -> Result<Vec<String>, String> {
        let mut command = self.command(target, None);
        command.args(["--list", "--format", "terse"]);
        let output = command
            .output()
            .map_err(|error| format!("{}: {error}", target.name()))?;
        let told = String::from_utf8_lossy(&output.stdout);
        let names = told.lines().filter_map(|it| it.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    /// One test by its whole name.
    fn test(
        &self,
        target: Target,
        name: &str,
        mistake: Option<&str>,
    ) -> Result<Option<Found>, String> {
        one(target, name, self.command(target, mistake))
    }

    /// One test by its whole name, without a mistake and with these variables.
    pub(super) fn alone(
        &self,
        target: Target,
        name: &str,
        variables: &[(&str, &OsStr)],
    ) -> Result<Option<Found>, String> {
        let mut command = self.command(target, None);
        command.envs(variables.iter().copied());
        command.arg("--include-ignored");
        one(target, name, command)
    }

    /// These tests of a target by their whole names, within this time.
    pub(super) fn these(
        &self,
        target: Target,
        names: &[&str],
        mistake: &str,
        limit: Duration,
    ) -> Result<Option<Found>, String> {
        let arguments = [&["--exact"], names].concat();
        self.steady(target, &arguments, Some(mistake), limit)
    }

    /// All tests of a target whose names contain one of these.
    fn tests(
        &self,
        target: Target,
        filters: &[&str],
        mistake: Option<&str>,
    ) -> Result<Option<Found>, String> {
        let all: &[&str] = &[];
        let filters = if filters.contains(&"") { all } else { filters };
        self.steady(target, filters, mistake, trial::LONGEST)
    }

    /// The tests of a target that these arguments choose.
    ///
    /// A test that fails beside others and passes alone has not noticed anything: it is left out, and the
    /// others are tried again.
    fn steady(
        &self,
        target: Target,
        arguments: &[&str],
        mistake: Option<&str>,
        limit: Duration,
    ) -> Result<Option<Found>, String> {
        let mut unsteady: Vec<String> = Vec::new();
        loop {
            let mut command = self.command(target, mistake);
            command.args(arguments);
            command.args(unsteady.iter().flat_map(|name| ["--skip", name]));
            let name = match trial::run_tests(command, limit)? {
                Ended::Well { tests: 0 } if unsteady.is_empty() => {
                    let chosen = arguments.join("`, `");
                    return Err(format!("{} have no test `{chosen}`", target.name()));
                }
                Ended::Well { .. } => return Ok(None),
                Ended::Failed(test) | Ended::Hung(test) => test,
                Ended::Broke(by) => {
                    let took = Duration::ZERO;
                    return Ok(Some(Found { by, took }));
                }
            };
            for _ in 0..TRIES_ALONE {
                if let Some(found) = self.test(target, &name, mistake)? {
                    return Ok(Some(found));
                }
            }
            println!("  `{name}` has failed beside others, and passes alone");
            unsteady.push(name);
            if unsteady.len() > MOST_UNSTEADY {
                let names = unsteady.join("`, `");
                return Err(format!(
                    "these fail beside others, and pass alone: `{names}`"
                ));
            }
        }
    }

    fn command(&self, target: Target, mistake: Option<&str>) -> Command {
        let mut command = self.programs.test(target, mistake);
        // Most tests wait. With one thread the harness would not tell of a test that hangs.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", processors.max(6).to_string());
        }
        command
    }
}

/// Runs one test of a target by its whole name.
fn one(target: Target, name: &str, mut command: Command) -> Result<Option<Found>, String> {
    let began = Instant::now();
    command.args(["--exact", name]);
    let by = match trial::run_tests(command, trial::LONGEST)? {
        Ended::Well { tests: 0 } => {
            return Err(format!("{} have no test `{name}`", target.name()));
        }
        Ended::Well { .. } => return Ok(None),
        Ended::Failed(test) => format!("`{test}`"),
        Ended::Hung(test) => format!("`{test}`, which did not end within two minutes"),
        Ended::Broke(how) => format!("`{name}`: {how}"),
    };
    let took = began.elapsed();
    Ok(Some(Found { by, took }))
}

/// Lets the tests of the copy find the servers that were got for those of this checkout.
fn share_tools(tree: &Tree) -> Result<(), String> {
    let link = tree.target.join("tools");
    let failed = |error: io::Error| format!("{}: {error}", link.display());
    fs::create_dir_all(&tree.target).map_err(failed)?;
    match symlink(workspace::target().join("tools"), &link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => Ok(()),
    }
}
