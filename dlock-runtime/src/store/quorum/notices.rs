//! Combines the notices of the nodes to a waiter that the lock is free.
//!
//! When a majority has sent a notice, the lock can be acquired, and the waiter sends a request at once. Fewer
//! notices may come from a failed round of another claim, or the other nodes may be late or unreachable. The
//! waiter then sends a request after a short time, in which the others may still send their notices.
//!
//! A majority's notice is forwarded at once, a minority's after a few milliseconds. A second notice of the same
//! node is a new one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};

use super::node_set::NodeSet;
use crate::{
    owner::OwnerId,
    random::{Random, jittered},
    store::{Hint, HintReceiver, HintSink},
};

/// The time for which the rest of a majority is waited for; up to a quarter more is added.
const PATIENCE: Duration = Duration::from_millis(4);

/// More waiters than this are notified at once.
const MOST_AT_ONCE: usize = 4096;

type WaiterKey = (OwnerId, Box<str>);

/// The notices for one manager.
pub(super) struct Notices {
    sink: HintSink,
    majority: usize,
    random: Arc<dyn Random>,
    told: Mutex<HashMap<WaiterKey, Told>>,
    is_gone: AtomicBool,
}

/// The notices for one waiter in the last few milliseconds.
struct Told {
    by: NodeSet,
    passed_on: bool,
    /// The time at which it is forgotten.
    until: Instant,
}

impl Told {
    fn new(until: Instant) -> Self {
        Self {
            by: NodeSet::default(),
            passed_on: false,
            until,
        }
    }

    /// `true` if the task that would forget it has ended with its runtime.
    fn is_orphaned(&self, now: Instant) -> bool {
        self.until + PATIENCE <= now
    }
}

impl Notices {
    pub(super) fn new(sink: HintSink, majority: usize, random: Arc<dyn Random>) -> Arc<Self> {
        Arc::new(Self {
            sink,
            majority,
            random,
            told: Mutex::default(),
            is_gone: AtomicBool::new(false),
        })
    }

    /// Returns the sink to which `node` sends its hints for the manager.
    pub(super) fn sink(self: &Arc<Self>, node: usize) -> HintSink {
        HintSink::new(Arc::new(FromNode {
            notices: self.clone(),
            node,
        }))
    }

    fn told(&self) -> MutexGuard<'_, HashMap<WaiterKey, Told>> {
        // Every change is complete before a panic is possible.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The manager receives no fence: only a majority decides whether it holds the lock.
    fn pass_on(&self, owner: OwnerId, key: &str) {
        let hint = Hint::new(key, owner, 0);
        self.heard(self.sink.hint(&hint));
    }

    fn heard(&self, is_there: bool) {
        if !is_there {
            self.is_gone.store(true, Ordering::Relaxed);
        }
    }

    fn is_there(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    fn hint(self: &Arc<Self>, node: usize, owner: OwnerId, key: &str) {
        let Ok(runtime) = Handle::try_current() else {
            return self.pass_on(owner, key);
        };
        let now = Instant::now();
        let until = now + jittered(PATIENCE, self.random.next_u64());
        let mut told = self.told();
        if told.len() >= MOST_AT_ONCE {
            told.retain(|_, told| !told.is_orphaned(now));
            if told.len() >= MOST_AT_ONCE {
                drop(told);
                return self.pass_on(owner, key);
            }
        }
        let (is_first, entry) = match told.entry((owner, key.into())) {
            Entry::Occupied(mut known) if known.get().is_orphaned(now) => {
                known.insert(Told::new(until));
                (true, known.into_mut())
            }
            Entry::Occupied(known) => (false, known.into_mut()),
            Entry::Vacant(place) => (true, place.insert(Told::new(until))),
        };
        if entry.passed_on && entry.by.has(node) {
            // A node that sends a second notice has new information: the waiter has requested the lock without
            // success, and waits again.
            *entry = Told::new(entry.until);
        }
        entry.by = entry.by.with(node);
        let is_certain = entry.by.len() >= self.majority && !entry.passed_on;
        entry.passed_on |= is_certain;
        drop(told);
        if is_certain {
            self.pass_on(owner, key);
        }
        if is_first {
            let waiter = (owner, key.into());
            runtime.spawn(self.clone().wait_for_the_rest(waiter, until));
        }
    }

    async fn wait_for_the_rest(self: Arc<Self>, waiter: WaiterKey, until: Instant) {
        sleep_until(until).await;
        let told = self.told().remove(&waiter);
        if told.is_some_and(|told| !told.passed_on) {
            self.pass_on(waiter.0, &waiter.1);
        }
    }
}

/// The sink of one node.
struct FromNode {
    notices: Arc<Notices>,
    node: usize,
}

impl HintReceiver for FromNode {
    fn hint(&self, hint: &Hint<'_>) -> bool {
        let owner = hint.owner.in_any_round();
        self.notices.hint(self.node, owner, hint.key);
        self.notices.is_there()
    }

