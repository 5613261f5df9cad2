//! The locks of rows: which request or transaction has them, and for which of these another one waits.

use super::{
    Role, Rows, Rule,
    state::{Actor, Is, MOST, Outcome, Owner, Phase, Request, SLOTS, State, Step, What},
};

/// How strongly a row is locked, as far as the protocol does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// `FOR KEY SHARE`.
    KeyShare,
    /// `FOR NO KEY UPDATE`.
    NoKeyUpdate,
    /// `FOR UPDATE`.
    Update,
}

impl Strength {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Update, _) | (_, Self::Update) => true,
            (one, other) => one == Self::NoKeyUpdate && other == Self::NoKeyUpdate,
        }
    }
}

/// Requests and transactions, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Actors(u32);

/// A process's requests, and its transaction.
const OF_A_PROCESS: usize = SLOTS + 1;

impl Actors {
    const NONE: Self = Self(0);

    fn number(actor: Actor) -> usize {
        match actor {
            Actor::Request(at, slot) => at * OF_A_PROCESS + slot,
            Actor::Transaction(at) => at * OF_A_PROCESS + SLOTS,
            Actor::Operator => MOST * OF_A_PROCESS,
        }
    }

    fn with(self, actor: Actor) -> Self {
        Self(self.0 | 1 << Self::number(actor))
    }

    fn has(self, actor: Actor) -> bool {
        self.0 & (1 << Self::number(actor)) != 0
    }

