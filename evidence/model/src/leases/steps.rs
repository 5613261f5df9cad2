//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Leases, Rule,
    state::{Action, Key, LEASES, Phase, Request, State, TASKS, Task, What},
};
use crate::list::List;

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let task = Task {
            round: 0,
            phase: Phase::Idle,
            lease: 0,
            is_kept: false,
            is_bare: false,
        };
        vec![State {
            leases: List::new(),
            keys: List::new(),
            idle: [List::new(); 2],
            tasks: [task; TASKS],
            requests: List::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let has_room = state.requests.len() < 6;
        for (at, rounds) in self.bounds.rounds.iter().enumerate() {
            let task = &state.tasks[at];
            match task.phase {
                Phase::Idle if has_room && task.round < *rounds && self.has_lease(state, at) => {
                    actions.push(Action::Ask(at));
                }
                Phase::Asking { .. } | Phase::Holding => actions.push(Action::GiveUp(at)),
                Phase::Ending { .. } | Phase::Deleting { .. } if has_room => {
                    actions.extend([Action::Release(at), Action::ReleaseBare(at)]);
                }
                Phase::Revoking if has_room => actions.push(Action::Release(at)),
                _ => {}
            }
        }
        actions.extend((0..state.requests.len()).map(Action::Serve));
        for (at, is_alive) in state.leases.iter().enumerate() {
            let is_relied_on = state.tasks.iter().any(|task| {
                let is_its = usize::from(task.lease) == at && task.is_kept;
                is_its && task.phase == Phase::Holding
            });
            if is_alive && !is_relied_on {
                actions.push(Action::End(at));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Ask(at) => self.ask(&mut next, at),
            Action::Serve(at) => {
                let request = next.requests.remove(at)?;
                self.serve(&mut next, request);
            }
            Action::GiveUp(at) => next.give_up(at),
            Action::Release(at) => self.release(&mut next, at),
            Action::ReleaseBare(at) => Self::release_bare(&mut next, at),
            Action::End(at) => end(&mut next, u8::try_from(at).ok()?),
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }
}

impl Leases {
    fn has_lease(&self, state: &State, task: usize) -> bool {
        let most = usize::from(self.bounds.leases).min(LEASES);
        !state.idle[self.process(task)].is_empty() || state.leases.len() < most
    }

    /// Carries out a request. Its task gets the answer if it still waits for it.
    fn serve(&self, next: &mut State, request: Request) {
        let Request { claim, what, lease } = request;
        let task = usize::from(claim.task);
        let is_alive = next.leases.get(usize::from(lease)) == Some(true);
        let waits = next.claim(task) == claim;
        match what {
            What::Create => {
                let is_free = next.keys.is_empty();
                let is_created = is_free && (is_alive || !self.keeps(Rule::EndedIsRefused));
                if is_created {
                    next.keys.insert(Key { claim, lease });
                }
                if waits {
                    self.created(next, task, is_created, is_alive);
                }
            }
            What::KeepAlive => {
                for task in &mut next.tasks {
                    task.is_kept |= is_alive && task.lease == lease && task.phase != Phase::Idle;
                }
                if waits {
                    self.kept(next, task, is_alive);
                }
            }
            What::Delete | What::DeleteName => {
                let before = next.keys.len();
                next.keys.retain(|key| match what {
                    What::Delete => key.claim != claim,
                    _ => key.lease != lease,
                });
                let was_there = next.keys.len() < before;
                if waits {
                    self.deleted(next, task, was_there);
                }
            }
            What::Revoke => {
                end(next, lease);
                if waits {
                    next.is_over(task);
                }
            }
        }
    }
}

/// Ends a lease, and its keys with it.
fn end(next: &mut State, lease: u8) {
    let mut number = 0..;
    for is_alive in next.leases.iter_mut() {
        *is_alive &= number.next() != Some(usize::from(lease));
    }
    next.keys.retain(|key| key.lease != lease);
}
