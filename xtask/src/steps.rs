//! The steps of `cargo xtask test`: what each of them calls and needs.

use std::{env, thread};

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
    /// clippy on all targets
    Lint,
    /// Unit tests and tests against real servers; with `--all`, also those without Redis
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
    /// Lints of parts of the features
    Features,
}

/// That it compiles without Redis does not show that it works.
const WITHOUT_REDIS: Call = Call::new(
    "test --package dlock-in-process --no-default-features --test in_process --locked --no-fail-fast",
);

/// The packages whose tests a usual run leaves out: model, simulation and chaos, the shapes and mistakes of functions,
/// everything dropped at every await, the list of mistakes, the contract of stores with every make and layout of servers, the stores over etcd and
/// ZooKeeper but for their options and the command, a million keys, the benchmarks, and the larger examples.
pub(crate) const SELDOM: [&str; 19] = [
    "custom-store",
    "dlock-bench",
    "dlock-cancellation",
    "dlock-chaos",
    "dlock-etcd",
    "dlock-macro-shapes",
    "dlock-makes",
    "dlock-many-keys",
    "dlock-model",
    "dlock-mutants",
    "dlock-sim",
    "dlock-ui",
    "dlock-zookeeper",
    "fencing",
    "ledger",
    "prometheus",
    "shop",
    "stock",
    "tutorial",
];

/// A call for all other packages. They are built by one choice of packages, or features of dependencies would differ.
macro_rules! usual {
    ($verb:literal, $targets:literal) => {
        Call::new(concat!(
            $verb,
            " --workspace --exclude custom-store --exclude dlock-bench --exclude dlock-cancellation --exclude dlock-chaos \
             --exclude dlock-etcd --exclude dlock-macro-shapes --exclude dlock-makes --exclude dlock-many-keys \
             --exclude dlock-model --exclude dlock-mutants --exclude dlock-sim --exclude dlock-ui --exclude dlock-zookeeper \
             --exclude fencing --exclude ledger --exclude prometheus --exclude shop --exclude stock --exclude tutorial --all-features --locked ",
            $targets
        ))
    };
}

/// A call for all packages but the model, whose library asks for features of others: with it, most would be compiled once more.
macro_rules! whole {
    ($verb:literal, $targets:literal) => {
        Call::new(concat!(
            $verb,
            " --workspace --exclude dlock-model --all-features --locked ",
            $targets
        ))
    };
}

impl Step {
    pub(crate) const ALL: [Self; 14] = [
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
        Self::Features,
    ];

    /// The steps of a run that somebody waits for. The others take long, and seldom find what these do not.
    pub(crate) fn usual() -> Vec<Self> {
        let is_usual = |it: &Self| {
            !matches!(
                it,
                Self::Lint | Self::Doc | Self::Api | Self::Package | Self::Editor | Self::Features
            )
        };
        Self::ALL.into_iter().filter(is_usual).collect()
    }

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
            Self::Features => "features",
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
            "doc --package dlock-rs --package dlock-admin --package dlock-admin-web --package dlock-cli --package dlock-conformance \
             --package dlock-etcd --package dlock-macros --package dlock-net \
             --package dlock-postgres --package dlock-runtime --package dlock-zookeeper --no-deps --all-features --locked",
        )
    }

    /// The calls of [`Step::Test`] whose test executables run side by side, once all of them are built. The libraries and
    /// programs that have tests are among the targets of `--tests`.
    pub(crate) fn tests(all: bool) -> Vec<Call> {
        const MODEL: Call = Call::new("test --package dlock-model --tests --locked --no-fail-fast");
        let calls = if all {
            let whole = whole!("test", "--tests --no-fail-fast");
            vec![whole, MODEL, WITHOUT_REDIS]
        } else {
            vec![usual!("test", "--tests --no-fail-fast")]
        };
        calls
            .into_iter()
            .map(|it| it.with(test_threads()))
            .collect()
    }

    /// The other calls of cargo, one after the other.
    pub(crate) fn calls(self, all: bool) -> Vec<Call> {
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
            Self::Lint => vec![Self::clippy()],
            // Tests start examples as programs. Once targets are chosen, cargo does not build them by itself any more.
            Self::Test if all => vec![whole!("build", "--examples")],
            Self::Test => vec![usual!("build", "--examples")],
            // What no build of all features shows.
            Self::Features => vec![
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
                // As stores other than Redis use them.
                Call::new(
                    "clippy --package dlock-admin --package dlock-admin-web --no-default-features \
                     --lib --locked -- -D warnings",
                ),
            ],
            // A program of its own, so that its output can go to a file.
            Self::Package => vec![Call::new("run --quiet --package xtask --locked -- package")],
            Self::DocTest if all => vec![whole!("test", "--doc")],
            Self::DocTest => vec![usual!("test", "--doc")],
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
            Self::Lint | Self::Features => Some(Component {
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
    (is_small && env::var_os(VARIABLE).is_none()).then_some((VARIABLE, "6"))
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
    fn a_usual_run_leaves_out_what_it_says() {
        for call in [
            &Step::tests(false)[0],
            &Step::Test.calls(false)[0],
            &Step::DocTest.calls(false)[0],
        ] {
            let words: Vec<_> = call.words().collect();
            let pairs = words.windows(2).filter(|it| it[0] == "--exclude");
            let left_out: Vec<_> = pairs.map(|it| it[1]).collect();
            assert_eq!(left_out, SELDOM);
        }
    }

    #[test]
    fn a_line_can_be_pasted_into_a_shell() {
        let line = Step::Doc.calls(false)[0].line();
        assert!(
            line.starts_with("RUSTDOCFLAGS='-Dwarnings' cargo doc --package "),
            "{line}"
        );
    }
}
