//! The record of a run in a file of metrics, for the textfile collector of Prometheus's `node_exporter`.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    process,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::RunArgs;
use crate::{exit::note, global::Global};

/// The metric that a run without success takes over from the runs before.
const SUCCESS: &str = "success_timestamp_seconds";

/// A run, as far as it is known.
pub(super) struct Record<'a> {
    file: Option<&'a Path>,
    as_json: bool,
    /// The labels of all metrics, in braces.
    labels: String,
    start: SystemTime,
    began: Instant,
    acquired: Option<Instant>,
    /// `true` if the lease was lost before its release.
    pub(super) is_lost: bool,
}

impl<'a> Record<'a> {
    pub(super) fn begin(global: &Global, args: &'a RunArgs) -> Self {
        let (key, namespace) = (escaped(&args.key), escaped(&global.namespace_in_use()));
        Self {
            file: args.metrics_file.as_deref(),
            as_json: global.json,
            labels: format!("{{key=\"{key}\",namespace=\"{namespace}\"}}"),
            start: SystemTime::now(),
            began: Instant::now(),
            acquired: None,
            is_lost: false,
        }
    }

    /// Notes that the lock was acquired. The file has no end then, by which a command that hangs is found.
    pub(super) fn acquired(&mut self) {
        self.acquired = Some(Instant::now());
        self.write(None);
    }

    /// Notes the end of the run with this exit code.
    pub(super) fn end(&self, code: u8) {
        self.write(Some((SystemTime::now(), code)));
    }

    /// Writes the file. A failure does not end the run, whose work is more important.
    fn write(&self, end: Option<(SystemTime, u8)>) {
        let Some(file) = self.file else { return };
        if let Err(error) = replace(file, &self.text(file, end)) {
            let message = format!("cannot write the metrics to `{}`: {error}", file.display());
            note(self.as_json, &message);
        }
    }

    fn text(&self, file: &Path, end: Option<(SystemTime, u8)>) -> String {
        let waited = self.acquired.map(|at| at.duration_since(self.began));
        let waited = waited.unwrap_or_else(|| self.began.elapsed());
        let held = self.acquired.filter(|_| end.is_some());
        let success = match end {
            Some((at, 0)) if self.acquired.is_some() => Some(seconds(since_epoch(at))),
            _ => self.earlier_success(file),
        };
        let metrics = [
            (
                "start_timestamp_seconds",
                "The time at which the last run started.",
                Some(seconds(since_epoch(self.start))),
            ),
            (
                "end_timestamp_seconds",
                "The time at which the last run ended.",
                end.map(|(at, _)| seconds(since_epoch(at))),
            ),
            (
                "exit_code",
                "The exit code of the last run.",
                end.map(|(_, code)| code.to_string()),
            ),
            (
                "acquired",
                "1 if the last run acquired the lock, else 0.",
                Some(u8::from(self.acquired.is_some()).to_string()),
            ),
            (
                "wait_seconds",
                "The time until the last run acquired the lock or gave up.",
                Some(seconds(waited)),
            ),
            (
                "held_seconds",
                "The time for which the last run held the lock.",
                held.map(|at| seconds(at.elapsed())),
            ),
            (
                "lost",
                "1 if the last run lost its lease, else 0.",
                held.map(|_| u8::from(self.is_lost).to_string()),
            ),
            (
                SUCCESS,
                "The end of the last run that acquired the lock and exited with 0.",
                success,
            ),
        ];
        let mut text = String::new();
        for (name, help, value) in metrics {
            let Some(value) = value else { continue };
            let (name, labels) = (format!("dlock_run_{name}"), &self.labels);
            let written = writeln!(
                text,
                "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{labels} {value}"
            );
            written.expect("a string takes all");
        }
        text
    }

    /// Returns the time of the last success for the same key, as an earlier run has written it.
    fn earlier_success(&self, file: &Path) -> Option<String> {
        let begin = format!("dlock_run_{SUCCESS}{} ", self.labels);
        let before = fs::read_to_string(file).ok()?;
        let mut values = before.lines().filter_map(|it| it.strip_prefix(&begin));
        values.next().map(str::to_owned)
    }
}

/// Replaces a file as a whole: the collector reads it at any time. It passes over the new file until that has its name.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(format!(".{}", process::id()));
    // Not through a link that another user has put there.
    let written = File::create_new(&new).and_then(|mut it| it.write_all(text.as_bytes()));
    let replaced = written.and_then(|()| fs::rename(&new, file));
    replaced.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

fn since_epoch(time: SystemTime) -> Duration {
    // A clock before 1970 is wrong.
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}
