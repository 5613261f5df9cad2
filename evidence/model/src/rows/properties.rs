//! Properties that always hold, and states that are sometimes reached.

use stateright::Property;

use super::{
    Role, Rows,
    state::{Actor, Is, MOST, Phase, RELEASE, RENEW, State, Step},
};

pub(super) const MUTEX: &str = "no two trust leases that exclude each other";
pub(super) const FENCED: &str = "no two transactions are fenced at once that exclude each other";
pub(super) const HELD: &str = "no lease is trusted while a transaction is fenced that excludes it";
pub(super) const KEPT: &str = "no other lease is there while a transaction is fenced";
pub(super) const ORDER: &str = "transactions commit in the order of their fences";
pub(super) const SEEN: &str = "a transaction has seen what others committed under the lock";
pub(super) const FENCES: &str = "each fence is greater than all before";
pub(super) const NOBODY_LEFT: &str = "no waiter is left behind that could hold the key";
pub(super) const FREE: &str = "a lock in a transaction ends with its commit";
pub(super) const WAITS: &str = "nobody waits for a user's transaction";
pub(super) const PROMPT: &str = "nobody waits while it has the mutex";
pub(super) const DEADLOCK: &str = "no requests wait for each other in a circle";

pub(super) const BEYOND: &str =
    "a transaction is fenced after its lease, and another process waits";
pub(super) const BESIDE: &str = "a lease is renewed beside a transaction that it fences";
pub(super) const PUT_OFF: &str = "a release is refused while a transaction is fenced";
pub(super) const TOO_LATE: &str = "a transaction is refused after another process held the key";
pub(super) const CONFLICT: &str = "an older snapshot fails by a conflict";
pub(super) const TOGETHER: &str = "two that share are fenced at once";

/// The promises of a transaction whatever happens to the server, and whatever an operator does.
pub(super) const WHATEVER_HAPPENS: [&str; 9] = [
    FENCED, KEPT, ORDER, SEEN, FENCES, FREE, WAITS, PROMPT, DEADLOCK,
];

impl Rows {
    /// Whether processes may not hold the key together.
    fn exclude(&self, one: usize, other: usize) -> bool {
        let is_shared = |at: usize| self.bounds.roles[at] == Role::Shared;
        one != other && !(is_shared(one) && is_shared(other))
    }

    fn has_pair(&self, one: impl Fn(usize) -> bool, other: impl Fn(usize) -> bool) -> bool {
        let all = || 0..self.bounds.roles.len();
        let mut ones = all().filter(|at| one(*at));
        ones.any(|at| all().any(|it| other(it) && self.exclude(at, it)))
    }

    fn trusts(&self, state: &State, at: usize) -> bool {
        let is_lease = self.bounds.roles[at] != Role::InTransaction;
        let is_trusted =
            matches!(state.processes[at].phase, Phase::Holding { trust, .. } if trust > 0);
        is_lease && is_trusted
    }

    /// Whether another process's lease is there that excludes a transaction which is fenced.
    fn is_overtaken(&self, state: &State) -> bool {
        (0..MOST).filter(|at| is_fenced(state, *at)).any(|at| {
            let token = state.processes[at].transaction.and_then(|it| it.token);
            let owner = token.map(|(owner, _)| owner);
            let others = state
                .tables
                .holders
                .iter()
                .filter(|it| Some(it.owner) != owner);
            let is_shared = |role| role == Role::Shared;
            let mut others = others.map(|it| self.role(it.owner));
            others.any(|role| !(is_shared(role) && is_shared(self.bounds.roles[at])))
        })
    }
}

fn is_fenced(state: &State, at: usize) -> bool {
    let transaction = state.processes[at].transaction;
    transaction.is_some_and(super::state::Transaction::is_fenced)
}

/// Whether the process has a transaction that has come to this.
fn has_come_to(state: &State, at: usize, is: Is) -> bool {
    let transaction = state.processes[at].transaction;
    transaction.is_some_and(|it| it.is == is)
}

fn is_waiting(state: &State, at: usize) -> bool {
    state.processes[at].phase == Phase::Waiting
}

pub(super) fn all() -> Vec<Property<Rows>> {
    let mut all = promises();
    all.extend(examples());
    all
}

fn promises() -> Vec<Property<Rows>> {
    vec![
        Property::always(MUTEX, |rows: &Rows, state: &State| {
            let trusts = |at| rows.trusts(state, at);
            !rows.has_pair(trusts, trusts)
        }),
        Property::always(FENCED, |rows: &Rows, state: &State| {
            let is_fenced = |at| is_fenced(state, at);
            !rows.has_pair(is_fenced, is_fenced)
        }),
        Property::always(HELD, |rows: &Rows, state: &State| {
            !rows.has_pair(|at| is_fenced(state, at), |at| rows.trusts(state, at))
        }),
        Property::always(KEPT, |rows: &Rows, state: &State| !rows.is_overtaken(state)),
        Property::always(ORDER, |_, state: &State| !state.faults.out_of_order),
        Property::always(SEEN, |_, state: &State| !state.faults.overwrote_unseen),
        Property::always(FENCES, |_, state: &State| !state.faults.fence_fell),
        Property::always(NOBODY_LEFT, |_, state: &State| !state.faults.left_waiting),
        Property::always(FREE, |_, state: &State| !state.faults.left_over),
        Property::always(WAITS, |rows: &Rows, state: &State| {
            let requests = state.requests().map(|(of, _)| of);
            let mut all = requests.chain((0..rows.bounds.roles.len()).map(Actor::Transaction));
            !all.any(|of| rows.waits_for(state, of).has_transaction())
        }),
        Property::always(PROMPT, |rows: &Rows, state: &State| {
            !rows.waits_inside(state)
        }),
        Property::always(DEADLOCK, |rows: &Rows, state: &State| {
            !rows.is_deadlocked(state)
        }),
    ]
}

fn examples() -> Vec<Property<Rows>> {
    vec![
        Property::sometimes(BEYOND, |_, state: &State| {
            let has_ended = state.tables.holders.iter().any(|it| it.left == 0);
            let has_other = is_waiting(state, 0) || is_waiting(state, 1);
            has_ended && has_other && (0..MOST).any(|at| is_fenced(state, at))
        }),
        Property::sometimes(BESIDE, |_, state: &State| {
            let is_renewing = |it: &&super::state::Process| {
                let request = it.requests[RENEW];
                request.is_some_and(|it| matches!(it.step, Step::Decided(_)))
            };
            let mut processes = state.processes.iter().filter(is_renewing);
            processes.any(|it| {
                it.transaction
                    .is_some_and(super::state::Transaction::is_fenced)
            })
        }),
        Property::sometimes(PUT_OFF, |rows: &Rows, state: &State| {
            (0..MOST).any(|at| {
                let of = Actor::Request(at, RELEASE);
                let is_sent = state.request(of).is_some_and(|it| it.step == Step::Sent);
                is_sent
                    && is_fenced(state, at)
                    && rows.mutex_blockers(state, of, false).is_empty()
                    && rows.serve_release(&mut state.clone(), of).is_none()
            })
        }),
        Property::sometimes(TOO_LATE, |rows: &Rows, state: &State| {
            rows.has_pair(
                |at| has_come_to(state, at, Is::Refused),
                |at| rows.trusts(state, at),
            )
        }),
        Property::sometimes(CONFLICT, |_, state: &State| {
            (0..MOST).any(|at| has_come_to(state, at, Is::Failed))
        }),
        Property::sometimes(TOGETHER, |_, state: &State| {
            (0..MOST).filter(|at| is_fenced(state, *at)).count() > 1
        }),
    ]
}
