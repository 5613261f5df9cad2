//! Test executables side by side: most of them wait for servers most of the time.
//!
//! The longest begins first, by the times of the last run, so that none is left alone at the end. The output of each
//! is shown whole when it ends.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::cargo::{self, Call};
use crate::executables::{self, Executable};
use crate::linted::Lints;
use crate::timed::{self, Times, seconds};
use crate::verdict::Failure;

/// The number of executables that run at a time.
const LANES: usize = 4;

/// The executables that take longest, for a machine on which none has run yet.
const KNOWN: [(&str, u64); 15] = [
    ("servers", 200),
    ("makes", 175),
    ("cancellation", 125),
    ("cli", 120),
    ("failover", 100),
    ("faults", 85),
    ("dlock_sim", 90),
    ("protocols", 80),
    ("dlock_runtime", 76),
    ("ui", 75),
    ("short", 65),
    ("documents", 60),
    ("browser", 43),
    ("store", 40),
    ("processes", 20),
];

/// Builds the tests of all calls with `lints`, says so by `built`, and runs them; returns the failures.
pub(crate) fn run(
    calls: &[Call],
    times: &Times,
    lints: &Lints,
    built: impl FnOnce(),
) -> Result<Vec<Failure>, String> {
    let mut all = Vec::new();
    for call in calls {
        match executables::built(call, lints)? {
            Some(executables) => all.extend(executables),
            None if call.run_under(lints.variables()) => {}
            None => return Err(format!("this failed: {}", call.line())),
        }
    }
    built();
    println!("{} test executables, {LANES} at a time", all.len());
    let mut durations = Durations::read();
    let failed = side_by_side(all, times, &mut durations, shown);
    durations.write();
    Ok(failed)
}

/// Builds the tests of all calls with `lints`.
pub(crate) fn built(calls: &[Call], lints: &Lints) -> Result<Vec<Executable>, String> {
    let mut all = Vec::new();
    for call in calls {
        let executables = executables::built(call, lints)?;
        all.extend(executables.ok_or("cargo has another runner for tests")?);
    }
    Ok(all)
}

/// Runs the executables without showing what they write, and returns the failures.
pub(crate) fn quietly(executables: Vec<Executable>) -> Vec<Failure> {
    let mut durations = Durations::read();
    let failed = side_by_side(
        executables,
        &Times::default(),
        &mut durations,
        |_, _| Ok(()),
    );
    durations.write();
    failed
}

/// Runs the executables, each of which is shown when it ends, and returns the failures.
fn side_by_side(
    executables: Vec<Executable>,
    times: &Times,
    durations: &mut Durations,
    show: impl Fn(&Executable, &timed::Run) -> io::Result<()> + Sync,
) -> Vec<Failure> {
    let begun = longest_first(executables, |it| durations.expected(it));
    let waiting = Mutex::new(begun);
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(executable) = next(&waiting) {
                    let outcome = timed::run(&executable, times).and_then(|run| {
                        show(&executable, &run).map_err(|error| error.to_string())?;
                        Ok(run)
                    });
                    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                    ended.push((executable, outcome));
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut failed = Vec::new();
    for (executable, outcome) in ended {
        match outcome {
            Ok(run) if run.succeeded() => durations.note(executable.repeated_by, run.took),
            outcome => failed.push(Failure::new(executable, outcome)),
        }
    }
    failed
}

fn next(waiting: &Mutex<VecDeque<Executable>>) -> Option<Executable> {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.pop_front()
}

/// Writes everything that an executable has written, with the call that repeats it before.
fn shown(executable: &Executable, run: &timed::Run) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let call = &executable.repeated_by;
    writeln!(
        stdout,
        "\n--> {call}: {}, {}",
        run.ended(),
        seconds(run.took)
    )?;
    stdout.write_all(&run.output)?;
    stdout.flush()
}

fn longest_first<T>(things: Vec<T>, expected: impl Fn(&T) -> Duration) -> VecDeque<T> {
    let mut things = things;
    things.sort_by_cached_key(|it| std::cmp::Reverse(expected(it)));
    things.into()
}