    fn look_again(&self) -> bool {
        self.notices.heard(self.notices.sink.look_again());
        self.notices.is_there()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::{owner::ClientId, random::SystemRandom};

    #[derive(Default)]
    struct Heard {
        hints: Mutex<Vec<(OwnerId, u64, Instant)>>,
        looked: Mutex<u32>,
        is_gone: AtomicBool,
    }

    impl HintReceiver for Heard {
        fn hint(&self, hint: &Hint<'_>) -> bool {
            let heard = (hint.owner, hint.fence, Instant::now());
            self.hints.lock().unwrap().push(heard);
            !self.is_gone.load(Ordering::Relaxed)
        }

        fn look_again(&self) -> bool {
            *self.looked.lock().unwrap() += 1;
            !self.is_gone.load(Ordering::Relaxed)
        }
    }

    fn five() -> (Arc<Heard>, Vec<HintSink>, OwnerId) {
        let heard = Arc::new(Heard::default());
        let notices = Notices::new(HintSink::new(heard.clone()), 3, Arc::new(SystemRandom));
        let sinks = (0..5).map(|node| notices.sink(node)).collect();
        (heard, sinks, OwnerId::new(ClientId::new(&SystemRandom), 7))
    }

    fn hint(owner: OwnerId, fence: u64) -> Hint<'static> {
        Hint::new("order:42", owner, fence)
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_is_passed_on_at_once_and_once() {
        let (heard, sinks, owner) = five();
        let begin = Instant::now();
        for (round, sink) in (1..).zip(&sinks) {
            assert!(sink.hint(&hint(owner.in_round(round).unwrap(), 0)));
            let expected = usize::from(round >= 3);
            assert_eq!(heard.hints.lock().unwrap().len(), expected);
        }
        advance(10 * PATIENCE).await;
        assert_eq!(*heard.hints.lock().unwrap(), [(owner, 0, begin)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_node_tells_again_is_news() {
        let (heard, sinks, owner) = five();
        let count = || heard.hints.lock().unwrap().len();
        for sink in &sinks {
            assert!(sink.hint(&hint(owner, 0)));
        }
        assert_eq!(count(), 1);
        for (told, sink) in (1..).zip(&sinks) {
            assert!(sink.hint(&hint(owner, 0)));
            assert_eq!(count(), 1 + usize::from(told >= 3), "by {told}");
        }
        // Another notice of the same node: still no majority, but nothing is lost.
        assert!(sinks[0].hint(&hint(owner, 0)));
        sleep(2 * PATIENCE).await;
        assert_eq!(count(), 3);
    }

    #[test]
    fn what_a_runtime_has_taken_with_it_is_told_by_the_next() {
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(true).build().unwrap()
        };
        let (heard, sinks, owner) = five();
        // The runtime ends before its tasks have run.
        runtime().block_on(async { assert!(sinks[0].hint(&hint(owner, 0))) });
        assert!(heard.hints.lock().unwrap().is_empty());
        runtime().block_on(async {
            sleep(Duration::from_secs(1)).await;
            assert!(sinks[0].hint(&hint(owner, 0)));
            sleep(2 * PATIENCE).await;
        });
        assert_eq!(heard.hints.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn less_than_a_majority_is_passed_on_after_a_moment() {
        let (heard, sinks, owner) = five();
        let begin = Instant::now();
        for _ in 0..3 {
            assert!(sinks[0].hint(&hint(owner, 0)), "one node is no majority");
        }
        // The fence of a single node is not the fence of the quorum.
        assert!(sinks[1].hint(&hint(owner, 99)));
        sleep(2 * PATIENCE).await;
        let hints = heard.hints.lock().unwrap().clone();
        let [(told, 0, at)] = *hints else {
            panic!("{hints:?}");
        };
        assert_eq!(told, owner);
        assert!(at - begin >= PATIENCE && at - begin < 2 * PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_back_makes_waiters_look_and_a_manager_that_is_gone_is_told_no_more() {
        let (heard, sinks, owner) = five();
        assert!(sinks[4].look_again());
        assert_eq!(*heard.looked.lock().unwrap(), 1);
        heard.is_gone.store(true, Ordering::Relaxed);
        assert!(!sinks[0].look_again());
        assert!(!sinks[1].hint(&hint(owner, 0)));
    }
}
