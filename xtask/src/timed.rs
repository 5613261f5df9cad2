//! The time of each test, by the output of its executable.
//!
//! The test harness of stable Rust reports only the end of a test. It starts tests in the order of
//! `--list`, so many at a time, and the next one whenever one has ended: the lines and the moments at
//! which they come show when each has begun.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader};
use std::process::ExitStatus;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::executables::Executable;

/// The number of tests that are shown.
const SHOWN: usize = 10;

/// The lines of a failure that are shown again, of its begin and of its end.
const BEGIN_OF_FAILURE: usize = 60;
const END_OF_FAILURE: usize = 40;

/// The status of a harness that has run all tests, some of which have failed.
const FAILED: i32 = 101;

/// How long output is waited for that a process may still write which the tests have left behind.
const REST: Duration = Duration::from_secs(1);

/// An executable that is silent for so long is taken for hanging. The harness speaks at each end of a test, and the longest
/// one that was seen took three minutes.
const SILENCE: Duration = Duration::from_secs(600);

/// The times of all tests that have ended.
#[derive(Default)]
pub(crate) struct Times(Mutex<Vec<(Duration, String)>>);

impl Times {
    fn add(&self, executable: &str, tests: &[(String, Duration)]) {
        let named = tests.iter();
        let named = named.map(|(test, took)| (*took, format!("{executable}::{test}")));
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.extend(named);
    }

    /// The slowest tests, each in a line, slowest first.
    pub(crate) fn slowest(&self) -> String {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.sort_unstable_by(|one, other| other.cmp(one));
        let shown = times.iter().take(SHOWN);
        let lines = shown.map(|(took, test)| format!("{:>7.1} s  {test}\n", took.as_secs_f64()));
        lines.collect()
    }
}

/// The end of an executable.
pub(crate) struct Run {
    status: ExitStatus,
    pub(crate) took: Duration,
    /// Everything that it has written, line by line.
    pub(crate) output: Vec<u8>,
}

impl Run {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// The outcome in words.
    pub(crate) fn ended(&self) -> String {
        if self.succeeded() {
            "ok".to_owned()
        } else {
            format!("FAILED, {}", self.status)
        }
    }

    /// What the harness has written about the tests that failed; of a process that was killed, its last lines.
    pub(crate) fn failure(&self) -> String {
        let output = String::from_utf8_lossy(&self.output);
        let lines = without_frames(output.lines());
        let last = lines.len().saturating_sub(END_OF_FAILURE);
        shortened(&lines[heading(&lines).unwrap_or(last)..])
    }

    /// The same, whole.
    pub(crate) fn failures(&self) -> String {
        let output = String::from_utf8_lossy(&self.output);
        let lines: Vec<_> = output.lines().collect();
        lines[heading(&lines).unwrap_or(0)..].join("\n")
    }

    /// The tests that have failed; none if the harness has not come to its end.
    pub(crate) fn failed_tests(&self) -> Vec<String> {
        if self.status.code() != Some(FAILED) {
            return Vec::new();
        }
        let output = String::from_utf8_lossy(&self.output);
        let failed = output.lines().filter(|it| it.ends_with(" ... FAILED"));
        failed.filter_map(ended).map(ToOwned::to_owned).collect()
    }
}

/// The line with which the harness begins to tell of failures.
fn heading(lines: &[&str]) -> Option<usize> {
    lines.iter().position(|it| *it == "failures:")
}

/// The lines but for the frames of backtraces, which stand with the whole output.
fn without_frames<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut is_frame = false;
    let kept = lines.filter(|line| {
        match *line {
            "stack backtrace:" => is_frame = true,
            // It is the last line of a backtrace.
            it if it.starts_with("note: ") => is_frame = false,
            _ => {}
        }
        !is_frame
    });
    kept.collect()
}

/// The begin and the end of lines.
fn shortened(lines: &[&str]) -> String {
    let left_out = lines
        .len()
        .saturating_sub(BEGIN_OF_FAILURE + END_OF_FAILURE);
    if left_out == 0 {
        return lines.join("\n");
    }
    let begin = lines[..BEGIN_OF_FAILURE].join("\n");
    let end = lines[BEGIN_OF_FAILURE + left_out..].join("\n");
    format!("{begin}\n({left_out} lines left out)\n{end}")
}

/// Runs a test executable to its end, and adds the times of its tests.
pub(crate) fn run(executable: &Executable, times: &Times) -> Result<Run, String> {
    let mut schedule = Schedule::new(names(executable), threads(executable));
    let begun = Instant::now();
    let (status, output) = watched(executable, SILENCE, |line, at| schedule.read(line, at))
        .map_err(|error| error.to_string())?;
    times.add(&executable.name(), &schedule.ended);
    Ok(Run {
        status,
        took: begun.elapsed(),
        output,
    })
}

