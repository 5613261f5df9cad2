//! The options of all commands.

use clap::{ArgAction, Args, ColorChoice, builder::NonEmptyStringValueParser};
use dlock::store::redis::CredentialsProvider;

/// The heading of these options in help texts.
const OF_ALL: &str = "Global options";

/// The options of all commands.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The URL of the server or servers:
    /// `redis://host:6379`, `redis-sentinel://h1,h2/service`,
    /// `redis-cluster://h1,h2`, `redlock://h1,h2,h3`,
    /// `rediss://host` for TLS, `postgres://host/database`, or
    /// `etcd://h1,h2,h3` and `zookeeper://h1,h2,h3` if it was
    /// built with these features.
    /// Other users of the machine can see arguments: set the
    /// password in `DLOCK_PASSWORD`, and the user in
    /// `DLOCK_USER` unless it is the default user
    #[arg(
        long,
        verbatim_doc_comment,
        global = true,
        help_heading = OF_ALL,
        env = "DLOCK_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379",
        // An empty variable is a mistake. It does not mean the default server.
        value_parser = url
    )]
    pub(crate) url: String,
    /// The prefix of all keys of dlock on the server; in
    /// PostgreSQL the schema
    #[arg(
        long,
        global = true,
        verbatim_doc_comment,
        help_heading = OF_ALL,
        env = "DLOCK_NAMESPACE",
        default_value = "dlock",
        // An empty variable is a mistake. It does not mean the default namespace.
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub(crate) namespace: String,
    /// Stores each lock at its own name, where third-party
    /// clients use it too
    #[arg(long, global = true, verbatim_doc_comment, help_heading = OF_ALL)]
    pub(crate) raw_keys: bool,
    /// Prints JSON, including errors
    #[arg(long, global = true, help_heading = OF_ALL)]
    pub(crate) json: bool,
    /// Logs events of connections and locks to the standard
    /// error; `-vv` adds debug events, `-vvv` trace events
    #[arg(short, long, global = true, verbatim_doc_comment,
        help_heading = OF_ALL, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colors; `auto` uses them on a terminal unless
    /// `NO_COLOR` is set
    #[arg(long, global = true, verbatim_doc_comment,
        help_heading = OF_ALL, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// The login from the environment, if the URL has none.
    #[arg(skip)]
    pub(crate) login: Option<CredentialsProvider>,
}

fn url(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(
            "the URL is empty: correct `--url`, or the variable DLOCK_URL if `--url` is not given",
        );
    }
    Ok(text.to_owned())
}
