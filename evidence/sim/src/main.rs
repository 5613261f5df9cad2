//! The simulation as a program: one seed with all its events, or many.

use std::process::ExitCode;

use clap::Parser;
use dlock_sim::{Counts, Flaw, Report, run, run_many};

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

/// After so many that have found something it ends.
const MOST: usize = 20;

/// So many are told of at once.
const AT_ONCE: u64 = 1_000;

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        let report = run(seed, options.flaw, true);
        print!("{}", report.log);
        println!("{}", report.counts);
        tell(&report, options.flaw);
        return exit_code(report.findings.is_empty());
    }
    let (mut all, mut failed) = (Counts::default(), 0);
    let (mut from, end) = (options.from, options.from.saturating_add(options.seeds));
    while from < end && failed < MOST {
        let to = end.min(from.saturating_add(AT_ONCE));
        let (counts, reports) = run_many(from..to, options.flaw, MOST);
        all += counts;
        failed += reports.len();
        for report in &reports {
            tell(report, options.flaw);
        }
        println!("{} runs, of which {failed} have found something", all.runs);
        from = to;
    }
    println!("{all}");
    exit_code(failed == 0)
}

fn tell(report: &Report, flaw: Flaw) {
    let seed = report.seed;
    // A world with a flaw is meant to break its promises.
    let kind = match flaw {
        Flaw::None => "broken promise: ",
        _ => "",
    };
    for finding in &report.findings {
        println!("{kind}seed {seed}: {finding}");
    }
    if !report.findings.is_empty() {
        println!("seed {seed}: again by `cargo xtask sim --seed {seed}`");
    }
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
