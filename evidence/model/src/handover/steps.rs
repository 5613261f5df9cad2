//! What can happen in a state, and what comes of it.

use stateright::{Model, Property};

use super::{
    Handover, Rule,
    state::{
        Action, Front, LONGEST_TURN, LONGEST_UNUSED, Lock, MOST, OTHER, Other, Phase, Renewal,
        State, TTL, Waiter,
    },
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
                    next.lock = None;
                    if matches!(next.other, Other::Waiting { .. }) {
                        other_begins(self, &mut next);
                    }
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

impl Handover {
    fn own_claim(&self, state: &State, waiter: Waiter) -> Front {
        let is_used = waiter.was_passed_over && self.keeps(Rule::NoOwnerTwice);
        let owner = if is_used { unused_id(state) } else { waiter.id };
        Front {
            waiter,
            owner,
            came: None,
            phase: Phase::Waiting,
        }
    }

    fn is_renewed(&self, phase: Phase) -> bool {
        match phase {
            Phase::Holding {
                left, has_begun, ..
            } => left > 0 && (has_begun || !self.keeps(Rule::UnseenIsNotRenewed)),
            Phase::Forsaken => true,
            Phase::Waiting => false,
        }
    }

    fn token(&self, fence: u8, sequence: u8) -> u8 {
        fence * (self.longest_sequence + 1) + sequence
    }

    fn begin(&self, next: &mut State, task: u8, left: u8, (fence, sequence): (u8, u8)) {
        next.sections[usize::from(task)] = Some(left);
        next.unused = 0;
        self.show(next, fence, sequence);
    }

    /// A section shows its token.
    fn show(&self, next: &mut State, fence: u8, sequence: u8) {
        let token = self.token(fence, sequence);
        next.token_fell |= token <= next.token;
        next.token = next.token.max(token);
    }

    fn ask(&self, next: &mut State) -> Option<()> {
        if next.lock.is_none() && matches!(next.other, Other::Waiting { .. }) {
            // Who has waited longer becomes the holder.
            other_begins(self, next);
            return Some(());
        }
        let front = next.front.as_mut()?;
        let (fence, sequence) = match &mut next.lock {
            None => {
                next.last += 1;
                next.lock = Some(Lock {
                    owner: front.owner,
                    fence: next.last,
                    left: TTL,
                });
                (next.last, 0)
            }
            Some(lock) if lock.owner == front.owner => {
                lock.left = TTL;
                // The claim knows which of its tokens was used last.
                let first = self.longest_sequence + 1;
                let used = (next.token / first == lock.fence).then(|| next.token % first + 1);
                (lock.fence, used.unwrap_or(0))
            }
            Some(_) => return None,
        };
        if sequence > self.longest_sequence && self.keeps(Rule::SequenceEnds) {
            return None;
        }
        front.phase = Phase::Holding {
            left: TTL,
            fence,
            sequence,
            has_begun: true,
        };
        let known = front
            .came
            .filter(|_| self.keeps(Rule::AnswersMakeNoYounger));
        let age = known.filter(|(known, _)| *known == fence);
        front.came = Some((fence, age.map_or(0, |(_, age)| age)));
        let task = front.waiter.task;
        self.begin(next, task, TTL, (fence, sequence));
        Some(())
    }

    fn look(&self, next: &mut State) {
        let Some(front) = &mut next.front else { return };
        let Phase::Holding {
            left,
            fence,
            sequence,
            has_begun,
            ..
        } = &mut front.phase
        else {
            return;
        };
        if *left == 0 && self.keeps(Rule::LooksAtTheDeadline) {
            front.phase = Phase::Waiting;
            return;
        }
        *has_begun = true;
        let (left, token) = (*left, (*fence, *sequence));
        let task = front.waiter.task;
        self.begin(next, task, left, token);
    }

    fn leave(&self, next: &mut State) {
        let Some(mut front) = next.front.take() else {
            return;
        };
        next.sections[usize::from(front.waiter.task)] = None;
        let is_holding = matches!(front.phase, Phase::Holding { .. });
        let is_picked = matches!(
            front.phase,
            Phase::Holding {
                has_begun: false,
                ..
            }
        );
        if is_picked && !self.keeps(Rule::PickedPassesOn) {
            front.phase = Phase::Forsaken;
            next.front = Some(front);
            return;
        }
        let heir = next.behind.get(0).filter(|_| self.can_pass(&front));
        if let Some(heir) = heir {
            next.behind.remove(0);
            if is_holding && !self.keeps(Rule::OneReleases) {
                next.releases.insert(front.owner);
            }
            if is_holding {
                note_turn(&mut next.other);
            }
            next.front = Some(Front {
                waiter: heir,
                phase: self.handed(front.phase),
                ..front
            });
            return;
        }
        next.releases.insert(front.owner);
        if let Some(waiter) = next.behind.remove(0) {
            let claim = self.own_claim(next, waiter);
            next.front = Some(claim);
        }
    }

    fn can_pass(&self, front: &Front) -> bool {
        let Phase::Holding { left, sequence, .. } = front.phase else {
            return front.phase == Phase::Waiting;
        };
        let age = front.came.map_or(0, |(_, age)| age);
        (left > 0 || !self.keeps(Rule::HandsOverInTime))
            && (age <= LONGEST_TURN || !self.keeps(Rule::TurnEnds))
            && (sequence < self.longest_sequence || !self.keeps(Rule::SequenceEnds))
    }

    fn handed(&self, phase: Phase) -> Phase {
        match phase {
            Phase::Holding {
                left,
                fence,
                sequence,
                ..
            } => Phase::Holding {
                left,
                fence,
                sequence: sequence + u8::from(self.keeps(Rule::TokenGrows)),
                has_begun: false,
            },
            other => other,
        }
    }

    #[expect(clippy::unused_self, reason = "it is a step like the others")]
    fn pass_over(&self, next: &mut State, task: u8) -> Option<()> {
        let front = next.front?;
        let waiter = next.behind.iter().find(|it| it.task == task)?;
        next.behind.retain(|it| it.task != task);
        // It is the next one again, as it came before the others.
        let others = next.behind;
        next.behind = List::new();
        next.behind.push(Waiter {
            was_passed_over: true,
            ..front.waiter
        });
        others.iter().for_each(|it| next.behind.push(it));
        next.front = Some(Front {
            waiter,
            phase: Phase::Waiting,
            ..front
        });
        Some(())
    }
}

/// The smallest id that nobody knows of.
fn unused_id(state: &State) -> u8 {
    let is_known = |id: &u8| {
        let of = |waiter: Waiter| waiter.id == *id;
        state.lock.is_some_and(|lock| lock.owner == *id)
            || state.renewal.is_some_and(|it| it.owner == *id)
            || state.releases.iter().any(|it| it == *id)
            || state.behind.iter().any(of)
            || state
                .front
                .is_some_and(|it| it.owner == *id || of(it.waiter))
    };
    let mut ids = OTHER + 1..;
    ids.find(|id| !is_known(id)).expect("few are known")
}

/// What can do nothing any more, whenever it comes, as no owner comes again.
fn drop_idle_requests(next: &mut State) {
    let holder = next.lock.map(|lock| lock.owner);
    let bearer = next.front.map(|front| front.owner);
    next.releases.retain(|owner| Some(*owner) == holder);
    next.renewal = next
        .renewal
        .filter(|it| Some(it.owner) == bearer || it.answer.is_none() && Some(it.owner) == holder);
}

fn other_begins(model: &Handover, next: &mut State) {
    next.last += 1;
    next.lock = Some(Lock {
        owner: OTHER,
        fence: next.last,
        left: TTL,
    });
    next.other = Other::Holding(TTL);
    let fence = next.last;
    model.show(next, fence, 0);
}

fn note_turn(other: &mut Other) {
    if let Other::Waiting { turns, is_counted } = other {
        *turns += u8::from(!*is_counted);
        *is_counted = true;
    }
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
