//! Supervises the running command: decides when it must end, and ends it.

use std::time::Duration;

use dlock::{LockError, LockGuard};
use tokio::time::{Instant, sleep, sleep_until};

use super::{RunArgs, command::RunningCommand, signals::Signals, watchdog::Watchdog};
use crate::{
    exit::{Exit, Failure, note},
    global::Global,
    text::rough,
};

/// The wait if no limit is set.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How much later than `dlock` the watchdog kills a command that got `SIGTERM`.
const SLACK: Duration = Duration::from_millis(500);

/// The reason why the command must end.
enum Reason {
    /// The lease was lost.
    Lost(LockError),
    /// The lease was not renewed and ends soon.
    NotRenewed,
    /// `--max-hold` has passed. The lease is renewed until the command has ended.
    MaxHold(Duration),
}

/// The remaining time of the lease, and its remaining time after the acquisition or the last renewal.
///
/// A lease that the store granted has only a few seconds at first, whatever its TTL.
struct Term {
    whole: Duration,
    left: Duration,
}

impl Term {
    fn of(left: Duration) -> Self {
        Self { whole: left, left }
    }

    fn look(&mut self, left: Duration) {
        if left > self.left {
            self.whole = left;
        }
        self.left = left;
    }

    /// Returns the time before the end of the lease at which the command gets `SIGTERM`. A healthy lease never has so
    /// little time left, because it is renewed after a third.
    fn early(&self, kill_after: Duration) -> Duration {
        kill_after.min(self.whole / 3)
    }

    /// Returns the interval of messages to the watchdog, which is far shorter than its limit.
    fn tick(&self) -> Duration {
        self.whole / 12
    }
}

/// Waits for the end of the command, or ends it.
pub(super) async fn supervise(
    global: &Global,
    args: &RunArgs,
    guard: &LockGuard,
    command: &mut RunningCommand,
    signals: &mut Signals,
    watchdog: &Watchdog,
) -> Result<Exit, Failure> {
    let max_hold = args.max_hold.unwrap_or(NEVER);
    let held_enough = sleep_until(Instant::now() + max_hold.min(NEVER));
    tokio::pin!(held_enough);
    let mut term = Term::of(guard.remaining());
    let reason = loop {
        term.look(guard.remaining());
        let early = term.early(args.kill_after());
        let to_spare = term.left.saturating_sub(early);
        if !to_spare.is_zero() {
            watchdog.report(term.left, early);
        }
        tokio::select! {
            biased;
            ended = command.ended() => {
                let grace = args.kill_after();
                if command.leaves_others() {
                    let message = "the command was ended by a signal: ending the processes that it has started";
                    note(global.json, &ending(message, grace));
                }
                let limit = Instant::now() + grace;
                let others = command.followed_by_others(limit);
                if under_lock(guard, watchdog, &mut term, others).await.is_none() {
                    command.followed_by_others(Instant::now()).await;
                }
                return ended;
            }
            lost = guard.lost() => break Reason::Lost(lost),
            signal = signals.next() => command.pass_on(signal),
            () = &mut held_enough => break Reason::MaxHold(max_hold),
            () = sleep(to_spare.min(term.tick())) => if to_spare.is_zero() {
                break Reason::NotRenewed;
            }
        }
    };
    let grace = match &reason {
        Reason::NotRenewed => args.kill_after().min(guard.remaining()),
        Reason::Lost(_) | Reason::MaxHold(_) => args.kill_after(),
    };
    let message = format!("{}: ending {}", reason.text(), command.target());
    note(global.json, &ending(&message, grace));
    let end = Instant::now() + grace;
    command.terminate();
    if let Reason::MaxHold(_) = reason {
        let ended = under_lock(guard, watchdog, &mut term, command.ended_by(end)).await;
        match ended {
            Some(ended) => ended?,
            None => command.ended_by(Instant::now()).await?,
        }
    } else {
        watchdog.report(grace + SLACK, Duration::ZERO);
        command.ended_by(end).await?;
    }
    Err(reason.failure(&args.key))
}

fn ending(message: &str, grace: Duration) -> String {
    format!("{message}, SIGKILL follows in {}", rough(grace))
}

/// Awaits `future`, the end of the command. Returns `None` if the lease is lost before.
async fn under_lock<T>(
    guard: &LockGuard,
    watchdog: &Watchdog,
    term: &mut Term,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(future);
    loop {
        term.look(guard.remaining());
        // The command has got its signal: the watchdog only has to kill it in time.
        watchdog.report(term.left, Duration::ZERO);
        tokio::select! {
            biased;
            output = &mut future => return Some(output),
            _ = guard.lost() => return None,
            () = sleep(term.tick()) => {}
        }
    }
}

impl Reason {
    fn text(&self) -> String {
        match self {
            Self::Lost(_) => "the lease was lost".to_owned(),
            Self::NotRenewed => "the lease cannot be renewed".to_owned(),
            Self::MaxHold(limit) => format!("`--max-hold {}` has passed", rough(*limit)),
        }
    }

    fn failure(self, key: &str) -> Failure {
        match self {
            Self::Lost(error) => error.into(),
            Self::NotRenewed => {
                let message = format!(
                    "lock `{key}` could not be renewed: the command was ended before its lease expired"
                );
                Failure::new(Exit::Lost, message)
            }
            Self::MaxHold(limit) => {
                let message = format!(
                    "lock `{key}` was held for `--max-hold {}`: the command was ended",
                    rough(limit)
                );
                Failure::new(Exit::Lost, message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_granted_lease_is_measured_again_after_its_first_renewal() {
        let seconds = Duration::from_secs;
        let mut term = Term::of(seconds(3));
        assert_eq!(term.early(seconds(10)), seconds(1));
        term.look(seconds(30));
        assert_eq!(term.early(seconds(10)), seconds(10));
        assert_eq!(term.early(seconds(60)), seconds(10));
        // The remaining time grows smaller, and the margin does not.
        term.look(seconds(20));
        assert_eq!(term.early(seconds(60)), seconds(10));
        assert_eq!(term.tick(), seconds(30) / 12);
    }
}
