//! The arguments of `dlock run`.

use std::{ffi::OsString, time::Duration};

use clap::Args;
use dlock::{MAX_TTL, Wait};

use crate::exit;

/// Runs a command while holding a lock
///
/// The command runs only if the lock is got, and the lock is kept alive until it has ended.
/// If the lease is lost, the command is ended: by SIGTERM, and by SIGKILL if it has not ended
/// some time later.
///
/// The command finds the lock in `DLOCK_KEY`, the fencing token in `DLOCK_FENCING_TOKEN`, and
/// the same in 19 digits, which can be compared as texts, in `DLOCK_FENCING_TOKEN_SORTABLE`.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = exit::CODES)]
pub(crate) struct RunArgs {
    /// The lock
    pub(super) key: String,
    /// How long the server keeps the lock without a sign of
    /// life, 100ms to 24h
    #[arg(long, verbatim_doc_comment, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "30s")]
    pub(super) ttl: Duration,
    /// How long to wait while somebody else holds the lock:
    /// a duration, `never` or `forever`
    #[arg(short, long, verbatim_doc_comment, value_name = "DURATION", value_parser = parse_wait, default_value = "10s")]
    pub(super) wait: Wait,
    /// Does not wait: the same as `--wait never`
    #[arg(short, long, conflicts_with = "wait")]
    pub(super) no_wait: bool,
    /// Keeps others out for at least this long, even if the
    /// command ends before, or cannot be started
    #[arg(long, verbatim_doc_comment, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) min_hold: Option<Duration>,
    /// Ends the command after this
    #[arg(long, value_name = "DURATION", value_parser = parse_positive)]
    pub(super) max_hold: Option<Duration>,
    /// How long after SIGTERM a command that has to end gets
    /// SIGKILL; a third of the TTL if not set. If the lease
    /// ends in that time, it gets it then
    #[arg(short, long, verbatim_doc_comment, value_name = "DURATION", value_parser = parse_grace)]
    pub(super) kill_after: Option<Duration>,
    /// The exit code if somebody else held the lock
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = 75)]
    pub(super) conflict_exit_code: u8,
    /// The name under which others see who has the lock;
    /// `dlock-run:COMMAND` if not set
    #[arg(long, verbatim_doc_comment, value_name = "NAME")]
    pub(super) application: Option<String>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

fn parse_wait(text: &str) -> Result<Wait, humantime::DurationError> {
    match text {
        "never" => Ok(Wait::Never),
        "forever" => Ok(Wait::Forever),
        _ => humantime::parse_duration(text).map(Wait::For),
    }
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration > MAX_TTL {
        return Err("it must be at most 24h".to_owned());
    }
    Ok(duration)
}

fn parse_positive(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("it must be greater than zero".to_owned());
    }
    Ok(duration)
}
