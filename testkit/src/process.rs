//! A second process: what a killed or sleeping holder of a lock really is.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

use crate::child::OwnedChild;
use dlock_waiting::within;

const PAUSE: Duration = Duration::from_millis(5);

/// A child process whose output is collected; dropping it kills it.
pub struct Worker {
    process: Mutex<OwnedChild>,
    stdout: Collected,
    stderr: Collected,
}

impl Worker {
    /// Starts a program. Its standard input is empty, its output is collected.
    pub fn spawn(command: &mut Command) -> Self {
        let mut process = OwnedChild::spawn(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        )
        .unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
        let stdout = process.inner().stdout.take().expect("the output is piped");
        let stderr = process.inner().stderr.take().expect("the output is piped");
        Self {
            process: Mutex::new(process),
            stdout: Collected::from(stdout),
            stderr: Collected::from(stderr),
        }
    }

    /// Starts an example of this workspace with additional environment variables.
    #[must_use]
    pub fn example(name: &str, environment: &[(&str, &str)]) -> Self {
        Self::spawn(Command::new(example_path(name)).envs(environment.iter().copied()))
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process().id()
    }

    /// The exit status of the process, if it has ended.
    #[must_use]
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process().exited()
    }

    /// Kills the process: no destructor of it runs, no lock is released.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Stops the process, as a long garbage collection or a suspended machine would.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Waits until the process has ended and all its output is collected.
    ///
    /// Panics if that takes longer than `deadline`.
    pub async fn wait(&self, deadline: Duration) -> ExitStatus {
        let ended = within(deadline, async {
            loop {
                // A grandchild may hold the pipes open for ever; the deadline covers that too.
                let exited = self.process().exited();
                if let Some(status) = exited
                    && self.stdout.is_complete()
                    && self.stderr.is_complete()
                {
                    return status;
                }
                sleep(PAUSE).await;
            }
        });
        let ended = ended.await;
        ended.unwrap_or_else(|| {
            let (left, output) = (self.left(), self.output());
            panic!("not ended within {deadline:?}{output}\n--- processes\n{left}")
        })
    }

    /// Waits for a line on the standard output that contains `text`, and returns it.
    ///
    /// Lines that were there before the call count. Panics if there is none within `deadline`
    /// or the process ends without it.
    pub async fn line(&self, text: &str, deadline: Duration) -> String {
        let found = within(deadline, async {
            loop {
                // Asked before the lines are searched, or the last line could come in between.
                let complete = self.stdout.is_complete();
                if let Some(line) = self.stdout.text().lines().find(|line| line.contains(text)) {
                    return line.to_owned();
                }
                assert!(
                    !complete,
                    "ended without a line with `{text}`{}",
                    self.output()
                );
                sleep(PAUSE).await;
            }
        });
        let missing = || panic!("no line with `{text}` within {deadline:?}{}", self.output());
        found.await.unwrap_or_else(missing)
    }

    /// The standard output of the process so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The standard error of the process so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    fn output(&self) -> String {
        format!(
            "\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout(),
            self.stderr()
        )
    }

    /// Returns the process and its children as `ps` shows them: one of them may be what the others wait for.
    fn left(&self) -> String {
        const COLUMNS: &str = "pid,ppid,pgid,sid,stat,wchan:20,args";
        let Ok(shown) = Command::new("ps").args(["-eo", COLUMNS]).output() else {
            return "unknown".to_owned();
        };
        let id = self.id().to_string();
        let is_near = |line: &&str| line.split_whitespace().take(4).any(|it| it == id);
        let shown = String::from_utf8_lossy(&shown.stdout);
        shown.lines().filter(is_near).collect::<Vec<_>>().join("\n")
    }

    fn process(&self) -> MutexGuard<'_, OwnedChild> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path at which cargo has put the binary of an example, found from the test that is running.
///
/// `cargo test` builds all examples unless its arguments name targets.
#[must_use]
pub fn example_path(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a running test knows its binary");
    // target/debug/deps/test-0123 lies beside target/debug/examples/name.
    let path = test
        .ancestors()
        .skip(1)
        .map(|directory| directory.join("examples").join(name))
        .find(|candidate| candidate.is_file());
    path.unwrap_or_else(|| {
        panic!("the example `{name}` is not built: run `cargo build --example {name}` first")
    })
}

/// Output that a thread reads as it comes, so that the writer never waits for a full pipe.
struct Collected(Arc<Mutex<Output>>);

#[derive(Default)]
struct Output {
    text: String,
    complete: bool,
}

impl Collected {
    fn from(pipe: impl Read + Send + 'static) -> Self {
        let output = Arc::new(Mutex::new(Output::default()));
        let collected = Self(Arc::clone(&output));
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                lock(&output).text.push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
            lock(&output).complete = true;
        });
        collected
    }

    fn text(&self) -> String {
        lock(&self.0).text.clone()
    }

    fn is_complete(&self) -> bool {
        lock(&self.0).complete
    }
}

fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}
