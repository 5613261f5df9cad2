//! `dlock-model`: checks the protocols, and shows what was found in a table.

use std::{process::ExitCode, thread::available_parallelism};

use clap::Parser;
use dlock_model::{
    check::{Effort, run_all},
    checks,
};

/// Checks the protocols of dlock, and of others, state by state.
#[derive(Parser)]
struct Arguments {
    /// Larger bounds: more clients, more rounds, more faults
    #[arg(long)]
    large: bool,

    /// Show the steps that lead to what was found
    #[arg(long)]
    steps: bool,

    /// Only what has this in its name
    filter: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = available_parallelism().map_or(1, usize::from);
    let effort = Effort {
        threads,
        shows_progress: arguments.large,
    };
    let filter = arguments.filter.unwrap_or_default();
    let mut checks = checks(arguments.large);
    checks.retain(|check| format!("{}: {}", check.protocol, check.claim).contains(&filter));
    let faults = run_all(&checks, effort, arguments.steps);
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
