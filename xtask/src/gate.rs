//! One run of the steps, and the report about it.
//!
//! Compilers keep all processors busy, and tests wait most of their time. So once the tests are built, the
//! steps that compile go on beside them, as programs of low priority; their output is shown after that of the
//! tests. The builds of the tests check the lints, too. Servers that are installed wait for other machines, and
//! the first build begins beside them. Tests that have failed are run again at the end, when nothing else runs any more.

mod servers;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo::Call;
use crate::component::Component;
use crate::linted::Lints;
use crate::steps::{SELDOM, Step};
use crate::timed::{Times, seconds};
use crate::verdict::{self, Failure};
use crate::{api, book, cargo, editor, lanes, links, supply, tools, words};

/// The steps that mostly compile, and the examples of the documentation.
const BESIDE: [Step; 6] = [
    Step::Lint,
    Step::DocTest,
    Step::Doc,
    Step::Api,
    Step::Package,
    Step::Features,
];

/// The libraries whose documentation is published.
const PUBLISHED: [&str; 10] = [
    "dlock",
    "dlock_admin",
    "dlock_admin_web",
    "dlock_conformance",
    "dlock_etcd",
    "dlock_macros",
    "dlock_net",
    "dlock_postgres",
    "dlock_runtime",
    "dlock_zookeeper",
];

use servers::Servers;

/// How a run deals with failures.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manner {
    /// It includes what takes long and seldom finds more.
    pub(crate) all: bool,
    /// It goes on after a failure, and reports all of them at the end.
    pub(crate) keep_going: bool,
    /// A test that passes only when it is run again, alone, has failed.
    pub(crate) strict: bool,
}

enum Done {
    Checked,
    /// These are to be run again when everything else is done.
    Tested(Vec<Failure>),
    /// Why examples of the documentation have failed, which are to be run again as well.
    Examples(String),
    /// Why nothing was checked.
    LeftOut(String),
}

/// The end of a step, and the time it took.
struct Report {
    step: Step,
    took: Duration,
    outcome: Result<Done, String>,
}

/// What all steps of a run share.
struct Run {
    manner: Manner,
    /// Those of the tests' builds.
    lints: Lints,
    times: Times,
}

/// Runs the usual steps or all of them, each as early as it can, and returns whether all succeeded.
pub(crate) fn run_early(manner: Manner) -> bool {
    verdict::begin();
    let steps = if manner.all {
        Step::ALL.to_vec()
    } else {
        Step::usual()
    };
    if steps.contains(&Step::Lint) {
        // The step itself reports what is missing.
        drop(Step::Lint.component().map(Component::provide));
    }
    let run = Run {
        manner,
        // Where everything is to be seen, no lint may keep the tests from it.
        lints: Lints::of_whole_run(steps.contains(&Step::Lint) && !manner.keep_going),
        times: Times::default(),
    };
    let is_well = report(&steps, run.side_by_side(&steps), &run);
    if !manner.all {
        let left_out = Step::ALL.into_iter().filter(|it| !steps.contains(it));
        let left_out: Vec<_> = left_out.map(Step::name).collect();
        println!(
            "\nnot among these: the steps {}, and the tests of {}; `cargo xtask test --all` runs them as well",
            left_out.join(", "),
            SELDOM.join(", ")
        );
    }
    is_well
}

/// Runs the steps one after the other and returns whether all succeeded.
pub(crate) fn run(steps: &[Step], manner: Manner) -> bool {
    let steps = with_servers(steps);
    if steps.contains(&Step::Test) {
        verdict::begin();
    }
    let run = Run {
        manner,
        lints: Lints::unchecked(),
        times: Times::default(),
    };
    let mut reports = Vec::new();
    for &step in &steps {
        reports.push(shown(step, || run.checked(step)));
        if has_failed(&reports) && !manner.keep_going {
            break;
        }
    }
    report(&steps, reports, &run)
}

