//! Two processes over one store, and the signals between the one that is interrupted and the rest of the
//! world.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    LockManager, LockRequest,
    store::{LockStore, memory::MemoryStore, quorum::Quorum},
};
use tokio::{
    runtime::{Handle, RuntimeMetrics},
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

use crate::common::{LIMIT, NODES, OneKey, TestClock, Wire, soon};
use crate::{
    operations::Operation,
    stepwise::{Steps, Stepwise},
};
use dlock_testkit::{eventually, within};

pub(crate) type Scene = Pin<Box<dyn Future<Output = ()> + Send>>;

/// More than [`LIMIT`]: what happens within that did not wait for a lease to run out.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Time is paused, so that nothing takes that long unless it hangs.
pub(crate) const ETERNITY: Duration = Duration::from_secs(600);

/// The longest wait of operations that need not wait in vain; `operations.rs` has it again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The place of an operation.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Inner>);

struct Inner {
    manager: LockManager,
    other: LockManager,
    /// The nodes of the store.
    nodes: Vec<MemoryStore>,
    keys: Vec<String>,
    scale: Scale,
    ready: watch::Sender<bool>,
    /// The number of polls of the operation.
    polls: watch::Sender<usize>,
    over: watch::Sender<bool>,
}

/// The times of operations: of a clock that is paused, or real.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// The usual TTL.
    pub(crate) ttl: Duration,
    /// The TTL of a lease which is to be renewed during the operation; where time is paused it is more
    /// than [`LIMIT`] as well.
    pub(crate) short: Duration,
    /// Another TTL than the usual one, and not shorter than that.
    pub(crate) other: Duration,
    /// The TTL of a lease which is to be lost, or whose end is waited for.
    pub(crate) brief: Duration,
    /// The time of a wait in vain.
    pub(crate) wait: Duration,
    pub(crate) is_paused: bool,
}

pub(crate) const PAUSED: Scale = Scale {
    ttl: TTL,
    short: Duration::from_secs(24),
    other: Duration::from_secs(31),
    brief: Duration::from_secs(24),
    wait: Duration::from_millis(2500),
    is_paused: true,
};

/// Where the seconds are real.
pub(crate) const REAL: Scale = Scale {
    ttl: TTL,
    // Not so short that a machine which runs much else does not renew in time: it has two thirds of it.
    short: Duration::from_secs(8),
    other: Duration::from_secs(31),
    brief: Duration::from_secs(1),
    wait: Duration::from_millis(50),
    is_paused: false,
};

impl Stage {
    /// Behind a connection that may fail, with paused time.
    pub(crate) fn behind_a_wire() -> (Self, Wire<MemoryStore>) {
        let store = MemoryStore::new();
        let wire = Wire::new(store.clone());
        let stage = Self::new(wire.clone(), store.clone(), vec![store], PAUSED);
        (stage, wire)
    }

    /// Over a store that can be stopped at every step.
    pub(crate) fn stepwise(scale: Scale, at_once: bool) -> (Self, Arc<Steps>) {
        let steps = Arc::<Steps>::default();
        let store = Stepwise::new(&steps, at_once);
        let plain = store.store.clone();
        let nodes = vec![plain.clone()];
        let stage = Self::new(store, plain, nodes, scale);
        (stage, steps)
    }

    /// The same over several nodes, of which a quorum decides.
    pub(crate) fn quorum(scale: Scale, at_once: bool) -> (Self, Arc<Steps>) {
        let steps = Arc::<Steps>::default();
        let stores = [(); NODES].map(|()| Stepwise::new(&steps, at_once));
        let nodes: Vec<_> = stores.iter().map(|store| store.store.clone()).collect();
        let other = Quorum::of(nodes.clone()).unwrap();
        let store = Quorum::of(stores).unwrap();
        let stage = Self::new(store, other, nodes, scale);
        (stage, steps)
    }

    fn new(
        store: impl LockStore,
        other: impl LockStore,
        nodes: Vec<MemoryStore>,
        scale: Scale,
    ) -> Self {
        let mut builder = LockManager::builder().ttl(scale.ttl);
        if scale.is_paused {
            // The machine's boot clock goes on while time is paused.
            builder = builder.clock(TestClock::new());
        }
        let manager = builder.clone().build_with_store(store).unwrap();
        // Nothing happens to the other one, whose leases are to outlast a machine that stands still.
        let other = builder.ttl(TTL).build_with_store(other).unwrap();
        Self::of(manager, other, nodes, scale)
    }

