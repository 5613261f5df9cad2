//! The server's scripts: acquire, renew, release; and its data after a fault.

use super::{
    Lease, Rule, monitor,
    state::{ALIVE, Copied, Grant, Lock, Owner, Place, Reply, Request, State, What},
};
use crate::list::List;

impl Lease {
    /// Carries out a request.
    pub(super) fn carry_out(&self, state: &mut State, request: Request) -> Option<Reply> {
        let before = state.server.grants;
        let reply = self.reply(state, request);
        monitor::carried_out(state, request, reply, before);
        reply
    }

    fn reply(&self, state: &mut State, request: Request) -> Option<Reply> {
        let owner = request.owner;
        match request.what {
            What::Acquire => Some(self.acquire(state, owner)),
            What::Renew { ttl } => {
                let compares = self.keeps(Rule::RenewalCompares);
                let lock = state.server.lock.as_mut();
                let lock = lock.filter(|lock| lock.grant.owner == owner || !compares);
                Some(Reply::Renewed(lock.map(|lock| lock.left = ttl).is_some()))
            }
            What::Release => {
                self.release(state, owner);
                None
            }
        }
    }

    fn acquire(&self, state: &mut State, owner: Owner) -> Reply {
        match &mut state.server.lock {
            Some(lock) if lock.grant.owner == owner => {
                if self.keeps(Rule::RepeatStartsAnew) {
                    lock.left = self.bounds.times.ttl;
                }
                Reply::Granted(lock.grant)
            }
            Some(_) => wait_in_queue(state, owner),
            None => match state.server.queue.get(0).map(|first| first.owner) {
                Some(first) if first != owner && self.keeps(Rule::FirstComesFirst) => {
                    self.hand_on(state, first);
                    wait_in_queue(state, owner)
                }
                _ => {
                    forget_place(state, owner);
                    Reply::Granted(self.grant(state, owner, self.bounds.times.ttl))
                }
            },
        }
    }

    fn release(&self, state: &mut State, owner: Owner) {
        forget_place(state, owner);
        let is_own = |lock: &Lock| lock.grant.owner == owner;
        if !state.server.lock.is_some_and(|lock| is_own(&lock)) && self.keeps(Rule::ReleaseCompares)
        {
            return;
        }
        state.server.lock = None;
        let first = state.server.queue.get(0);
        if let Some(first) = first.filter(|_| self.keeps(Rule::FirstComesFirst)) {
            self.hand_on(state, first.owner);
        }
    }

    /// Makes a waiter the holder, and sends it a hint.
    fn hand_on(&self, state: &mut State, waiter: Owner) {
        forget_place(state, waiter);
        let grant = self.grant(state, waiter, self.bounds.times.grant);
        state.hints.insert(grant);
    }

    fn grant(&self, state: &mut State, owner: Owner, left: u8) -> Grant {
        let server = &mut state.server;
        let mut fence = 1;
        if self.keeps(Rule::FenceExceedsTheLast) {
            fence = fence.max(server.last + 1);
        }
        if self.keeps(Rule::FenceFollowsTheClock) {
            fence = fence.max(server.clock);
        }
        state.faults.fence_fell |= fence <= server.greatest;
        server.last = fence;
        server.greatest = server.greatest.max(fence);
        server.grants += 1;
        let grant = Grant {
            owner,
            fence,
            order: server.grants,
        };
        server.lock = Some(Lock { grant, left });
        grant
    }
}

fn wait_in_queue(state: &mut State, owner: Owner) -> Reply {
    let queue = &mut state.server.queue;
    if let Some(place) = queue.iter_mut().find(|place| place.owner == owner) {
        place.alive = ALIVE;
    } else {
        queue.push(Place {
            owner,
            alive: ALIVE,
        });
    }
    Reply::Busy {
        last: state.server.last,
    }
}

fn forget_place(state: &mut State, owner: Owner) {
    state.server.queue.retain(|place| place.owner != owner);
}

/// The data of a server that has forgotten everything.
pub(super) const NOTHING: Copied = Copied {
    lock: None,
    last: 0,
};

/// The data that a replica receives.
pub(super) fn copy(state: &State) -> Copied {
    Copied {
        lock: state.server.lock,
        last: state.server.last,
    }
}

/// A server that knows no more than this takes the place of the present one.
pub(super) fn start_with(state: &mut State, copy: Copied) {
    state.server.lock = copy.lock;
    state.server.last = copy.last;
    state.server.queue = List::new();
    state.arrivals = List::new();
}
