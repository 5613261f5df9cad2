//! The arguments of the program.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Looks at distributed locks, runs commands under them, and checks the servers they lie in.
#[derive(Debug, Parser)]
#[command(name = "dlock", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What all commands have in common.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The store: redis://host, redis-sentinel://h1,h2/service, redis-cluster://h1,h2 or
    /// redlock://h1,h2,h3; a password is better given as `DLOCK_PASSWORD`
    #[arg(
        long,
        global = true,
        env = "DLOCK_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub(crate) url: String,
    /// What all keys of the locks begin with
    #[arg(long, global = true, default_value = "dlock")]
    pub(crate) namespace: String,
    /// Locks lie at their own names, shared with clients of another make
    #[arg(long, global = true)]
    pub(crate) raw_keys: bool,
    /// Prints JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints a script that completes the arguments of `dlock` in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}
