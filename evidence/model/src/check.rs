//! Runs the checker over a protocol, and says what it found.
//!
//! A protocol without a flaw is searched whole. One with a flaw is searched breadth first, by one
//! thread and for one property, because only so the counterexample is a shortest one.

mod report;
mod search;

use std::{
    fmt::{Debug, Display},
    hash::Hash,
    io::{Write, stdout},
};

use stateright::{Expectation, Model, Property};

pub use self::report::Report;
use self::search::Narrowed;

/// One thing that is said of a protocol, and how to find out.
pub struct Check {
    /// The protocol and its bounds.
    pub protocol: String,
    /// The claim in words.
    pub claim: String,
    /// The expected result.
    pub expected: Expected,
    run: Box<dyn Fn(Effort) -> Report + Send + Sync>,
}

/// The expected result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// All properties hold in all states, and there are at least so many.
    Holds {
        /// A model that has lost its states by mistake would hold as well.
        at_least: usize,
    },
    /// The property fails, by no fewer steps.
    Fails {
        /// The number of actions of a shortest counterexample.
        after: usize,
    },
    /// It can happen, by no fewer steps.
    Happens {
        /// The number of actions of a shortest example.
        after: usize,
    },
}

/// How much of the machine a check may use.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// For a search of all states; a shortest path needs one.
    pub threads: usize,
    /// Tell now and then how far it is.
    pub shows_progress: bool,
}

/// Runs them one after the other, shows what was found in a table, and returns what is not as it
/// should be.
///
/// The table is in the log of tests that pass as well.
///
/// # Panics
///
/// If the standard output is closed.
#[must_use]
pub fn run_all(checks: &[Check], effort: Effort, shows_steps: bool) -> Vec<String> {
    tell(Report::head());
    let run = |check: &Check| {
        let report = check.run(effort);
        tell(&report);
        if shows_steps {
            let steps = report.path.iter().flatten();
            steps.for_each(|step| tell(format!("    {step}")));
        }
        report.fault()
    };
    checks.iter().filter_map(run).collect()
}

/// Shows a line. What goes through `println!` is hidden while tests pass.
fn tell(line: impl Display) {
    writeln!(stdout().lock(), "{line}").expect("somebody takes what is shown");
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            threads: 1,
            shows_progress: false,
        }
    }
}

impl Check {
    /// All properties that are to hold always do.
    pub fn holds<M>(protocol: impl Into<String>, model: M, at_least: usize) -> Self
    where
        M: Checkable,
        M::State: Checked,
        M::Action: Acted,
    {
        let expected = Expected::Holds { at_least };
        let meant = properties(&model, &Expectation::Always);
        let claim = format!("{} properties hold", meant.len());
        Self::new(protocol.into(), claim, expected, model, meant)
    }

    /// These properties hold, whatever becomes of the others.
    pub fn keeps<M>(
        protocol: impl Into<String>,
        model: M,
        properties: &[&'static str],
        at_least: usize,
    ) -> Self
    where
        M: Checkable,
        M::State: Checked,
        M::Action: Acted,
    {
        let expected = Expected::Holds { at_least };
        let meant = properties.iter().map(|name| model.property(name));
        let meant: Vec<_> = meant.collect();
        let claim = match properties {
            [one] => format!("holds that {one}"),
            _ => format!("{} properties hold", meant.len()),
        };
        Self::new(protocol.into(), claim, expected, model, meant)
    }

    /// The property fails, as a rule is missing that it needs.
    pub fn fails<M>(
        protocol: impl Into<String>,
        model: M,
        property: &'static str,
        after: usize,
    ) -> Self
    where
        M: Checkable,
        M::State: Checked,
        M::Action: Acted,
    {
        let expected = Expected::Fails { after };
        let meant = vec![model.property(property)];
        Self::new(protocol.into(), property.to_owned(), expected, model, meant)
    }

    /// Each property that is to hold sometimes does.
    pub fn happens<M>(
        protocol: impl Into<String>,
        model: &M,
        examples: impl IntoIterator<Item = (&'static str, usize)>,
    ) -> Vec<Self>
    where
        M: Checkable + Clone,
        M::State: Checked,
        M::Action: Acted,
    {
        let protocol = protocol.into();
        let one = |(name, after)| {
            let meant = vec![model.property(name)];
            let expected = Expected::Happens { after };
            Self::new(
                protocol.clone(),
                name.to_owned(),
                expected,
                model.clone(),
                meant,
            )
        };
        examples.into_iter().map(one).collect()
    }

    fn new<M>(
        protocol: String,
        claim: String,
        expected: Expected,
        model: M,
        meant: Vec<Property<M>>,
    ) -> Self
    where
        M: Checkable,
        M::State: Checked,
        M::Action: Acted,
    {
        let narrowed = Narrowed { model, meant };
        let (told_protocol, told_claim) = (protocol.clone(), claim.clone());
        let run = move |effort| {
            let report = narrowed.search(expected, effort);
            Report {
                protocol: told_protocol.clone(),
                claim: told_claim.clone(),
                ..report
            }
        };
        Self {
            protocol,
            claim,
            expected,
            run: Box::new(run),
        }
    }

    /// Searches the states.
    #[must_use]
    pub fn run(&self, effort: Effort) -> Report {
        (self.run)(effort)
    }
}

/// A model that can be searched more than once, by several threads.
pub trait Checkable: Model + Clone + Send + Sync + 'static {}
impl<M: Model + Clone + Send + Sync + 'static> Checkable for M {}

/// A state that can be compared with others.
pub trait Checked: Hash + Clone + PartialEq + Send + Sync + 'static {}
impl<S: Hash + Clone + PartialEq + Send + Sync + 'static> Checked for S {}

/// An action that can be shown.
pub trait Acted: Debug + Clone + PartialEq {}
impl<A: Debug + Clone + PartialEq> Acted for A {}

fn properties<M: Model>(model: &M, expectation: &Expectation) -> Vec<Property<M>> {
    let all = model.properties().into_iter();
    all.filter(|property| property.expectation == *expectation)
        .collect()
}
