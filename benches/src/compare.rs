//! All workloads with all peers, on a server of their own, and the aims beside what came out.
//!
//! Servers and measured processes are on processors of their own, where the machine allows it.
//! Repetitions come outermost and peers of a workload right after each other, so that a busy
//! minute of the machine meets all of them.

mod aims;
mod journal;
mod process;
mod results;
mod runner;
mod wire;
mod workload;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::Failure;
use crate::arguments::seconds;
use crate::pin::Layout;
use results::Results;
use runner::Runner;
pub(crate) use runner::start_server;
use workload::Workload;

pub(crate) use process::Process;

#[derive(Args)]
pub(crate) struct Options {
    /// The workloads to run, such as W1,W3 [default: all]
    #[arg(long, value_delimiter = ',', ignore_case = true)]
    only: Vec<Workload>,

    /// How long each run measures
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,

    /// How often everything is run; medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    reps: u32,

    /// A file for all that was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const LEGEND: &str = "\
p50: of a section, in W4 of a hand-off between processes, for publish of a message.
p50/limit: by that of raw, publish, in W6 the scripts, or the tokio mutex. min/max: sections of a task.
worst: the longest wait, in W5 until all were through. commands: for a section, in W5 a second and process.
";

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let mut workloads = options.only.clone();
    if workloads.is_empty() {
        workloads = Workload::value_variants().to_vec();
    }
    workloads.sort_unstable();
    workloads.dedup();

    let layout = Layout::of_machine();
    println!("{layout}");
    let mut runner = Runner::new(options.seconds, layout.clone()).await?;
    let mut results = Results::default();
    for repetition in 1..=options.reps {
        for &workload in &workloads {
            for contender in workload.contenders() {
                let (workload_name, name) = (workload.name(), contender.name);
                println!("{repetition}/{}  {workload_name:<6}  {name}", options.reps);
                let measured = runner.run(workload, contender).await?;
                results.add(workload, contender, measured);
            }
        }
    }

    let aims = aims::check(&results);
    println!("\n{}\n{LEGEND}\n{layout}\n", results.table());
    println!("aims\n{}", aims::table(&aims));
    if let Some(path) = &options.json {
        let all = json!({ "processors": layout.to_string(), "results": results, "aims": aims });
        fs::write(path, format!("{all:#}\n"))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let violations = results.violations();
    if violations.is_empty() {
        return Ok(());
    }
    Err(format!(
        "broken promise: a lock was held by two at once ({})",
        violations.join("; ")
    )
    .into())
}
