//! Settles orders of a payment provider that sends its webhooks more than once.
//!
//! Several processes receive all webhooks at about the same time. Each order must be settled exactly once, even if a
//! process is killed in the middle of a settlement.
//!
//! ```text
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example orders -- --processes 4
//! cargo run --example orders -- --without-lock
//! ```
//!
//! Copy `settle` into a service; the other modules are the test around it.

mod audit;
mod coordinator;
mod error;
mod input;
mod ledger;
mod message;
mod settle;
mod worker;

use std::{error::Error as _, process::ExitCode};

use clap::Parser;

use crate::{coordinator::Job, error::Error, worker::WorkerArgs};

/// Settles each order of a file of webhooks exactly once, in several processes.
///
/// Requires a Redis or Valkey server: set `DLOCK_URL=redis://127.0.0.1:6379`. One worker is killed in its
/// critical section, and another must take its order over. Exits with 1 if an order is not settled exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "orders",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    override_usage = "orders [OPTIONS]"
)]
struct Cli {
    #[command(flatten)]
    job: Job,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// A worker process of this program.
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.role {
        Some(Role::Worker(args)) => worker::run(args).await.map(|()| true),
        None => coordinator::run(&cli.job).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("orders: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            match error {
                Error::Usage(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
