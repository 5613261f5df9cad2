//! Tests a store against the contract of [`LockStore`], level by level.
//!
//! ```
//! use dlock_conformance::{Level, Suite};
//! use dlock_runtime::store::memory::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # tokio::time::pause();
//! // Replace it by your own store.
//! let store = MemoryStore::new();
//! Suite::new(Level::Grants).run(&store).await.assert();
//! # }
//! ```
//!
//! Each case uses its own keys, which begin with `conformance:` and end in random text, so the suite can run
//! beside other users of a server. It uses tokio's clock: with a paused clock and a store that reads tokio's
//! clock, it takes no time.
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

use self::trial::{Broken, Terms, Trial};
pub use self::{
    cases::cases,
    report::{Failure, Report},
};

/// The features that a store claims to have. A level includes the cases of all lower levels.
///
/// The documentation of [`LockStore`] lists the disadvantages of each level for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Acquire, renew and release, with fences that increase and leases that expire.
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
    /// The name of the case.
    pub name: &'static str,
    /// The lowest level at which it runs.
    pub level: Level,
    /// The rule of the contract that it tests.
    pub rule: &'static str,
}

/// The cases of a level, and the properties of the store that they need.
#[derive(Clone, Debug)]
#[must_use = "a suite does nothing before it is run"]
pub struct Suite {
    level: Level,
    only: Option<&'static str>,
    terms: Terms,
}

impl Suite {
    /// Creates a suite of the cases of this level and of all lower levels.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            only: None,
            terms: Terms {
                brief: Duration::from_millis(1500),
                limit: Duration::from_secs(20),
                keeps_places: true,
                is_alone: false,
            },
        }
    }

    /// Runs only the case of this name.
    pub fn only(mut self, case: &'static str) -> Self {
        self.only = Some(case);
        self
    }

    /// Sets the TTL of leases that the suite lets expire; 1.5 s if not set. It must be several times as long as
    /// a request.
    pub fn brief(mut self, ttl: Duration) -> Self {
        self.terms.brief = ttl;
        self
    }

    /// Sets the maximum time of a case; 20 s if not set. A case that takes longer fails.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.terms.limit = limit;
        self
    }

    /// Declares that no other client uses the store. The cases then run one after the other and expect exact
    /// fences. Otherwise they accept gaps for fences of other clients.
    pub fn alone(mut self) -> Self {
        self.terms.is_alone = true;
        self
    }

    /// Declares that a waiter may get a later place when it repeats its request, for example in a quorum after
    /// a node has answered too late.
    pub fn may_lose_places(mut self) -> Self {
        self.terms.keeps_places = false;
        self
    }

    /// Tests the store at this level, up to [`Level::Grants`].
    ///
    /// # Panics
    ///
    /// At [`Level::Node`] and for a case of that level, which need [`run_node`](Self::run_node). Also if no
    /// case has the name in [`only`](Self::only).
    pub async fn run<S: LockStore>(&self, store: &S) -> Report {
        let is_of_a_node = self.only.is_some_and(cases::is_of_a_node);
        assert!(
            self.level < Level::Node && !is_of_a_node,
            "the cases of a quorum node need `Suite::run_node`"
        );
        self.run_all(store, cases::of_stores()).await
    }

    /// Tests the store at this level and as a node of a quorum.
    ///
    /// # Panics
    ///
    /// If no case has the name in [`only`](Self::only).
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
        if self.terms.is_alone {
            for attempt in &meant {
                outcomes.push(self.try_one(store, attempt).await);
            }
        } else {
            // In parallel, because most cases wait for a lease to expire.
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

    /// Returns the outcome and the number of repeats.
    async fn try_one<S: LockStore>(&self, store: &S, attempt: &Attempt<S>) -> (Outcome, usize) {
        let begun = Instant::now();
        let mut repeats = 0;
        loop {
            let trial = Trial::new(store, self.terms, attempt.case.name);
            let outcome = self.try_once(&trial, attempt).await;
            let was_late = trial.is_late();
            // A result from a paused machine says nothing about the store.
            if outcome.is_err() {
                // If the store panics here too, only this case has failed.
                let cleaned = AssertUnwindSafe(trial.clean_up()).catch_unwind();
                timeout(self.terms.limit, cleaned).await.ok();
            }
            if outcome.is_ok() || !was_late {
                return (outcome, repeats);
            }
            if begun.elapsed() >= self.terms.limit {
                return (outcome.map_err(Broken::kept_promises), repeats);
            }
            repeats += 1;
        }
    }

    async fn try_once<S: LockStore>(&self, trial: &Trial<'_, S>, attempt: &Attempt<S>) -> Outcome {
        let tried = AssertUnwindSafe((attempt.run)(trial)).catch_unwind();
        match timeout(self.terms.limit, tried).await {
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
                let expected = format!("the case to end within {:?}", self.terms.limit);
                Err(Broken::new(expected, "a request without an answer"))
            }
        }
    }
}

/// The result of one case.
type Outcome = Result<(), Broken>;

/// A case and the function that runs it.
struct Attempt<S> {
    case: Case,
    run: for<'a> fn(&'a Trial<'a, S>) -> LocalBoxFuture<'a, Outcome>,
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
