//! The command `dlock`: looks at locks, runs commands under them, and checks servers.

mod cli;
mod commands;
mod connect;
mod exit;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match commands::run(cli).await {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("dlock: {failure}");
            failure.exit().into()
        }
    }
}
