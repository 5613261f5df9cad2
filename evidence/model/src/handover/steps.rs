//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Handover, Rule,
    state::{
        Action, LONGEST_TURN, LONGEST_UNUSED, MOST, OTHER, Other, Phase, Renewal, State, TTL,
        Waiter,
    },
    tasks::{other_begins, unused_id},
};
use crate::list::List;

impl Model for Handover {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lock: None,
            last: 0,
            other: Other::Idle,
            front: None,
            behind: List::new(),
            releases: List::new(),
            renewal: None,
            token: 0,
            token_fell: false,
            sections: [None; MOST],
            is_unlocked: false,
            unused: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let tasks = 0..u8::try_from(self.tasks).expect("there are few");
        let is_out = |task: &u8| {
            let front = state.front.filter(|it| it.phase != Phase::Forsaken);
            let front = front.map(|front| front.waiter);
            !state.behind.iter().chain(front).any(|it| it.task == *task)
        };
        actions.extend(tasks.filter(is_out).map(Action::Enter));
        actions.extend(state.behind.iter().map(|it| Action::Cancel(it.task)));
        if let Some(front) = state.front {
            let can_release = !state.releases.is_full();
            match front.phase {
                Phase::Waiting => {
                    actions.push(Action::Ask);
                    if can_release {
                        actions.push(Action::Leave);
                    }
                }
                Phase::Holding { has_begun, .. } => {
                    if !has_begun {
                        actions.push(Action::Look);
                    }
                    if can_release {
                        actions.push(Action::Leave);
                    }
                }
                Phase::Forsaken => {}
            }
            let has_begun = match front.phase {
                Phase::Holding { has_begun, .. } => has_begun,
                _ => false,
            };
            let gives_way = !has_begun || !self.keeps(Rule::BegunIsNotPassedOver);
            if gives_way && front.phase != Phase::Forsaken {
                actions.extend(state.behind.iter().map(|it| Action::PassOver(it.task)));
            }
            if state.renewal.is_none() && self.is_renewed(front.phase) {
                actions.push(Action::Renew);
            }
            let is_holding = matches!(front.phase, Phase::Holding { .. });
            let has_lock = state.lock.is_some_and(|lock| lock.owner == front.owner);
            if is_holding && has_lock && !state.is_unlocked {
                actions.push(Action::Unlock);
            }
        }
        match state.renewal {
            Some(Renewal { answer: None, .. }) => {
                actions.extend([Action::ServeRenewal, Action::LoseRenewal]);
            }
            Some(_) => actions.extend([Action::HearRenewal, Action::LoseRenewal]),
            None => {}
        }
        actions.extend((0..state.releases.len()).map(Action::ServeRelease));
        match state.other {
            Other::Idle => actions.push(Action::OtherAsks),
            Other::Waiting { .. } if state.lock.is_none() => actions.push(Action::OtherAsks),
            Other::Waiting { .. } => {}
            Other::Holding(_) => actions.push(Action::OtherLeaves),
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Enter(task) => {
                let waiter = Waiter {
                    task,
                    id: unused_id(state),
                    was_passed_over: false,
                };
                if next.front.is_some() {
                    next.behind.push(waiter);
                } else {
                    next.front = Some(self.own_claim(state, waiter));
                }
            }
            Action::Ask => self.ask(&mut next)?,
            Action::Look => self.look(&mut next),
            Action::Leave => self.leave(&mut next),
            Action::Cancel(task) => {
                next.behind.retain(|it| it.task != task);
                next.sections[usize::from(task)] = None;
            }
            Action::PassOver(task) => self.pass_over(&mut next, task)?,
            Action::Renew => {
                next.renewal = Some(Renewal {
                    owner: state.front?.owner,
                    age: 0,
                    answer: None,
                });
            }
            Action::ServeRenewal => {
                let renewal = next.renewal.as_mut()?;
                let lock = next.lock.as_mut();
                let own = lock.filter(|lock| lock.owner == renewal.owner);
                renewal.answer = Some(own.map(|lock| lock.left = TTL).is_some());
            }
            Action::HearRenewal => heard(&mut next)?,
            Action::LoseRenewal => next.renewal = None,
            Action::ServeRelease(at) => {
                let owner = next.releases.remove(at)?;
                if next.lock.is_some_and(|lock| lock.owner == owner) {
                    self.end_lock(&mut next);
                }
            }
            Action::OtherAsks => {
                if next.lock.is_none() {
                    other_begins(self, &mut next);
                } else {
                    next.other = Other::Waiting {
                        turns: 0,
                        is_counted: false,
                    };
                }
            }
            Action::OtherLeaves => {
                next.other = Other::Idle;
                next.lock = next.lock.filter(|lock| lock.owner != OTHER);
            }
            Action::Unlock => {
                next.is_unlocked = true;
                next.front.as_mut()?.is_doubted = true;
                next.sections = [None; MOST];
                self.end_lock(&mut next);
            }
            Action::Tick => tick(&mut next),
        }
        if self.keeps(Rule::NoOwnerTwice) {
            drop_idle_requests(&mut next);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::checks::properties()
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.last <= self.grants
    }
}

/// Requests without an effect, whenever they arrive, as no owner returns.
fn drop_idle_requests(next: &mut State) {
    let holder = next.lock.map(|lock| lock.owner);
    let bearer = next.front.map(|front| front.owner);
    next.releases.retain(|owner| Some(*owner) == holder);
    next.renewal = next
        .renewal
        .filter(|it| Some(it.owner) == bearer || it.answer.is_none() && Some(it.owner) == holder);
}

fn heard(next: &mut State) -> Option<()> {
    let renewal = next.renewal.take()?;
    let front = next.front.as_mut().filter(|it| it.owner == renewal.owner)?;
    if let Phase::Holding { left, .. } = &mut front.phase {
        let section = &mut next.sections[usize::from(front.waiter.task)];
        if renewal.answer == Some(false) {
            *left = 0;
            *section = None;
        } else if *left > 0 {
            *left = (*left).max(TTL - renewal.age);
            *section = section.map(|_| *left);
        }
    }
    Some(())
}

fn tick(next: &mut State) {
    if let Some(lock) = &mut next.lock {
        lock.left -= 1;
    }
    next.lock = next.lock.filter(|lock| lock.left > 0);
    match &mut next.other {
        Other::Holding(left) => *left = left.saturating_sub(1),
        Other::Waiting { is_counted, .. } => *is_counted = false,
        Other::Idle => {}
    }
    for section in &mut next.sections {
        *section = section.and_then(|left| left.checked_sub(1).filter(|left| *left > 0));
    }
    let is_kept = next.lock.is_some_and(|lock| lock.owner != OTHER);
    let is_used = next.sections.iter().any(Option::is_some);
    next.unused = if is_kept && !is_used {
        (next.unused + 1).min(LONGEST_UNUSED + 1)
    } else {
        0
    };
    if let Some(renewal) = &mut next.renewal {
        renewal.age = (renewal.age + 1).min(TTL);
    }
    if let Some(front) = &mut next.front {
        if let Some((_, age)) = &mut front.came {
            *age = (*age + 1).min(LONGEST_TURN + 1);
        }
        if let Phase::Holding { left, .. } = &mut front.phase {
            *left = left.saturating_sub(1);
        }
    }
}
