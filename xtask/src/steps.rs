//! The steps of `cargo xtask test`, and the report about them.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;

use crate::cargo::Call;
use crate::component::Component;
use crate::timed::Times;
use crate::{editor, server, supply, tools};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// The servers and the client for the tests, installed if need be; always before `test`
    Server,
    /// The formatting of all packages
    Fmt,
    /// Licences, sources and versions of what dlock brings along, without `cargo deny`
    Supply,
    /// clippy on all targets, and on the crates without Redis
    Lint,
    /// Unit tests and tests against real servers, and what needs none without Redis
    Test,
    /// The examples in the documentation
    DocTest,
    /// The documentation itself, without warnings
    Doc,
    /// What rust-analyzer finds of the names in a key; left out where it is not to be had
    Editor,
}

impl Step {
    pub(crate) const ALL: [Self; 8] = [
        Self::Server,
        Self::Fmt,
        Self::Supply,
        Self::Lint,
        Self::Test,
        Self::DocTest,
        Self::Doc,
        Self::Editor,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Fmt => "fmt",
            Self::Supply => "supply",
            Self::Lint => "lint",
            Self::Test => "test",
            Self::DocTest => "doc-test",
            Self::Doc => "doc",
            Self::Editor => "editor",
        }
    }

    /// The check that finds most mistakes of style.
    pub(crate) const fn clippy() -> Call {
        Call::new("clippy --workspace --all-targets --all-features --locked -- -D warnings")
    }

    pub(crate) fn calls(self) -> Vec<Call> {
        match self {
            Self::Server | Self::Supply | Self::Editor => Vec::new(),
            Self::Fmt => vec![
                Call::new("fmt --all --check"),
                // A workspace of its own, which is built by `cargo xtask fuzz` alone.
                Call::new("fmt --manifest-path fuzz/Cargo.toml --check"),
            ],
            Self::Lint => vec![
                Self::clippy(),
                Call::new(
                    "clippy --package dlock-rs --package dlock-runtime --no-default-features \
                     --all-targets --locked -- -D warnings",
                ),
                // Without TLS: its stand-in.
                Call::new(
                    "clippy --package dlock-rs --package dlock-runtime --no-default-features \
                     --features redis --lib --locked -- -D warnings",
                ),
                // The parts that are only there for a server.
                Call::new(
                    "clippy --package dlock-rs --package dlock-runtime --no-default-features \
                     --features metrics,axum,actix,registry --lib --locked -- -D warnings",
                ),
            ],
            Self::Test => vec![
                // Tests start examples as programs. Once targets are chosen, as below, cargo
                // does not build them by itself any more.
                Call::new("build --workspace --examples --all-features --locked"),
                Call::new(
                    "test --workspace --lib --bins --tests --all-features --locked --no-fail-fast",
                )
                .with(test_threads()),
                // That it compiles without Redis does not show that it works. Both packages in
                // one call: cargo then builds what they share once.
                Call::new(
                    "test --package dlock-runtime --package dlock-tests --no-default-features \
                     --lib --test in_process --locked",
                ),
            ],
            Self::DocTest => {
                vec![Call::new("test --workspace --doc --all-features --locked")]
            }
            Self::Doc => vec![
                Call::new("doc --workspace --no-deps --all-features --locked")
                    .with(Some(("RUSTDOCFLAGS", "-Dwarnings"))),
            ],
        }
    }

    /// The component that does not come with every toolchain.
    pub(crate) fn component(self) -> Option<Component> {
        match self {
            Self::Fmt => Some(Component {
                name: "rustfmt",
                command: &["cargo", "fmt"],
            }),
            Self::Lint => Some(Component {
                name: "clippy",
                command: &["cargo", "clippy"],
            }),
            Self::Editor => Some(Component {
                name: "rust-analyzer",
                command: &["rust-analyzer"],
            }),
            Self::Server | Self::Supply | Self::Test | Self::DocTest | Self::Doc => None,
        }
    }

    fn run(self, times: Option<&Times>) -> Result<Done, String> {
        match self.component().map_or(Ok(()), Component::provide) {
            // No part of what is checked depends on it, and not every toolchain comes with one.
            Err(reason) if self == Self::Editor => return Ok(Done::LeftOut(reason)),
            provided => provided?,
        }
        match self {
            Self::Server => {
                server::provide()?;
                tools::provide()?;
            }
            Self::Supply => supply::check()?,
            Self::Editor => editor::check()?,
            _ => {}
        }
        let variables = times.filter(|_| self == Self::Test).map(Times::variables);
        let variables = variables.unwrap_or_default();
        for call in self.calls() {
            if !call.run_under(&variables) {
                return Err(format!("this failed: {}", call.line()));
            }
        }
        Ok(Done::Checked)
    }
}

