//! The table of keys under threads that enter, leave and close it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Body, Me, StillClock, explore, seeds};
use crate::{
    clock::{Clock, Moment},
    engine::table::{Local, Slot},
    key::LockKey,
    options::Timing,
    owner::{ClientId, OwnerId, Owners},
    random::SystemRandom,
    state::{Effect, Event, KeyState, Surroundings, Trust, Waiter},
};

struct Table {
    local: Local<()>,
    owners: Owners,
    now: Moment,
    key: LockKey,
    is_closed: AtomicBool,
}

impl Table {
    fn around(&self) -> Surroundings<'_> {
        Surroundings {
            now: self.now,
            response_limit: Duration::ZERO,
            handover: true,
            hands_on: true,
            random: &SystemRandom,
            owners: &self.owners,
        }
    }

    fn enter(&self) -> Option<(Arc<Slot<()>>, OwnerId)> {
        let was_closed = self.is_closed.load(Ordering::SeqCst);
        let enter = |slot: &Arc<Slot<()>>, state: &mut KeyState<()>| {
            let id = self.owners.next();
            let timing = Timing::default();
            let trust = Trust::new(timing.ttl, |_| Duration::ZERO);
            state.enter(Waiter::new(id, (), timing, trust, self.now), self.around());
            (slot.clone(), id)
        };
        let entered = self.local.enter(&self.key, enter);
        assert!(entered.is_none() || !was_closed, "it was closed before");
        entered
    }

    /// As a section does it.
    fn leave(&self, slot: &Arc<Slot<()>>, id: OwnerId) {
        let mut state = slot.state();
        let left = state.on_event(id, Event::Left, self.around());
        let is_idle = state.is_idle();
        drop(state);
        if matches!(left.effect, Effect::Forget(_)) && is_idle {
            self.local.forget_if_idle(slot);
        }
    }

    /// Enters and leaves a few times.
    fn come_and_go(&self, me: &mut Me) {
        for _ in 0..3 {
            let Some((slot, id)) = self.enter() else {
                return;
            };
            for _ in 0..me.draw(3) {
                super::interrupt();
            }
            let found = self.local.find(self.key.as_str());
            let is_there = found.is_some_and(|found| Arc::ptr_eq(&found, &slot));
            assert!(is_there, "who is in a slot is in the table");
            self.leave(&slot, id);
        }
    }

    fn close(&self, me: &mut Me) {
        for _ in 0..me.draw(12) {
            super::interrupt();
        }
        self.local.close();
        self.is_closed.store(true, Ordering::SeqCst);
        me.block_on(self.local.idle());
        assert_eq!(self.local.len(), 0, "nobody can have come after that");
    }
}

/// A shutdown that misses the end of the last key would wait for its whole limit, and a key that is forgotten while
/// somebody is in it would have two states, of which each sees a free lock.
#[test]
fn nobody_is_forgotten_and_nobody_enters_behind_a_shutdown() {
    for seed in seeds(400) {
        let table = Arc::new(Table {
            local: Local::default(),
            owners: Owners::new(ClientId::new(&SystemRandom)),
            now: StillClock::new().now(),
            key: LockKey::new("k").unwrap(),
            is_closed: AtomicBool::new(false),
        });
        let mut bodies: Vec<Body> = Vec::new();
        for _ in 0..3 {
            let table = table.clone();
            bodies.push(Box::new(move |me| table.come_and_go(me)));
        }
        let closes = table.clone();
        bodies.push(Box::new(move |me| closes.close(me)));
        explore(seed, bodies, || assert_eq!(table.local.len(), 0));
    }
}
