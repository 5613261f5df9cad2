//! The arguments of the program.

use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand, builder::NonEmptyStringValueParser};
use dlock::store::redis::CredentialsProvider;

use crate::{commands, exit};

/// Looks at distributed locks, runs commands under them, and checks the servers they lie in.
#[derive(Debug, Parser)]
#[command(name = "dlock", version, after_help = exit::CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Above the options that every command has.
const OF_ALL: &str = "Options of all commands";

/// What all commands have in common.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The store: `redis://host`, `redis-sentinel://h1,h2/service`, `redis-cluster://h1,h2` or
    /// `redlock://h1,h2,h3`; others can see the arguments of a program, so give a password in
    /// `DLOCK_PASSWORD`, with `DLOCK_USER` if the user is not the default one
    #[arg(
        long,
        global = true,
        help_heading = OF_ALL,
        env = "DLOCK_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379",
        // A variable that is set to nothing is a mistake, and not the server on this machine.
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) url: String,
    /// What all keys of the locks begin with
    #[arg(long, global = true,
        help_heading = OF_ALL, default_value = "dlock")]
    pub(crate) namespace: String,
    /// Locks lie at their own names, shared with clients of another make
    #[arg(long, global = true,
        help_heading = OF_ALL)]
    pub(crate) raw_keys: bool,
    /// Prints JSON, errors as well
    #[arg(long, global = true,
        help_heading = OF_ALL)]
    pub(crate) json: bool,
    /// Logs what happens to connections and locks to the standard error; twice in detail, three times
    /// everything
    #[arg(short, long, global = true,
        help_heading = OF_ALL, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Whether to use colours; by itself on a terminal, unless `NO_COLOR` is set
    #[arg(long, global = true,
        help_heading = OF_ALL, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// Who the environment says we are, if the URL does not.
    #[arg(skip)]
    pub(crate) login: Option<CredentialsProvider>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a command while holding a lock
    #[cfg(unix)]
    Run(commands::run::RunArgs),
    /// Lists the locks that are held or waited for
    Ls(commands::ls::LsArgs),
    /// Shows all that is known of one lock
    Inspect(commands::inspect::InspectArgs),
    /// Takes a lock away from whoever holds it
    Unlock(commands::unlock::UnlockArgs),
    /// Shows what happens to locks as it happens
    Watch(commands::watch::WatchArgs),
    /// Shows the locks, who holds them and who waits for them, as they change
    Top(commands::top::TopArgs),
    /// Checks whether the servers are set up so that locks hold
    Doctor(commands::doctor::DoctorArgs),
    /// Measures what locks cost from here
    Bench(commands::bench::BenchArgs),
    /// Prints a script that completes the arguments of `dlock` in a shell
    Completions(commands::completions::CompletionsArgs),
    /// Ends a command of `run` whose `dlock` cannot
    #[cfg(unix)]
    #[command(hide = true)]
    Watchdog(commands::run::WatchdogArgs),
}
