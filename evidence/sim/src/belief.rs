//! The validity that a task believes in, from the begin of its section to the end of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dlock::{FencingToken, Lease, Wait};
use dlock_history::{End, Mode, Section};
use tokio::time::Instant;

use crate::{host::Host, verdict::Finding, world::World};

/// A wait may be longer by this: for a last answer, and for what has to be given back.
const SPARE: Duration = Duration::from_secs(8);

/// The task with a section.
#[derive(Clone)]
pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    pub(crate) host: Arc<Host>,
    pub(crate) task: u32,
    /// When it asked for the lock.
    pub(crate) asked: Duration,
    /// The same, by a clock that does not count the time asleep.
    pub(crate) began: Instant,
    pub(crate) wait: Wait,
    /// Whether it would be stopped at the end of its lease.
    pub(crate) is_watched: bool,
    /// How it wants its keys, by their names.
    pub(crate) modes: Arc<BTreeMap<String, Mode>>,
}

/// A section that is going on. What is dropped unfinished has been cancelled.
pub(crate) struct Belief {
    actor: Actor,
    held: Vec<(String, FencingToken)>,
    entered: Duration,
    /// The same, by a clock that does not count the time asleep.
    began: Instant,
    /// When it has last looked, and was right.
    looked: Duration,
    /// The end of its lease's validity, as of that moment.
    trusted: Duration,
    is_over: bool,
}

impl Actor {
    /// The section begins.
    pub(crate) fn enters(&self, lease: &Lease) -> Belief {
        self.is_in_time("is in");
        let entered = self.world.elapsed();
        let tokens = lease.fencing_tokens();
        let held: Vec<_> = tokens
            .map(|(key, token)| (key.as_str().to_owned(), token))
            .collect();
        self.log(format_args!("enters {held:?}"));
        for (key, _) in held.iter().filter(|(key, _)| self.mode(key).is_shared()) {
            let mut state = self.world.state();
            let others = state.together.entry(key.clone()).or_default();
            *others += 1;
            if *others > 1 {
                state.counts.event("in together");
            }
        }
        Belief {
            actor: self.clone(),
            held,
            entered,
            began: Instant::now(),
            looked: entered,
            trusted: entered,
            is_over: false,
        }
    }

    /// A wait ends in its time, unless something has held up the process.
    pub(crate) fn is_in_time(&self, what: &str) {
        let wait = match self.wait {
            Wait::Never => Duration::ZERO,
            Wait::For(wait) => wait,
            _ => return,
        };
        let took = self.began.elapsed();
        if took > wait + SPARE && !self.world.was_late_after(self.began, &self.host) {
            let (host, task) = (self.host.number, self.task);
            self.world.finds(Finding::Stuck(format!(
                "p{host}.t{task} {what} after {took:?}, and wanted to wait for {wait:?}"
            )));
        }
    }

    fn mode(&self, key: &str) -> Mode {
        self.modes[key]
    }

    pub(crate) fn log(&self, what: std::fmt::Arguments<'_>) {
        let (host, task) = (self.host.number, self.task);
        self.world.log(format_args!("p{host}.t{task} {what}"));
    }
}

impl Belief {
    /// Does something that only the holder may do; `false` if the lease is lost.
    pub(crate) fn act(&mut self, lease: &Lease) -> bool {
        let world = self.actor.world.clone();
        let now = world.elapsed();
        if lease.ensure_held().is_err() {
            self.end(End::Lost);
            return false;
        }
        self.looked = now;
        self.trusted = now + lease.remaining();
        for (key, token) in &self.held {
            if !world.is_founded(key, token.fence(), &self.actor.host) {
                let finding = self.describe(key);
                if world.is_exclusive() {
                    world.finds(Finding::Unfounded(finding));
                }
            }
        }
        self.write(true);
        true
    }

    /// The same for a task that does not check its lease. The time of its belief does not grow by that: only its
    /// writes may come after those of others.
    pub(crate) fn act_carelessly(&self, lease: &Lease) {
        if lease.is_lost() {
            let world = &self.actor.world;
            world.count(|counts| counts.event("wrote carelessly"));
        }
        self.write(false);
    }

    fn write(&self, has_looked: bool) {
        let Actor {
            world, host, task, ..
        } = &self.actor;
        for (key, token) in &self.held {
            // They would refuse each other's writes.
            if self.actor.mode(key) == Mode::SharedApart {
                continue;
            }
            let writer = [host.number, *task];
            let taken = world.register.write(key, writer, token.to_i64());
            if !taken && has_looked && world.is_exclusive() {
                world.finds(Finding::Refused(self.describe(key)));
            }
            if !taken {
                self.actor
                    .log(format_args!("is refused with {token:?} by {key}"));
            }
        }
    }

    pub(crate) fn describe(&self, key: &str) -> String {
        let Actor { host, task, .. } = &self.actor;
        let now = self.actor.world.elapsed();
        format!("p{}.t{task} at {now:?}, {key}", host.number)
    }

    pub(crate) fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The task releases the lock, or learns of its loss.
    pub(crate) fn end(&mut self, end: End) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let world = &self.actor.world;
        let now = world.elapsed();
        let told_late =
            !self.actor.is_watched || world.was_late_after(self.began, &self.actor.host);
        // A late notification changes nothing: the task has relied on the validity that it knew.
        let left = if end != End::Finished && told_late {
            now.min(self.looked.max(self.trusted))
        } else {
            now
        };
        self.actor.log(format_args!(
            "leaves {:?}: {end:?}, {left:?}",
            self.held.iter().map(|(key, _)| key).collect::<Vec<_>>()
        ));
        let sections = self.held.iter().map(|(key, token)| Section {
            key: key.clone(),
            mode: self.actor.mode(key),
            process: self.actor.host.number,
            task: self.actor.task,
            token: token.to_i64(),
            asked: self.actor.asked,
            entered: self.entered,
            left,
            end,
        });
        let mut state = world.state();
        state.sections.extend(sections);
        for (key, _) in &self.held {
            if self.actor.mode(key).is_shared()
                && let Some(others) = state.together.get_mut(key)
            {
                *others -= 1;
            }
        }
    }
}

impl Drop for Belief {
    fn drop(&mut self) {
        self.end(End::Dropped);
    }
}
