//! The arguments of the program.

use clap::{
    ArgAction, Args, ColorChoice, CommandFactory, Parser, Subcommand,
    builder::{NonEmptyStringValueParser, Resettable},
    error::ErrorKind,
};
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

impl Cli {
    /// What the arguments and the environment say; ends the program if that is wrong, or asks for help.
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
            // Clap takes what a variable says for written, and its usage would ask for it.
            let command = Self::command().mut_arg("url", |it| it.env(Resettable::Reset));
            match command.try_get_matches() {
                Err(same) if same.kind() == error.kind() => same.exit(),
                _ => error.exit(),
            }
        })
    }
}

/// Above the options that every command has.
const OF_ALL: &str = "Options of all commands";

/// What all commands have in common.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The server or servers with the locks:
    /// `redis://host:6379`, `redis-sentinel://h1,h2/service`,
    /// `redis-cluster://h1,h2`, `redlock://h1,h2,h3`, or with
    /// TLS `rediss://host`. Others can see the arguments of a
    /// program, so give a password in `DLOCK_PASSWORD`, with
    /// `DLOCK_USER` if it is not the default user's
    #[arg(
        long,
        verbatim_doc_comment,
        global = true,
        help_heading = OF_ALL,
        env = "DLOCK_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379",
        // A variable that is set to nothing is a mistake, and not the server on this machine.
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) url: String,
    /// What the keys of all locks begin with in the server
    #[arg(long, global = true, help_heading = OF_ALL, default_value = "dlock")]
    pub(crate) namespace: String,
    /// Locks lie at their own names, shared with clients of
    /// another make
    #[arg(long, global = true, verbatim_doc_comment, help_heading = OF_ALL)]
    pub(crate) raw_keys: bool,
    /// Prints JSON, errors as well
    #[arg(long, global = true, help_heading = OF_ALL)]
    pub(crate) json: bool,
    /// Logs what happens to connections and locks to the
    /// standard error; twice in detail, three times everything
    #[arg(short, long, global = true, verbatim_doc_comment,
        help_heading = OF_ALL, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Whether to use colours; `auto` does on a terminal, unless
    /// `NO_COLOR` is set
    #[arg(long, global = true, verbatim_doc_comment,
        help_heading = OF_ALL, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// Who the environment says we are, if the URL does not.
    #[arg(skip)]
    pub(crate) login: Option<CredentialsProvider>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // What has no line here is explained where its arguments are.
    #[cfg(unix)]
    Run(commands::run::RunArgs),
    Ls(commands::ls::LsArgs),
    Inspect(commands::inspect::InspectArgs),
    Unlock(commands::unlock::UnlockArgs),
    Watch(commands::watch::WatchArgs),
    Top(commands::top::TopArgs),
    Doctor(commands::doctor::DoctorArgs),
    Bench(commands::bench::BenchArgs),
    /// Prints a script that completes the arguments of `dlock` in a shell
    Completions(commands::completions::CompletionsArgs),
    /// Ends a command of `run` whose `dlock` cannot
    #[cfg(unix)]
    #[command(hide = true)]
    Watchdog(commands::run::WatchdogArgs),
}
