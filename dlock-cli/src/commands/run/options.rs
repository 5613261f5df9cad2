//! The arguments of `dlock run`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args,
    builder::{PathBufValueParser, TypedValueParser as _},
};
use dlock::{MAX_TTL, Wait};

use crate::exit;

/// Runs a command while holding a lock
///
/// The command runs only if the lock is acquired. The lease is renewed until the command has
/// ended. If the lease is lost, the command gets SIGTERM, and SIGKILL after `--kill-after`.
///
/// The command gets the key in `DLOCK_KEY`, and the fencing token in `DLOCK_FENCING_TOKEN`.
/// `DLOCK_FENCING_TOKEN_SORTABLE` is the token with 19 digits, to be compared as text.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = exit::CODES)]
pub(crate) struct RunArgs {
    /// The key of the lock
    pub(super) key: String,
    /// How long the server keeps the lock without a renewal,
    /// 100ms to 24h
    #[arg(long, verbatim_doc_comment, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "30s")]
    pub(super) ttl: Duration,
    /// How long to wait for a busy lock: a duration, `never` or
    /// `forever`
    #[arg(short, long, verbatim_doc_comment, value_name = "DURATION", value_parser = parse_wait, default_value = "10s")]
    pub(super) wait: Wait,
    /// Does not wait; same as `--wait never`
    #[arg(short, long, conflicts_with = "wait")]
    pub(super) no_wait: bool,
    /// Shares the lock: any number of commands with this option
    /// run together, but none beside an exclusive holder
    #[arg(long, verbatim_doc_comment, conflicts_with = "permits")]
    pub(super) shared: bool,
    /// Limits how many commands hold the lock at the same time:
    /// this command starts only while fewer than this number hold
    /// it. Use the same number everywhere
    #[arg(long, verbatim_doc_comment, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) permits: Option<u32>,
    /// Keeps the lock for at least this time, even if the command
    /// ends earlier or cannot be started
    #[arg(long, verbatim_doc_comment, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) min_hold: Option<Duration>,
    /// Ends the command after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_positive)]
    pub(super) max_hold: Option<Duration>,
    /// The time between SIGTERM and SIGKILL when dlock itself
    /// ends the command; default: a third of the TTL. If the
    /// lease can no longer be renewed, SIGKILL follows at its
    /// end at the latest
    #[arg(short, long, verbatim_doc_comment, value_name = "DURATION", value_parser = parse_grace)]
    pub(super) kill_after: Option<Duration>,
    /// The exit code if the lock is busy
    #[arg(short = 'E', long, value_name = "NUMBER", default_value_t = 75)]
    pub(super) conflict_exit_code: u8,
    /// The application name of the holder, as other processes see
    /// it; default: `dlock-run:COMMAND`
    #[arg(long, verbatim_doc_comment, value_name = "NAME")]
    pub(super) application: Option<String>,
    /// Writes the metrics of this run to a file for the textfile
    /// collector of Prometheus's `node_exporter`: when the lock
    /// was acquired, and when the run has ended. Its name ends
    /// with `.prom`
    #[arg(long, verbatim_doc_comment, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(of_collector))]
    pub(super) metrics_file: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

fn of_collector(file: PathBuf) -> Result<PathBuf, &'static str> {
    if file.extension().is_none_or(|it| it != "prom") {
        return Err("the collector reads only files whose names end with `.prom`");
    }
    Ok(file)
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
        return Err("must be at most 24h".to_owned());
    }
    Ok(duration)
}

fn parse_positive(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("must be greater than zero".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_bounds() {
        assert!(matches!(parse_wait("never"), Ok(Wait::Never)));
        assert!(matches!(parse_wait("forever"), Ok(Wait::Forever)));
        let two = Duration::from_secs(2);
        assert!(matches!(parse_wait("2s"), Ok(Wait::For(it)) if it == two));
        assert!(parse_wait("always").is_err());
        assert_eq!(parse_grace("24h"), Ok(MAX_TTL));
        assert_eq!(parse_grace("0s"), Ok(Duration::ZERO));
        assert_eq!(
            parse_grace("24h 1ms"),
            Err("must be at most 24h".to_owned())
        );
        assert_eq!(parse_positive("1ns"), Ok(Duration::from_nanos(1)));
        assert_eq!(
            parse_positive("0s"),
            Err("must be greater than zero".to_owned())
        );
        assert!(parse_grace("soon").is_err() && parse_positive("soon").is_err());
    }

    #[test]
    fn a_file_of_metrics_is_one_that_the_collector_reads() {
        let file = PathBuf::from("/metrics/job.prom");
        assert_eq!(of_collector(file.clone()), Ok(file));
        for other in ["job", "job.prom.tmp", "prom"] {
            assert!(of_collector(other.into()).is_err(), "{other}");
        }
    }
}