/// Puts the servers before everything else where they are needed: that one is missing should not
/// come out after minutes of compiling.
fn with_servers(steps: &[Step]) -> Vec<Step> {
    let needed = if steps.contains(&Step::Test) {
        servers::STEPS.as_slice()
    } else {
        &[]
    };
    let missing = needed.iter().filter(|it| !steps.contains(it));
    missing.chain(steps).copied().collect()
}

impl Run {
    /// Runs steps: some beside the first build, and some beside the tests.
    fn side_by_side(&self, steps: &[Step]) -> Vec<Report> {
        thread::scope(|scope| {
            let mut servers = Servers::install(scope, self.manner.keep_going);
            let mut reports = Vec::new();
            let is_here = |it: &Step| !servers::EARLY.contains(it) && !BESIDE.contains(it);
            for step in steps.iter().copied().filter(is_here) {
                if servers.are_finished() {
                    reports.extend(servers.shown());
                }
                if has_failed(&reports) && !self.manner.keep_going {
                    break;
                }
                if step == Step::Test {
                    let beside = BESIDE.into_iter().filter(|it| steps.contains(it));
                    reports.extend(self.with_tests(&beside.collect::<Vec<_>>(), &mut servers));
                } else {
                    reports.push(shown(step, || self.checked(step)));
                }
            }
            reports.extend(servers.shown());
            reports
        })
    }

    /// Runs the tests, and beside them what may be. They begin when their servers are there, and a missing one comes out
    /// before the long build.
    fn with_tests(&self, beside: &[Step], servers: &mut Servers<'_>) -> Vec<Report> {
        println!("\n==> {}", Step::Test.name());
        let start = Instant::now();
        let programs = self.called(Step::Test);
        let mut reports = servers.shown();
        if has_failed(&reports) && !self.manner.keep_going {
            return reports;
        }
        // Something comes when nothing is compiled any more, and it ends with the tests.
        let (built, may_begin) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            let others = scope.spawn(move || {
                let _ = may_begin.recv();
                self.quietly(beside)
            });
            let is_built = || {
                let _ = built.send(());
            };
            let outcome = programs.and_then(|()| self.tested(is_built));
            let tests = Report {
                step: Step::Test,
                took: start.elapsed(),
                outcome,
            };
            tell(&tests);
            drop(built);
            let others = others.join().expect("a failure of a step is reported");
            reports.extend(show_beside(others, "beside the tests"));
            reports.push(tests);
            reports
        })
    }

    /// Builds and runs the tests, and says by `built` that they begin.
    fn tested(&self, built: impl FnOnce()) -> Result<Done, String> {
        let calls = Step::tests(self.manner.all);
        let failures = lanes::run(&calls, &self.times, &self.lints, built)?;
        Ok(if failures.is_empty() {
            Done::Checked
        } else {
            Done::Tested(failures)
        })
    }

    /// Runs the steps beside the tests, and returns what they have said.
    fn quietly(&self, steps: &[Step]) -> Vec<(Report, String)> {
        let mut reports: Vec<(Report, String)> = Vec::new();
        for &step in steps {
            let has_failed = reports.iter().any(|(it, _)| it.outcome.is_err());
            if has_failed && !self.manner.keep_going {
                break;
            }
            reports.push(recorded(step, |output| self.in_background(step, output)));
        }
        reports
    }

    /// Runs the calls of a step with low priority; their output goes to a file.
    fn in_background(&self, step: Step, output: &Path) -> Result<Done, String> {
        step.component().map_or(Ok(()), Component::provide)?;
        let failed = |error| format!("{}: {error}", output.display());
        let output = File::create(output).map_err(failed)?;
        if step == Step::Api {
            return compared(api::check(|call, variables| {
                call.run_in_background(&output, variables)
            }));
        }
        let calls = match step {
            // The builds of the tests have checked them.
            Step::Lint if self.lints.are_checked() => Vec::new(),
            _ => step.calls(self.manner.all),
        };
        let variables = match step {
            // It needs the libraries of the tests.
            Step::DocTest => self.lints.variables(),
            _ => &[],
        };
        for call in calls {
            if !call.run_in_background(&output, variables) {
                let reason = format!("this failed: {}", call.line());
                return match step {
                    Step::DocTest => Ok(Done::Examples(reason)),
                    _ => Err(reason),
                };
            }
        }
        links_of(step)?;
        Ok(Done::Checked)
    }

    /// Runs a step where it can be seen.
    fn checked(&self, step: Step) -> Result<Done, String> {
        match step.component().map_or(Ok(()), Component::provide) {
            // No part of what is checked depends on it, and not every toolchain comes with one.
            Err(reason) if step == Step::Editor => return Ok(Done::LeftOut(reason)),
            provided => provided?,
        }
        match step {
            Step::Server => tools::provide(tools::SERVERS)?,
            Step::ZooKeeper => tools::provide(tools::ZOOKEEPER)?,
            Step::Words => words::check()?,
            Step::Supply => return compared(supply::check()),
            Step::Book => return compared(book::check()),
            Step::Api => return compared(api::check(Call::run_under)),
            Step::Editor => editor::check()?,
            _ => {}
        }
        self.called(step)?;
        if step == Step::Test {
            return self.tested(|| ());
        }
        links_of(step)?;
        Ok(Done::Checked)
    }

    /// Runs examples of the documentation again that have failed beside the tests; returns the block about those that pass.
    fn examples_again(&self, reason: &str) -> Result<String, String> {
        let first = output_of(Step::DocTest);
        let said = fs::read_to_string(&first).unwrap_or_default();
        if self.manner.strict || verdict::never_forgiven(&said).is_some() {
            return Err(reason.to_owned());
        }
        println!("\n==> again, alone: {}", Step::DocTest.name());
        self.called(Step::DocTest)?;
        Ok(format!(
            "\nexamples of the documentation passed only when run again, alone, which is a defect of its own; the output of \
             their first run: {}\n",
            first.display()
        ))
    }

    /// Runs the calls of a step.
    fn called(&self, step: Step) -> Result<(), String> {
        // Only what the tests need is built as they are.
        let unchecked = Lints::unchecked();
        let lints = if matches!(step, Step::Test | Step::DocTest) {
            &self.lints
        } else {
            &unchecked
        };
        let calls = step.calls(self.manner.all);
        let failed = calls.iter().find(|it| !it.run_under(lints.variables()));
        failed.map_or(Ok(()), |call| {
            Err(lints.explain(format!("this failed: {}", call.line())))
        })
    }
}

