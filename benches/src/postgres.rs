//! Locks in PostgreSQL beside the same by hand: a cycle, a hand-off between processes, `fence`, a hot key beside a
//! snapshot, and many locks held.

mod by_hand;
mod cycle;
mod fenced;
mod hand_off;
mod held;
mod queued;
mod snapshot;
mod turns;

use std::path::PathBuf;

use dlock::LockManager;
use dlock_postgres::{Postgres, Schema};
use dlock_testkit::{PostgresOptions, PostgresServer};
use tokio::runtime::Builder;
use tokio_postgres::{Client, NoTls};

use crate::Failure;
use crate::apart::disk::Disk;
use crate::apart::report::Report;
use crate::apart::{self, PATIENCE};

/// How locks in PostgreSQL are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds each way is measured; medians count
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How many cycles or transactions a round has
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    sections: u32,

    /// How many turns each of two processes has in a round
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    turns: u32,

    /// How many locks are held at once
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    locks: u32,

    /// The TTL of those, in seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    ttl: u64,

    /// How long they are held, in seconds
    #[arg(long, default_value_t = 15)]
    held: u64,

    /// How many grants there are beside an open snapshot
    #[arg(long, default_value_t = 8000, value_parser = clap::value_parser!(u32).range(1..))]
    grants: u32,

    /// A program that takes turns by another library
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
    let start = async { (start("off").await, start("on").await) };
    let json = options.json.as_deref();
    apart::run(&runtime, json, start, async |(quick, durable)| {
        measure(options, quick, durable).await
    })
}

async fn start(fsync: &str) -> PostgresServer {
    PostgresServer::start_with(PostgresOptions::new().set("fsync", fsync)).await
}

async fn measure(
    options: &Options,
    quick: &PostgresServer,
    durable: &PostgresServer,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    let url = prepare(quick).await?;
    println!("cycles, without and with fsync");
    cycle::measure(options, &url, Disk::Ignored, &mut report).await?;
    let durable = prepare(durable).await?;
    cycle::measure(options, &durable, Disk::Awaited, &mut report).await?;
    println!("transactions");
    fenced::measure(options, &url, &mut report).await?;
    println!("hand-offs, without and with fsync");
    hand_off::measure(options, &url, Disk::Ignored, &mut report).await?;
    hand_off::measure(options, &durable, Disk::Awaited, &mut report).await?;
    println!("{} grants beside an open snapshot", options.grants);
    snapshot::measure(options, &prepare(quick).await?, &mut report).await?;
    println!("{} locks, held for {} s", options.locks, options.held);
    held::measure(options, &prepare(quick).await?, &mut report).await?;
    Ok(report)
}

/// Makes a database with the tables of dlock and those by hand, and returns its URL.
async fn prepare(server: &PostgresServer) -> Result<String, Failure> {
    let name = server.database().await;
    let client = server.client(&name).await;
    let migration = Schema::new("dlock")?.migration(None)?;
    client.batch_execute(&migration).await?;
    client.batch_execute(by_hand::TABLES).await?;
    Ok(server.url_of("postgres", &name))
}

async fn manager(url: &str) -> Result<LockManager, Failure> {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    Ok(builder.connect(url).await?)
}

/// A connection as programs have it, served by the runtime of the caller.
async fn connect(url: &str) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
