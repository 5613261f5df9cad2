//! The findings of a run, and the numbers of all that happened.

use std::{collections::BTreeMap, fmt, ops::AddAssign, time::Duration};

use dlock_history::Violation;

/// Something that must not happen.
#[derive(Clone, Debug)]
pub enum Finding {
    /// The judge of histories has found it.
    History(Box<Violation>),
    /// A task relied on its lease, and the servers did not keep others out.
    Unfounded(String),
    /// A body was polled although its lease had ended.
    PolledInVain(String),
    /// The resource refused a task with a valid lease.
    Refused(String),
    /// A call failed, or did not end, although nothing went wrong any more.
    Stuck(String),
    /// Something was left behind.
    Left(String),
    /// Code panicked that should not.
    Panicked(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::History(violation) => violation.fmt(f),
            Self::Unfounded(what) => write!(f, "relied on a lease that no server knows: {what}"),
            Self::PolledInVain(what) => write!(f, "ran after the end of its lease: {what}"),
            Self::Refused(what) => write!(f, "held the lock and was refused: {what}"),
            Self::Stuck(what) => write!(f, "did not come to its end: {what}"),
            Self::Left(what) => write!(f, "left behind: {what}"),
            Self::Panicked(what) => write!(f, "panicked: {what}"),
        }
    }
}

/// How much there was of what.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Runs in which no two were to be in a section at once; in the others only fences were judged.
    pub exclusive: u64,
    /// Sections.
    pub sections: u64,
    /// Requests, by what became of them, and everything else that happened.
    pub events: BTreeMap<&'static str, u64>,
    /// Simulated time.
    pub time: Duration,
}

impl Counts {
    pub(crate) fn request(&mut self, fate: &'static str) {
        *self.events.entry(fate).or_default() += 1;
    }

    pub(crate) fn hint(&mut self, times: u32) {
        *self
            .events
            .entry(match times {
                0 => "hint lost",
                1 => "hint",
                _ => "hint doubled",
            })
            .or_default() += 1;
    }

    pub(crate) fn event(&mut self, what: &'static str) {
        *self.events.entry(what).or_default() += 1;
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.exclusive += other.exclusive;
        self.sections += other.sections;
        self.time += other.time;
        for (what, count) in other.events {
            *self.events.entry(what).or_default() += count;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.time.as_secs_f64() / 3600.0;
        writeln!(
            f,
            "{} runs ({} of them judged as exclusive), {} sections, {hours:.1} simulated hours",
            self.runs, self.exclusive, self.sections
        )?;
        let events = self.events.iter();
        let events: Vec<_> = events
            .map(|(what, count)| format!("{what} {count}"))
            .collect();
        f.write_str(&events.join(" · "))
    }
}

/// The result of one run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed that it follows from.
    pub seed: u64,
    /// Broken promises; none, if all is well.
    pub findings: Vec<Finding>,
    /// The numbers of all that happened.
    pub counts: Counts,
    /// All events, if they were asked for.
    pub log: String,
}
