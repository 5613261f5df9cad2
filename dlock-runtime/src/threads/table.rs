//! Tests of the table of keys with threads that enter, leave and close it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{Body, Me, StillClock, explore, seeds};
use crate::{
    attempt::{AttemptId, AttemptIds},
    clock::{Clock, Moment},
    engine::table::{KeyEntry, Table},
    key::LockKey,
    mode::LockMode,
    options::Timing,
    owner::{ClientId, Owners},
    random::SystemRandom,
    state::{Context, Effect, Event, KeyState, LocalWaiter, Validity},
};

struct Keys {
    table: Table<()>,
    attempts: AttemptIds,
    owners: Owners,
    now: Moment,
    key: LockKey,
    is_closed: AtomicBool,
}

impl Keys {
    fn context(&self) -> Context<'_> {
        Context {
            now: self.now,
            response_limit: Duration::ZERO,
            handover: true,
            grants: true,
            random: &SystemRandom,
            owners: &self.owners,
        }
    }

    fn enter(&self) -> Option<(Arc<KeyEntry<()>>, AttemptId)> {
        let was_closed = self.is_closed.load(Ordering::SeqCst);
        let enter = |entry: &Arc<KeyEntry<()>>, state: &mut KeyState<()>| {
            let id = self.attempts.next();
            let timing = Timing::default();
            let validity = Validity::new(timing.ttl, |_| Duration::ZERO);
            state.enter(
                LocalWaiter::new(id, (), timing, validity, self.now),
                self.context(),
            );
            (entry.clone(), id)
        };
        let entered = self.table.enter(&self.key, LockMode::Exclusive, enter);
        assert!(entered.is_none() || !was_closed, "entered a closed table");
        entered
    }

    /// Leaves in the same way as a section.
    fn leave(&self, entry: &Arc<KeyEntry<()>>, id: AttemptId) {
        let mut state = entry.state();
        let left = state.on_event(id, Event::Left, self.context());
        let is_idle = state.is_idle();
        drop(state);
        if matches!(left.effect, Effect::Forget(_)) && is_idle {
            self.table.forget_if_idle(entry);
        }
    }

    /// Enters and leaves a few times.
    fn come_and_go(&self, me: &mut Me) {
        for _ in 0..3 {
            let Some((entry, id)) = self.enter() else {
                return;
            };
            for _ in 0..me.draw(3) {
                super::interrupt();
            }
            let mut found = self.table.find(self.key.as_str());
            let is_there = found.any(|found| Arc::ptr_eq(&found, &entry));
            assert!(is_there, "an entry in use is in the table");
            self.leave(&entry, id);
        }
    }

    fn close(&self, me: &mut Me) {
        for _ in 0..me.draw(12) {
            super::interrupt();
        }
        self.table.close();
        self.is_closed.store(true, Ordering::SeqCst);
        me.block_on(self.table.idle());
        assert_eq!(self.table.len(), 0, "an entry was added after the close");
    }
}

/// A shutdown that misses the end of the last key would wait for its whole limit. A key that is removed while a task
/// uses it would have two states, and both would see a free lock.
#[test]
fn nobody_is_forgotten_and_nobody_enters_behind_a_shutdown() {
    for seed in seeds(400) {
        let table = Arc::new(Keys {
            table: Table::default(),
            attempts: AttemptIds::default(),
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
        explore(seed, bodies, || assert_eq!(table.table.len(), 0));
    }
}
