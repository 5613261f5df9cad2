//! A process: its manager, its tasks, and what has become of it.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dlock::{LockManager, store::ClientId};
use tokio::{task::AbortHandle, time::Instant};

/// A process.
pub(crate) struct Host {
    pub(crate) number: u32,
    /// The first of the servers that it talks to.
    pub(crate) first_server: usize,
    dead: AtomicBool,
    state: Mutex<State>,
}

struct State {
    manager: Option<LockManager>,
    tasks: Vec<AbortHandle>,
    client: Option<ClientId>,
    frozen_until: Instant,
    /// Until when some task of it was held up.
    late_until: Option<Instant>,
    /// By server, until when nothing gets through.
    cut_until: Vec<Instant>,
}

impl Host {
    pub(crate) fn new(number: u32, first_server: usize, servers: usize) -> Self {
        let now = Instant::now();
        Self {
            number,
            first_server,
            dead: AtomicBool::new(false),
            state: Mutex::new(State {
                manager: None,
                tasks: Vec::new(),
                client: None,
                frozen_until: now,
                late_until: None,
                cut_until: vec![now; servers],
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, manager: LockManager) {
        self.state().manager = Some(manager);
    }

    pub(crate) fn is_known_as(&self, client: ClientId) {
        self.state().client = Some(client);
    }

    pub(crate) fn runs(&self, task: AbortHandle) {
        self.state().tasks.push(task);
    }

    pub(crate) fn client(&self) -> Option<ClientId> {
        self.state().client
    }

    /// `None` once it is dead.
    pub(crate) fn manager(&self) -> Option<LockManager> {
        self.state().manager.clone()
    }

    /// All at once, and without notice.
    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        let (manager, tasks) = {
            let mut state = self.state();
            (state.manager.take(), std::mem::take(&mut state.tasks))
        };
        for task in tasks {
            task.abort();
        }
        drop(manager);
    }

    /// Its manager is of no use here any more.
    pub(crate) fn drop_manager(&self) {
        let manager = self.state().manager.take();
        drop(manager);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(crate) fn freeze(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        state.frozen_until = state.frozen_until.max(until);
        state.late_until = state.late_until.max(Some(until));
    }

    /// A task of it is polled only then.
    pub(crate) fn is_late_until(&self, until: Instant) {
        let mut state = self.state();
        state.late_until = state.late_until.max(Some(until));
    }

    pub(crate) fn late_until(&self) -> Option<Instant> {
        self.state().late_until
    }

    pub(crate) fn frozen_until(&self) -> Option<Instant> {
        let until = self.state().frozen_until;
        (until > Instant::now()).then_some(until)
    }

    pub(crate) fn cut(&self, node: usize, time: Duration) {
        self.state().cut_until[node] = Instant::now() + time;
    }

    pub(crate) fn is_cut(&self, node: usize) -> bool {
        self.state().cut_until[node] > Instant::now()
    }

    pub(crate) fn heal(&self) {
        let now = Instant::now();
        let mut state = self.state();
        state.frozen_until = now;
        state.cut_until.fill(now);
    }
}
