//! A history of sections under locks, and a judgement of it, for the simulation and for the chaos
//! on real servers.
//!
//! It knows nothing of dlock. A [`History`] contains the sections, with the time for which each task trusted its lock, and
//! the writes to a resource that the lock protects; a [`Promise`] is a property that the world could hold.

mod joiners;
mod register;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use joiners::{Return, Unseen};
pub use register::Register;

/// One section of one task, as that task saw it. All times are of one clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The lock.
    pub key: String,
    /// How the task held it.
    #[serde(default)]
    pub mode: Mode,
    /// The process that was in the section.
    pub process: u32,
    /// Its task.
    pub task: u32,
    /// The fencing token of the section.
    pub token: i64,
    /// When the task asked for the lock.
    pub asked: Duration,
    /// When the section began.
    pub entered: Duration,
    /// The last moment at which the task trusted its lock: when it began the release, learned of the loss, or was
    /// dropped.
    pub left: Duration,
    /// The cause of its end.
    pub end: End,
}

/// Who else may be in a section of the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Nobody.
    #[default]
    Exclusive,
    /// All but exclusive sections.
    Shared,
    /// The same, where those that are there together may have different tokens.
    SharedApart,
    /// The same, with no more than so many sections of this mode at once.
    Permits(u32),
}

/// The cause of a section's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum End {
    /// The body ran to its end, and the lease was valid until then.
    Finished,
    /// The task learned that the lease is lost.
    Lost,
    /// The task was cancelled or panicked.
    Dropped,
    /// The process was killed; `left` is its last sign of life.
    Killed,
}

/// A write to what a lock protects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The lock, and the resource.
    pub key: String,
    /// The process that wrote.
    pub process: u32,
    /// Its task.
    pub task: u32,
    /// The token that the writer showed.
    pub token: i64,
    /// Whether the resource took it.
    pub accepted: bool,
}

/// Everything that happened in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// In any order.
    pub sections: Vec<Section>,
    /// In the order in which the resource saw them.
    pub writes: Vec<Write>,
    /// In any order; those of a world without a [`Return`] change nothing.
    pub unseen: Vec<Unseen>,
}

/// A promise that a world can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing that was granted is ever forgotten before its time: no two sections of a key overlap,
    /// and tokens grow in the order of the sections.
    Exclusive,
    /// A store may forget its grants, but all clocks that tokens come from agree: an attempt that began after
    /// another one's section has a greater token. So it may not for 10 ms if its process had the lease already.
    Ordered,
    /// A store may forget, or a process pause while it trusts its lease: no token is given twice, and the resource
    /// refuses every late writer.
    Fenced,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two tasks believed to hold one key.
    Overlap(Section, Section),
    /// One more task believed to have a permit than there are: the newcomer, and one of the others.
    TooMany(Section, Section),
    /// A later section of a key has no greater token.
    TokenNotGreater(Section, Section),
    /// Two sections of a key have one token, and one of them is exclusive.
    TokenTwice(Section, Section),
    /// Two sections were in a key together, with different tokens.
    TokensDiffer(Section, Section),
    /// A resource took a write after one with a greater token.
    WentBack(Write, Write),
    /// A resource refused a write although it had taken none with a greater token.
    WronglyRefused(Write),
    /// A section that ended before it began, or began before it was asked for: the history itself is
    /// wrong.
    Backwards(Section),
    /// A write with a token that its writer has had in no section.
    Stray(Write),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(a, b) => write!(f, "two at once:\n  {a:?}\n  {b:?}"),
            Self::TooMany(a, b) => write!(f, "too many at once:\n  {a:?}\n  {b:?}"),
            Self::TokenNotGreater(a, b) => write!(f, "the token did not grow:\n  {a:?}\n  {b:?}"),
            Self::TokenTwice(a, b) => write!(f, "one token for two:\n  {a:?}\n  {b:?}"),
            Self::TokensDiffer(a, b) => write!(f, "two tokens together:\n  {a:?}\n  {b:?}"),
            Self::WentBack(a, b) => write!(f, "the resource went back:\n  {a:?}\n  {b:?}"),
            Self::WronglyRefused(a) => write!(f, "the resource refused the newest:\n  {a:?}"),
            Self::Backwards(a) => write!(f, "a section runs backwards:\n  {a:?}"),
            Self::Stray(a) => write!(f, "a write that belongs to no section:\n  {a:?}"),
        }
    }
}

