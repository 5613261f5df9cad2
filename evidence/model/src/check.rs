//! Runs the checker over a protocol, and says what it found.
//!
//! A protocol without a flaw is searched whole. One with a flaw is searched breadth first, by one
//! thread and for one property, because only so the counterexample is a shortest one.

use std::{
    fmt::{self, Debug, Display},
    hash::Hash,
    io::{Write, stdout},
    thread::sleep,
    time::{Duration, Instant},
};

use stateright::{Checker, Expectation, Model, Property};

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

/// The result of a check.
#[derive(Debug)]
pub struct Report {
    /// See [`Check::protocol`].
    pub protocol: String,
    /// See [`Check::claim`].
    pub claim: String,
    /// See [`Check::expected`].
    pub expected: Expected,
    /// The actions that lead to a state where the property fails, or where it happens.
    pub path: Option<Vec<String>>,
    /// The states that were come upon, counted each time.
    pub generated: usize,
    /// The states that differ.
    pub unique: usize,
    /// The longest path that was needed, in actions.
    pub depth: usize,
    /// Whether no state was left out.
    pub is_exhaustive: bool,
    /// How long it took.
    pub elapsed: Duration,
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

/// The same model with one property: that all of those that are meant hold, or that one does.
///
/// The checker goes on until it knows of each property, and writes down each state in which one of
/// them is of note. With a single one it stops at the first.
struct Narrowed<M: Model> {
    model: M,
    meant: Vec<Property<M>>,
}

impl<M: Model + Clone> Clone for Narrowed<M> {
    fn clone(&self) -> Self {
        Self {
            model: self.model.clone(),
            meant: self.meant.clone(),
        }
    }
}

const MEANT: &str = "what is meant";

impl<M: Model> Model for Narrowed<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        self.model.init_states()
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        self.model.actions(state, actions);
    }

    fn next_state(&self, state: &M::State, action: M::Action) -> Option<M::State> {
        self.model.next_state(state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let is_example = |it: &Property<M>| it.expectation == Expectation::Sometimes;
        let holds: fn(&Self, &M::State) -> bool = |narrowed, state| {
            let mut meant = narrowed.meant.iter();
            meant.all(|property| (property.condition)(&narrowed.model, state))
        };
        vec![if self.meant.iter().any(is_example) {
            Property::sometimes(MEANT, holds)
        } else {
            Property::always(MEANT, holds)
        }]
    }

    fn within_boundary(&self, state: &M::State) -> bool {
        self.model.within_boundary(state)
    }
}

impl<M> Narrowed<M>
where
    M: Checkable,
    M::State: Checked,
    M::Action: Acted,
{
    fn search(&self, expected: Expected, effort: Effort) -> Report {
        let begun = Instant::now();
        let threads = match expected {
            Expected::Holds { .. } => effort.threads,
            _ => 1,
        };
        let checker = self.clone().checker().threads(threads).spawn_bfs();
        if effort.shows_progress {
            show_progress(&checker, begun);
        }
        let checker = checker.join();
        let path = checker.discovery(MEANT).map(|path| {
            let broken = self.broken_in(path.last_state());
            let actions = path.into_actions();
            let actions = actions.iter().map(|action| format!("{action:?}"));
            actions.chain(broken).collect()
        });
        Report {
            protocol: String::new(),
            claim: String::new(),
            expected,
            path,
            generated: checker.state_count(),
            unique: checker.unique_state_count(),
            depth: checker.max_depth().saturating_sub(1),
            is_exhaustive: checker.is_done(),
            elapsed: begun.elapsed(),
        }
    }

    /// Which of several properties it is that fails.
    fn broken_in(&self, state: &M::State) -> Option<String> {
        if self.meant.len() < 2 {
            return None;
        }
        let holds = |it: &&Property<M>| (it.condition)(&self.model, state);
        let broken = self.meant.iter().find(|it| !holds(it))?;
        Some(format!("so this fails: {}", broken.name))
    }
}

fn show_progress<M: Model>(checker: &impl Checker<M>, begun: Instant) {
    let mut told = Duration::ZERO;
    while !checker.is_done() {
        sleep(Duration::from_millis(50));
        let elapsed = begun.elapsed();
        if elapsed.saturating_sub(told) > Duration::from_secs(10) {
            told = elapsed;
            let (unique, depth) = (checker.unique_state_count(), checker.max_depth());
            eprintln!(
                "    {:>4} s: {unique} states, {depth} steps deep",
                elapsed.as_secs()
            );
        }
    }
}

impl Report {
    /// The difference from the expected result.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let fault = match (self.expected, &self.path) {
            (Expected::Holds { .. }, Some(path)) => format!("fails: {}", path.join(", ")),
            (Expected::Holds { .. }, None) if !self.is_exhaustive => {
                "was not searched whole".into()
            }
            (Expected::Holds { at_least }, None) if self.unique < at_least => {
                format!("has {} states, not {at_least}", self.unique)
            }
            (Expected::Fails { .. } | Expected::Happens { .. }, None) => "was not found".into(),
            (Expected::Fails { after } | Expected::Happens { after }, Some(path))
                if path.len() != after =>
            {
                format!("was found after {}: {}", path.len(), path.join(", "))
            }
            _ => return None,
        };
        Some(format!("{}: {}: {fault}", self.protocol, self.claim))
    }

    /// The words above the columns.
    #[must_use]
    pub fn head() -> String {
        row(
            "found",
            "generated",
            "states",
            "depth",
            "ms",
            "protocol: claim",
        )
    }
}

fn row(found: &str, generated: &str, unique: &str, depth: &str, ms: &str, what: &str) -> String {
    format!("{found:<12} {generated:>10} {unique:>9} {depth:>5} {ms:>7}  {what}")
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = match (&self.path, self.expected) {
            (None, _) => "holds".to_owned(),
            (Some(path), Expected::Happens { .. }) => format!("seen in {}", path.len()),
            (Some(path), _) => format!("fails in {}", path.len()),
        };
        f.write_str(&row(
            &found,
            &self.generated.to_string(),
            &self.unique.to_string(),
            &self.depth.to_string(),
            &self.elapsed.as_millis().to_string(),
            &format!("{}: {}", self.protocol, self.claim),
        ))
    }
}