/// Runs an executable, with each line that it writes as soon as that is there; returns all of them. One that hangs is
/// killed.
fn watched(
    executable: &Executable,
    silence: Duration,
    mut watch: impl FnMut(&str, Instant),
) -> io::Result<(ExitStatus, Vec<u8>)> {
    let (reader, writer) = io::pipe()?;
    let mut command = executable.command();
    // One pipe: a panic of a thread stands where it came.
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // With it the ends for writing of this process, so that the pipe ends with the other one.
    drop(command);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if sender.send((line, Instant::now())).is_err() {
                return;
            }
        }
    });
    let mut output = Vec::new();
    let mut ended = None;
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(REST) {
            Ok((line, at)) => {
                last = at;
                watch(&String::from_utf8_lossy(&line), at);
                output.extend(line);
                output.push(b'\n');
            }
            Err(RecvTimeoutError::Disconnected) => return Ok((child.wait()?, output)),
            // A process that it has left behind may keep its output open. All that it has written itself comes
            // within a time that begins after its end.
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = ended {
                    return Ok((status, output));
                }
                ended = child.try_wait()?;
                if ended.is_none() && last.elapsed() >= silence {
                    let limit = silence.as_secs();
                    output.extend(format!("killed: silent for {limit} s\n").bytes());
                    child.kill()?;
                }
            }
        }
    }
}

/// The tests that an executable is going to run, in their order.
fn names(executable: &Executable) -> VecDeque<String> {
    let output = executable.command().arg("--list").output();
    let listed = output.map_or_else(|_| Vec::new(), |it| it.stdout);
    let listed = String::from_utf8_lossy(&listed);
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names.map(ToOwned::to_owned).collect()
}

fn threads(executable: &Executable) -> usize {
    let threads = executable.variable("RUST_TEST_THREADS");
    threads
        .and_then(|it| it.parse().ok())
        .unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
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
}

/// A time for readers.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The test that has ended by what a line says.
fn ended(line: &str) -> Option<&str> {
    let (test, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let is_outcome = ["ok", "FAILED", "ignored"].iter();
    let mut is_outcome = is_outcome.filter(|it| outcome.starts_with(**it));
    is_outcome.next()?;
    Some(test.trim_end_matches(" - should panic"))
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
    fn both_outputs_are_kept_and_tests_are_timed_by_them() {
        let script = r#"
            [ "$1" = --list ] && { echo "a: test"; echo "b: test"; exit; }
            echo "running 2 tests"; echo "test a ... ok"; echo "a panic" >&2
            echo "test b ... FAILED"; printf "no end of line"; exit 101"#;
        let executable = Executable::of_shell(script, "shell");
        let times = Times::default();
        let run = run(&executable, &times).unwrap();
        assert!(!run.succeeded());
        assert_eq!(run.ended(), "FAILED, exit status: 101");
        let expected =
            "running 2 tests\ntest a ... ok\na panic\ntest b ... FAILED\nno end of line\n";
        assert_eq!(String::from_utf8_lossy(&run.output), expected);
        let slowest = times.slowest();
        assert!(
            slowest.contains("sh::a\n") && slowest.contains("sh::b\n"),
            "{slowest}"
        );
    }

    #[test]
    fn a_failure_is_what_the_harness_says_of_it_or_the_last_lines() {
        let failure = |script: &str| {
            let script = format!("[ \"$1\" = --list ] && exit; {script}");
            let executable = Executable::of_shell(&script, "shell");
            run(&executable, &Times::default()).unwrap().failure()
        };
        let reported = failure("echo 'test a ... FAILED'; echo failures:; echo; echo '    a'");
        assert_eq!(reported, "failures:\n\n    a");
        let killed = failure("seq 50; kill -9 $$");
        assert_eq!(killed.lines().count(), END_OF_FAILURE);
        assert!(killed.ends_with("\n50"), "{killed}");
        let panicked = "echo failures:; echo 'panicked at x'; echo 'stack backtrace:'; seq 300; echo 'note: more'";
        assert_eq!(failure(panicked), "failures:\npanicked at x\nnote: more");
        let long = failure("echo failures:; seq 200");
        assert!(long.starts_with("failures:\n1\n"), "{long}");
        assert!(long.contains("\n59\n(101 lines left out)\n161\n"), "{long}");
    }

    #[test]
    fn a_process_that_is_left_behind_keeps_no_executable_from_its_end() {
        let script = r#"
            [ "$1" = --list ] && exit
            sleep 60 & echo "left $!""#;
        let executable = Executable::of_shell(script, "shell");
        let run = run(&executable, &Times::default()).unwrap();
        let output = String::from_utf8_lossy(&run.output).into_owned();
        let id = output.trim().strip_prefix("left ").unwrap();
        // It has not ended yet.
        assert!(crate::machine::succeeds("kill", &[id]));
        assert!(run.succeeded());
    }

    #[test]
    fn an_executable_that_hangs_is_killed() {
        let hangs = Executable::of_shell("echo begun; exec sleep 600", "shell");
        let (status, output) = watched(&hangs, Duration::ZERO, |_, _| ()).unwrap();
        assert_eq!(status.code(), None);
        assert_eq!(
            String::from_utf8_lossy(&output),
            "begun\nkilled: silent for 0 s\n"
        );
    }

    #[test]
    fn the_slowest_come_first_and_no_more_than_ten() {
        let times = Times::default();
        for seconds in 1..=12 {
            let took = Duration::from_millis(seconds * 1000 + 500);
            times.add("servers", &[(format!("t{seconds}"), took)]);
        }
        let slowest = times.slowest();
        let lines: Vec<_> = slowest.lines().collect();
        assert_eq!(lines.len(), SHOWN);
        assert_eq!(lines[0], "   12.5 s  servers::t12");
        assert_eq!(lines[9], "    3.5 s  servers::t3");
    }
}
