//! The search itself: a model narrowed to one property, so that the checker stops at the first path.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use stateright::{Checker, Expectation, Model, Property};

use super::{Acted, Checkable, Checked, Effort, Expected, Report};

/// The same model with one property: that all of those that are meant hold, or that one does.
///
/// The checker goes on until it knows of each property, and writes down each state in which one of
/// them is of note. With a single one it stops at the first.
pub(super) struct Narrowed<M: Model> {
    pub(super) model: M,
    pub(super) meant: Vec<Property<M>>,
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
    pub(super) fn search(&self, expected: Expected, effort: Effort) -> Report {
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

    /// The name of the property that fails, if there are several.
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
