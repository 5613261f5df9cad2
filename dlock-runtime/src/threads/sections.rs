//! Sections of two managers with threads that wait, leave, drop each other's guards, end their runtimes and shut down.

use std::{
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::task::yield_now;

use super::{Body, Me, Requests, StillClock, explore, seeds};
use crate::{
    api::{
        guard::{Lease, LockGuard},
        manager::{LockManager, ShutdownReport},
    },
    error::LockError,
    fence::FencingToken,
};

const KEYS: [&str; 2] = ["a", "b"];

/// The resource that a lock protects.
#[derive(Default)]
pub(super) struct Resource {
    is_used: AtomicBool,
    last: Mutex<Option<FencingToken>>,
}

impl Resource {
    /// A section begins.
    pub(super) fn begin(&self, token: FencingToken) {
        assert!(
            !self.is_used.swap(true, Ordering::SeqCst),
            "broken promise: two holders"
        );
        let last = self.last.lock().unwrap().replace(token);
        assert!(
            last < Some(token),
            "broken promise: the token did not grow: {last:?} came before {token:?}"
        );
    }

    /// The section ends. From now on, another section may have the lease.
    pub(super) fn end(&self) {
        assert!(self.is_used.swap(false, Ordering::SeqCst));
    }
}

struct World {
    managers: [LockManager; 2],
    store: Requests,
    clock: StillClock,
    resources: [Resource; 2],
    /// Guards that any thread may drop.
    left: Mutex<Vec<LockGuard>>,
    is_shut: AtomicBool,
}

impl World {
    fn new(seed: u64) -> Self {
        let (store, clock) = (Requests::new(seed), StillClock::new());
        Self {
            managers: [store.manager(clock.clone()), store.manager(clock.clone())],
            store,
            clock,
            resources: Default::default(),
            left: Mutex::default(),
            is_shut: AtomicBool::new(false),
        }
    }

    fn each(&self, lease: &Lease, mut act: impl FnMut(&Resource, FencingToken)) {
        for (key, token) in lease.fencing_tokens() {
            let index = KEYS.iter().position(|known| *known == key.as_str());
            act(&self.resources[index.unwrap()], token);
        }
    }

    fn begin(&self, lease: &Lease) {
        lease.ensure_held().unwrap();
        self.each(lease, Resource::begin);
    }

    fn end(&self, lease: &Lease) {
        lease.ensure_held().unwrap();
        self.each(lease, |resource, _| resource.end());
    }

    /// Returns the value, or `None` after a shutdown.
    fn of<T>(&self, got: Result<T, LockError>) -> Option<T> {
        match got {
            Ok(got) => Some(got),
            Err(LockError::Closed { .. }) if self.is_shut.load(Ordering::SeqCst) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Drops the guards in `left`.
    fn tidy(&self) {
        let left = mem::take(&mut *self.left.lock().unwrap());
        for guard in &left {
            self.end(guard);
        }
        drop(left);
    }

    fn use_them(&self, me: &mut Me) {
        for _ in 0..3 {
            me.on_runtime(|| self.tidy());
            let manager = &self.managers[usize::from(me.draw(4) == 0)];
            let key = KEYS[usize::from(me.draw(3) == 0)];
            let (time, polls) = (Duration::from_millis(me.draw(8)), 1 + me.draw(4));
            let lock = manager.lock(key);
            let body = async |lease: &Lease| {
                self.begin(lease);
                self.clock.advance(time);
                yield_now().await;
                self.end(lease);
            };
            match me.draw(8) {
                0 => {
                    self.of(me.block_on(lock.run(body)));
                }
                1 => {
                    let all = manager.lock_all(["b", "a"]);
                    self.of(me.block_on(all.run(body)));
                }
                2 => {
                    let tried = self.of(me.block_on(lock.try_acquire()));
                    if let Some(guard) = tried.flatten() {
                        self.begin(&guard);
                        self.end(&guard);
                        me.on_runtime(|| drop(guard));
                    }
                }
                3 => {
                    // Dropped at any step, also with a guard.
                    if let Some(guard) = me.poll_until(lock.acquire(), polls) {
                        let guard = self.of(guard);
                        me.on_runtime(|| drop(guard));
                    }
                }
                choice => {
                    let Some(guard) = self.of(me.block_on(lock.acquire())) else {
                        return;
                    };
                    self.begin(&guard);
                    match choice {
                        4 | 5 => self.left.lock().unwrap().push(guard),
                        6 => {
                            self.end(&guard);
                            me.poll_until(guard.release(), polls);
                        }
                        _ => {
                            me.end_runtime();
                            self.end(&guard);
                            me.on_runtime(|| drop(guard));
                        }
                    }
                }
            }
        }
        me.on_runtime(|| self.tidy());
    }

    fn shut(&self, me: &mut Me) {
        for _ in 0..me.draw(150) {
            super::interrupt();
        }
        self.is_shut.store(true, Ordering::SeqCst);
        let manager = &self.managers[0];
        let shutdown = me.block_on(manager.shutdown(Duration::from_secs(60)));
        assert_eq!(shutdown, ShutdownReport::default());
        assert_eq!(manager.active_keys(), 0);
    }

    fn assert_nothing_is_left(&self) {
        for manager in &self.managers {
            assert_eq!(manager.active_keys(), 0);
            assert!(
                manager.core().renewer.is_empty(),
                "a lease is still renewed"
            );
        }
        assert!(self.store.store.is_empty());
    }
}

/// No timer fires. An attempt that is not woken by the previous holder's release, on any thread, waits forever.
#[test]
fn everybody_gets_on_alone_and_leaves_nothing() {
    for seed in seeds(200) {
        let world = Arc::new(World::new(seed));
        let mut bodies: Vec<Body> = Vec::new();
        for _ in 0..3 {
            let world = world.clone();
            bodies.push(Box::new(move |me| world.use_them(me)));
        }
        if seed % 3 == 0 {
            let world = world.clone();
            bodies.push(Box::new(move |me| world.shut(me)));
        }
        explore(seed, bodies, || world.assert_nothing_is_left());
    }
}

/// A shutdown refuses at once a task that has sent a request and the waiter behind it, at every step. The response
/// timeout, which would end them too, never passes here.
#[test]
fn a_shutdown_reaches_who_is_about_to_wait_for_an_answer() {
    for seed in seeds(300) {
        let store = Requests::silent(seed);
        let manager = store.manager(StillClock::new());
        let mut bodies: Vec<Body> = Vec::new();
        for _ in 0..2 {
            let manager = manager.clone();
            bodies.push(Box::new(move |me| {
                let refused = me.block_on(manager.lock("k").acquire());
                assert!(matches!(refused, Err(LockError::Closed { .. })));
            }));
        }
        let shuts = manager.clone();
        bodies.push(Box::new(move |me| {
            for _ in 0..me.draw(30) {
                super::interrupt();
            }
            let shutdown = me.block_on(shuts.shutdown(Duration::from_secs(60)));
            assert_eq!(shutdown, ShutdownReport::default());
        }));
        explore(seed, bodies, || {
            assert_eq!(manager.active_keys(), 0);
            assert!(store.store.is_empty());
        });
    }
}
