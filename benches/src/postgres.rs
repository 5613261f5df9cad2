//! Locks in PostgreSQL beside the same by hand: a cycle, a hand-off between processes, `fence`, and many locks held.
//!
//! All ways take turns in short rounds on the same server. A ratio is that of one round, and the median of all rounds
//! counts: so a slow phase of the machine affects both sides of it.

mod by_hand;
mod cycle;
mod fenced;
pub(crate) mod hand_off;
mod held;
mod queued;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod turns;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use dlock::LockManager;
use dlock_postgres::{Postgres, Schema};
use dlock_testkit::{PostgresOptions, PostgresServer};
use serde_json::json;
use tokio::runtime::Builder;
use tokio_postgres::{Client, NoTls};

use crate::Failure;
use crate::pin::{Layout, Processors};
use report::Report;

/// Much longer than any step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How locks in PostgreSQL are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds each way is measured
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
    let layout = Layout::of_machine();
    println!("{layout}");
    let (quick, durable) = {
        let _here = layout.enter_servers(0)?;
        runtime.block_on(async { (start("off").await, start("on").await) })
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
    cycle::measure(options, &url, "without fsync", &mut report).await?;
    let durable = prepare(durable).await?;
    cycle::measure(options, &durable, "with fsync", &mut report).await?;
    println!("transactions");
    fenced::measure(options, &url, &mut report).await?;
    println!("hand-offs");
    hand_off::measure(options, &url, &mut report).await?;
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
