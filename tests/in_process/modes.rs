//! Shared locks and permits over one store, in one process and in several. A manager stands for a process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{
    FencingToken, LockError, LockGuard, LockManager, LostCause, StoreError,
    store::{
        AcquireOutcome, AcquireRequest, LockStore, ReleaseRequest, Released, RenewBatch, Renewal,
        StoreProperties, memory::MemoryStore,
    },
};
use futures_util::future::join_all;
use tokio::{
    sync::{Barrier, Notify},
    task::{JoinSet, yield_now},
    time::{Instant, sleep},
};

use crate::common::{TestClock, assert_idle};

const KEY: &str = "catalog:7";
const TURN: Duration = Duration::from_millis(10);

/// A manager whose turns last as long as the paused clock says, however slow the machine is.
fn process(store: impl LockStore) -> LockManager {
    let builder = LockManager::builder().clock(TestClock::new());
    builder.build_with_store(store).unwrap()
}

/// Lets all tasks run until each of them waits for an event.
async fn settled() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Counts the requests to acquire and to release.
#[derive(Clone, Default)]
struct Counted {
    store: MemoryStore,
    requests: Arc<AtomicUsize>,
}

impl Counted {
    fn manager(&self) -> LockManager {
        process(self.clone())
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl LockStore for Counted {
    async fn acquire(&self, request: AcquireRequest<'_>) -> Result<AcquireOutcome, StoreError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        // A store elsewhere does not answer at once.
        yield_now().await;
        self.store.acquire(request).await
    }

    async fn renew(&self, batch: RenewBatch<'_>) -> Vec<Result<Renewal, StoreError>> {
        self.store.renew(batch).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<Released, StoreError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.store.release(request).await
    }

    fn properties(&self) -> StoreProperties<'_> {
        self.store.properties()
    }
}

/// How many bodies are inside, and how many have been at the same time.
#[derive(Default)]
struct Room {
    inside: AtomicUsize,
    most: AtomicUsize,
    sections: AtomicUsize,
}

impl Room {
    async fn stay(&self, time: Duration) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.sections.fetch_add(1, Ordering::SeqCst);
        sleep(time).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    async fn be_alone(&self, time: Duration) {
        assert_eq!(
            self.inside.fetch_add(1, Ordering::SeqCst),
            0,
            "broken promise: somebody is inside"
        );
        sleep(time).await;
        assert_eq!(
            self.inside.fetch_sub(1, Ordering::SeqCst),
            1,
            "broken promise: somebody came in"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_process_share_a_lease() {
    const READERS: usize = 64;
    let store = Counted::default();
    let (manager, room) = (store.manager(), Arc::new(Room::default()));
    let all = Arc::new(Barrier::new(READERS));
    let readers = (0..READERS).map(|_| {
        let (manager, room, all) = (manager.clone(), room.clone(), all.clone());
        tokio::spawn(async move {
            all.wait().await;
            let lock = manager.lock(KEY).shared();
            lock.run(async |lease| {
                room.stay(TURN).await;
                lease.fencing_token()
            })
            .await
            .unwrap()
        })
    });
    let tokens: Vec<_> = join_all(readers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(
        tokens.iter().all(|token| *token == tokens[0]),
        "broken promise: two tokens together: {tokens:?}"
    );
    assert_eq!(room.most.load(Ordering::SeqCst), READERS);
    assert_eq!(store.requests(), 2, "one lease for all of them");
    assert_idle(&[&manager]).await;
    assert!(store.store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_writer_elsewhere_waits_no_longer_than_a_turn_for_a_storm_of_readers() {
    const SECTION: Duration = Duration::from_millis(2);
    let store = MemoryStore::new();
    let [readers, writers] = [(); 2].map(|()| process(store.clone()));
    let room = Arc::new(Room::default());
    let mut crowd = JoinSet::new();
    for _ in 0..16 {
        let (manager, room) = (readers.clone(), room.clone());
        crowd.spawn(async move {
            loop {
                let lock = manager.lock(KEY).shared();
                lock.run(async |_lease| room.stay(SECTION).await)
                    .await
                    .unwrap();
            }
        });
    }
    let mut last = None;
    for _ in 0..50 {
        sleep(3 * TURN / 2).await;
        let asked = Instant::now();
        let guard = writers.lock(KEY).acquire().await.unwrap();
        let waited = asked.elapsed();
        assert!(
            waited <= TURN + SECTION + Duration::from_millis(1),
            "{waited:?}"
        );
        room.be_alone(SECTION).await;
        assert!(
            last < Some(guard.fencing_token()),
            "broken promise: the token did not grow"
        );
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
    }
    assert!(
        room.sections.load(Ordering::SeqCst) > 500,
        "the readers went on"
    );
    crowd.shutdown().await;
    assert_idle(&[&readers, &writers]).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_elsewhere_waits_no_longer_than_a_turn_for_a_storm_of_writers() {
    const SECTION: Duration = Duration::from_millis(2);
    let store = MemoryStore::new();
    let [readers, writers] = [(); 2].map(|()| process(store.clone()));
    let room = Arc::new(Room::default());
    let mut crowd = JoinSet::new();
    for _ in 0..16 {
        let (manager, room) = (writers.clone(), room.clone());
        crowd.spawn(async move {
            loop {
                let lock = manager.lock(KEY);
                lock.run(async |_lease| room.be_alone(SECTION).await)
                    .await
                    .unwrap();
            }
        });
    }
    for _ in 0..50 {
        sleep(3 * TURN / 2).await;
        let asked = Instant::now();
        let together = (0..4).map(|_| readers.lock(KEY).shared().acquire());
        let guards: Vec<_> = join_all(together)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let waited = asked.elapsed();
        assert!(
            waited <= TURN + SECTION + Duration::from_millis(1),
            "{waited:?}"
        );
        assert_eq!(room.inside.load(Ordering::SeqCst), 0);
        drop(guards);
    }
    crowd.shutdown().await;
    assert_idle(&[&readers, &writers]).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_more_than_n_of_several_processes_are_inside() {
    let store = Counted::default();
    let managers: Vec<_> = (0..4).map(|_| store.manager()).collect();
    let room = Arc::new(Room::default());
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let (manager, room) = (managers[task % 4].clone(), room.clone());
        tasks.spawn(async move {
            for _ in 0..20 {
                let lock = manager.lock(KEY).permits(8);
                lock.run(async |_lease| room.stay(Duration::from_micros(300)).await)
                    .await
                    .unwrap();
            }
        });
    }
    tasks.join_all().await;
    let most = room.most.load(Ordering::SeqCst);
    assert!(most <= 8, "broken promise: {most} have one of 8 permits");
    assert_eq!(most, 8);
    assert_eq!(room.sections.load(Ordering::SeqCst), 64 * 20);
    // Two for each section without hand-over.
    assert!(store.requests() < 64 * 20, "{} requests", store.requests());
    assert_idle(&managers.iter().collect::<Vec<_>>()).await;
    assert!(store.store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_loss_ends_every_body_that_shares_the_lease() {
    let store = MemoryStore::new();
    let manager = process(store.clone());
    let inside = Arc::new(Barrier::new(4));
    let readers = (0..3).map(|_| {
        let (manager, inside) = (manager.clone(), inside.clone());
        tokio::spawn(async move {
            let lock = manager.lock(KEY).shared();
            lock.run(async |_lease| {
                inside.wait().await;
                std::future::pending::<()>().await;
            })
            .await
        })
    });
    let readers: Vec<_> = readers.collect();
    inside.wait().await;
    store.forget();
    for ended in join_all(readers).await {
        let error = ended.unwrap().unwrap_err();
        assert!(
            matches!(
                &error,
                LockError::Lost {
                    cause: LostCause::Revoked,
                    ..
                }
            ),
            "{error}"
        );
    }
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn who_leaves_first_does_not_take_the_lease_along() {
    let store = MemoryStore::new();
    let [manager, other] = [(); 2].map(|()| process(store.clone()));
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(manager.lock(KEY).shared().acquire().await.unwrap());
    }
    // The first one bears the claim.
    for guard in guards.drain(..2) {
        guard.release().await.unwrap();
    }
    assert!(
        other.lock(KEY).try_acquire().await.unwrap().is_none(),
        "broken promise: a writer holds the key beside a reader"
    );
    let last = guards.pop().unwrap();
    // It is renewed for whoever is left.
    sleep(Duration::from_secs(120)).await;
    last.ensure_held().unwrap();
    assert!(
        other.lock(KEY).try_acquire().await.unwrap().is_none(),
        "broken promise: a writer holds the key beside a reader"
    );
    drop(last);
    drop(other.lock(KEY).acquire().await.unwrap());
    assert_idle(&[&manager, &other]).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_bodies_that_share_a_lease_one_by_one() {
    let manager = process(MemoryStore::new());
    let (inside, last) = (Arc::new(Barrier::new(4)), Arc::new(Notify::new()));
    let readers = (0..3).map(|_| {
        let (manager, inside, last) = (manager.clone(), inside.clone(), last.clone());
        tokio::spawn(async move {
            let lock = manager.lock(KEY).shared();
            lock.run(async |_lease| {
                inside.wait().await;
                last.notified().await;
            })
            .await
        })
    });
    let readers: Vec<_> = readers.collect();
    inside.wait().await;
    last.notify_one();
    let report = manager.shutdown(Duration::from_secs(1)).await;
    assert_eq!(report.cut_short, 2, "{report:?}");
    let ended: Vec<_> = join_all(readers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let cut = ended.iter().filter(|ended| {
        matches!(
            ended,
            Err(LockError::Lost {
                cause: LostCause::ShutDown,
                ..
            })
        )
    });
    assert_eq!(cut.count(), 2, "{ended:?}");
    assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_cannot_take_its_own_key_in_any_mode() {
    let manager = process(MemoryStore::new());
    let shared = || manager.lock(KEY).shared();
    for (outer, inner) in [
        (manager.lock(KEY), shared()),
        (shared(), manager.lock(KEY)),
        (shared(), shared()),
        (shared(), manager.lock(KEY).permits(3)),
        (manager.lock("other").also_shared(KEY), shared()),
    ] {
        let refused = outer
            .run(async |_lease| inner.acquire().await.map(drop))
            .await;
        let error = refused.unwrap().unwrap_err();
        assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
    }
    assert_idle(&[&manager]).await;
}

/// A list of keys that is made at run time may have shared ones only.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_key_takes_shared_ones() {
    let manager = process(MemoryStore::new());
    let none = || manager.lock_all::<[&str; 0], &str>([]);
    let refused = none().acquire().await.unwrap_err();
    assert_eq!(refused.code(), "invalid-key", "{refused}");
    let guard = none().also_shared(KEY).also_shared("other").acquire().await;
    let guard = guard.unwrap();
    for key in [KEY, "other"] {
        assert!(
            manager.lock(key).try_acquire().await.unwrap().is_none(),
            "broken promise: two hold the key"
        );
        let reader = manager.lock(key).shared().try_acquire().await.unwrap();
        drop(reader.expect("the lock is shared"));
    }
    drop(guard);
    // A mistake in one of them stays one.
    for request in [
        none().also_shared(""),
        none().also_shared("").also_shared(KEY),
        none().also_shared(KEY).also_shared(""),
    ] {
        let refused = request.acquire().await.unwrap_err();
        assert_eq!(refused.code(), "invalid-key", "{refused}");
    }
    assert_idle(&[&manager]).await;
}

#[tokio::test(start_paused = true)]
async fn calls_for_several_keys_of_mixed_modes_never_wait_for_each_other() {
    let store = MemoryStore::new();
    let managers = [(); 3].map(|()| process(store.clone()));
    let sections = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..30 {
        let (manager, sections) = (managers[task % 3].clone(), sections.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let request = match task % 5 {
                    0 => manager.lock_all(["a", "b"]).also_shared("c"),
                    1 => manager.lock("c").also_shared("a"),
                    2 => manager.lock_all(["c", "b", "a"]).shared(),
                    3 => manager.lock_all(["b", "c"]).permits(2),
                    _ => manager.lock("b"),
                };
                let request = request.wait(Duration::from_secs(600));
                request
                    .run(async |_lease| sleep(Duration::from_millis(1)).await)
                    .await
                    .unwrap();
                sections.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(sections.load(Ordering::Relaxed), 300);
    assert_idle(&managers.iter().collect::<Vec<_>>()).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_costs_its_own_place_until_its_ttl() {
    let store = MemoryStore::new();
    let [dead, manager] = [(); 2].map(|()| process(store.clone()));
    let ttl = Duration::from_secs(5);
    // It stops to renew, like a process that was killed.
    let killed = dead
        .lock(KEY)
        .permits(2)
        .ttl(ttl)
        .renew(false)
        .acquire()
        .await
        .unwrap();
    let permits = || manager.lock(KEY).permits(2);
    let begun = Instant::now();
    let one = permits().acquire().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO, "the other place is free");
    let other = permits().acquire().await.unwrap();
    let waited = begun.elapsed();
    assert!(
        waited >= ttl && waited < ttl + Duration::from_secs(2),
        "{waited:?}"
    );
    assert!(killed.ensure_held().is_err());
    assert!(
        permits().try_acquire().await.unwrap().is_none(),
        "broken promise: there is one permit more"
    );
    drop((one, other));
    drop(killed);
    assert_idle(&[&dead, &manager]).await;
}

#[tokio::test(start_paused = true)]
async fn options_of_one_holder_are_its_own() {
    let store = MemoryStore::new();
    let manager = process(store.clone());
    let shared = || manager.lock(KEY).shared();
    let kept = shared().acquire().await.unwrap();
    let brief = shared().max_hold(Duration::from_secs(1));
    let cut = brief
        .run(async |_lease| std::future::pending::<()>().await)
        .await
        .unwrap_err();
    assert!(
        matches!(
            &cut,
            LockError::Lost {
                cause: LostCause::MaxHold,
                ..
            }
        ),
        "{cut}"
    );
    kept.ensure_held().unwrap();
    kept.release().await.unwrap();
    drop(
        shared()
            .min_hold(Duration::from_secs(60))
            .acquire()
            .await
            .unwrap(),
    );
    settled().await;
    assert!(
        manager.lock(KEY).try_acquire().await.unwrap().is_none(),
        "broken promise: a writer holds the key beside a reader: its `min_hold` runs"
    );
    assert!(shared().try_acquire().await.unwrap().is_some());
    sleep(Duration::from_secs(61)).await;
    assert!(manager.lock(KEY).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn callers_that_do_not_wait_ask_for_themselves() {
    let store = MemoryStore::new();
    let [manager, other] = [(); 2].map(|()| process(store.clone()));
    let tried = (0..8).map(|_| manager.lock(KEY).shared().try_acquire());
    let tried = join_all(tried).await;
    assert!(
        tried.iter().all(|tried| matches!(tried, Ok(Some(_)))),
        "{tried:?}"
    );
    drop(tried);
    let writer = other.lock(KEY).acquire().await.unwrap();
    // One of the process waits in the queue already.
    let waiting = manager.lock(KEY).shared();
    let waiting = tokio::spawn(waiting.acquire());
    settled().await;
    assert!(
        manager
            .lock(KEY)
            .shared()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    drop(writer);
    drop(waiting.await.unwrap().unwrap());
    assert_idle(&[&manager, &other]).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_of_readers_lie_between_those_of_writers() {
    let store = MemoryStore::new();
    let managers = [(); 3].map(|()| process(store.clone()));
    let mut last: Option<FencingToken> = None;
    for round in 0..20 {
        let writer = managers[round % 3].lock(KEY).acquire().await.unwrap();
        assert!(
            last < Some(writer.fencing_token()),
            "broken promise: the token did not grow"
        );
        let waiting = managers
            .iter()
            .map(|manager| manager.lock(KEY).shared().acquire());
        let waiting: Vec<_> = waiting.map(tokio::spawn).collect();
        settled().await;
        let written = writer.fencing_token();
        writer.release().await.unwrap();
        let readers: Vec<_> = join_all(waiting)
            .await
            .into_iter()
            .map(|it| it.unwrap().unwrap())
            .collect();
        let tokens: Vec<_> = readers
            .iter()
            .map(|reader| reader.fencing_token())
            .collect();
        assert!(
            tokens
                .iter()
                .all(|token| *token == tokens[0] && *token > written),
            "broken promise: the token did not grow: {tokens:?}"
        );
        last = tokens.first().copied();
    }
    assert_idle(&managers.iter().collect::<Vec<_>>()).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_one_reader_has_left_to_the_store_is_released_by_no_other() {
    for bearer_leaves in [true, false] {
        let manager = process(MemoryStore::new());
        let read = async || manager.lock(KEY).shared().acquire().await.unwrap();
        let [one, other] = [read().await, read().await];
        let owner = |guard: &LockGuard| guard.records().unwrap()[0].owner;
        assert_eq!(owner(&one), owner(&other), "they share a lease");
        let (leaves, releases) = if bearer_leaves {
            (one, other)
        } else {
            (other, one)
        };
        leaves.leave();
        releases.release().await.unwrap();
        assert_idle(&[&manager]).await;
        let writes = async || manager.lock(KEY).try_acquire().await.unwrap();
        assert!(writes().await.is_none(), "until its TTL is over");
        sleep(Duration::from_secs(31)).await;
        let writes = writes().await.expect("it is over");
        writes.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_something_outside_depends_on_is_shared_with_no_other_reader() {
    let manager = process(MemoryStore::new());
    let read = async || manager.lock(KEY).shared().acquire().await.unwrap();
    let one = read().await;
    let bound = one.records().unwrap()[0].owner;
    let other = read().await;
    assert_ne!(other.records().unwrap()[0].owner, bound);
    one.release().await.unwrap();
    other.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_that_is_left_to_the_store_is_forgotten() {
    let manager = process(MemoryStore::new());
    let lock = manager.lock(KEY).renew(false);
    let guard = lock.ttl(Duration::from_secs(1)).acquire().await.unwrap();
    let next = manager.lock(KEY).acquire().await.unwrap();
    assert!(guard.is_lost());
    guard.leave();
    next.release().await.unwrap();
    assert_idle(&[&manager]).await;
}