/// The times of executables when they last succeeded, by the calls that repeat them.
struct Durations {
    file: PathBuf,
    times: BTreeMap<String, Duration>,
}

impl Durations {
    fn read() -> Self {
        let file = cargo::target().join("test-durations");
        let times = fs::read_to_string(&file).unwrap_or_default();
        Self {
            times: times.lines().filter_map(duration).collect(),
            file,
        }
    }

    fn expected(&self, executable: &Executable) -> Duration {
        let known = || {
            let name = executable.name();
            let known = KNOWN.iter().find(|(it, _)| *it == name);
            Duration::from_secs(known.map_or(0, |(_, seconds)| *seconds))
        };
        let last = self.times.get(&executable.repeated_by).copied();
        last.unwrap_or_else(known)
    }

    fn note(&mut self, call: String, took: Duration) {
        self.times.insert(call, took);
    }

    fn write(&self) {
        let lines = self.times.iter();
        let lines = lines.map(|(call, took)| format!("{} {call}\n", took.as_millis()));
        // Without the file, the next run has another order.
        drop(fs::write(&self.file, lines.collect::<String>()));
    }
}

/// The time in a line of milliseconds and a call.
fn duration(line: &str) -> Option<(String, Duration)> {
    let (took, call) = line.split_once(' ')?;
    let took = Duration::from_millis(took.parse().ok()?);
    Some((call.to_owned(), took))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No times are known, and none are kept.
    fn nothing_known() -> Durations {
        Durations {
            file: PathBuf::new(),
            times: BTreeMap::new(),
        }
    }

    #[test]
    fn a_failure_is_named_by_its_call_and_ends_no_other() {
        let script = "[ \"$1\" = --list ] || { echo broken >&2; exit 3; }";
        let executables = [
            ("fails", script),
            ("is killed", "[ \"$1\" = --list ] || kill -9 $$"),
            ("works", "true"),
        ];
        let executables = executables.map(|(call, script)| Executable::of_shell(script, call));
        let mut durations = nothing_known();
        let times = Times::default();
        let failed = side_by_side(executables.into(), &times, &mut durations, shown);
        let mut failed: Vec<_> = failed.iter().map(Failure::told).collect();
        failed.sort_unstable();
        let expected = [
            ("fails", "FAILED, exit status: 3\nbroken"),
            ("is killed", "FAILED, signal: 9 (SIGKILL)\n"),
        ];
        let expected = expected.map(|(call, text)| (call.to_owned(), text.to_owned()));
        assert_eq!(failed, expected);
        // A failure may come early, and says nothing about the time of a success.
        let known: Vec<_> = durations.times.into_keys().collect();
        assert_eq!(known, ["works"]);
    }

    #[test]
    fn several_run_at_a_time() {
        // Each succeeds only if the other one begins before it has ended.
        let folder = std::env::temp_dir().join(format!("dlock-lanes-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let meets = |own: &str, other: &str| {
            let folder = folder.display();
            let script = format!(
                "[ \"$1\" = --list ] && exit; : > {folder}/{own}; \
                 for i in $(seq 600); do [ -e {folder}/{other} ] && exit; sleep 0.05; done; exit 1"
            );
            Executable::of_shell(&script, own)
        };
        let executables = vec![meets("a", "b"), meets("b", "a")];
        let times = Times::default();
        let failed = side_by_side(executables, &times, &mut nothing_known(), shown);
        fs::remove_dir_all(&folder).unwrap();
        assert!(failed.is_empty(), "both have waited in vain");
    }

    #[test]
    fn the_longest_begins_first_and_equals_keep_their_order() {
        let things = vec![("a", 0), ("b", 3), ("c", 0), ("d", 7)];
        let order = longest_first(things, |(_, seconds)| Duration::from_secs(*seconds));
        let names: Vec<_> = order.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["d", "b", "a", "c"]);
    }

    #[test]
    fn a_time_is_read_as_it_is_written() {
        let call = "cargo test --package dlock-tests --test web";
        let expected = (call.to_owned(), Duration::from_millis(1250));
        assert_eq!(duration(&format!("1250 {call}")), Some(expected));
        assert_eq!(duration("cargo test"), None);
    }
}
