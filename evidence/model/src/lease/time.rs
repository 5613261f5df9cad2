//! A tick: the time that passes at the server, at its copy, and at each process.

use super::{
    Lease, Rule,
    client::give_up_answers,
    monitor,
    state::{Client, LOOK_AGAIN, Lock, Owner, Phase, State},
};

/// A tick has time for so many fences.
pub(super) const FENCES_PER_TICK: u8 = 8;

impl Lease {
    pub(super) fn tick(&self, next: &mut State, unnoticed: Option<usize>) {
        let server = &mut next.server;
        if self.ticks().is_some() {
            server.clock += FENCES_PER_TICK;
        }
        server.lock = after_a_tick(server.lock);
        if let Some(copy) = &mut next.copy {
            copy.lock = after_a_tick(copy.lock);
        }
        server.queue.iter_mut().for_each(|place| place.alive -= 1);
        server.queue.retain(|place| place.alive > 0);
        for (at, client) in next.clients.iter_mut().enumerate() {
            if unnoticed != Some(at) {
                self.tick_of(client);
            }
        }
        let is_orphaned = next
            .server
            .lock
            .is_some_and(|lock| is_orphan(next, lock.grant.owner));
        if is_orphaned {
            next.orphaned += 1;
        } else if next.server.lock.is_some() {
            next.orphaned = 0;
        }
        monitor::time_passed(next);
    }

    fn tick_of(&self, client: &mut Client) {
        let ttl = self.bounds.times.ttl;
        match &mut client.phase {
            Phase::Asking { age } => *age = (*age + 1).min(ttl),
            // Of no interest but where waiters have to be prompt.
            Phase::Waiting { idle } if self.bounds.is_prompt => {
                *idle = (*idle + 1).min(LOOK_AGAIN + 1);
            }
            Phase::Holding(holding) if holding.left > 0 || !self.keeps(Rule::LostIsFinal) => {
                holding.left = holding.left.saturating_sub(1);
                if let Some(age) = &mut holding.renewing {
                    *age = (*age + 1).min(ttl);
                }
                if holding.left == 0 && self.keeps(Rule::LostIsFinal) {
                    holding.renewing = None;
                    give_up_answers(client);
                }
            }
            _ => {}
        }
        client.refreshes.iter_mut().for_each(|it| it.age += 1);
        // No hint is believed with what is older.
        client.refreshes.retain(|it| it.age < self.believed_ttl());
    }
}

/// The rest of it.
fn after_a_tick(lock: Option<Lock>) -> Option<Lock> {
    let left = lock.map(|lock| Lock {
        left: lock.left - 1,
        ..lock
    });
    left.filter(|lock| lock.left > 0)
}

/// Whether its process has ended, without a request under way.
fn is_orphan(state: &State, owner: Owner) -> bool {
    let client = &state.clients[usize::from(owner.client)];
    let is_under_way = state.late.iter().any(|it| it.owner == owner);
    client.phase == Phase::Dead && client.wire.is_empty() && !is_under_way
}
