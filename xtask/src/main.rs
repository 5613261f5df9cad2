//! The commands of this repository, as `cargo xtask …`: what a developer and CI run.

mod cargo;
mod component;
mod cost;
mod editor;
mod machine;
mod server;
mod steps;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Checks everything: format, lints, tests, documentation
    ///
    /// The tests start real servers. If no `redis-server` or `valkey-server` is in the PATH,
    /// it is installed on Debian and Ubuntu (as root or with a password-free sudo); elsewhere
    /// you are told what to install. So are rustfmt, clippy and rust-analyzer, by rustup.
    #[command(after_long_help = "\
Environment:
  DLOCK_REDIS_SERVER  the server binary for the tests, instead of the one in the PATH
  DLOCK_NO_INSTALL    if set, nothing is installed

Examples:
  cargo xtask test               everything, up to the first failure
  cargo xtask test lint test     two steps, in this order
  cargo xtask test --keep-going  everything, and all failures at the end")]
    Test {
        /// Go on after a failure and report all of them at the end
        #[arg(long)]
        keep_going: bool,

        /// The steps to run [default: all of them, in the order shown]
        #[arg(value_name = "STEP")]
        steps: Vec<Step>,
    },

    /// Measures what the attribute adds to compile times and programs
    ///
    /// Writes a program of 200 locked functions with the attribute, by hand and without a lock
    /// into target/cost, and builds them in turn. Only the programs themselves are timed.
    Cost {
        /// How many times each program is built; the median counts
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
}

fn main() -> ExitCode {
    let succeeded = match Arguments::parse().command {
        Command::Test { keep_going, steps } if steps.is_empty() => {
            steps::run(&Step::ALL, keep_going)
        }
        Command::Test { keep_going, steps } => steps::run(&steps, keep_going),
        Command::Cost { runs } => cost::run(runs).map_or_else(
            |reason| {
                eprintln!("error: {reason}");
                false
            },
            |()| true,
        ),
    };
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
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
        let Some(Command::Test { steps, keep_going }) = arguments.map(|it| it.command).ok() else {
            panic!("that is the command `test`");
        };
        assert_eq!(steps, [Step::Doc, Step::Fmt]);
        assert!(!keep_going);
    }
}
