//! The time of each test: as the runner of cargo, it watches the output of a test executable.
//!
//! The test harness of stable Rust tells only which tests have ended. It starts them in the order of
//! `--list`, so many at a time, and the next one whenever one has ended: from the lines and the moments at
//! which they come, it follows when each has begun. Variables that are meant for the runner are taken away
//! from the tests, which call cargo as well.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use crate::cargo;

/// Names the file to which each executable adds its times.
const TIMES: &str = "DLOCK_TEST_TIMES";

/// The number of tests that are shown.
const SHOWN: usize = 10;

/// How often the file is looked at while the tests are built.
const LOOK: Duration = Duration::from_millis(200);

/// How long output is waited for that a process may still write which the tests have left behind.
const REST: Duration = Duration::from_millis(200);

/// The times of one call of `cargo test`.
pub(crate) struct Times {
    runner: String,
    file: PathBuf,
    /// The number of lines of the file when the last call began.
    before_the_last_call: OnceLock<usize>,
}

impl Times {
    /// `None` where another runner is set, or this one cannot be named to cargo.
    pub(crate) fn start() -> Option<Self> {
        let variable = runner_of(&cargo::output("-vV").ok()?)?;
        let program = env::current_exe().ok()?;
        let has_space = program.to_str()?.contains(char::is_whitespace);
        if has_space || env::var_os(&variable).is_some() {
            return None;
        }
        let file = env::temp_dir().join(format!("dlock-test-times-{}", process::id()));
        File::create(&file).ok()?;
        Some(Self {
            runner: variable,
            file,
            before_the_last_call: OnceLock::new(),
        })
    }

    /// The variables by which cargo runs the tests by this program.
    pub(crate) fn variables(&self) -> Vec<(String, OsString)> {
        let program = env::current_exe().expect("it was known before");
        let mut runner = program.into_os_string();
        runner.push(" timed");
        vec![
            (self.runner.clone(), runner),
            (TIMES.to_owned(), self.file.clone().into_os_string()),
        ]
    }

    /// Notes that the next call of cargo is the last one.
    pub(crate) fn note_the_last_call(&self) {
        let noted = self.lines();
        self.before_the_last_call.get_or_init(|| noted);
    }

    /// Waits until an executable of the last call has ended, so that nothing is compiled any more, or until
    /// there is nothing to wait for.
    pub(crate) fn wait_for_the_last_call(&self, is_over: impl Fn() -> bool) {
        let has_begun = || {
            let before = self.before_the_last_call.get();
            before.is_some_and(|before| self.lines() > *before)
        };
        while !has_begun() && !is_over() {
            thread::sleep(LOOK);
        }
    }

    /// How many tests have ended in the executables that have.
    fn lines(&self) -> usize {
        let times = fs::read_to_string(&self.file);
        times.map_or(0, |it| it.lines().count())
    }

    /// The slowest tests, each in a line, slowest first.
    pub(crate) fn slowest(&self) -> String {
        slowest(&fs::read_to_string(&self.file).unwrap_or_default())
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        // It lies among other temporary files.
        drop(fs::remove_file(&self.file));
    }
}

/// The variable that names the runner for this machine, by what `cargo -vV` says.
fn runner_of(version: &str) -> Option<String> {
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))?;
    let host = host.to_uppercase().replace(['-', '.'], "_");
    Some(format!("CARGO_TARGET_{host}_RUNNER"))
}

/// Runs a test executable with its arguments, and returns its exit code.
pub(crate) fn run(program: &Path, arguments: &[OsString]) -> Result<i32, String> {
    let failed = |error: io::Error| format!("{}: {error}", program.display());
    let mut schedule = Schedule::new(names(program, arguments), threads());
    let mut command = tests(program, arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in output.split(b'\n').map_while(Result::ok) {
            if sender.send((line, Instant::now())).is_err() {
                return;
            }
        }
    });
    let mut stdout = io::stdout();
    let status = loop {
        match lines.recv_timeout(REST) {
            Ok((line, at)) => {
                schedule.read(&String::from_utf8_lossy(&line), at);
                let written = stdout
                    .write_all(&line)
                    .and_then(|()| stdout.write_all(b"\n"));
                written.and_then(|()| stdout.flush()).map_err(failed)?;
            }
            Err(RecvTimeoutError::Disconnected) => break child.wait().map_err(failed)?,
            // A process that it has left behind may keep its output open.
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait().map_err(failed)? {
                    break status;
                }
            }
        }
    };
    schedule.note(&name(program)).map_err(failed)?;
    Ok(status.code().unwrap_or(101))
}

/// The executable as cargo would start it.
fn tests(program: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_remove(TIMES);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_TARGET_") && text.ends_with("_RUNNER") {
            command.env_remove(name);
        }
    }
    command
}

/// The tests that it is going to run, in their order.
fn names(program: &Path, arguments: &[OsString]) -> VecDeque<String> {
    let output = tests(program, arguments).arg("--list").output();
    let told = output.map_or_else(|_| Vec::new(), |it| it.stdout);
    let told = String::from_utf8_lossy(&told);
    let names = told.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(ToOwned::to_owned).collect()
}