/// The report of a step that runs beside others, and what it has written to its file.
fn recorded(step: Step, run: impl FnOnce(&Path) -> Result<Done, String>) -> (Report, String) {
    let output = output_of(step);
    let report = reported(step, || run(&output));
    (report, fs::read_to_string(&output).unwrap_or_default())
}

/// The file of what a step beside others says.
fn output_of(step: Step) -> PathBuf {
    cargo::target().join(format!("output-of-{}", step.name()))
}

/// Shows what steps beside others have said.
fn show_beside(ended: Vec<(Report, String)>, beside: &str) -> Vec<Report> {
    for (report, output) in &ended {
        println!("\n==> {}, {beside}", report.step.name());
        print!("{output}");
        tell(report);
    }
    ended.into_iter().map(|(report, _)| report).collect()
}

/// Checks the links of the documentation that a step has built.
fn links_of(step: Step) -> Result<(), String> {
    if step == Step::Doc {
        links::check(&cargo::target().join("doc"), &PUBLISHED)?;
    }
    Ok(())
}

/// The end of a step that is left out where its tool cannot be had.
fn compared(outcome: Result<Option<String>, String>) -> Result<Done, String> {
    Ok(outcome?.map_or(Done::Checked, Done::LeftOut))
}

fn reported(step: Step, run: impl FnOnce() -> Result<Done, String>) -> Report {
    let begun = Instant::now();
    let outcome = run();
    Report {
        step,
        took: begun.elapsed(),
        outcome,
    }
}

