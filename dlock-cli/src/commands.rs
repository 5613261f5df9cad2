//! What each command does.

pub(crate) mod completions;
#[cfg(unix)]
pub(crate) mod run;

use crate::{
    cli::{Cli, Command},
    exit::{Exit, Failure},
};

pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = cli.global;
    match cli.command {
        #[cfg(unix)]
        Command::Run(args) => run::run(&global, args).await,
        Command::Completions(args) => completions::run(&args),
        #[cfg(unix)]
        Command::Watchdog(args) => run::watch_over(&args).await,
    }
}
