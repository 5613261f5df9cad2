//! The steps of `cargo xtask test`: what each of them calls and needs.

use std::{env, iter, thread};

use clap::ValueEnum;

use crate::cargo::Call;
use crate::component::Component;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// The servers and the client for the tests, installed if need be; always before `test`
    Server,
    /// ZooKeeper and its Java, in the same way
    #[value(name = "zookeeper")]
    ZooKeeper,
    /// The formatting of all packages
    Fmt,
    /// Licences, sources and versions of what dlock brings along, by `cargo deny`; left out where that is not to be had
    Supply,
    /// The words of documents, documentation, errors and output
    Words,
    /// clippy on all targets, and on the crates without Redis
    Lint,
    /// Unit tests and tests against real servers, and what needs none without Redis
    Test,
    /// The examples in the documentation
    DocTest,
    /// The documentation of the published packages, without warnings
    Doc,
    /// The book, built by mdBook; left out where that is not to be had
    Book,
    /// The public API, against docs/api; left out where rustdoc writes another format of JSON
    Api,
    /// The packages as they are published and the README's first program, each by itself
    Package,
    /// What rust-analyzer finds of the names in a key; left out where it is not to be had
    Editor,
}

impl Step {
    pub(crate) const ALL: [Self; 13] = [
        Self::Server,
        Self::ZooKeeper,
        Self::Fmt,
        Self::Supply,
        Self::Words,
        Self::Lint,
        Self::Test,
        Self::DocTest,
        Self::Doc,
        Self::Book,
        Self::Api,
        Self::Package,
        Self::Editor,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::ZooKeeper => "zookeeper",
            Self::Fmt => "fmt",
            Self::Supply => "supply",
            Self::Words => "words",
            Self::Lint => "lint",
            Self::Test => "test",
            Self::DocTest => "doc-test",
            Self::Doc => "doc",
            Self::Book => "book",
            Self::Api => "api",
            Self::Package => "package",
            Self::Editor => "editor",
        }
    }

    /// The check that finds most mistakes of style.
    pub(crate) const fn clippy() -> Call {
        Call::new("clippy --workspace --all-targets --all-features --locked -- -D warnings")
    }

    /// The pages of the published packages, with all features, as `cargo xtask package` also compiles them:
    /// their dependencies are compiled once for both.
    pub(crate) const fn documentation() -> Call {
        Call::new(
            "doc --package dlock-rs --package dlock-cli --package dlock-conformance --package dlock-etcd --package dlock-macros \
             --package dlock-postgres --package dlock-runtime --package dlock-zookeeper --no-deps --all-features --locked",
        )
    }

    /// The same without some of the features, which no build of all of them shows.
    pub(crate) fn lints_of_parts() -> Vec<Call> {
        vec![
            Call::new(
                "clippy --package dlock-rs --package dlock-runtime --no-default-features \
                 --lib --locked -- -D warnings",
            ),
            // Without TLS: its stand-in.
            Call::new(
                "clippy --package dlock-rs --package dlock-runtime --no-default-features \
                 --features redis --lib --locked -- -D warnings",
            ),
            // The parts that are only there for a server.
            Call::new(
                "clippy --package dlock-rs --package dlock-runtime --no-default-features \
                 --features metrics,axum,actix-web,registry --lib --locked -- -D warnings",
            ),
        ]
    }

    /// The calls whose test executables run side by side, once all of them are built.
    pub(crate) fn tests() -> Vec<Call> {
        vec![
            // That it compiles without Redis does not show that it works.
            Call::new(
                "test --package dlock-in-process --no-default-features --test in_process --locked \
                 --no-fail-fast",
            )
            .with(test_threads()),
            // The libraries and programs that have tests are among the targets of `--tests`.
            Call::new("test --workspace --tests --all-features --locked --no-fail-fast")
                .with(test_threads()),
        ]
    }

    /// The other calls of cargo, one after the other.
    pub(crate) fn calls(self) -> Vec<Call> {
        match self {
            Self::Server
            | Self::ZooKeeper
            | Self::Supply
            | Self::Words
            | Self::Book
            | Self::Api
            | Self::Editor => Vec::new(),
            Self::Fmt => vec![
                Call::new("fmt --all --check"),
                // Workspaces of their own, which are built by `cargo xtask fuzz` and `bench` alone.
                Call::new("fmt --manifest-path fuzz/Cargo.toml --check"),
                Call::new("fmt --manifest-path benches/peers/lease/Cargo.toml --check"),
            ],
            Self::Lint => iter::once(Self::clippy())
                .chain(Self::lints_of_parts())
                .collect(),
            Self::Test => vec![
                // Tests start examples as programs. Once targets are chosen, as below, cargo
                // does not build them by itself any more.
                Call::new("build --workspace --examples --all-features --locked"),
            ],
            // A program of its own, so that its output can go to a file.
            Self::Package => vec![Call::new("run --quiet --package xtask --locked -- package")],
            Self::DocTest => {
                vec![Call::new("test --workspace --doc --all-features --locked")]
            }
            Self::Doc => vec![Self::documentation().with(Some(("RUSTDOCFLAGS", "-Dwarnings")))],
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
            Self::Server
            | Self::ZooKeeper
            | Self::Supply
            | Self::Words
            | Self::Test
            | Self::DocTest
            | Self::Doc
            | Self::Book
            | Self::Api
            | Self::Package => None,
        }
    }
}

/// Most tests wait for servers, so a machine of few processors can run more of them at once than it
/// has processors: so many in each executable.
pub(crate) fn test_threads() -> Option<(&'static str, &'static str)> {
    const VARIABLE: &str = "RUST_TEST_THREADS";
    let is_small = thread::available_parallelism().is_ok_and(|processors| processors.get() < 6);
    (is_small && env::var_os(VARIABLE).is_none()).then_some((VARIABLE, "4"))
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
    fn a_line_can_be_pasted_into_a_shell() {
        let line = Step::Doc.calls()[0].line();
        assert!(
            line.starts_with("RUSTDOCFLAGS='-Dwarnings' cargo doc --package "),
            "{line}"
        );
    }
}
