//! The release: under the mutex it deletes a lease, and grants the key to those that wait for it.

use super::{
    Rows, Rule,
    locks::Strength,
    state::{Actor, Outcome, Owners, Request, State, Step, What},
};

impl Rows {
    /// The next step, unless it waits or is refused.
    ///
    /// An operator removes a lease in the same way.
    pub(super) fn serve_release(&self, next: &mut State, of: Actor) -> Option<()> {
        let mut request = next.request(of)?;
        if let Step::Decided(_) = request.step {
            self.commit_release(next, of, &request);
            return Some(());
        }
        if request.step == Step::Sent {
            let needs_it = request.what == What::Unlock || self.keeps(Rule::ReleaseTakesTheMutex);
            let others = self.mutex_blockers(next, of, false);
            (!needs_it || others.is_empty()).then_some(())?;
            request.has_no_mutex = !needs_it;
        }
        let state = *next;
        let is_free = |owner| {
            let others = self.row_blockers(&state, of, owner, Strength::Update);
            others.is_empty()
        };
        let all = state.tables.owners();
        let own = all.and(Owners::NONE.with(request.owner));
        let compares = request.what == What::Unlock || self.keeps(Rule::ReleaseCompares);
        let is_refused = compares && !own.iter().all(is_free);
        if is_refused && (self.keeps(Rule::ReleaseWaitsForNobody) || request.step != Step::Sent) {
            // Refused without an effect; its process repeats it.
            return None;
        }
        let meant = if compares { own } else { all };
        let ended = state.tables.holders.iter().filter(|it| it.left == 0);
        let ended = ended.map(|it| it.owner);
        request.locked = ended
            .chain(meant.iter())
            .filter(|it| is_free(*it))
            .collect();
        if is_refused {
            request.step = Step::Locking;
            next.set(of, Some(request));
            return Some(());
        }
        request.dead = self.dead(&state);
        let mut waiters = state.tables.waiters;
        waiters.retain(|it| *it != request.owner && !request.dead.has(*it));
        request.meant = self.granted(&waiters, all.except(request.locked));
        request.step = Step::Decided(Outcome::Done);
        next.was_freed_silently = false;
        next.set(of, Some(request));
        Some(())
    }

    fn commit_release(&self, next: &mut State, of: Actor, request: &Request) {
        let own = Owners::NONE.with(request.owner);
        next.tables.remove_waiters(own);
        self.write(next, request);
        let grants = !request.meant.is_empty() || request.what == What::Unlock;
        if grants && self.keeps(Rule::GrantsAreDurable) {
            self.wait_for_the_disk(next);
        }
        next.set(of, None);
        self.see_who_is_left(next);
    }
}
