//! A shop. Each order is charged once, although it can be paid from many tabs and through several copies of the
//! service.
//!
//! ```text
//! cargo run -p shop
//! ```
//!
//! Open the printed address in two tabs, create an order, and press Pay in both. One tab pays, and the other
//! shows that the order is being paid. Stop closes the connection during a payment. After Pay, the order is free
//! at once; after Pay to the end, the payment continues. With `--without-lock`, the provider charges twice.
//!
//! Several copies share a server and the file with the orders:
//!
//! ```text
//! export DLOCK_URL=redis://127.0.0.1:6379
//! cargo run -p shop -- --listen 127.0.0.1:8001 --database shop.db
//! cargo run -p shop -- --listen 127.0.0.1:8002 --database shop.db
//! ```
//!
//! Open a tab for each copy. Ctrl-C ends a copy after its payments are finished. After `kill -9` during a
//! payment, the other copy can pay after `--ttl`.
//!
//! Copy `pay` into a service; the other modules are the service around it.

mod board;
mod error;
mod orders;
mod pay;
mod provider;
mod web;

use std::{
    env,
    error::Error,
    future::IntoFuture,
    io::{self, IsTerminal},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use dlock::LockManager;
use tokio::{net::TcpListener, select, signal::ctrl_c, sync::oneshot, time::timeout};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{board::Board, orders::Orders, provider::Provider, web::Shop};

/// The time limit at shutdown: first for requests, then for their locks.
const GRACE: Duration = Duration::from_secs(10);

/// Serves a shop that charges each order once, however often it is paid.
///
/// The locks are in this process, or in the server of `DLOCK_URL`.
#[derive(Debug, Parser)]
#[command(name = "shop")]
struct Cli {
    /// Address to listen on. Port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// File with the orders, which several copies may share [default: a temporary file]
    #[arg(long)]
    database: Option<PathBuf>,
    /// Time that the provider takes for a charge.
    #[arg(long, default_value = "3s", value_parser = humantime::parse_duration)]
    provider_delay: Duration,
    /// Time for which an order stays locked after a crash. It does not limit a payment.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// Run without locks, to show double charges.
    #[arg(long)]
    without_lock: bool,
}

/// Installs the lock manager that the arguments and the environment select.
async fn connect(cli: &Cli, name: &str) -> Result<Board, Box<dyn Error>> {
    if cli.without_lock {
        return Ok(Board::Off);
    }
    // In a service, a missing `DLOCK_URL` is an error: locks in memory protect one process only.
    let url = env::var("DLOCK_URL").ok().filter(|url| !url.is_empty());
    let builder = LockManager::builder().application(name).ttl(cli.ttl);
    let (manager, board) = match url {
        Some(url) if !url.starts_with("memory:") => {
            (builder.connect_env().await?, Board::of_server(&url).await?)
        }
        _ => (builder.connect("memory://").await?, Board::Memory),
    };
    dlock::install(manager)?;
    Ok(board)
}

async fn run(cli: &Cli) -> Result<(), Box<dyn Error>> {
    // A signal counts from the first moment on.
    let end = end_signal()?;
    let listener = TcpListener::bind(cli.listen).await;
    let listener = listener.map_err(|error| format!("cannot listen on {}: {error}", cli.listen))?;
    let address = listener.local_addr()?;
    let name = format!("shop-{}", address.port());
    let board = connect(cli, &name).await?;

    // Kept until the end: its drop removes the directory.
    let (file, _temporary) = if let Some(file) = &cli.database {
        (file.clone(), None)
    } else {
        let directory = tempfile::TempDir::with_prefix("shop-")?;
        (directory.path().join("shop.db"), Some(directory))
    };
    let pool = orders::open(&file)
        .await
        .map_err(|error| format!("cannot open {}: {error}", file.display()))?;

    println!("{name} is at http://{address}");
    match board {
        Board::Off => println!("payments run without a lock"),
        Board::Memory => println!(
            "the locks are in this process; for several copies, set DLOCK_URL to a server, for example\n  \
             DLOCK_URL=redis://127.0.0.1:6379 cargo run -p shop -- --database shop.db"
        ),
        Board::Server(_) if cli.database.is_none() => {
            println!(
                "the orders are in a temporary file; for several copies, add `--database shop.db`"
            );
        }
        Board::Server(_) => {}
    }
    let router = web::router(Shop {
        name,
        orders: Orders::new(pool.clone()),
        provider: Provider::new(pool.clone(), cli.provider_delay),
        board,
    });
    serve(listener, router, end).await?;

    // Refuses new calls, waits for running bodies, and releases every lock.
    if !cli.without_lock {
        dlock::shutdown(GRACE).await;
    }
    pool.close().await;
    Ok(())
}

/// Serves until a signal ends the program. Requests that have arrived are answered.
async fn serve(
    listener: TcpListener,
    router: axum::Router,
    end: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        // Completes when `stop` is dropped.
        stopped.await.unwrap_or_default();
    });
    let mut server = tokio::spawn(server.into_future());
    select! {
        ended = &mut server => return ended.map_err(io::Error::other)?,
        received = end => received?,
    }
    tracing::info!("shutting down: new requests are refused");
    drop(stop);
    if let Ok(ended) = timeout(GRACE, server).await {
        return ended.map_err(io::Error::other)?;
    }
    tracing::warn!("shutting down: requests that are still running are cancelled");
    Ok(())
}

/// Returns a future that waits for Ctrl-C or SIGTERM.
#[cfg(unix)]
fn end_signal() -> io::Result<impl Future<Output = io::Result<()>>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        select! {
            received = ctrl_c() => received,
            _ = terminate.recv() => Ok(()),
        }
    })
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "other systems can refuse it")]
fn end_signal() -> io::Result<impl Future<Output = io::Result<()>>> {
    Ok(ctrl_c())
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    tracing_subscriber::fmt()
        .with_env_filter(level.from_env_lossy())
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    match run(&cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shop: {error}");
            ExitCode::FAILURE
        }
    }
}
