//! Locks in an ensemble of ZooKeeper beside the same by hand: a cycle, a hand-off between processes, and a crowd that waits.

mod cycle;
mod quiet;
mod recipe;
mod requests;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use dlock::LockManager;
use dlock_testkit::ZooKeepers;
use dlock_zookeeper::ZooKeeper;
use tokio::runtime::Builder;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::pair::{Pair, report_turns, take_turns};
use crate::apart::report::Report;
use crate::apart::{self, PATIENCE};

/// That of dlock where the URL does not say otherwise.
const SESSION: Duration = Duration::from_secs(40);

/// How locks in ZooKeeper are measured.
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

    /// How many sessions wait behind one holder
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    waiters: u32,

    /// For how long their requests are counted, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    waits: u32,

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
    let json = options.json.as_deref();
    let start = async { (ZooKeepers::start().await, ZooKeepers::start_durable().await) };
    apart::run(&runtime, json, start, async |(quick, durable)| {
        measure(options, quick, durable).await
    })
}

async fn measure(
    options: &Options,
    servers: &ZooKeepers,
    durable: &ZooKeepers,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    let url = servers.url(SESSION);
    println!("cycles, without and with fsync");
    cycle::measure(options, &at(&url, 0)?, Disk::Ignored, &mut report).await?;
    let forced = durable.url(SESSION);
    cycle::measure(options, &at(&forced, 0)?, Disk::Awaited, &mut report).await?;
    println!("hand-offs, without and with fsync");
    hand_offs(options, &url, Disk::Ignored, &mut report).await?;
    hand_offs(options, &forced, Disk::Awaited, &mut report).await?;
    println!("{} sessions wait for {} s", options.waiters, options.waits);
    quiet::measure(options, servers, &mut report).await?;
    Ok(report)
}

/// Measures from the release in one process until the body begins in another one that waits.
async fn hand_offs(
    options: &Options,
    url: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    turns::prepare(url).await?;
    let own = std::env::current_exe()?;
    let mut pairs = Vec::new();
    for way in [turns::DLOCK, turns::WATCH, turns::RECIPE] {
        let words = ["zookeeper", "--child", way, url];
        pairs.push(Pair::start(&own, &words, options.turns, disk).await?);
    }
    take_turns(&mut pairs, options.rounds).await?;
    report_turns(&pairs, "the recipe", disk, report)
}

async fn manager(url: &str) -> Result<LockManager, Failure> {
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    Ok(builder.connect(url).await?)
}

/// The URL for one of the servers: all ways use the same, as the leader answers writes sooner than the others.
fn at(url: &str, server: usize) -> Result<String, Failure> {
    let hosts = hosts(url).split(',').nth(server);
    let host = hosts.ok_or("the URL does not name so many servers")?;
    Ok(ZooKeepers::url_of(host, SESSION))
}

fn hosts(url: &str) -> &str {
    let hosts = url.trim_start_matches("zookeeper://").split('?');
    hosts.into_iter().next().unwrap_or_default()
}

/// A session as programs have it, served by the runtime of the caller, at the servers of a URL of dlock.
async fn connect(url: &str) -> Result<Client, Failure> {
    let connector = Client::connector().with_session_timeout(SESSION);
    Ok(connector.connect(hosts(url)).await?)
}

fn node(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}
