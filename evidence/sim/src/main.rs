//! The simulation as a program: one seed with all its events, or many.

use std::process::ExitCode;

use clap::Parser;
use dlock_sim::{Flaw, run, run_many};

/// Runs dlock in simulated worlds that fail by a seed.
#[derive(Parser)]
struct Options {
    /// Replays one run, and shows it event by event
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,

    /// How many runs, each with a seed of its own
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,

    /// The first of these seeds
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// What is wrong with the world itself, to see it found
    #[arg(long, value_enum, default_value_t)]
    flaw: Flaw,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let reports = if let Some(seed) = options.seed {
        let report = run(seed, options.flaw, true);
        print!("{}", report.log);
        println!("{}", report.counts);
        vec![report]
    } else {
        let seeds = options.from..options.from.saturating_add(options.seeds);
        let (counts, reports) = run_many(seeds, options.flaw, 20);
        println!("{counts}");
        reports
    };
    let mut is_well = true;
    for report in reports {
        for finding in &report.findings {
            is_well = false;
            println!("seed {}: {finding}", report.seed);
        }
        if !report.findings.is_empty() {
            let seed = report.seed;
            println!("seed {seed}: again by `cargo xtask sim --seed {seed}`");
        }
    }
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
