//! Two processes that take turns by a lock, and the time from the end of a turn to the begin of the next one.
//!
//! Each rests after its turn for longer than a hand-off takes, and then waits while the other holds: so both are idle when
//! the lock passes on, and neither competes with the next holder.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::PATIENCE;
use super::disk::Disk;
use super::report::Report;
use super::rounds::Rounds;
use crate::Failure;
use crate::clock::micros;

/// A way, its two processes, and what was measured of it.
pub(crate) struct Pair {
    processes: [Process; 2],
    turns: u32,
    pace: [u64; 2],
    pub(crate) rounds: Rounds,
}

impl Pair {
    /// Two processes of a way that is woken.
    pub(crate) async fn start(
        program: &Path,
        words: &[&str],
        turns: u32,
        disk: Disk,
    ) -> Result<Self, Failure> {
        Self::start_at(program, words, turns, disk.pace()).await
    }

    /// Two processes with a pace of their own: a hold, and a rest within it, in µs.
    pub(crate) async fn start_at(
        program: &Path,
        words: &[&str],
        turns: u32,
        pace: [u64; 2],
    ) -> Result<Self, Failure> {
        let processes = [
            Process::start(program, words, "0")?,
            Process::start(program, words, "1")?,
        ];
        let mut pair = Self {
            processes,
            turns,
            pace,
            rounds: Rounds::default(),
        };
        for process in &mut pair.processes {
            let line = process.line().await?;
            if line != "READY" {
                return Err(format!("`{}` says `{line}`", program.display()).into());
            }
        }
        Ok(pair)
    }

    /// The hand-offs of one round, in µs.
    async fn round(&mut self) -> Result<Vec<f64>, Failure> {
        let [hold, think] = self.pace;
        let order = format!("{} {hold} {think}\n", self.turns);
        for process in &mut self.processes {
            process.stdin.write_all(order.as_bytes()).await?;
        }
        let mut turns = Vec::new();
        for (number, process) in self.processes.iter_mut().enumerate() {
            let taken: Vec<[u64; 2]> = serde_json::from_str(&process.line().await?)?;
            turns.extend(taken.into_iter().map(|turn| (turn, number)));
        }
        let times = hand_offs(turns)?;
        if times.is_empty() {
            return Err("no turn has passed from one process to the other".into());
        }
        Ok(times)
    }
}

/// Lets all ways take turns round by round, and adds the hand-offs of these rounds.
pub(crate) async fn take_turns(pairs: &mut [Pair], rounds: u32) -> Result<(), Failure> {
    for round in 0..=rounds {
        for pair in &mut *pairs {
            let times = pair.round().await?;
            // The first round fills caches.
            if round > 0 {
                pair.rounds.add(times);
            }
        }
    }
    Ok(())
}

/// Tells of the turns of three ways: locks of dlock, events of a watch, and `other` locks.
pub(crate) fn report_turns(
    pairs: &[Pair],
    other: &str,
    disk: Disk,
    report: &mut Report,
) -> Result<(), Failure> {
    let [dlock, watch, by_other] = pairs else {
        return Err("a way is missing".into());
    };
    report.time(format!("hand-off by dlock, {disk}"), &dlock.rounds);
    report.time(
        format!("write until the event of a watch is there, {disk}"),
        &watch.rounds,
    );
    report.time(format!("hand-off by {other}, {disk}"), &by_other.rounds);
    report.ratio(
        format!("hand-off / event of a watch, {disk}"),
        dlock.rounds.ratio(&watch.rounds),
        Some(1.3),
    );
    report.ratio(
        format!("hand-off / by {other}, {disk}"),
        dlock.rounds.ratio(&by_other.rounds),
        None,
    );
    Ok(())
}

/// The times between turns of different processes, in µs.
fn hand_offs(mut turns: Vec<([u64; 2], usize)>) -> Result<Vec<f64>, Failure> {
    turns.sort_unstable();
    let mut times = Vec::new();
    for pair in turns.windows(2) {
        let (([_, ended], from), ([begun, _], to)) = (pair[0], pair[1]);
        let time = begun.checked_sub(ended);
        let time = time.ok_or("broken promise: two processes had the turn at once")?;
        if from != to {
            times.push(micros(time));
        }
    }
    Ok(times)
}

/// One process; dropping it kills it.
struct Process {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(program: &Path, words: &[&str], number: &str) -> Result<Self, Failure> {
        let mut child = Command::new(program)
            .args(words)
            .arg(number)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let stdout = child.stdout.take().expect("the output is piped");
        Ok(Self {
            stdin: child.stdin.take().expect("the input is piped"),
            lines: BufReader::new(stdout).lines(),
            _child: child,
        })
    }

    async fn line(&mut self) -> Result<String, Failure> {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.map_err(|_| format!("no answer within {PATIENCE:?}"))??;
        line.ok_or_else(|| "a process that takes turns has ended".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_off_is_between_processes() {
        let turns = vec![
            ([60_000, 70_000], 1),
            ([0, 10_000], 0),
            ([12_000, 20_000], 1),
            ([21_000, 50_000], 1),
        ];
        assert_eq!(format!("{:?}", hand_offs(turns).unwrap()), "[2.0]");
        let at_once = vec![([0, 10], 0), ([9, 12], 1)];
        assert!(hand_offs(at_once).is_err());
    }
}
