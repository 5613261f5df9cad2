//! Messages from a worker to the coordinator, one line each on the standard output.

use std::{fmt, str::FromStr, time::Duration};

/// A line from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The worker is in the critical section of this order and waits to be killed.
    Stalled { order: String, token: i64 },
    /// The worker has processed the whole file.
    Done(Tally),
}

/// The counts of one worker, or of all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) settled: usize,
    /// Calls whose lock was busy for the whole `wait`.
    pub(crate) busy: usize,
    /// Calls with another error.
    pub(crate) errors: usize,
    /// Locks whose release the server had not confirmed at the end.
    pub(crate) unreleased: usize,
    /// The waiting time of each call.
    pub(crate) waits: Vec<Duration>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.settled += other.settled;
        self.busy += other.busy;
        self.errors += other.errors;
        self.unreleased += other.unreleased;
        self.waits.extend(other.waits);
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled { order, token } => write!(f, "stalled {order} {token}"),
            Self::Done(tally) => {
                let (settled, busy) = (tally.settled, tally.busy);
                let (errors, unreleased) = (tally.errors, tally.unreleased);
                write!(f, "done {settled} {busy} {errors} {unreleased}")?;
                let mut waits = tally.waits.iter();
                waits.try_for_each(|wait| write!(f, " {}", wait.as_micros()))
            }
        }
    }
}

/// The line is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

impl FromStr for Message {
    type Err = Unknown;

    fn from_str(line: &str) -> Result<Self, Unknown> {
        parse(line).ok_or(Unknown)
    }
}

fn parse(line: &str) -> Option<Message> {
    let mut words = line.split(' ');
    match words.next()? {
        "stalled" => Some(Message::Stalled {
            order: words.next()?.to_owned(),
            token: words.next()?.parse().ok()?,
        }),
        "done" => {
            let mut number = || words.next()?.parse().ok();
            Some(Message::Done(Tally {
                settled: number()?,
                busy: number()?,
                errors: number()?,
                unreleased: number()?,
                waits: words
                    .map(|wait| wait.parse().ok().map(Duration::from_micros))
                    .collect::<Option<_>>()?,
            }))
        }
        _ => None,
    }
}
