//! Receives the signals that are passed on to the command.

use std::{future::poll_fn, task::Poll, time::Duration};

use futures_util::FutureExt;
use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    signal::unix::{self, SignalKind},
    time::timeout,
};

use crate::exit::{Exit, Failure};

/// The signals that are passed on.
const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// A signal that this process sends to itself. It has no other use here, and a process without a handler ignores it.
const MARK: Signal = Signal::URG;

/// The limit for the mark: a process that was started with this signal blocked never receives it.
const MARK_LIMIT: Duration = Duration::from_secs(1);

/// The stream of received signals. Without it a signal would end this process instead of the command.
pub(super) struct Signals {
    passed_on: Vec<(Signal, unix::Signal)>,
    mark: unix::Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let stream = |signal: Signal| unix::signal(SignalKind::from_raw(signal.as_raw()));
        let ignored = ignored();
        let mut passed_on = Vec::new();
        for signal in PASSED_ON {
            // `nohup`, or a shell that starts a background job, sets some signals to ignored. A handler here would reset
            // them for the command.
            if !ignored.contains(&signal) {
                passed_on.push((signal, stream(signal)?));
            }
        }
        let mark = stream(MARK)?;
        Ok(Self { passed_on, mark })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.passed_on {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns a signal that was sent to this process before the call, if there is one.
    ///
    /// A signal reaches the process at once, but `next` only after the runtime has polled its driver. So this method
    /// sends a mark to itself and waits for it. An earlier signal can arrive after the mark only if two threads
    /// receive the two signals at the same time.
    pub(super) async fn arrived(&mut self) -> Option<Signal> {
        // Discard the mark of an earlier call that came after its limit.
        let _ = self.mark.recv().now_or_never();
        if kill_process(getpid(), MARK).is_ok() {
            let _ = timeout(MARK_LIMIT, self.mark.recv()).await;
        }
        self.next().now_or_never()
    }
}

/// Returns the exit code of this process after a signal before the start of the command.
pub(super) fn exit_of(signal: Signal) -> Exit {
    Exit::Command(number_of(signal.as_raw()))
}

/// Returns the exit code that shells use for a signal.
pub(super) fn number_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Returns the signals that were set to ignored when this process started. They can be read without unsafe system
/// calls only on Linux; elsewhere the list is empty.
fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_of(&status)
}

fn ignored_of(status: &str) -> Vec<Signal> {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let is_ignored = |signal: &Signal| mask >> (signal.as_raw() - 1) & 1 == 1;
    PASSED_ON.into_iter().filter(is_ignored).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn checks_lose_no_signal() {
        const LIMIT: Duration = Duration::from_secs(60);
        let mut signals = Signals::listen().expect("signals can be listened to");
        let mut at_once = 0;
        for _ in 0..100 {
            assert_eq!(signals.arrived().await, None);
            // One that the tests of this program do not mind, as it is listened to.
            kill_process(getpid(), Signal::USR2).expect("it runs");
            let seen = match signals.arrived().await {
                Some(seen) => {
                    at_once += 1;
                    seen
                }
                // A signal that was set to ignored when this process started never comes.
                None => timeout(LIMIT, signals.next())
                    .await
                    .expect("it is received"),
            };
            assert_eq!(seen, Signal::USR2);
        }
        // Two threads of this program may take one each, but not every time.
        assert_ne!(at_once, 0, "no signal was returned by `arrived`");
    }

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tdlock\nSigIgn:\t0000000000001003\nSigCgt:\tffffffffffffffff\n";
        assert_eq!(ignored_of(status), [Signal::HUP, Signal::INT]);
        assert_eq!(ignored_of(""), []);
    }
}
