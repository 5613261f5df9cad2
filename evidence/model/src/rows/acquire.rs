//! The acquire request: under the mutex it removes leases that have ended, and grants or queues.

use super::{
    Role, Rows, Rule,
    locks::Strength,
    state::{Actor, Holder, LATE, Outcome, Owner, Owners, Request, State, Step, What},
};
use crate::list::List;

impl Rows {
    /// The next step, unless it waits.
    pub(super) fn serve_acquire(&self, next: &mut State, of: Actor) -> Option<()> {
        let mut request = next.request(of)?;
        match request.step {
            Step::Sent if !self.enters_at_once(next, of, &request)? => {
                request.step = Step::Sharing;
                next.set(of, Some(request));
            }
            Step::Sent | Step::Locking => self.decide_acquire(next, of, request)?,
            Step::Sharing => {
                let others = self.mutex_blockers(next, of, false);
                others.is_empty().then_some(())?;
                self.decide_acquire(next, of, request)?;
            }
            Step::Decided(outcome) => self.commit_acquire(next, of, request, outcome),
            Step::Queueing => {
                next.set(of, None);
                self.queue(next, request.owner);
                self.see_who_is_left(next);
                self.answer(next, of, &request, Outcome::Busy);
            }
        }
        Some(())
    }

    /// Whether it gets the mutex in one step; none while others have it.
    fn enters_at_once(&self, state: &State, of: Actor, request: &Request) -> Option<bool> {
        if request.has_no_mutex {
            return Some(true);
        }
        let is_at_once = self.keeps(Rule::LockedAtOnce);
        let others = self.mutex_blockers(state, of, !is_at_once);
        others.is_empty().then_some(is_at_once)
    }

    fn decide_acquire(&self, next: &mut State, of: Actor, mut request: Request) -> Option<()> {
        let state = *next;
        let before = request;
        let mut waits = false;
        let ended = self.ended(&state, &request);
        if !self.keeps(Rule::EndIsSeenUnderTheLock) && request.step != Step::Locking {
            request.seen = ended;
            request.step = Step::Locking;
            next.set(of, Some(request));
            return Some(());
        }
        for owner in ended.iter() {
            let others = self.row_blockers(&state, of, owner, self.take_over_strength());
            if others.is_empty() {
                request.locked = request.locked.with(owner);
            } else {
                waits |= !self.keeps(Rule::TakeOverSkipsLocked);
            }
        }
        let holders = self.holders(&state, &request);
        let has_own = holders.has(request.owner);
        if has_own {
            let others = self.row_blockers(&state, of, request.owner, Strength::NoKeyUpdate);
            if !others.is_empty() {
                if self.keeps(Rule::RepeatSkipsLocked) {
                    // Refused without an effect; its process repeats it.
                    return None;
                }
                waits = true;
            }
        }
        if waits {
            request.step = Step::Locking;
            next.set(of, Some(request));
            return (request != before).then_some(());
        }
        next.was_freed_silently = false;
        if !has_own {
            request.dead = self.dead(&state);
        }
        let mut waiters = state.tables.waiters;
        waiters.retain(|it| !request.dead.has(*it));
        let is_its_turn = waiters.get(0).is_none_or(|it| it == request.owner);
        let outcome = if has_own {
            Outcome::Extended
        } else if is_its_turn && self.fits(request.owner, holders) {
            // Those behind it may hold the key beside it.
            let mut behind = waiters;
            behind.retain(|it| *it != request.owner);
            let others = self.granted(&behind, holders.with(request.owner));
            request.meant = others.with(request.owner);
            Outcome::Granted
        } else {
            let mut all = waiters;
            if self.keeps(Rule::QueuesUnderTheMutex) {
                queue(&mut all, request.owner);
            }
            request.meant = self.granted(&all, holders);
            Outcome::Busy
        };
        request.step = Step::Decided(outcome);
        next.set(of, Some(request));
        Some(())
    }

    /// The leases that a take-over finds ended.
    fn ended(&self, state: &State, request: &Request) -> Owners {
        if !self.keeps(Rule::EndIsSeenUnderTheLock) && request.step == Step::Locking {
            return request.seen.and(state.tables.owners());
        }
        // By a clock that was read before, no more of them have ended.
        let holders = state.tables.holders.iter();
        let ended = holders.filter(|it| it.left == 0 && request.since == 0);
        let ended: Owners = ended.map(|it| it.owner).collect();
        if self.keeps(Rule::SnapshotAfterTheLock) {
            ended
        } else {
            ended.and(request.seen)
        }
    }

    /// The leases that keep others out.
    fn holders(&self, state: &State, request: &Request) -> Owners {
        let counts = |it: &Holder| it.left > 0 || self.keeps(Rule::LockedCountsAsHeld);
        let holders = state.tables.holders.iter().filter(counts);
        let holders: Owners = holders.map(|it| it.owner).collect();
        let visible = if self.keeps(Rule::SnapshotAfterTheLock) {
            holders
        } else {
            holders.and(request.seen)
        };
        visible.except(request.locked)
    }

    /// Whether these holders let this owner in.
    fn fits(&self, owner: Owner, holders: Owners) -> bool {
        let mut others = holders.without(owner).iter();
        if self.role(owner) == Role::Shared {
            others.all(|it| self.role(it) == Role::Shared)
        } else {
            others.next().is_none()
        }
    }