impl Mode {
    /// Whether others may be in a section at the same time.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !matches!(self, Self::Exclusive)
    }
}

/// The sections of a key so far.
#[derive(Default)]
struct Before<'a> {
    /// The one that lasted longest.
    longest: Option<&'a Section>,
    /// The one with the greatest token.
    greatest: Option<&'a Section>,
    /// The exclusive one that lasted longest, and the one with the greatest token.
    exclusive: Option<&'a Section>,
    exclusive_greatest: Option<&'a Section>,
    /// The others that may last still.
    shared: Vec<&'a Section>,
}

impl<'a> Before<'a> {
    fn judge(&self, section: &Section, found: &mut Vec<Violation>) {
        let pair = |other: &Section| (other.clone(), section.clone());
        let excluded = if section.mode.is_shared() {
            self.exclusive
        } else {
            self.longest
        };
        if let Some(other) = excluded.filter(|it| it.left > section.entered) {
            let (other, section) = pair(other);
            found.push(Violation::Overlap(other, section));
        }
        let greatest = if section.mode == Mode::SharedApart {
            self.exclusive_greatest
        } else {
            self.greatest
        };
        if let Some(other) = greatest.filter(|it| it.token > section.token) {
            let (other, section) = pair(other);
            found.push(Violation::TokenNotGreater(other, section));
        }
        if !section.mode.is_shared() {
            return;
        }
        let together = || self.shared.iter().filter(|it| it.left > section.entered);
        // A smaller token has been found already.
        let differs =
            |it: &&&Section| it.token < section.token && section.mode != Mode::SharedApart;
        if let Some(other) = together().find(differs) {
            let (other, section) = pair(other);
            found.push(Violation::TokensDiffer(other, section));
        }
        let Mode::Permits(mut most) = section.mode else {
            return;
        };
        let (mut count, mut one) = (1, section);
        for other in together() {
            if let Mode::Permits(its) = other.mode {
                (most, count, one) = (most.min(its), count + 1, other);
            }
        }
        if count > most {
            let (other, section) = pair(one);
            found.push(Violation::TooMany(other, section));
        }
    }

    fn add(&mut self, section: &'a Section) {
        let lasts_longer = |it: Option<&Section>| it.is_none_or(|it| it.left < section.left);
        if lasts_longer(self.longest) {
            self.longest = Some(section);
        }
        if self.greatest.is_none_or(|it| it.token < section.token) {
            self.greatest = Some(section);
        }
        if section.mode.is_shared() {
            self.shared.retain(|it| it.left > section.entered);
            self.shared.push(section);
            return;
        }
        if lasts_longer(self.exclusive) {
            self.exclusive = Some(section);
        }
        if self
            .exclusive_greatest
            .is_none_or(|it| it.token < section.token)
        {
            self.exclusive_greatest = Some(section);
        }
    }
}

impl History {
    /// Every broken promise in a world that can hold `promise`.
    ///
    /// Exclusive sections overlap no others of their key. Those that share it have one token while they are there
    /// together, and a section after an exclusive one, or an exclusive one after any, has a greater token.
    ///
    /// A section that ends in the moment in which another begins does not overlap it: so two sections of no length
    /// may be at one moment. Of sections that begin at one moment, the one with the smaller token was first.
    #[must_use]
    pub fn judge(&self, promise: Promise) -> Vec<Violation> {
        self.judge_by(|_| promise, &[])
    }

