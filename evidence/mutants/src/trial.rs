//! One run of a test binary or the simulation, up to the first thing that it finds.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, io, process, thread};

use super::leftovers::{self, Mark};

/// The limit of a run as a whole.
pub(super) const LONGEST: Duration = Duration::from_secs(1200);

/// The limit of a test after the harness has reported that it takes more than a minute.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time between two looks at a run that writes nothing.
const LOOK: Duration = Duration::from_millis(100);

/// The time after the end of a run within which all that it has written is read, also on a busy machine.
const REST: Duration = Duration::from_secs(1);

/// The end of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has found nothing, in so many tests.
    Well { tests: u64 },
    /// This test has failed, and the rest was not awaited.
    Failed(String),
    /// This test did not end within two minutes, and the rest was not awaited.
    Hung(String),
    /// It has found nothing and did not end as it should, in these words.
    Broke(String),
}

/// The meaning of a test binary's line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Failed(String),
    IsSlow(String),
    Ended(String),
    Passed(u64),
    Other,
}

/// Runs the tests of `command` until the first of them fails or hangs, for `limit` at most.
pub(super) fn run_tests(command: Command, limit: Duration) -> Result<Ended, String> {
    let mut tests = 0;
    let mut found = None;
    let mut slow: Vec<(String, Instant)> = Vec::new();
    let status = run(command, limit, |line| {
        match line.map_or(Line::Other, read) {
            Line::Failed(test) => found = Some(Ended::Failed(test)),
            Line::IsSlow(test) => slow.push((test, Instant::now())),
            Line::Ended(test) => slow.retain(|(it, _)| *it != test),
            Line::Passed(count) => tests = count,
            Line::Other => {}
        }
        let hung = slow.iter().find(|(_, since)| since.elapsed() > PATIENCE);
        found = found
            .take()
            .or_else(|| hung.map(|(test, _)| Ended::Hung(test.clone())));
        found.is_some()
    })?;
    Ok(match (found, status) {
        (Some(found), _) => found,
        (None, Some(status)) if status.success() => Ended::Well { tests },
        (None, Some(status)) => Ended::Broke(format!("the tests ended by {status}")),
        (None, None) => Ended::Broke(format!("the tests did not end in {limit:?}")),
    })
}

/// Runs the simulation, and returns the seed of its first finding with its first line; the seed is missing
/// if it did not come to its end.
pub(super) fn simulate(command: Command) -> Result<Option<(Option<u64>, String)>, String> {
    let mut found = None;
    let status = run(command, LONGEST, |line| {
        found = found.take().or_else(|| finding(line?));
        found.is_some()
    })?;
    if let Some((seed, finding)) = found {
        return Ok(Some((Some(seed), finding)));
    }
    match status {
        Some(status) if status.success() => Ok(None),
        Some(status) => Ok(Some((None, format!("ended by {status}")))),
        None => Ok(Some((None, "did not end".to_owned()))),
    }
}

/// Runs `command` to its end, or until `is_enough` says so of a line or between two, or for `limit`; the status if it has ended by itself.
///
/// It is the leader of a group of its own, which is killed with it: tests start servers. Processes that it has left
/// in other groups are killed by their mark.
fn run(
    mut command: Command,
    limit: Duration,
    mut is_enough: impl FnMut(Option<&str>) -> bool,
) -> Result<Option<ExitStatus>, String> {
    let program = command.get_program().display().to_string();
    let failed = |error: io::Error| format!("{program}: {error}");
    let scratch = Scratch::new().map_err(failed)?;
    let errors = File::create(scratch.0.join("stderr")).map_err(failed)?;
    // Declared after the folder, and so dropped before it: nothing writes there any more.
    let mark = Mark::new();
    mark.put_on(&mut command);
    command.env("TMPDIR", &scratch.0).process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let mut child = command.spawn().map_err(failed)?;
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (sender, told) = mpsc::channel();
    // Ends with the last process that has the pipe, which may be one that the tests have left.
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + limit;
    let mut status = None;
    loop {
        let has_ended = child.try_wait().map_err(failed)?;
        let rest = if has_ended.is_some() { REST } else { LOOK };
        match told.recv_timeout(rest) {
            Ok(line) if is_enough(Some(&line)) => break,
            // A process that it has left may still have its output.
            Err(_) if has_ended.is_some() => {
                status = has_ended;
                break;
            }
            // It is about to end.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(5)),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        if is_enough(None) || Instant::now() >= end {
            break;
        }
    }
    leftovers::kill(&[format!("-{}", child.id())]);
    child.wait().map_err(failed)?;
    Ok(status)
}

