//! The page of `dlock serve`: the time until it shows many locks, what it costs locks beside it, and its memory.
//!
//! The program is the one that operators start, in a process of its own. Browsers are connections that read the events of the
//! list.

mod browser;
mod cycle;
mod first;
mod memory;
mod program;

use std::path::PathBuf;
use std::time::Duration;

use dlock::{LockGuard, LockManager};
use dlock_testkit::RedisServer;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Builder;

use crate::Failure;
use crate::apart::report::Report;
use crate::apart::rounds::Quartiles;
use crate::apart::{self, PATIENCE};

/// So many requests are under way at once.
const AT_ONCE: usize = 256;

/// Longer than the measurement, so that renewals do not disturb it.
const TTL: Duration = Duration::from_secs(3600);

/// How the page is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many rounds are measured with a page and without; medians count
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// How long the cycles of a round are measured, in seconds; the page reads the locks every other second
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// How many locks the first picture has
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    some: u32,

    /// With how many locks memory is measured, of which three pictures are read
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    many: u32,

    /// How many browsers are open meanwhile
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    browsers: u32,

    /// The program `dlock`
    #[arg(long, value_name = "FILE")]
    program: PathBuf,

    /// A file for all that was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let json = options.json.as_deref();
    apart::run(&runtime, json, RedisServer::start(), async |server| {
        measure(options, server).await
    })
}

async fn measure(options: &Options, server: &RedisServer) -> Result<Report, Failure> {
    let mut report = Report::default();
    let url = server.url();
    let manager = LockManager::builder().ttl(TTL).connect(&url).await?;
    let mut held = hold(&manager, 0..options.some).await?;
    println!("first pictures of {} locks", options.some);
    first::measure(options, &url, &mut report).await?;
    println!("cycles beside an open page");
    cycle::measure(options, &url, &manager, &mut report).await?;
    held.extend(hold(&manager, options.some..options.many).await?);
    println!("memory with {} locks", held.len());
    memory::measure(options, &url, held.len(), &mut report).await?;
    let released = stream::iter(held)
        .map(LockGuard::release)
        .buffer_unordered(AT_ONCE);
    released.try_collect::<Vec<_>>().await?;
    manager.shutdown(PATIENCE).await;
    Ok(report)
}

/// Acquires locks with these numbers.
async fn hold(
    manager: &LockManager,
    numbers: std::ops::Range<u32>,
) -> Result<Vec<LockGuard>, Failure> {
    let held = stream::iter(numbers)
        .map(|number| manager.lock(format!("order:{number}")).acquire())
        .buffer_unordered(AT_ONCE)
        .try_collect();
    Ok(held.await?)
}

fn one(number: f64) -> Quartiles {
    Quartiles::of(vec![number])
}