    /// The same in a world that could hold more at some times than at others: `promise` says what it
    /// could hold at that moment, for the sections that began then.
    #[must_use]
    pub fn judge_by(
        &self,
        promise: impl Fn(Duration) -> Promise,
        returns: &[Return],
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        self.judge_sections(&promise, &mut found);
        self.judge_order(&promise, &mut found);
        self.excuse_smaller_tokens(&promise, returns, &mut found);
        self.judge_writes(&mut found);
        found
    }

    fn judge_sections(&self, promise: &impl Fn(Duration) -> Promise, found: &mut Vec<Violation>) {
        let mut sections: Vec<_> = self.sections.iter().collect();
        sections.sort_by_key(|it| (it.entered, it.token));
        let mut tokens = HashMap::<(&str, i64), &Section>::new();
        let mut before = HashMap::<&str, Before<'_>>::new();
        for section in sections {
            let key = section.key.as_str();
            if section.left < section.entered || section.entered < section.asked {
                found.push(Violation::Backwards(section.clone()));
            }
            if let Some(other) = tokens.insert((key, section.token), section)
                && !(section.mode.is_shared() && other.mode.is_shared())
            {
                found.push(Violation::TokenTwice(other.clone(), section.clone()));
            }
            let before = before.entry(key).or_default();
            if promise(section.entered) == Promise::Exclusive {
                before.judge(section, found);
            }
            before.add(section);
        }
    }

    fn judge_order(&self, promise: &impl Fn(Duration) -> Promise, found: &mut Vec<Violation>) {
        let mut entered: Vec<_> = self.sections.iter().collect();
        entered.sort_by_key(|it| it.entered);
        let mut entered = entered.into_iter().peekable();
        let mut asked: Vec<_> = self.sections.iter().collect();
        asked.sort_by_key(|it| it.asked);
        let mut greatest = HashMap::<&str, &Section>::new();
        for section in asked {
            while let Some(before) = entered.next_if(|it| it.entered < section.asked) {
                let greatest = greatest.entry(&before.key).or_insert(before);
                if greatest.token < before.token {
                    *greatest = before;
                }
            }
            // Where sections exclude each other, their order has been looked at already.
            if promise(section.entered) == Promise::Ordered
                && let Some(before) = greatest.get(section.key.as_str())
                && before.token > section.token
                && !(before.mode == Mode::SharedApart && section.mode == Mode::SharedApart)
            {
                let (before, section) = ((*before).clone(), section.clone());
                found.push(Violation::TokenNotGreater(before, section));
            }
        }
    }

    fn judge_writes(&self, found: &mut Vec<Violation>) {
        let mut last = HashMap::<&str, &Write>::new();
        for write in &self.writes {
            let before = last.get(write.key.as_str()).copied();
            let is_late = before.is_some_and(|before| before.token > write.token);
            match (write.accepted, is_late, before) {
                (true, true, Some(before)) => {
                    found.push(Violation::WentBack(before.clone(), write.clone()));
                }
                (true, ..) => _ = last.insert(&write.key, write),
                (false, false, _) => found.push(Violation::WronglyRefused(write.clone())),
                (false, true, _) => {}
            }
        }
    }

    /// Writes without a section, where the history has every section: so a late write is refused by a
    /// token of a known section.
    ///
    /// Not for callers that write without a section, or leave out sections that were over at once.
    #[must_use]
    pub fn judge_writers(&self) -> Vec<Violation> {
        let sections = self.sections.iter();
        let known: HashSet<_> = sections
            .map(|it| (it.key.as_str(), it.token, it.process, it.task))
            .collect();
        let is_stray =
            |it: &&Write| !known.contains(&(it.key.as_str(), it.token, it.process, it.task));
        let stray = self.writes.iter().filter(is_stray);
        stray.cloned().map(Violation::Stray).collect()
    }

    /// How many writes the resources refused.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.writes.iter().filter(|write| !write.accepted).count()
    }
}

#[cfg(test)]
mod tests;