    /// With two managers over one store, and the nodes of that if it lies in memory.
    pub(crate) fn of(
        manager: LockManager,
        other: LockManager,
        nodes: Vec<MemoryStore>,
        scale: Scale,
    ) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The same as a key and as the value of an argument.
        let keys = ["a", "b", "c"].map(|key| format!("{key}-{number}"));
        Self(Arc::new(Inner {
            manager,
            other,
            nodes,
            keys: keys.into(),
            scale,
            ready: watch::Sender::new(false),
            polls: watch::Sender::new(0),
            over: watch::Sender::new(false),
        }))
    }

    /// The process that is interrupted.
    pub(crate) fn manager(&self) -> &LockManager {
        &self.0.manager
    }

    /// The process to which nothing happens.
    pub(crate) fn other(&self) -> &LockManager {
        &self.0.other
    }

    pub(crate) fn scale(&self) -> Scale {
        self.0.scale
    }

    pub(crate) fn keys(&self) -> &[String] {
        &self.0.keys
    }

    /// The first key.
    pub(crate) fn key(&self) -> &str {
        &self.0.keys[0]
    }

    /// The lock of the first key, with a wait that is long enough, but not for ever.
    pub(crate) fn lock(&self) -> LockRequest {
        self.0.manager.lock(self.key()).wait(PATIENCE)
    }

    /// The locks of all keys, in an order that is not theirs.
    pub(crate) fn locks(&self) -> LockRequest {
        let [a, b, c] = &self.0.keys[..] else {
            unreachable!("there are three");
        };
        self.0.manager.lock_all([b, c, a]).wait(PATIENCE)
    }

    /// The same, some of them shared: the second is wanted exclusively.
    pub(crate) fn locks_of_mixed_modes(&self) -> LockRequest {
        let [a, b, c] = &self.0.keys[..] else {
            unreachable!("there are three");
        };
        let locks = self.0.manager.lock(b).also_shared(c).also_shared(a);
        locks.wait(PATIENCE)
    }

    /// The world around is as the operation needs it.
    pub(crate) fn is_ready(&self) {
        self.0.ready.send_replace(true);
    }

    pub(crate) async fn until_ready(&self) {
        self.0.ready.subscribe().wait_for(|it| *it).await.unwrap();
    }

    /// Begins the part of the rest of the world, and waits until the operation can begin.
    pub(crate) async fn surround(&self, operation: &Operation) -> JoinHandle<()> {
        let around = tokio::spawn((operation.around)(self.clone()));
        soon(self.until_ready()).await;
        around
    }

    /// Notes every poll of `scene`.
    pub(crate) fn noting(&self, mut scene: Scene) -> Scene {
        let stage = self.clone();
        Box::pin(poll_fn(move |context| {
            let poll = scene.as_mut().poll(context);
            stage.0.polls.send_modify(|polls| *polls += 1);
            poll
        }))
    }

    pub(crate) async fn until_polled(&self) {
        self.0
            .polls
            .subscribe()
            .wait_for(|it| *it > 0)
            .await
            .unwrap();
    }

    /// Waits until a task of the process that is interrupted has come for a lock.
    pub(crate) async fn until_entered(&self) {
        while self.0.manager.active_keys() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The operation has ended, or has been interrupted.
    pub(crate) fn is_over(&self) {
        self.0.over.send_replace(true);
    }

    pub(crate) async fn until_over(&self) {
        self.0.over.subscribe().wait_for(|it| *it).await.unwrap();
    }

    /// Waits until there is a waiter for `key` in the queue of the store.
    pub(crate) async fn until_waiting(&self, key: &str) {
        match self.0.nodes.first() {
            Some(node) => {
                let key = OneKey::new(node.clone(), key);
                // Each look costs processor time alone where time is paused, and not every operation
                // comes to wait.
                let pause = if self.scale().is_paused { 50 } else { 5 };
                loop {
                    // It would come behind the one that is waited for.
                    let probe = OneKey::<MemoryStore>::owner();
                    let place = key.busy(probe).await.position;
                    key.release(probe).await;
                    if place == Some(1) {
                        return;
                    }
                    sleep(Duration::from_millis(pause)).await;
                }
            }
            // A server of its own, whose queue the operation has entered by then.
            None => self.until_polled().await,
        }
    }

    /// The store forgets everything.
    pub(crate) fn forget(&self) {
        self.0.nodes.iter().for_each(MemoryStore::forget);
    }

    /// Another process gets all keys, in every mode, and nothing of the interrupted one is left.
    pub(crate) async fn assert_clean(&self) {
        for key in self.keys() {
            let lock = self.0.other.lock(key).wait(LIMIT);
            // A holder that was left would let in readers and keep out the writer; a writer, both.
            for lock in [lock.clone().shared(), lock] {
                let guard = soon(lock.acquire()).await;
                let guard = guard.unwrap_or_else(|error| panic!("no process gets it: {error}"));
                soon(guard.release()).await.unwrap();
            }
        }
        let managers = [&self.0.manager, &self.0.other];
        let is_clean = async || {
            let is_idle = managers.iter().all(|it| it.active_keys() == 0);
            is_idle && self.0.nodes.iter().all(MemoryStore::is_empty)
        };
        let what = "no manager has a key left, and the store nothing";
        if self.scale().is_paused {
            // Each look costs processor time alone, and a release that is repeated takes seconds.
            eventually(LIMIT, what, is_clean).await;
        } else {
            eventually(LIMIT, what, is_clean).await;
        }
    }
}

/// The number of tasks that the runtime had before something began.
pub(crate) struct Tasks {
    metrics: RuntimeMetrics,
    before: usize,
}

impl Tasks {
    /// Those of the current runtime, as of now.
    pub(crate) fn counted() -> Self {
        let metrics = Handle::current().metrics();
        let before = metrics.num_alive_tasks();
        Self { metrics, before }
    }

    /// Waits until there are as few of them again. With paused time a look after 5 ms, as elsewhere, would
    /// cost more than what is tested: some tasks live for seconds of that time.
    pub(crate) async fn assert_none_is_left(&self) {
        let none_is_left = within(LIMIT, async {
            while self.metrics.num_alive_tasks() > self.before {
                sleep(Duration::from_millis(50)).await;
            }
        });
        assert!(none_is_left.await.is_some(), "tasks are left");
    }
}

/// Waits until the runtime has as few tasks as before.
pub(crate) async fn assert_no_task_is_left(metrics: &RuntimeMetrics, before: usize) {
    eventually(LIMIT, "no task is left", async || {
        metrics.num_alive_tasks() <= before
    })
    .await;
}