enum Done {
    Checked,
    /// The reason why nothing was checked.
    LeftOut(String),
}

/// The end of a step, and its time.
struct Report {
    step: Step,
    took: Duration,
    outcome: Result<Done, String>,
}

/// Runs the steps and returns whether all succeeded.
pub(crate) fn run(steps: &[Step], keep_going: bool) -> bool {
    let steps = with_server(steps);
    let mut reports = Vec::new();
    let times = steps.contains(&Step::Test).then(Times::start).flatten();
    for &step in &steps {
        println!("\n==> {}", step.name());
        let start = Instant::now();
        let outcome = step.run(times.as_ref());
        let took = start.elapsed();
        match &outcome {
            Ok(Done::Checked) => println!("<== {} ok, {}", step.name(), seconds(took)),
            Ok(Done::LeftOut(reason)) => eprintln!("<== {} LEFT OUT: {reason}", step.name()),
            Err(reason) => eprintln!("<== {} FAILED, {}: {reason}", step.name(), seconds(took)),
        }
        let stop = outcome.is_err() && !keep_going;
        reports.push(Report {
            step,
            took,
            outcome,
        });
        if stop {
            break;
        }
    }
    print!("\n{}", table(&steps, &reports));
    let slowest = times.map(|it| it.slowest()).unwrap_or_default();
    if !slowest.is_empty() {
        print!("\nthe slowest tests:\n{slowest}");
    }
    for report in reports.iter().filter(|report| report.outcome.is_err()) {
        eprintln!("to repeat it: cargo xtask test {}", report.step.name());
    }
    reports.iter().all(|report| report.outcome.is_ok())
}

/// Puts the server before everything else where it is needed: that it is missing should not
/// come out after minutes of compiling.
fn with_server(steps: &[Step]) -> Vec<Step> {
    let mut steps = steps.to_vec();
    if steps.contains(&Step::Test) && !steps.contains(&Step::Server) {
        steps.insert(0, Step::Server);
    }
    steps
}

fn table(steps: &[Step], reports: &[Report]) -> String {
    let line = |(index, step): (usize, &Step)| {
        let (state, took) = match reports.get(index) {
            Some(Report {
                outcome: Ok(Done::Checked),
                took,
                ..
            }) => ("ok", seconds(*took)),
            Some(Report {
                outcome: Ok(Done::LeftOut(_)),
                ..
            }) => ("left out", String::new()),
            Some(Report {
                outcome: Err(_),
                took,
                ..
            }) => ("FAILED", seconds(*took)),
            None => ("not run", String::new()),
        };
        format!("{:<10}{state:<10}{took:>9}", step.name())
            .trim_end()
            .to_owned()
            + "\n"
    };
    steps.iter().enumerate().map(line).collect()
}

/// Most tests wait for servers, so a machine of few processors can run more of them at once than it
/// has processors.
fn test_threads() -> Option<(&'static str, &'static str)> {
    const VARIABLE: &str = "RUST_TEST_THREADS";
    let is_small = thread::available_parallelism().is_ok_and(|processors| processors.get() < 6);
    (is_small && env::var_os(VARIABLE).is_none()).then_some((VARIABLE, "6"))
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for step in Step::ALL {
            assert_eq!(Step::from_str(step.name(), false), Ok(step));
        }
        assert_eq!(Step::value_variants(), Step::ALL);
    }

    #[test]
    fn tests_bring_their_server() {
        assert_eq!(
            with_server(&[Step::Fmt, Step::Test]),
            [Step::Server, Step::Fmt, Step::Test]
        );
        assert_eq!(with_server(&[Step::Doc]), [Step::Doc]);
        assert_eq!(with_server(&Step::ALL), Step::ALL);
    }

    #[test]
    fn a_line_can_be_pasted_into_a_shell() {
        let line = Step::Doc.calls()[0].line();
        assert!(
            line.starts_with("RUSTDOCFLAGS='-Dwarnings' cargo doc --workspace "),
            "{line}"
        );
    }

    #[test]
    fn the_table_shows_what_was_not_run() {
        let reports = [
            Report {
                step: Step::Fmt,
                took: Duration::from_millis(1250),
                outcome: Ok(Done::Checked),
            },
            Report {
                step: Step::Lint,
                took: Duration::from_secs(10),
                outcome: Err("x".into()),
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
