//! The watchdog: a second process, which ends the command when `dlock` is stopped or killed.
//!
//! It reads lines from a pipe of `dlock`. The first line names the processes to watch. Each further line contains two
//! numbers of milliseconds: the time until the next line at the latest, and the validity of the lease. The last line is
//! `over`. A pipe that ends without this line means that `dlock` was killed.

use std::{
    io::{self, PipeWriter, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use clap::Args;
use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::unix::pipe,
    process::{Child, Command},
    time::{Instant, timeout, timeout_at},
};

use super::{signals::Signals, target::Target, tree::Tree};
use crate::exit::{Exit, Failure, note};

/// The limit for the end of a dismissed watchdog.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The watchdog, as `dlock` sees it.
pub(super) struct Watchdog {
    child: Child,
    pipe: PipeWriter,
}

impl Watchdog {
    pub(super) fn start(kill_after: Duration) -> Result<Self, Failure> {
        let (reader, pipe) = io::pipe()?;
        // A pipe of tokio would write nothing before its driver has polled it once.
        rustix::io::ioctl_fionbio(&pipe, true).map_err(io::Error::from)?;
        let child = Command::new(this_program()?)
            .arg0("dlock")
            .arg("watchdog")
            .args(["--kill-after", &milliseconds(kill_after)])
            .stdin(Stdio::from(reader))
            .stdout(Stdio::null())
            // Signals that are typed at a terminal do not reach it.
            .process_group(0)
            .spawn()
            .map_err(|error| {
                Failure::new(
                    Exit::Internal,
                    format!("cannot start the watchdog: {error}"),
                )
            })?;
        Ok(Self { child, pipe })
    }

    pub(super) fn watches(&self, target: &Target) {
        let line = match target {
            Target::Process(pid) => format!("process {pid}\n"),
            Target::Tree(tree) => format!("tree {}\n", tree.to_words()),
            Target::Group(pid) => format!("group {pid}\n"),
        };
        self.write(&line);
    }

    /// Reports that the lease is valid for `left`, and that the command must get `SIGTERM` `early` before its end.
    pub(super) fn report(&self, left: Duration, early: Duration) {
        let (silence, left) = (milliseconds(silence(left, early)), milliseconds(left));
        self.write(&format!("left {silence} {left}\n"));
    }

    /// Ends the watchdog.
    pub(super) async fn dismiss(mut self) {
        self.write("over\n");
        drop(self.pipe);
        drop(timeout(LAST_WAIT, self.child.wait()).await);
    }

    /// Writes a line, which is far shorter than what a pipe takes at once. The pipe fills up if the watchdog was killed
    /// or stopped, which is not a reason to end the command.
    fn write(&self, line: &str) {
        drop((&self.pipe).write(line.as_bytes()));
    }
}

/// Returns the time without news after which the watchdog acts: a little later than `dlock` itself, which has newer
/// information.
fn silence(left: Duration, early: Duration) -> Duration {
    left.saturating_sub(early * 9 / 10)
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().to_string()
}

fn this_program() -> io::Result<PathBuf> {
    // This path works even if the file was replaced after the start.
    let of_linux = Path::new("/proc/self/exe");
    if of_linux.exists() {
        Ok(of_linux.into())
    } else {
        std::env::current_exe()
    }
}

#[derive(Debug, Args)]
pub(crate) struct WatchdogArgs {
    #[arg(long)]
    kill_after: u64,
}

/// The last line that the watchdog has read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Target(Target),
    /// The time until the next line at the latest, and the validity of the lease.
    Left([u64; 2]),
    Over,
}

impl Told {
    fn read(line: &str) -> Option<Self> {
        let of_number = |text: &str| Pid::from_raw(text.parse().ok()?);
        match line.split_once(' ') {
            Some(("process", pid)) => of_number(pid).map(|it| Self::Target(Target::Process(it))),
            Some(("tree", words)) => Tree::of_words(words).map(|it| Self::Target(Target::Tree(it))),
            Some(("group", pid)) => of_number(pid).map(|it| Self::Target(Target::Group(it))),
            Some(("left", rest)) => {
                let (silence, left) = rest.split_once(' ')?;
                Some(Self::Left([silence.parse().ok()?, left.parse().ok()?]))
            }
            None if line == "over" => Some(Self::Over),
            _ => None,
        }
    }
}

/// Runs the watchdog.
pub(crate) async fn watch_over(args: &WatchdogArgs) -> Result<Exit, Failure> {
    // A service manager signals all processes of a service, but the watchdog must not end before `dlock`.
    let _deaf = Signals::listen()?;
    let pipe = io::stdin().as_fd().try_clone_to_owned()?;
    let mut lines = BufReader::new(pipe::Receiver::from_owned_fd(pipe)?).lines();
    let mut target = None;
    let mut times: Option<[Instant; 2]> = None;
    let reason = loop {
        let line = match times {
            Some([act_at, _]) => match timeout_at(act_at, lines.next_line()).await {
                Ok(line) => line,
                Err(_) => break "`dlock run` does not respond and its lease ends soon",
            },
            None => lines.next_line().await,
        };
        match line.ok().flatten().as_deref().map(Told::read) {
            Some(Some(Told::Target(read))) => target = Some(read),
            Some(Some(Told::Left(left))) => {
                let now = Instant::now();
                times = Some(left.map(|ms| now + Duration::from_millis(ms)));
            }
            Some(Some(Told::Over)) => return Ok(Exit::Success),
            Some(None) => {}
            None => break "`dlock run` was killed",
        }
    };
    let Some(mut target) = target else {
        // `dlock` was killed before it started the command.
        return Ok(Exit::Success);
    };
    note(false, &format!("{reason}: ending {target}"));
    let now = Instant::now();
    let grace = Duration::from_millis(args.kill_after);
    let end = times.map_or(now, |[_, end]| end.min(now + grace));
    target.terminate();
    target.gone_or_killed(end).await;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_after_dlock_and_before_the_end_of_the_lease() {
        let seconds = Duration::from_secs;
        let (left, early) = (seconds(30), seconds(10));
        let silence = silence(left, early);
        assert!(left < silence + early && silence < left, "{silence:?}");
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        let pid = Pid::from_raw(12).unwrap();
        let target = |target| Some(Told::Target(target));
        assert_eq!(Told::read("process 12"), target(Target::Process(pid)));
        assert_eq!(Told::read("group 12"), target(Target::Group(pid)));
        assert_eq!(Told::read("left 0 7"), Some(Told::Left([0, 7])));
        assert_eq!(Told::read("over"), Some(Told::Over));
        for line in [
            "",
            "left",
            "left 1",
            "left -1 2",
            "group x",
            "tree 12",
            "over 1",
        ] {
            assert_eq!(Told::read(line), None);
        }
    }
}
