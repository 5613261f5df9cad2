//! The steps beside the first build: those that install what tests need wait for other machines most of their time, and the
//! others are short.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{Scope, ScopedJoinHandle};

use super::{Done, Report, recorded, show_beside};
use crate::steps::Step;

/// What tests need.
pub(super) const STEPS: [Step; 2] = [Step::Server, Step::ZooKeeper];

pub(super) const EARLY: [Step; 5] = [
    Step::Server,
    Step::ZooKeeper,
    Step::Fmt,
    Step::Supply,
    Step::Words,
];

/// The steps while they run.
pub(super) struct Servers<'scope>(Option<ScopedJoinHandle<'scope, Vec<(Report, String)>>>);

impl<'scope> Servers<'scope> {
    pub(super) fn install(scope: &'scope Scope<'scope, '_>, keep_going: bool) -> Self {
        Self(Some(scope.spawn(move || installed(keep_going))))
    }

    pub(super) fn are_finished(&self) -> bool {
        self.0.as_ref().is_some_and(ScopedJoinHandle::is_finished)
    }

    /// Waits for their end and shows it, once.
    pub(super) fn shown(&mut self) -> Vec<Report> {
        let ended = self.0.take().map(ScopedJoinHandle::join);
        let ended = ended.map(|it| it.expect("a failure of a step is reported"));
        show_beside(ended.unwrap_or_default(), "beside the first build")
    }
}

/// Runs the steps, up to a failure unless all are to go on, and returns what was said. Each is a program of its own, so that its output can go to a
/// file.
fn installed(keep_going: bool) -> Vec<(Report, String)> {
    let mut reports: Vec<(Report, String)> = Vec::new();
    for step in EARLY {
        if reports.iter().any(|(it, _)| it.outcome.is_err()) && !keep_going {
            break;
        }
        reports.push(recorded(step, |output| run(step, output)));
    }
    reports
}

fn run(step: Step, output: &Path) -> Result<Done, String> {
    let failed = |error| format!("{}: {error}", output.display());
    let stdout = File::create(output).map_err(failed)?;
    let stderr = stdout.try_clone().map_err(failed)?;
    let mut program = Command::new(env::current_exe().map_err(failed)?);
    program.args(["test", step.name()]).stdin(Stdio::null());
    let status = program.stdout(stdout).stderr(stderr).status();
    let is_well = status.map_err(failed)?.success();
    let said = fs::read_to_string(output).map_err(failed)?;
    if is_well {
        return Ok(done(&said, step));
    }
    Err(reason_in(&said, step))
}

/// The end of a step that has not failed, by what this program says then.
fn done(said: &str, step: Step) -> Done {
    let begin = format!("<== {} LEFT OUT: ", step.name());
    let reason = said.lines().find_map(|line| line.strip_prefix(&begin));
    reason.map_or(Done::Checked, |it| Done::LeftOut(it.to_owned()))
}

/// The reason of a failure, by the end of what this program says then.
fn reason_in(said: &str, step: Step) -> String {
    let reason = said.rsplit_once(&format!("\n{} failed:\n", step.name()));
    let reason = reason.map_or(said, |(_, reason)| reason);
    let end = reason.rfind("\nto repeat it: ").unwrap_or(reason.len());
    reason[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failure_is_the_last_that_was_said() {
        let said = "unpacking it\n<== zookeeper FAILED, 0.1 s\n\nzookeeper failed:\nno Java found\nname it\n\
                    to repeat it: cargo xtask test zookeeper\n";
        assert_eq!(reason_in(said, Step::ZooKeeper), "no Java found\nname it");
        assert_eq!(reason_in("killed\n", Step::Server), "killed");
    }

    #[test]
    fn a_step_that_was_left_out_is_not_taken_for_a_check() {
        let said = "\n<== supply LEFT OUT: no pip\n\nsupply    left out\n";
        assert!(matches!(done(said, Step::Supply), Done::LeftOut(it) if it == "no pip"));
        assert!(matches!(
            done("<== supply ok, 1.0 s\n", Step::Supply),
            Done::Checked
        ));
    }
}
