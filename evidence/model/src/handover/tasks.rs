//! The part of those that want the lock: the tasks ask, begin, leave, hand their lease over and pass
//! each other over; the other process begins.

use super::{
    Handover, Rule,
    state::{Front, LONGEST_TURN, Lock, OTHER, Other, Phase, State, TTL, Waiter},
};
use crate::list::List;

impl Handover {
    pub(super) fn own_claim(&self, state: &State, waiter: Waiter) -> Front {
        let is_used = waiter.was_passed_over && self.keeps(Rule::NoOwnerTwice);
        let owner = if is_used { unused_id(state) } else { waiter.id };
        Front {
            waiter,
            owner,
            is_doubted: false,
            came: None,
            phase: Phase::Waiting,
        }
    }

    pub(super) fn is_renewed(&self, phase: Phase) -> bool {
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
    pub(super) fn show(&self, next: &mut State, fence: u8, sequence: u8) {
        let token = self.token(fence, sequence);
        next.token_fell |= token <= next.token;
        next.token = next.token.max(token);
    }

    pub(super) fn ask(&self, next: &mut State) -> Option<()> {
        if next.lock.is_none() && matches!(next.other, Other::Waiting { .. }) {
            // The process that has waited longer becomes the holder.
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
        front.is_doubted = false;
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

    pub(super) fn look(&self, next: &mut State) {
        let Some(front) = &mut next.front else { return };
        if front.is_doubted && self.keeps(Rule::DoubtedIsAskedFor) {
            front.phase = Phase::Waiting;
            return;
        }
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

    pub(super) fn leave(&self, next: &mut State) {
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
            && (!front.is_doubted || !self.keeps(Rule::DoubtedIsNotHandedOver))
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

    /// The lock is free, and who waits elsewhere becomes the holder.
    pub(super) fn end_lock(&self, next: &mut State) {
        next.lock = None;
        if matches!(next.other, Other::Waiting { .. }) {
            other_begins(self, next);
        }
    }

    #[expect(clippy::unused_self, reason = "it is a step like the others")]
    pub(super) fn pass_over(&self, next: &mut State, task: u8) -> Option<()> {
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

/// The smallest unknown id.
pub(super) fn unused_id(state: &State) -> u8 {
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

fn note_turn(other: &mut Other) {
    if let Other::Waiting { turns, is_counted } = other {
        *turns += u8::from(!*is_counted);
        *is_counted = true;
    }
}

pub(super) fn other_begins(model: &Handover, next: &mut State) {
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
