//! How a mistake is looked for: by the simulation, or by a test that is named.

use std::fs::{self, File};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use super::tree::Tree;
use crate::{cargo, server};

/// So many seeds the simulation is given at a time, as it tells what it has found at its end.
const AT_ONCE: u64 = 50;

/// A mistake may be that something never ends.
const LONGEST: Duration = Duration::from_secs(300);

/// What has to find a mistake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One of so many runs.
    Simulation { seeds: u64 },
    /// A test by its whole name, in a target as cargo is told of it.
    Test {
        target: &'static str,
        name: &'static str,
    },
}

#[derive(Debug)]
pub(super) struct Found {
    /// After how much.
    pub(super) after: String,
    /// Without what it takes to compile.
    pub(super) took: Duration,
    pub(super) by: String,
}

/// Where the sources are compiled and tried.
pub(super) struct Bench<'a> {
    tree: &'a Tree,
    from: u64,
}

struct Said {
    /// `None` if it did not end.
    status: Option<ExitStatus>,
    text: String,
}

impl<'a> Bench<'a> {
    pub(super) fn new(tree: &'a Tree, from: u64) -> Self {
        Self { tree, from }
    }

    /// Sees that none of these ways finds something where there is no mistake.
    pub(super) fn finds_nothing<'w>(
        &self,
        ways: impl Iterator<Item = &'w Way>,
    ) -> Result<(), String> {
        let mut most = 0;
        let mut tests: Vec<&Way> = Vec::new();
        for way in ways {
            match way {
                Way::Simulation { seeds } => most = most.max(*seeds),
                Way::Test { .. } if tests.contains(&way) => {}
                Way::Test { .. } => tests.push(way),
            }
        }
        let simulation = Way::Simulation { seeds: most };
        let simulation = (most > 0).then_some(&simulation);
        if tests.iter().any(|way| way.needs_server()) {
            server::provide()?;
        }
        for way in simulation.into_iter().chain(tests) {
            if let Some(Found { by, .. }) = self.look(way)? {
                return Err(format!("without a mistake there is this: {by}"));
            }
        }
        Ok(())
    }

    /// What this way finds in the sources as they are now.
    pub(super) fn look(&self, way: &Way) -> Result<Option<Found>, String> {
        match way {
            Way::Simulation { seeds } => self.simulate(*seeds),
            Way::Test { target, name } => self.test(target, name),
        }
    }

    fn simulate(&self, seeds: u64) -> Result<Option<Found>, String> {
        self.compile("build --release --locked --package dlock-sim")?;
        let began = Instant::now();
        let mut done = 0;
        while done < seeds {
            let (first, count) = (self.from + done, AT_ONCE.min(seeds - done));
            let mut command = Command::new(self.tree.target.join("release/dlock-sim"));
            command.args([format!("--seeds={count}"), format!("--from={first}")]);
            let said = self.run(command)?;
            if !said.is_well() {
                let finding = first_finding(&said.text);
                let (seed, by) = finding.unwrap_or_else(|| (first, said.end()));
                return Ok(Some(Found {
                    after: format!("run {}", seed - self.from + 1),
                    took: began.elapsed(),
                    by,
                }));
            }
            done += count;
        }
        Ok(None)
    }

    fn test(&self, target: &str, name: &str) -> Result<Option<Found>, String> {
        self.compile(&format!("test --locked {target} --no-run"))?;
        let began = Instant::now();
        let mut command = self.cargo(&format!("test --locked {target}"));
        command.args(["--", "--exact", name]);
        let said = self.run(command)?;
        if said.is_well() {
            if said.text.contains("test result: ok. 1 passed") {
                return Ok(None);
            }
            return Err(format!("there is no test `{name}`"));
        }
        if !said.text.contains(&format!("test {name} ... FAILED")) && said.status.is_some() {
            return Err(format!("`{name}` could not be run:\n{}", said.text));
        }
        Ok(Some(Found {
            after: "by a test".into(),
            took: began.elapsed(),
            by: format!("`{name}`"),
        }))
    }

    fn compile(&self, arguments: &str) -> Result<(), String> {
        let output = self
            .cargo(arguments)
            .output()
            .map_err(|error| format!("cargo cannot be run: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("cargo {arguments} fails:\n{said}"))
    }

    fn cargo(&self, arguments: &str) -> Command {
        let mut command = cargo::command(&self.tree.sources);
        command.args(arguments.split(' '));
        command.env("CARGO_TARGET_DIR", &self.tree.target);
        // Cargo has set it for this program, and it is not where the copy lies.
        command.env_remove("CARGO_MANIFEST_DIR");
        command
    }

    /// Runs it to its end, or for as long as it may take.
    fn run(&self, mut command: Command) -> Result<Said, String> {
        let program = command.get_program().display().to_string();
        let failed = |error| format!("{program}: {error}");
        let path = self.tree.target.join("said");
        let said = File::create(&path).map_err(failed)?;
        let errors = said.try_clone().map_err(failed)?;
        let mut child = command
            .stdout(said)
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        let end = Instant::now() + LONGEST;
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break Some(status),
                None if Instant::now() > end => {
                    child.kill().and_then(|()| child.wait()).map_err(failed)?;
                    break None;
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        let text = fs::read(&path).map_err(failed)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Said { status, text })
    }
}

impl Way {
    fn needs_server(&self) -> bool {
        matches!(self, Self::Test { target, .. } if !target.contains("--lib"))
    }
}

impl Said {
    fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it came to its end, of what told of no finding.
    fn end(&self) -> String {
        self.status.map_or_else(
            || "did not end".into(),
            |status| format!("ended by {status}"),
        )
    }
}

/// The seed and the first line of what the simulation has found first.
fn first_finding(text: &str) -> Option<(u64, String)> {
    text.lines().find_map(|line| {
        let (seed, finding) = line.strip_prefix("seed ")?.split_once(": ")?;
        Some((seed.parse().ok()?, finding.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_finding_is_told_with_its_seed() {
        let text = "\
seed 12: ran after the end of its lease: a: b
seed 12: again by `cargo xtask sim --seed 12`
seed 15: panicked: c";
        let finding = "ran after the end of its lease: a: b".to_owned();
        assert_eq!(first_finding(text), Some((12, finding)));
        assert_eq!(first_finding("50 runs"), None);
    }
}
