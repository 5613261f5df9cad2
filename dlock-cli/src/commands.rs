//! What each command does.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod inspect;
pub(crate) mod ls;
#[cfg(unix)]
pub(crate) mod run;
pub(crate) mod top;
pub(crate) mod unlock;
pub(crate) mod watch;

use crate::{
    cli::{Cli, Command},
    exit::{Exit, Failure},
};

pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = cli.global;
    match cli.command {
        #[cfg(unix)]
        Command::Run(args) => run::run(&global, args).await,
        Command::Ls(args) => ls::run(&global, args).await,
        Command::Inspect(args) => inspect::run(&global, args).await,
        Command::Unlock(args) => unlock::run(&global, args).await,
        Command::Watch(args) => watch::run(&global, args).await,
        Command::Top(args) => top::run(&global, &args).await,
        Command::Doctor(args) => doctor::run(&global, &args).await,
        Command::Bench(args) => bench::run(&global, &args).await,
        Command::Completions(args) => completions::run(&args),
        #[cfg(unix)]
        Command::Watchdog(args) => run::watch_over(&args).await,
    }
}
