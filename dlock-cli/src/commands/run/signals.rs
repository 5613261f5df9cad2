//! The signals that are meant for the command.

use std::{future::poll_fn, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{Exit, Failure};

/// Those that end or tell a program something, and can be passed on.
const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// Signals as they arrive. Without it they would end this process, and not the command.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(super) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let mut streams = Vec::new();
        for signal in PASSED_ON {
            // What `nohup`, or a shell that puts us into the background, has had ignored is ignored by
            // the command too, unless somebody listens to it here.
            if !ignored.contains(&signal) {
                let kind = SignalKind::from_raw(signal.as_raw());
                streams.push((signal, unix::signal(kind)?));
            }
        }
        Ok(Self(streams))
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// What a signal that comes before the command makes of this process.
pub(super) fn exit_of(signal: Signal) -> Exit {
    Exit::Command(number_of(signal.as_raw()))
}

/// The exit code that shells show for a signal.
pub(super) fn number_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The signals that this process was started to ignore. Only Linux tells without system calls that are not safe;
/// elsewhere there are none.
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

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tdlock\nSigIgn:\t0000000000001003\nSigCgt:\tffffffffffffffff\n";
        assert_eq!(ignored_of(status), [Signal::HUP, Signal::INT]);
        assert_eq!(ignored_of(""), []);
    }
}
