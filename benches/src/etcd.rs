//! Locks in etcd beside the same by hand: a cycle, a hand-off between processes, and the lock of etcd itself; and the requests of
//! many waiters.

mod api;
mod cycle;
mod quiet;
mod turns;

use std::path::PathBuf;

use dlock::LockManager;
use dlock_etcd::Etcd;
use dlock_testkit::{EtcdOptions, EtcdServer};
use tokio::runtime::Builder;

use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::pair::{Pair, report_turns, take_turns};
use crate::apart::report::Report;
use crate::apart::{self, PATIENCE};

/// How locks in etcd are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds each way is measured; medians count
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How many cycles a round has
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    sections: u32,

    /// How many turns each of two processes has in a round
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    turns: u32,

    /// How many tasks of one process wait behind one holder
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    waiters: u32,

    /// For how long their requests are counted, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    waits: u32,

    /// A program that takes turns by the mutex of another client, such as that of `benches/peers/mutex`
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<PathBuf>,

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
    let start = async {
        let durable = EtcdOptions::new().durable();
        (
            EtcdServer::start().await,
            EtcdServer::start_with(durable).await,
        )
    };
    let json = options.json.as_deref();
    apart::run(&runtime, json, start, async |(quick, durable)| {
        measure(options, quick, durable).await
    })
}

async fn measure(
    options: &Options,
    quick: &EtcdServer,
    durable: &EtcdServer,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    println!("cycles, without and with fsync");
    cycle::measure(options, &quick.url(), Disk::Ignored, &mut report).await?;
    cycle::measure(options, &durable.url(), Disk::Awaited, &mut report).await?;
    println!("hand-offs, without and with fsync");
    hand_offs(options, &quick.url(), Disk::Ignored, &mut report).await?;
    hand_offs(options, &durable.url(), Disk::Awaited, &mut report).await?;
    println!("{} tasks wait for {} s", options.waiters, options.waits);
    quiet::measure(options, quick, &mut report).await?;
    Ok(report)
}

/// Measures from the release in one process until the body begins in another one that waits.
async fn hand_offs(
    options: &Options,
    url: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let mut pairs = Vec::new();
    for way in [turns::DLOCK, turns::WATCH, turns::LOCK] {
        let words = ["etcd", "--child", way, url];
        pairs.push(Pair::start(&own, &words, options.turns, disk).await?);
    }
    if let Some(peer) = &options.peer {
        let address = url.strip_prefix("etcd://").unwrap_or(url);
        pairs.push(Pair::start(peer, &[address], options.turns, disk).await?);
    }
    take_turns(&mut pairs, options.rounds).await?;
    report_turns(&pairs[..3], "etcd's own lock", disk, report)?;
    if let Some(peer) = pairs.get(3) {
        let (name, dlock) = ("the mutex of the client for Go", &pairs[0].rounds);
        report.time(format!("hand-off by {name}, {disk}"), &peer.rounds);
        let ratio = dlock.ratio(&peer.rounds);
        report.ratio(format!("hand-off / by {name}, {disk}"), ratio, None);
    }
    Ok(())
}

async fn manager(url: &str) -> Result<LockManager, Failure> {
    let builder = LockManager::builder().scheme("etcd", Etcd);
    Ok(builder.connect(url).await?)
}
