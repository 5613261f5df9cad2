//! Locks in etcd beside the same by hand: a cycle, a hand-off between processes, and the lock of etcd itself.
//!
//! All ways take turns in short rounds on the same server. A ratio is that of one round, and the median of all rounds
//! counts: so a slow phase of the machine affects both sides of it.

mod api;
mod cycle;
mod turns;

use std::fs;
use std::path::PathBuf;

use dlock::LockManager;
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdOptions, EtcdServer};
use serde_json::json;
use tokio::runtime::Builder;

use crate::Failure;
use crate::pin::{Layout, Processors};
use crate::postgres::PATIENCE;
use crate::postgres::hand_off::{Pair, QUICK};
use crate::postgres::report::Report;

/// How locks in etcd are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds each way is measured
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How many cycles a round has
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    sections: u32,

    /// How many turns each of two processes has in a round
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    turns: u32,

    /// A file for all that was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A process that takes turns: its way, the URL and its number
    #[arg(long, hide = true, num_args = 3)]
    child: Option<Vec<String>>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    if let Some([way, url, number]) = options.child.as_deref() {
        return runtime.block_on(turns::run(way, url, number.parse()?));
    }
    let layout = Layout::of_machine();
    println!("{layout}");
    let (quick, durable) = {
        let _here = layout.enter_servers(0)?;
        runtime.block_on(async {
            let durable = EtcdOptions::new().durable();
            (
                EtcdServer::start().await,
                EtcdServer::start_with(durable).await,
            )
        })
    };
    layout
        .clients()
        .into_iter()
        .try_for_each(Processors::enter)?;
    let report = runtime.block_on(measure(options, &quick, &durable))?;
    println!("\n{report}\n{layout}");
    if let Some(path) = &options.json {
        let all = json!({ "processors": layout.to_string(), "report": report });
        fs::write(path, format!("{all:#}\n"))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    report.kept()
}

async fn measure(
    options: &Options,
    quick: &EtcdServer,
    durable: &EtcdServer,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    println!("cycles, without and with fsync");
    cycle::measure(options, &quick.url(), "without fsync", &mut report).await?;
    cycle::measure(options, &durable.url(), "with fsync", &mut report).await?;
    println!("hand-offs");
    hand_offs(options, &quick.url(), &mut report).await?;
    Ok(report)
}

/// Measures from the release in one process until the body begins in another one that waits.
async fn hand_offs(options: &Options, url: &str, report: &mut Report) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let mut pairs = Vec::new();
    for way in [turns::DLOCK, turns::WATCH, turns::LOCK] {
        let words = ["etcd", "--child", way, url];
        pairs.push(Pair::start(&own, &words, options.turns, QUICK).await?);
    }
    for round in 0..=options.rounds {
        for pair in &mut pairs {
            let times = pair.round().await?;
            // The first round fills caches.
            if round > 0 {
                pair.rounds.add(times);
            }
        }
    }
    let rounds: Vec<_> = pairs.iter().map(|it| &it.rounds).collect();
    report.time("hand-off by dlock", rounds[0]);
    report.time("write until the event of a watch is there", rounds[1]);
    report.time("hand-off by etcd's own lock", rounds[2]);
    report.ratio(
        "hand-off / event of a watch",
        rounds[0].ratio(rounds[1]),
        Some(1.3),
    );
    report.ratio(
        "hand-off / by etcd's own lock",
        rounds[0].ratio(rounds[2]),
        None,
    );
    Ok(())
}

async fn manager(url: &str) -> Result<LockManager, Failure> {
    let builder = LockManager::builder().scheme("etcd", Etcd);
    Ok(builder.connect(url).await?)
}
