//! The options that all commands share.

use clap::{ArgAction, Args, ColorChoice, builder::NonEmptyStringValueParser};
use dlock::store::redis::CredentialsProvider;

/// Above the options that every command has.
const OF_ALL: &str = "Options of all commands";

/// The options of all commands.
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
    /// The login by the environment, if the URL has none.
    #[arg(skip)]
    pub(crate) login: Option<CredentialsProvider>,
}