fn threads() -> usize {
    let told = env::var("RUST_TEST_THREADS").ok();
    told.and_then(|it| it.parse().ok())
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

/// The name of an executable without what cargo appends.
fn name(program: &Path) -> String {
    let name = program.file_stem().unwrap_or_else(|| OsStr::new("tests"));
    let name = name.to_string_lossy();
    let end = name.rfind('-').unwrap_or(name.len());
    name[..end].to_owned()
}

/// The harness's work over time, as far as it is known.
struct Schedule {
    waiting: VecDeque<String>,
    threads: usize,
    running: BTreeMap<String, Instant>,
    ended: Vec<(String, Duration)>,
}

impl Schedule {
    fn new(waiting: VecDeque<String>, threads: usize) -> Self {
        Self {
            waiting,
            threads,
            running: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Follows a line of the harness that has come at this moment.
    fn read(&mut self, line: &str, at: Instant) {
        if line.starts_with("running ") {
            for _ in 0..self.threads {
                self.begin(at);
            }
        }
        let Some(test) = ended(line) else { return };
        if let Some(begun) = self.running.remove(test) {
            self.ended.push((test.to_owned(), at - begun));
            self.begin(at);
        }
    }

    fn begin(&mut self, at: Instant) {
        if let Some(test) = self.waiting.pop_front() {
            self.running.insert(test, at);
        }
    }

    /// Adds the times to the file that the variable names.
    fn note(&self, executable: &str) -> io::Result<()> {
        let Some(file) = env::var_os(TIMES) else {
            return Ok(());
        };
        let lines = self.ended.iter().map(|(test, took)| {
            let took = took.as_millis();
            format!("{took} {executable}::{test}\n")
        });
        let lines: String = lines.collect();
        let mut file = OpenOptions::new().append(true).open(file)?;
        file.write_all(lines.as_bytes())
    }
}

/// The test that has ended by what a line says.
fn ended(line: &str) -> Option<&str> {
    let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let is_outcome = ["ok", "FAILED", "ignored"].iter();
    let mut is_outcome = is_outcome.filter(|it| outcome.starts_with(**it));
    is_outcome.next()?;
    Some(test.trim_end_matches(" - should panic"))
}

/// The slowest of the tests in lines of milliseconds and names.
fn slowest(times: &str) -> String {
    let times = times.lines().filter_map(|line| {
        let (took, test) = line.split_once(' ')?;
        Some((took.parse().ok()?, test))
    });
    let mut times: Vec<(u64, &str)> = times.collect();
    times.sort_unstable_by(|one, other| other.cmp(one));
    let times = times.into_iter().take(SHOWN).map(|(took, test)| {
        let took = Duration::from_millis(took).as_secs_f64();
        format!("{took:>7.1} s  {test}\n")
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_begins_when_one_before_it_has_ended() {
        let names = ["a", "b", "c", "d"].map(ToOwned::to_owned);
        let mut schedule = Schedule::new(names.into(), 2);
        let begun = Instant::now();
        for (seconds, line) in [
            (0, "running 4 tests"),
            (3, "test b - should panic ... ok"),
            (4, "test c ... ignored, it needs a fork"),
            (60, "test a has been running for over 60 seconds"),
            (70, "test a ... FAILED"),
            (71, "test of something else ... ok"),
            (74, "test d ... ok"),
            (74, "test result: FAILED. 2 passed; 1 failed"),
        ] {
            schedule.read(line, begun + Duration::from_secs(seconds));
        }
        let ended = [("b", 3), ("c", 1), ("a", 70), ("d", 70)];
        let ended = ended.map(|(test, took)| (test.to_owned(), Duration::from_secs(took)));
        assert_eq!(schedule.ended, ended);
    }

    #[test]
    fn the_slowest_come_first_and_no_more_than_ten() {
        let times: Vec<_> = (1..=12)
            .map(|it| format!("{it}500 servers::t{it}"))
            .collect();
        let slowest = slowest(&times.join("\n"));
        let lines: Vec<_> = slowest.lines().collect();
        assert_eq!(lines.len(), SHOWN);
        assert_eq!(lines[0], "   12.5 s  servers::t12");
        assert_eq!(lines[9], "    3.5 s  servers::t3");
    }

    #[test]
    fn cargo_is_told_of_the_runner_by_the_name_of_the_machine() {
        let version = "cargo 1.95.0\nhost: x86_64-unknown-linux-gnu\nos: Debian\n";
        let variable = runner_of(version);
        let expected = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
        assert_eq!(variable.as_deref(), Some(expected));
        assert_eq!(runner_of("cargo 1.95.0"), None);
    }

    #[test]
    fn an_executable_is_called_as_its_source_is() {
        assert_eq!(
            name(Path::new("/t/deps/in_process-28c99331f51c7225")),
            "in_process"
        );
        assert_eq!(name(Path::new("/t/deps/dlock")), "dlock");
    }
}
