//! The command line: its commands, and the function that runs each.

use clap::{CommandFactory, Parser, Subcommand, builder::Resettable, error::ErrorKind};

use crate::{
    commands,
    exit::{self, Exit, Failure},
    global::Global,
};

/// Inspects distributed locks, runs commands under them, and checks their servers
#[derive(Debug, Parser)]
#[command(name = "dlock", version, after_help = exit::CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the arguments and the environment. Ends the program after a help text, or if they are invalid.
    pub(crate) fn of_arguments() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            let is_help = matches!(
                error.kind(),
                ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            if is_help {
                error.exit();
            }
            // Clap treats a value from the environment as an argument, so the usage line would require `--url`.
            let command = ["url", "namespace"]
                .iter()
                .fold(Self::command(), |it, name| {
                    it.mut_arg(name, |it| it.env(Resettable::Reset))
                });
            match command.try_get_matches() {
                Err(same) if same.kind() == error.kind() => same.exit(),
                _ => error.exit(),
            }
        })
    }

    /// Runs the command.
    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let global = self.global;
        match self.command {
            #[cfg(unix)]
            Command::Run(args) => commands::run::run(&global, args).await,
            Command::Ls(args) => commands::ls::run(&global, args).await,
            Command::Inspect(args) => commands::inspect::run(&global, args).await,
            Command::Unlock(args) => commands::unlock::run(&global, args).await,
            Command::Watch(args) => commands::watch::run(&global, args).await,
            Command::Top(args) => commands::top::run(&global, &args).await,
            Command::Serve(args) => commands::serve::run(&global, args).await,
            Command::Doctor(args) => commands::doctor::run(&global, &args).await,
            Command::Bench(args) => commands::bench::run(&global, &args).await,
            Command::Postgres(args) => commands::postgres::run(&global, args).await,
            Command::Completions(args) => commands::completions::run(&args, &Self::command()),
            #[cfg(unix)]
            Command::Watchdog(args) => commands::run::watch_over(&args).await,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // The help text of a command without a doc comment here is the doc comment of its arguments.
    #[cfg(unix)]
    Run(commands::run::RunArgs),
    Ls(commands::ls::LsArgs),
    Inspect(commands::inspect::InspectArgs),
    Unlock(commands::unlock::UnlockArgs),
    Watch(commands::watch::WatchArgs),
    Top(commands::top::TopArgs),
    Serve(commands::serve::ServeArgs),
    Doctor(commands::doctor::DoctorArgs),
    Bench(commands::bench::BenchArgs),
    Postgres(commands::postgres::PostgresArgs),
    /// Prints a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
    /// Ends the command of a `dlock run` that was stopped or killed
    #[cfg(unix)]
    #[command(hide = true)]
    Watchdog(commands::run::WatchdogArgs),
}

impl Command {
    /// Returns the target of the log events that are written without `-v`, too.
    pub(crate) fn always_logs(&self) -> Option<&'static str> {
        match self {
            // The force-releases, with the address of the browser, or with the user.
            Self::Serve(_) => Some("dlock::admin::web"),
            Self::Unlock(_) => Some(commands::unlock::TARGET),
            _ => None,
        }
    }
}