/// A folder for what the tests write, as those that are killed remove nothing. Its name is short: there are
/// sockets in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("mutants-{}-{number}", process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let folder: &Path = &self.0;
        // A server that is being killed may still write.
        drop(fs::remove_dir_all(folder));
    }
}

fn read(line: &str) -> Line {
    let name = |text: &str| text.trim_end_matches(" - should panic").to_owned();
    if let Some(test) = line.strip_prefix("test ") {
        if let Some(test) = test.strip_suffix(" ... FAILED") {
            return Line::Failed(name(test));
        }
        if let Some(test) = test.strip_suffix(" ... ok") {
            return Line::Ended(name(test));
        }
        if let Some((test, _)) = test.split_once(" has been running for over ") {
            return Line::IsSlow(name(test));
        }
        if let Some(result) = test.strip_prefix("result: ok. ") {
            let count = result
                .split(' ')
                .next()
                .and_then(|count| count.parse().ok());
            return count.map_or(Line::Other, Line::Passed);
        }
    }
    Line::Other
}

/// The seed and the text of a finding of the simulation, if the line has one.
fn finding(line: &str) -> Option<(u64, String)> {
    let (seed, finding) = line.strip_prefix("seed ")?.split_once(": ")?;
    Some((seed.parse().ok()?, finding.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_of_the_harness_are_read() {
        assert_eq!(read("test a::b ... FAILED"), Line::Failed("a::b".into()));
        let panics = "test a::b - should panic ... FAILED";
        assert_eq!(read(panics), Line::Failed("a::b".into()));
        assert_eq!(read("test a::b ... ok"), Line::Ended("a::b".into()));
        let hangs = "test a::b has been running for over 60 seconds";
        assert_eq!(read(hangs), Line::IsSlow("a::b".into()));
        let passed = "test result: ok. 12 passed; 0 failed; 0 ignored";
        assert_eq!(read(passed), Line::Passed(12));
        for line in ["test result: FAILED. 1 passed; 1 failed", "FAILED"] {
            assert_eq!(read(line), Line::Other, "{line}");
        }
    }

    #[test]
    fn the_first_finding_ends_a_run_and_all_that_it_has_started() {
        let begun = Instant::now();
        let script = "sleep 600 & echo; echo 'test a ... FAILED'; sleep 600";
        assert_eq!(
            run_tests(shell(script), LONGEST),
            Ok(Ended::Failed("a".into()))
        );
        let script = "echo 'seed 12: late: a'; echo 'seed 12: again'; sleep 600";
        let found = (Some(12), "late: a".to_owned());
        assert_eq!(simulate(shell(script)), Ok(Some(found)));
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "nothing was awaited"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_in_a_session_of_its_own_ends_with_its_run() {
        let script = "setsid sh -c 'echo test $$ ... FAILED; exec sleep 600' & sleep 600";
        let Ok(Ended::Failed(id)) = run_tests(shell(script), LONGEST) else {
            panic!("the script tells its own id");
        };
        // Until its parent has asked how it ended, it is there without its variables.
        let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        assert!(variables.is_empty(), "{id} is still there");
    }

    #[test]
    fn a_run_without_a_finding_tells_how_it_ended() {
        let well = run_tests(shell("echo 'test result: ok. 3 passed; 0 failed'"), LONGEST);
        assert_eq!(well, Ok(Ended::Well { tests: 3 }));
        let broke = run_tests(shell("exit 3"), LONGEST);
        assert!(matches!(broke, Ok(Ended::Broke(how)) if how.contains('3')));
        assert_eq!(simulate(shell("true")), Ok(None));
        assert!(matches!(simulate(shell("exit 1")), Ok(Some((None, _)))));
    }
}
