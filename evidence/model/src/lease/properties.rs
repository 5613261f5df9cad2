//! Properties that always hold, and states that are sometimes reached.

use stateright::Property;

use super::{
    Lease, Rule,
    state::{Client, LOOK_AGAIN, Owner, Phase, State},
};

pub(super) const MUTEX: &str = "no two believe in the lock";
pub(super) const FENCES: &str = "each lease has a greater fence than all before";
pub(super) const WRITES: &str = "the resource takes no write older than one it took";
pub(super) const NEWEST: &str = "the resource refuses no write newer than all it took";
pub(super) const NOTHING_LEFT: &str = "what is over leaves nothing, if no connection broke";
pub(super) const ENDS: &str = "what a dead process held ends within a TTL";
pub(super) const LOOKS: &str = "nobody waits long beside a lock that is free or the own";
pub(super) const ORDER: &str = "nobody is passed over who waits";

pub(super) const FINAL: &str = "what was lost does not come back";

pub(super) const LOST: &str = "a lease is over before its section";
pub(super) const HINTED: &str = "a section begins with a hint";
pub(super) const RENEWED: &str = "a lease that was handed on is renewed";
pub(super) const UNHEARD: &str = "a lease is handed on to who does not hear of it";
pub(super) const LATE: &str = "a lease is taken by a request that comes late";
pub(super) const REFUSED: &str = "the resource refuses a write that is older than one it took";
pub(super) const BACK: &str = "a lease comes back that was followed by others";
pub(super) const ENDED: &str = "what a dead process held ends by its TTL";

/// The promises of a server that has lost its data, too.
pub(super) const OF_A_FORGETFUL_SERVER: [&str; 4] = [FENCES, WRITES, NEWEST, FINAL];

pub(super) fn all() -> Vec<Property<Lease>> {
    vec![
        Property::always(MUTEX, |lease: &Lease, state: &State| {
            lease.believers(state) < 2
        }),
        Property::always(FENCES, |_, state: &State| !state.faults.fence_fell),
        Property::always(WRITES, |_, state: &State| !state.faults.old_write_taken),
        Property::always(NEWEST, |_, state: &State| !state.faults.new_write_refused),
        Property::always(NOTHING_LEFT, |lease, state: &State| {
            let is_unbroken = state.left.late == lease.bounds.late;
            !is_unbroken || owners(state).all(|owner| lease.is_accounted_for(state, owner))
        }),
        Property::always(ENDS, |lease, state: &State| {
            state.orphaned <= lease.bounds.times.ttl
        }),
        Property::always(LOOKS, |lease, state: &State| {
            let clients = state.clients.iter().enumerate();
            !lease.bounds.is_prompt
                || !clients
                    .filter(|(_, client)| has_waited(client))
                    .any(|(at, _)| {
                        let own = lease.owner(state, at);
                        state.server.lock.is_none_or(|lock| lock.grant.owner == own)
                    })
        }),
        Property::always(ORDER, |_, state: &State| !state.faults.waiter_passed_over),
        Property::always(FINAL, |_, state: &State| !state.faults.lost_came_back),
        Property::sometimes(LOST, |_, state: &State| {
            let is_over =
                |it: &Client| matches!(it.phase, Phase::Holding(holding) if holding.left == 0);
            state.clients.iter().any(is_over)
        }),
        Property::sometimes(HINTED, |_, state: &State| {
            let is_hinted =
                |it: &Client| matches!(it.phase, Phase::Holding(holding) if holding.hinted);
            state.clients.iter().any(is_hinted)
        }),
        Property::sometimes(RENEWED, |lease, state: &State| {
            let as_granted = lease.bounds.times.grant - lease.bounds.times.drift;
            let is_renewed = |it: &Client| {
                matches!(it.phase, Phase::Holding(holding)
                    if holding.hinted && holding.left > as_granted)
            };
            state.clients.iter().any(is_renewed)
        }),
        Property::sometimes(UNHEARD, |_, state: &State| {
            let is_free = state.server.lock.is_none();
            let is_waiting = |it: Owner| {
                let client = &state.clients[usize::from(it.client)];
                client.round == it.round && matches!(client.phase, Phase::Waiting { .. })
            };
            is_free && state.hints.iter().any(|hint| is_waiting(hint.owner))
        }),
        Property::sometimes(LATE, |lease, state: &State| {
            let late = state.left.late < lease.bounds.late && state.late.is_empty();
            late && owners(state).any(|owner| !lease.is_accounted_for(state, owner))
        }),
        Property::sometimes(REFUSED, |_, state: &State| state.resource.has_refused),
        Property::sometimes(BACK, |_, state: &State| {
            let order = state.server.lock.map(|lock| lock.grant.order);
            order.is_some_and(|order| order < state.server.grants)
        }),
        Property::sometimes(ENDED, |_, state: &State| {
            state.orphaned > 0 && state.server.lock.is_none()
        }),
    ]
}

/// The owners that the server knows.
fn owners(state: &State) -> impl Iterator<Item = Owner> + '_ {
    let queue = state.server.queue.iter().map(|place| place.owner);
    queue.chain(state.server.lock.map(|lock| lock.grant.owner))
}

fn has_waited(client: &Client) -> bool {
    matches!(client.phase, Phase::Waiting { idle } if idle > LOOK_AGAIN)
}

impl Lease {
    fn believers(&self, state: &State) -> usize {
        let believes = |it: &&Client| match it.phase {
            Phase::Holding(holding) => holding.left > 0 || !self.keeps(Rule::EndsAtTheDeadline),
            _ => false,
        };
        state.clients.iter().filter(believes).count()
    }

    /// Whether a process uses the server's entry for this owner, or is about to release it.
    fn is_accounted_for(&self, state: &State, owner: Owner) -> bool {
        let at = usize::from(owner.client);
        let client = &state.clients[at];
        match client.phase {
            Phase::Dead => true,
            _ if !client.wire.is_empty() => true,
            Phase::Idle | Phase::Done => false,
            _ => self.owner(state, at) == owner,
        }
    }
}
