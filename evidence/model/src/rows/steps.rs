//! The possible actions in a state, and their results.

use stateright::{Model, Property};

use super::{
    Rows, Rule,
    state::{
        ACQUIRE, Action, Actor, Faults, LATE, Left, MOST, Owner, Phase, Process, RELEASE, RENEW,
        Request, SLOTS, State, Step, TTL, Tables, What,
    },
};

impl Model for Rows {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process = Process {
            round: 0,
            phase: Phase::Idle,
            requests: [None; SLOTS],
            transaction: None,
        };
        let bounds = &self.bounds;
        vec![State {
            tables: Tables::EMPTY,
            kept: (bounds.failovers + bounds.crashes > 0).then_some(Tables::EMPTY),
            processes: [process; MOST],
            operator: None,
            clock: 0,
            left: Left {
                late: bounds.late,
                aborts: bounds.aborts,
                restarts: bounds.restarts,
                crashes: bounds.crashes,
                failovers: bounds.failovers,
                deaths: bounds.deaths,
            },
            grants: 0,
            greatest: 0,
            was_freed_silently: false,
            faults: Faults::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for at in 0..self.bounds.roles.len() {
            self.actions_of(state, at, actions);
        }
        let requests = state.requests().map(|(of, _)| Action::Serve(of));
        actions.extend(requests);
        let has_time = self.bounds.clock.is_none_or(|last| state.clock < last);
        if has_time {
            actions.push(Action::Tick);
        }
        if state.left.restarts > 0 {
            actions.push(Action::Restart);
        }
        if state.left.aborts > 0 {
            let begun = state.requests().filter(|(_, it)| it.step != Step::Sent);
            actions.extend(begun.map(|(of, _)| Action::Abort(of)));
        }
        if state.left.crashes > 0 {
            actions.push(Action::Crash);
        }
        if state.left.deaths > 0 {
            let living = state.tables.living();
            actions.extend(living.map(|it| Action::Die(it.number())));
        }
        if let Some(kept) = state.kept {
            if kept != state.tables && state.left.crashes + state.left.failovers > 0 {
                actions.push(Action::Keep);
            }
            // Fewer fences are counted than the clock of a fence goes on.
            let is_behind = state.greatest > state.clock;
            if state.left.failovers > 0 && has_time && !is_behind {
                actions.push(Action::FailOver);
            }
        }
        if self.bounds.unlocks && state.operator.is_none() {
            let owners = state.tables.holders.iter().map(|it| it.owner);
            actions.extend(owners.map(|it| Action::Unlock(it.number())));
        }
        if self.may_sweep(state) {
            actions.push(Action::Sweep);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Ask(at) => self.ask(&mut next, at),
            Action::Renew(at) => self.renew(&mut next, at),
            Action::Leave(at) => self.leave(&mut next, at),
            Action::GiveUp(at, slot) => Self::give_up(&mut next, at, slot),
            Action::Serve(of) => self.serve(&mut next, of)?,
            Action::Begin(at) => self.begin(&mut next, at),
            Action::Fence(at) => self.fence(&mut next, at)?,
            Action::RollBackTo(at) => Self::roll_back_to(&mut next, at),
            Action::Commit(at) => self.commit(&mut next, at)?,
            Action::RollBack(at) => self.roll_back(&mut next, at),
            Action::Tick => self.pass(&mut next),
            Action::Restart => {
                next.left.restarts -= 1;
                self.restart(&mut next);
            }
            Action::Abort(of) => {
                next.left.aborts -= 1;
                next.set(of, None);
            }
            Action::Crash => {
                next.left.crashes -= 1;
                self.restart(&mut next);
                next.tables = next.kept?;
                next.tables.lose_the_queue();
                next.kept = Some(next.tables);
            }
            Action::Die(number) => {
                next.left.deaths -= 1;
                next.tables.dead = next.tables.dead.with(Owner::numbered(number));
                // The waiters behind it are woken by the next poll at the earliest.
                next.was_freed_silently = true;
            }
            Action::Keep => next.kept = Some(next.tables),
            Action::FailOver => {
                next.left.failovers -= 1;
                self.restart(&mut next);
                next.tables = next.kept.take()?;
                if self.keeps(Rule::QueueEndsWithItsServer) {
                    next.tables.lose_the_queue();
                }
                self.pass(&mut next);
            }
            Action::Unlock(number) => {
                let owner = Owner::numbered(number);
                next.operator = Some(Request::new(What::Unlock, owner));
            }
            Action::Sweep => self.sweep(&mut next),
        }
        Some(next)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.grants <= self.bounds.grants
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }
}

impl Rows {
    fn actions_of(&self, state: &State, at: usize, actions: &mut Vec<Action>) {
        let process = &state.processes[at];
        let is_free = |slot: usize| process.requests[slot].is_none();
        match process.phase {
            Phase::Idle | Phase::Asking | Phase::Waiting if is_free(ACQUIRE) => {
                actions.push(Action::Ask(at));
            }
            Phase::Holding { trust, .. } if trust > 0 && is_free(RENEW) && self.renews(at) => {
                actions.push(Action::Renew(at));
            }
            _ => {}
        }
        let has_begun = !matches!(process.phase, Phase::Idle | Phase::Done);
        if has_begun && is_free(RELEASE) && self.may_leave(state, at) {
            actions.push(Action::Leave(at));
        }
        if state.left.late > 0 && is_free(LATE) {
            let slots = [ACQUIRE, RENEW].into_iter().filter(|slot| !is_free(*slot));
            actions.extend(slots.map(|slot| Action::GiveUp(at, slot)));
        }
        if self.may_begin(state, at) {
            actions.push(Action::Begin(at));
        }
        if self.may_fence(state, at) {
            actions.push(Action::Fence(at));
        }
        if let Some(transaction) = process.transaction {
            actions.push(Action::RollBack(at));
            if transaction.is_fenced() {
                actions.push(Action::Commit(at));
            }
            if self.bounds.savepoints && transaction.locked().is_some() {
                actions.push(Action::RollBackTo(at));
            }
        }
    }

