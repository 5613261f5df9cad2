//! Checks a store against the contract of [`LockStore`], level by level.
//!
//! ```
//! use dlock_conformance::{Level, Suite};
//! use dlock_runtime::store::memory::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # tokio::time::pause();
//! // A store of your own in its place.
//! let store = MemoryStore::new();
//! Suite::new(Level::Grants).run(&store).await.assert();
//! # }
//! ```
//!
//! Every case has keys of its own, which begin with `conformance:` and end in a random text, so the
//! suite can run beside other users of a server. It takes its time from tokio: with a paused clock and a
//! store that reads tokio's clock, it takes none.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cases;
mod report;
mod trial;

use std::{fmt, panic::AssertUnwindSafe, time::Duration};

use dlock_runtime::store::{LockStore, QuorumNode};
use futures_util::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};
use tokio::time::{Instant, timeout};

use self::trial::{Broken, Trial};
pub use self::{
    cases::cases,
    report::{Failure, Report},
};

/// What a store claims to do. A level has the cases of all levels before it.
///
/// The documentation of [`LockStore`] says what users lose at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Acquire, renew and release, with fences that grow and leases that end.
    Minimal,
    /// Places in a queue, in the order of arrival, and the names of holders.
    Queue,
    /// A release makes the first waiter the holder and wakes it.
    Grants,
    /// The requests of a quorum: [`Suite::run_node`].
    Node,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minimal => "minimal",
            Self::Queue => "queue",
            Self::Grants => "grants",
            Self::Node => "quorum node",
        })
    }
}

/// One case of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The least level at which it is run.
    pub level: Level,
    /// The rule of the contract that it tries.
    pub rule: &'static str,
}

/// The cases of a level, and what has to be known of the store to try them.
#[derive(Clone, Debug)]
#[must_use = "a suite does nothing before it is run"]
pub struct Suite {
    level: Level,
    only: Option<&'static str>,
    brief: Duration,
    limit: Duration,
    keeps_places: bool,
    is_alone: bool,
}

impl Suite {
    /// The cases of this level and of those before it.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            only: None,
            brief: Duration::from_millis(1500),
            limit: Duration::from_secs(20),
            keeps_places: true,
            is_alone: false,
        }
    }

    /// Runs the case of this name alone.
    pub fn only(mut self, case: &'static str) -> Self {
        self.only = Some(case);
        self
    }

    /// Sets the TTL of leases that are to run out; 1.5 s if not set. It has to be several times as long
    /// as a request can take.
    pub fn brief(mut self, ttl: Duration) -> Self {
        self.brief = ttl;
        self
    }

    /// Sets the time that a case may take; 20 s if not set. A case that takes longer hangs, and has failed.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Says that nothing else uses the store: the cases run one after the other, and expect exact
    /// fences, where they otherwise leave room for those that others count.
    pub fn alone(mut self) -> Self {
        self.is_alone = true;
        self
    }

    /// Says that a waiter which asks again may get a later place, as in a quorum one of whose nodes
    /// has answered too late.
    pub fn may_lose_places(mut self) -> Self {
        self.keeps_places = false;
        self
    }

    /// Tries the store at this level, up to [`Level::Grants`].
    ///
    /// # Panics
    ///
    /// At [`Level::Node`] and for a case of that level, which need [`run_node`](Self::run_node), and when there
    /// is no case of the name that was asked for.
    pub async fn run<S: LockStore>(&self, store: &S) -> Report {
        let is_of_a_node = self.only.is_some_and(cases::is_of_a_node);
        assert!(
            self.level < Level::Node && !is_of_a_node,
            "the cases of a quorum node need `Suite::run_node`"
        );
        self.run_all(store, cases::of_stores()).await
    }

    /// Tries the store at this level and as a node of a quorum.
    ///
    /// # Panics
    ///
    /// When there is no case of the name that was asked for.
    pub async fn run_node<S: QuorumNode>(&self, store: &S) -> Report {
        let mut all = cases::of_stores();
        all.extend(cases::of_nodes());
        let suite = Self {
            level: Level::Node,
            ..self.clone()
        };
        suite.run_all(store, all).await
    }

    async fn run_all<S: LockStore>(&self, store: &S, all: Vec<Attempt<S>>) -> Report {
        let is_meant = |case: &Case| match self.only {
            Some(name) => case.name == name,
            None => case.level <= self.level,
        };
        let meant: Vec<_> = all.into_iter().filter(|it| is_meant(&it.case)).collect();
        assert!(!meant.is_empty(), "there is no case {:?}", self.only);
        let mut outcomes = Vec::with_capacity(meant.len());
        if self.is_alone {
            for attempt in &meant {
                outcomes.push(self.try_one(store, attempt).await);
            }
        } else {
            // Side by side: most of them wait for a lease to end.
            outcomes = join_all(meant.iter().map(|it| self.try_one(store, it))).await;
        }
        let mut report = Report::default();
        for (attempt, (outcome, repeats)) in meant.iter().zip(outcomes) {
            report.repeats += repeats;
            let Case { name, level, rule } = attempt.case;
            match outcome {
                Ok(()) => report.kept.push(name),
                Err(Broken { expected, seen }) => report.failures.push(Failure {
                    case: name,
                    level,
                    rule,
                    expected,
                    seen,
                }),
            }
        }
        report
    }

    /// The outcome, and the number of repeats.
    async fn try_one<S: LockStore>(&self, store: &S, attempt: &Attempt<S>) -> (Outcome, usize) {
        let begun = Instant::now();
        let mut repeats = 0;
        loop {
            let trial = Trial::new(store, self, attempt.case.name);
            let outcome = self.try_once(&trial, attempt).await;
            let was_late = trial.is_late();
            // A machine that stands still says nothing of the store.
            if outcome.is_err() {
                // A store that panics here as well has failed this case only.
                let cleaned = AssertUnwindSafe(trial.clean_up()).catch_unwind();
                timeout(self.limit, cleaned).await.ok();
            }
            if outcome.is_ok() || !was_late || begun.elapsed() >= self.limit {
                return (outcome, repeats);
            }
            repeats += 1;
        }
    }

    async fn try_once<S: LockStore>(&self, trial: &Trial<'_, S>, attempt: &Attempt<S>) -> Outcome {
        let tried = AssertUnwindSafe((attempt.run)(trial)).catch_unwind();
        match timeout(self.limit, tried).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                let text = text.unwrap_or("without a message");
                Err(Broken::new(
                    "an answer or an error",
                    format!("a panic: {text}"),
                ))
            }
            Err(_) => {
                let expected = format!("the end of the case within {:?}", self.limit);
                Err(Broken::new(expected, "a request without an answer"))
            }
        }
    }
}

/// What one case finds.
type Outcome = Result<(), Broken>;

/// A case, and how it is tried.
struct Attempt<S> {
    case: Case,
    run: for<'a> fn(&'a Trial<'a, S>) -> LocalBoxFuture<'a, Outcome>,
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
