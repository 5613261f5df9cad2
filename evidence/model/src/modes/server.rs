//! The store's part: it grants, queues and releases, and numbers what it grants.

use super::{
    Modes, Rule,
    state::{Asked, Grant, Hint, Lease, Mode, Owner, Replica, State, Told},
};
use crate::list::List;

impl Modes {
    pub(super) fn mode(&self, owner: Owner) -> Mode {
        self.bounds.modes[usize::from(owner.client)]
    }

    pub(super) fn acquire(&self, next: &mut State, owner: Owner) -> Told {
        self.remove_ended(next);
        if let Some(lease) = next.server.leases.iter_mut().find(|it| it.owner == owner) {
            lease.has_ended = false;
            next.server.ends_with = Some(owner);
            let grant = lease.grant;
            return Told::Granted {
                grant,
                is_late: false,
            };
        }
        let first = next.server.queue.get(0);
        let is_its_turn = first.is_none_or(|it| it == owner) || !self.keeps(Rule::OneQueue);
        if is_its_turn && self.fits(next, owner) {
            next.faults.passed_over |= first.is_some_and(|it| it != owner);
            next.server.queue.retain(|it| *it != owner);
            let (grant, _) = self.grant(next, owner, false);
            return Told::Granted {
                grant,
                is_late: false,
            };
        }
        if !next.server.queue.iter().any(|it| it == owner) {
            next.server.queue.push(owner);
        }
        self.grant_waiters(next);
        Told::Busy(Asked {
            last: next.server.last,
            grants: next.server.grants,
        })
    }

    #[expect(clippy::unused_self, reason = "it is a step like the others")]
    pub(super) fn renew(&self, next: &mut State, owner: Owner) -> Told {
        let mut leases = next.server.leases.iter_mut();
        let lease = leases.find(|it| it.owner == owner);
        let is_renewed = lease.map(|it| it.has_ended = false).is_some();
        if is_renewed {
            next.server.ends_with = Some(owner);
        }
        Told::Renewed(is_renewed)
    }

    pub(super) fn release(&self, next: &mut State, owner: Owner) -> Told {
        next.server.queue.retain(|it| *it != owner);
        let is_held = next.server.leases.iter().any(|it| it.owner == owner);
        if is_held && !self.keeps(Rule::ReleaseKeepsOthers) {
            next.server.leases = List::new();
        }
        next.server.leases.retain(|it| it.owner != owner);
        self.grant_waiters(next);
        let first = next.server.queue.get(0);
        next.faults.left_waiting |= first.is_some_and(|it| self.fits(next, it));
        Told::Released
    }

    pub(super) fn end(&self, next: &mut State, at: usize) {
        let Some(ended) = next.server.leases.get(at) else {
            return;
        };
        let is_all =
            next.server.ends_with == Some(ended.owner) && !self.keeps(Rule::KeyLastsForAll);
        for lease in next.server.leases.iter_mut() {
            lease.has_ended |= is_all || lease.owner == ended.owner;
        }
        if next.server.leases.iter().all(|it| it.has_ended) && self.keeps(Rule::EndedAreRemoved) {
            next.server.leases = List::new();
        }
    }

    /// The replica has lost everything since it fell behind, except for the clock.
    pub(super) fn roll_back(&self, next: &mut State) {
        let Replica::Behind(replica) = next.replica else {
            return;
        };
        let before = std::mem::replace(&mut next.server, replica);
        next.server.grants = before.grants;
        next.server.eras = before.eras;
        next.server.greatest = before.greatest;
        if self.keeps(Rule::FenceFollowsTheClock) {
            next.server.last = before.last;
        }
        next.replica = Replica::TookOver;
    }

    fn remove_ended(&self, next: &mut State) {
        if self.keeps(Rule::EndedAreRemoved) {
            next.server.leases.retain(|it| !it.has_ended);
        }
    }

    /// Whether the living holders let this owner in.
    fn fits(&self, state: &State, owner: Owner) -> bool {
        let living = || state.server.leases.iter().filter(|it| !it.has_ended);
        let no_exclusive = !living().any(|it| self.mode(it.owner) == Mode::Exclusive)
            || !self.keeps(Rule::SharedExcludesExclusive);
        let is_below =
            |most: u8| living().count() < usize::from(most) || !self.keeps(Rule::PermitsAreCounted);
        match self.mode(owner) {
            Mode::Exclusive => living().next().is_none() || !self.keeps(Rule::ExclusiveIsAlone),
            Mode::Shared => no_exclusive,
            Mode::Permits(most) => no_exclusive && is_below(most),
        }
    }

    /// Grants the waiters at the head of the queue, as long as they fit.
    fn grant_waiters(&self, next: &mut State) {
        self.remove_ended(next);
        while let Some(first) = next.server.queue.get(0)
            && self.fits(next, first)
        {
            next.server.queue.remove(0);
            let (grant, count) = self.grant(next, first, true);
            next.hints.insert(Hint {
                owner: first,
                count,
                grant,
            });
            if !self.keeps(Rule::ReleaseGrantsAll) {
                return;
            }
        }
    }

    /// The grant, and the number by which a waiter dates it.
    fn grant(&self, next: &mut State, owner: Owner, is_waiter: bool) -> (Grant, u8) {
        let is_exclusive = self.mode(owner) == Mode::Exclusive;
        let server = &mut next.server;
        let joins = !is_exclusive && server.leases.iter().any(|it| !it.has_ended);
        let (token, count) = if joins && self.keeps(Rule::EpochIsShared) {
            if is_waiter && self.keeps(Rule::GrantsAreNumbered) {
                server.last += 1;
                (server.epoch, server.last)
            } else {
                (server.epoch, server.epoch)
            }
        } else if is_exclusive || self.keeps(Rule::EpochIsNew) {
            server.last += 1;
            (server.last, server.last)
        } else {
            server.last = server.last.max(1);
            (server.last, server.last)
        };
        server.epoch = if is_exclusive { 0 } else { token };
        server.grants += 1;
        next.faults.smaller_token |= token < server.greatest;
        next.faults.old_token |= !joins && token <= server.greatest;
        // Who joins restored holders follows those that the store has forgotten.
        let is_new = next.replica == Replica::TookOver && (!joins || server.era < server.eras);
        server.greatest = server.greatest.max(token);
        if is_exclusive || !server.was_shared || is_new {
            server.eras += 1;
            server.era = server.eras;
        }
        server.was_shared = !is_exclusive;
        let grant = Grant {
            token,
            number: server.grants,
            era: server.era,
        };
        server.leases.insert(Lease {
            owner,
            has_ended: false,
            grant,
        });
        server.ends_with = Some(owner);
        (grant, count)
    }
}
