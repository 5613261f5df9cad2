//! The operator's part: removing a lease that others hold, and the sweep of a key that nobody uses.

use super::{
    Rows, Rule,
    state::{Actor, Outcome, Owner, Request, State, Step, What},
};

impl Rows {
    pub(super) fn may_sweep(&self, state: &State) -> bool {
        let Some(operator) = self.bounds.sweeps.then_some(Actor::Operator) else {
            return false;
        };
        let tables = &state.tables;
        let is_used = !tables.holders.is_empty() || !tables.waiters.is_empty();
        let is_later = tables.last < state.clock || !self.keeps(Rule::SweptLater);
        let has_mutex = self.mutex_blockers(state, operator, false).is_empty();
        state.operator.is_none() && tables.last > 0 && !is_used && is_later && has_mutex
    }

    #[expect(clippy::unused_self, reason = "it is a step like the others")]
    pub(super) fn sweep(&self, next: &mut State) {
        let mut request = Request::new(What::Sweep, Owner::EMPTY);
        request.step = Step::Decided(Outcome::Done);
        next.operator = Some(request);
    }

    pub(super) fn commit_sweep(&self, next: &mut State) {
        next.operator = None;
        next.tables.last = 0;
        if self.keeps(Rule::StartsOverWhenSwept) {
            return;
        }
        // Where the row is gone that they waited for, they have locked nothing, and do not see it.
        let waiting = next.requests_mut().filter(|it| it.step == Step::Sent);
        for request in waiting.filter(|it| it.what == What::Acquire) {
            request.has_no_mutex = true;
        }
    }
}
