//! Settles the orders of a payment provider that sends its webhooks more than once.
//!
//! Several processes get all of the webhooks at about the same time; each order must be settled
//! exactly once, also when a process is killed half-way through one.
//!
//! ```text
//! DLOCK_URL=redis://127.0.0.1:6379 cargo run --example orders -- --processes 4
//! cargo run --example orders -- --without-lock
//! ```
//!
//! `settle` is what a service would have; the other modules are the trial around it.

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

/// Settles each order of a file of webhooks exactly once, from several processes.
///
/// Needs a Redis or Valkey server: set `DLOCK_URL=redis://127.0.0.1:6379`. One worker is killed in
/// mid-section on the way, and another must take its order over. Exits with 1 if an order is not
/// settled exactly once, or not taken over.
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
    /// One of the processes that the program starts of itself.
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