fn shown(step: Step, run: impl FnOnce() -> Result<Done, String>) -> Report {
    println!("\n==> {}", step.name());
    let report = reported(step, run);
    tell(&report);
    report
}

fn tell(report: &Report) {
    let (name, took) = (report.step.name(), seconds(report.took));
    match &report.outcome {
        Ok(Done::Checked) => println!("<== {name} ok, {took}"),
        Ok(Done::Tested(failures)) => {
            let number = failures.len();
            eprintln!("<== {name}: tests of {number} executables have failed, {took}");
        }
        Ok(Done::Examples(_)) => eprintln!("<== {name}: examples have failed, {took}"),
        Ok(Done::LeftOut(reason)) => eprintln!("<== {name} LEFT OUT: {reason}"),
        // The reason stands at the end of the whole run, where it is looked for.
        Err(_) => eprintln!("<== {name} FAILED, {took}"),
    }
}

fn has_failed(reports: &[Report]) -> bool {
    reports.iter().any(|report| report.outcome.is_err())
}

/// Runs failed tests again, prints the end of the whole run, and returns whether it succeeded.
fn report(steps: &[Step], mut reports: Vec<Report>, run: &Run) -> bool {
    let mut blocks = String::new();
    for report in &mut reports {
        if let Ok(Done::Tested(failures)) = &report.outcome {
            let begun = Instant::now();
            let verdict = verdict::of(failures);
            report.took += begun.elapsed();
            report.outcome = verdict.outcome(run.manner.strict).map(|()| Done::Checked);
            blocks += &verdict.block();
        }
        if let Ok(Done::Examples(reason)) = &report.outcome {
            let block = run.examples_again(reason);
            report.outcome = block.map(|block| {
                blocks += &block;
                Done::Checked
            });
        }
    }
    print!("\n{}", table(steps, &reports));
    let slowest = run.times.slowest();
    if !slowest.is_empty() {
        print!("\nthe slowest tests:\n{slowest}");
    }
    for report in &reports {
        if let Err(reason) = &report.outcome {
            let (name, all) = (
                report.step.name(),
                if run.manner.all { "--all " } else { "" },
            );
            eprintln!("\n{name} failed:\n{reason}\nto repeat it: cargo xtask test {all}{name}");
        }
    }
    print!("{blocks}");
    !has_failed(&reports)
}

fn table(steps: &[Step], reports: &[Report]) -> String {
    let line = |step: &Step| {
        let report = reports.iter().find(|report| report.step == *step);
        let took = report.map_or_else(String::new, |it| seconds(it.took));
        let (state, took) = match report.map(|it| &it.outcome) {
            Some(Ok(Done::Checked | Done::Tested(_) | Done::Examples(_))) => ("ok", took),
            Some(Ok(Done::LeftOut(_))) => ("left out", String::new()),
            Some(Err(_)) => ("FAILED", took),
            None => ("not run", took),
        };
        format!("{:<10}{state:<10}{took:>9}", step.name())
            .trim_end()
            .to_owned()
            + "\n"
    };
    steps.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_bring_their_servers() {
        assert_eq!(
            with_servers(&[Step::Fmt, Step::Test]),
            [Step::Server, Step::ZooKeeper, Step::Fmt, Step::Test]
        );
        assert_eq!(with_servers(&[Step::Doc]), [Step::Doc]);
        assert_eq!(with_servers(&Step::ALL), Step::ALL);
    }

    #[test]
    fn the_table_shows_what_was_not_run() {
        let reports = [
            Report {
                step: Step::Lint,
                took: Duration::from_secs(10),
                outcome: Err("x".into()),
            },
            Report {
                step: Step::Fmt,
                took: Duration::from_millis(1250),
                outcome: Ok(Done::Checked),
            },
        ];
        let lines = [
            "fmt       ok            1.2 s",
            "lint      FAILED       10.0 s",
            "test      not run",
        ];
        assert_eq!(
            table(&[Step::Fmt, Step::Lint, Step::Test], &reports),
            lines.join("\n") + "\n"
        );
    }
}