    /// The waiters that a request removes when it looks for the next one.
    pub(super) fn dead(&self, state: &State) -> Owners {
        if self.keeps(Rule::DeadWaitersAreRemoved) {
            state.tables.dead
        } else {
            Owners::NONE
        }
    }

    /// The waiters at the head of the queue that may hold the key beside these.
    pub(super) fn granted(&self, waiters: &List<Owner, 6>, mut holders: Owners) -> Owners {
        let mut granted = Owners::NONE;
        for owner in waiters.iter() {
            if !self.fits(owner, holders) {
                break;
            }
            granted = granted.with(owner);
            holders = holders.with(owner);
        }
        granted
    }

    fn commit_acquire(&self, next: &mut State, of: Actor, mut request: Request, outcome: Outcome) {
        self.write(next, &request);
        match outcome {
            Outcome::Extended => {
                let left = request.left();
                if let Some(lease) = next.tables.lease_mut(request.owner) {
                    lease.left = left;
                }
            }
            Outcome::Busy if !self.keeps(Rule::QueuesUnderTheMutex) => {
                request.step = Step::Queueing;
                request.locked = Owners::NONE;
                request.meant = Owners::NONE;
                request.dead = Owners::NONE;
                next.set(of, Some(request));
                return;
            }
            Outcome::Busy if !request.meant.has(request.owner) => {
                self.queue(next, request.owner);
            }
            _ => {}
        }
        let grants = outcome != Outcome::Busy || !request.meant.is_empty();
        if grants && self.keeps(Rule::GrantsAreDurable) {
            self.wait_for_the_disk(next);
        }
        next.set(of, None);
        self.see_who_is_left(next);
        self.answer(next, of, &request, outcome);
    }

    /// Deletes what is locked for that, and inserts the leases that are granted.
    pub(super) fn write(&self, next: &mut State, request: &Request) {
        next.tables
            .holders
            .retain(|it| !request.locked.has(it.owner));
        next.tables.remove_waiters(request.dead);
        for owner in request.meant.iter() {
            let fence = self.next_fence(next, request, owner);
            next.tables.remove_waiters(Owners::NONE.with(owner));
            next.grants += 1;
            next.tables.holders.retain(|it| it.owner != owner);
            next.tables.holders.insert(Holder {
                owner,
                fence,
                left: request.left(),
            });
        }
    }

    /// Puts a waiter at the end of the queue.
    fn queue(&self, next: &mut State, owner: Owner) {
        next.tables.dead = next.tables.dead.without(owner);
        if next.tables.waiters.iter().any(|it| it == owner) {
            return;
        }
        queue(&mut next.tables.waiters, owner);
        if self.role(owner) != Role::Shared {
            *next.tables.number_mut(owner) = self.above(next.tables.last, next.clock);
        }
    }

    /// A number above the last one.
    fn above(&self, last: u8, clock: u8) -> u8 {
        let next = if self.keeps(Rule::FenceExceedsTheLast) {
            last + 1
        } else {
            last.max(1)
        };
        if self.keeps(Rule::FenceFollowsTheClock) {
            next.max(clock)
        } else {
            next
        }
    }

    /// The fence of a new lease: all that hold together have that of the first.
    fn next_fence(&self, next: &mut State, request: &Request, owner: Owner) -> u8 {
        let is_shared = |owner| self.role(owner) == Role::Shared;
        let first = next.tables.holders.iter().find(|it| is_shared(it.owner));
        if let Some(first) = first.filter(|_| is_shared(owner)) {
            return first.fence;
        }
        let tables = &mut next.tables;
        // Only a release that leaves no holder grants the key to one waiter alone.
        let is_alone = request.what == What::Release && tables.holders.is_empty();
        let number = *tables.number_mut(owner);
        let is_greater = number > tables.last || !self.keeps(Rule::NumberExceedsTheLast);
        tables.last = if is_alone && number > 0 && is_greater {
            number
        } else {
            self.above(tables.last, next.clock)
        };
        if self.keeps(Rule::NumberExceedsTheLast) {
            // They are as good as none.
            let last = tables.last;
            for number in tables.numbers.iter_mut().filter(|it| **it <= last) {
                *number = 0;
            }
        }
        next.faults.fence_fell |= tables.last <= next.greatest;
        next.greatest = next.greatest.max(tables.last);
        tables.last
    }

    /// Whether the first waiter could hold the key, although nobody will wake it.
    pub(super) fn see_who_is_left(&self, next: &mut State) {
        let first = next.tables.living().next();
        let fits = first.is_some_and(|it| self.fits(it, next.tables.owners()));
        next.faults.left_waiting |= fits && !next.was_freed_silently;
    }

    fn answer(&self, next: &mut State, of: Actor, request: &Request, outcome: Outcome) {
        if let Actor::Request(at, slot) = of
            && slot != LATE
        {
            self.heard_of_acquire(next, at, request, outcome);
        }
    }
}

fn queue(waiters: &mut List<Owner, 6>, owner: Owner) {
    if !waiters.iter().any(|it| it == owner) {
        waiters.push(owner);
    }
}