    fn and_all(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a transaction of a user is among them.
    pub(super) fn has_transaction(self) -> bool {
        (0..MOST).any(|at| self.has(Actor::Transaction(at)))
    }
}

impl FromIterator<Actor> for Actors {
    fn from_iter<I: IntoIterator<Item = Actor>>(actors: I) -> Self {
        actors.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Whether the request has the mutex, or would have it if there were one.
fn is_inside(request: &Request) -> bool {
    let has_it = matches!(request.step, Step::Locking | Step::Decided(_));
    has_it && request.what != What::Renew && !request.has_no_mutex
}

impl Rows {
    /// The others that keep a request out of the mutex.
    pub(super) fn mutex_blockers(&self, state: &State, of: Actor, is_shared: bool) -> Actors {
        if !self.keeps(Rule::MutexExcludes) {
            return Actors::NONE;
        }
        let others = state.requests().filter(|(other, request)| {
            let shares = request.step == Step::Sharing && !is_shared;
            *other != of && (is_inside(request) || shares)
        });
        others.map(|(other, _)| other).collect()
    }

    /// The others that keep a request or transaction from locking the row of this owner.
    pub(super) fn row_blockers(
        &self,
        state: &State,
        of: Actor,
        owner: Owner,
        strength: Strength,
    ) -> Actors {
        let requests = state.requests();
        let requests = requests.filter_map(|(other, request)| {
            let has = self.strength(&request, owner)?;
            (other != of && has.excludes(strength)).then_some(other)
        });
        let transactions = (0..MOST).filter_map(|at| {
            let transaction = state.processes[at].transaction.as_ref()?;
            let other = Actor::Transaction(at);
            let has = if self.bounds.roles[at] == Role::InTransaction {
                Strength::Update
            } else {
                Strength::KeyShare
            };
            let blocks = other != of
                && transaction.locked() == Some(owner)
                && has.excludes(strength)
                // A transaction is fenced only by a lease that is there, but where a rule is missing.
                && state.tables.lease(owner).is_some();
            blocks.then_some(other)
        });
        requests.chain(transactions).collect()
    }

    /// How strongly the request has locked the row of this owner.
    fn strength(&self, request: &Request, owner: Owner) -> Option<Strength> {
        if request.step == Step::Decided(Outcome::Extended) && request.owner == owner {
            return Some(Strength::NoKeyUpdate);
        }
        if !request.locked.has(owner) {
            return None;
        }
        Some(match request.what {
            What::Renew => Strength::NoKeyUpdate,
            _ => self.take_over_strength(),
        })
    }

    /// How a take-over locks a lease that has ended.
    pub(super) fn take_over_strength(&self) -> Strength {
        if self.keeps(Rule::TakeOverDeletes) {
            Strength::Update
        } else {
            Strength::NoKeyUpdate
        }
    }

    /// All for which this one waits, or would if it went on now.
    pub(super) fn waits_for(&self, state: &State, of: Actor) -> Actors {
        match of {
            Actor::Transaction(at) => self.transaction_waits_for(state, at),
            _ => state
                .request(of)
                .map_or(Actors::NONE, |it| self.request_waits_for(state, of, &it)),
        }
    }

    fn transaction_waits_for(&self, state: &State, at: usize) -> Actors {
        let process = &state.processes[at];
        let is_open = process.transaction.is_none_or(|it| it.is == Is::Open);
        let can_fence = self.bounds.fences && matches!(process.phase, Phase::Holding { .. });
        let token = process.transaction.and_then(|it| it.token);
        let owner = token.map(|(owner, _)| owner);
        let owner = owner.or_else(|| can_fence.then(|| self.owner(state, at)));
        let Some(owner) = owner.filter(|_| is_open) else {
            return Actors::NONE;
        };
        let strength = match self.bounds.roles[at] {
            Role::InTransaction => Strength::Update,
            Role::Exclusive | Role::Shared => Strength::KeyShare,
        };
        self.row_blockers(state, Actor::Transaction(at), owner, strength)
    }

    fn request_waits_for(&self, state: &State, of: Actor, request: &Request) -> Actors {
        let own = |strength| self.row_blockers(state, of, request.owner, strength);
        match (request.what, request.step) {
            (_, Step::Decided(_) | Step::Queueing) => Actors::NONE,
            (What::Renew, _) => {
                let next = self.next_to_renew(request);
                next.map_or(Actors::NONE, |owner| {
                    self.row_blockers(state, of, owner, Strength::NoKeyUpdate)
                })
            }
            (_, Step::Sent) if request.has_no_mutex => Actors::NONE,
            (_, Step::Sent | Step::Sharing) => {
                let is_shared = request.step == Step::Sent && !self.keeps(Rule::LockedAtOnce);
                self.mutex_blockers(state, of, is_shared)
            }
            (What::Acquire, Step::Locking) => {
                let mut all = Actors::NONE;
                if !self.keeps(Rule::TakeOverSkipsLocked) {
                    let ended = state.tables.holders.iter().filter(|it| it.left == 0);
                    for lease in ended {
                        let strength = self.take_over_strength();
                        all = all.and_all(self.row_blockers(state, of, lease.owner, strength));
                    }
                }
                if !self.keeps(Rule::RepeatSkipsLocked) {
                    all = all.and_all(own(Strength::NoKeyUpdate));
                }
                all
            }
            (_, Step::Locking) => own(Strength::Update),
        }
    }

    /// Whether a request that has the mutex waits.
    pub(super) fn waits_inside(&self, state: &State) -> bool {
        let mut requests = state.requests().filter(|(_, it)| is_inside(it));
        requests.any(|(of, it)| !self.request_waits_for(state, of, &it).is_empty())
    }

    /// Whether some wait for each other in a circle.
    pub(super) fn is_deadlocked(&self, state: &State) -> bool {
        let transactions = (0..self.bounds.roles.len()).map(Actor::Transaction);
        let requests = state.requests().map(|(of, _)| of);
        let mut waits: Vec<_> = requests
            .chain(transactions)
            .map(|of| (of, self.waits_for(state, of)))
            .filter(|(_, others)| !others.is_empty())
            .collect();
        // One that waits for none of those that wait gets on; in a circle none does.
        loop {
            let waiting: Actors = waits.iter().map(|(of, _)| *of).collect();
            let before = waits.len();
            waits.retain(|(_, others)| others.0 & waiting.0 != 0);
            if waits.len() == before {
                return !waits.is_empty();
            }
        }
    }
}
