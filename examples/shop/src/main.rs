//! A shop whose orders can be paid from many tabs and through several copies of the service, and are
//! charged once.
//!
//! ```text
//! cargo run -p shop
//! ```
//!
//! Open the address that it prints in two tabs, create an order, and press Pay in both: one pays, the
//! other is told that somebody does. Stop hangs up in the middle: after Pay the order can be paid
//! again at once, after Pay to the end it is paid all the same. With `--without-lock` the provider
//! charges twice.
//!
//! Several copies meet at a server, and share the file with the orders:
//!
//! ```text
//! export DLOCK_URL=redis://127.0.0.1:6379
//! cargo run -p shop -- --listen 127.0.0.1:8001 --database shop.db
//! cargo run -p shop -- --listen 127.0.0.1:8002 --database shop.db
//! ```
//!
//! Now a tab of each. End one copy with Ctrl-C: the payments that it has begun are finished. Kill one
//! with `kill -9` in mid-payment: the other copy can pay after `--ttl`.
//!
//! `pay` is what a service would copy; the other modules are the service around it.

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

/// How long requests may still take when the program is to end, and then their locks.
const GRACE: Duration = Duration::from_secs(10);

/// Serves a shop whose orders are charged once, however often they are paid.
///
/// Locks are in this process, or in the server that `DLOCK_URL` names.
#[derive(Debug, Parser)]
#[command(name = "shop")]
struct Cli {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The file with the orders, which several copies may share. If not set, a temporary one.
    #[arg(long)]
    database: Option<PathBuf>,
    /// How long the provider takes for a charge.
    #[arg(long, default_value = "3s", value_parser = humantime::parse_duration)]
    provider_delay: Duration,
    /// How long an order stays locked when its process is killed. It is no limit for a payment.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// Show what happens without a lock.
    #[arg(long)]
    without_lock: bool,
}

/// The locks of this process, as the arguments and the environment say.
async fn connect(cli: &Cli, name: &str) -> Result<Board, Box<dyn Error>> {
    if cli.without_lock {
        return Ok(Board::Off);
    }
    // A service lets a missing `DLOCK_URL` be an error: locks in memory are for trying things out.
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
    let listener = TcpListener::bind(cli.listen).await;
    let listener = listener.map_err(|error| format!("cannot listen at {}: {error}", cli.listen))?;
    let address = listener.local_addr()?;
    let name = format!("shop-{}", address.port());
    let board = connect(cli, &name).await?;

    // Held to the end: the directory is removed with it.
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
            "locks are in this process; several copies need a server to meet at, such as\n  \
             DLOCK_URL=redis://127.0.0.1:6379 cargo run -p shop -- --database shop.db"
        ),
        Board::Server(_) if cli.database.is_none() => {
            println!("orders are in a temporary file; several copies need `--database shop.db`");
        }
        Board::Server(_) => {}
    }
    let router = web::router(Shop {
        name,
        orders: Orders::new(pool.clone()),
        provider: Provider::new(pool.clone(), cli.provider_delay),
        board,
    });
    serve(listener, router).await?;

    // Refuses new sections, waits for those that run, and gives every lock back.
    if !cli.without_lock {
        dlock::shutdown(GRACE).await;
    }
    pool.close().await;
    Ok(())
}

/// Serves until the program is told to end; requests that are there already are answered.
async fn serve(listener: TcpListener, router: axum::Router) -> io::Result<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        // It ends when `stop` is dropped.
        stopped.await.unwrap_or_default();
    });
    let mut server = tokio::spawn(server.into_future());
    select! {
        ended = &mut server => return ended.map_err(io::Error::other)?,
        told = told_to_end() => told?,
    }
    tracing::info!("no new requests are taken");
    drop(stop);
    if let Ok(ended) = timeout(GRACE, server).await {
        return ended.map_err(io::Error::other)?;
    }
    tracing::warn!("requests that have not ended are cut off");
    Ok(())
}

/// Waits for Ctrl-C, or for what ends services.
async fn told_to_end() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let mut terminate = signal(SignalKind::terminate())?;
        select! {
            told = ctrl_c() => told,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    ctrl_c().await
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
