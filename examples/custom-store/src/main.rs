//! Counts visits in a file, under a lock in memcached. Start several of it at the same time:
//!
//! ```text
//! cargo run -p custom-store -- memcached://127.0.0.1:11211 /tmp/visits
//! ```

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use custom_store::Memcached;
use dlock::{LockError, LockManager, distributed_lock};
use tokio::task::yield_now;

/// Counts visits in the file `count` of a directory. Exits with 1 if two processes were there at the same time.
#[derive(Debug, Parser)]
#[command(name = "custom-store")]
struct Cli {
    /// The server, such as `memcached://127.0.0.1:11211`.
    url: String,
    /// A directory that all processes share.
    directory: PathBuf,
    /// The number of visits.
    #[arg(long, default_value_t = 10)]
    visits: u32,
}

#[derive(Debug, thiserror::Error)]
enum VisitError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("two processes hold the lock, or a process was killed here: {0}")]
    Marker(io::Error),
    #[error(transparent)]
    Directory(#[from] io::Error),
}

#[distributed_lock(key = "visit", ttl = "30s")]
async fn visit(directory: &Path) -> Result<(), VisitError> {
    // The file is there as long as a process is.
    let (marker, count) = (directory.join("here"), directory.join("count"));
    fs::File::create_new(&marker).map_err(VisitError::Marker)?;
    let before = fs::read_to_string(&count).unwrap_or_default();
    // Other tasks and processes run, and the count that was read grows old.
    yield_now().await;
    let visits = before.parse().unwrap_or(0_u32) + 1;
    fs::write(&count, visits.to_string())?;
    Ok(fs::remove_file(&marker)?)
}

async fn run(cli: &Cli) -> Result<(), Box<dyn Error>> {
    let builder = LockManager::builder().scheme("memcached", Memcached);
    dlock::install(builder.connect(&*cli.url).await?)?;
    println!("connected");
    for _ in 0..cli.visits {
        visit(&cli.directory).await?;
    }
    dlock::shutdown(Duration::from_secs(10)).await;
    println!("{} visits", cli.visits);
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("custom-store: {error}");
            ExitCode::FAILURE
        }
    }
}