    fn serve(&self, next: &mut State, of: Actor) -> Option<()> {
        match next.request(of)?.what {
            What::Acquire => self.serve_acquire(next, of),
            What::Renew => self.serve_renew(next, of),
            What::Release | What::Unlock => self.serve_release(next, of),
            What::Sweep => {
                self.commit_sweep(next);
                Some(())
            }
        }
    }

    fn pass(&self, next: &mut State) {
        next.tables.pass();
        if let Some(kept) = &mut next.kept {
            kept.pass();
        }
        if self.bounds.clock.is_some() {
            next.clock += 1;
        }
        for process in &mut next.processes {
            if let Phase::Holding { trust, .. } = &mut process.phase {
                *trust = trust.saturating_sub(1);
            }
        }
        for request in next.requests_mut() {
            let reads_the_clock_first = match request.what {
                What::Acquire => !self.keeps(Rule::ClockAfterTheLock),
                What::Renew => !self.keeps(Rule::RenewalReadsTheClock),
                _ => false,
            };
            let has_read = matches!(request.step, Step::Locking | Step::Decided(_));
            if has_read || reads_the_clock_first {
                request.since = (request.since + 1).min(TTL);
            }
            // The answers of the others say nothing of time.
            if matches!(request.what, What::Acquire | What::Renew) {
                request.age = (request.age + 1).min(TTL);
            }
        }
    }

    /// The commit is there after any crash, and so are all before it.
    pub(super) fn wait_for_the_disk(&self, next: &mut State) {
        if self.bounds.crashes > 0 {
            next.kept = Some(next.tables);
        }
    }

    /// Transactions are rolled back; requests that the server does not have yet may come later.
    fn restart(&self, next: &mut State) {
        for at in 0..self.bounds.roles.len() {
            for request in &mut next.processes[at].requests {
                *request = request.filter(|it| it.step == Step::Sent);
            }
            self.roll_back(next, at);
        }
        next.operator = next.operator.filter(|it| it.step == Step::Sent);
    }
}
