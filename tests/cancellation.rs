//! A caller may go away at any await, and a connection may fail at any request: whatever was
//! taken is given back, and nobody ever relies on a lease that was not confirmed.
#![allow(
    clippy::unwrap_used,
    reason = "a test that fails there has said what it has to say"
)]

mod common;

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use dlock::{
    LockError, LockGuard, LockManager, LostCause, Wait, distributed_lock,
    store::{StoreErrorKind, memory::MemoryStore},
};
use dlock_testkit::{Polled, eventually, poll_times, poll_times_then_wake};
use tokio::{
    sync::{Notify, watch},
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use common::{Env, Fate, Kind, LIMIT, Memory, OneKey, TestClock, Wire, assert_idle, is_lost, soon};

const TTL: Duration = Duration::from_secs(30);

/// How long a lease of [`TTL`] is trusted: less by a hundredth and 2 ms, for clocks that differ.
const TRUSTED: Duration = Duration::from_millis(29_698);

/// Makes a test of every case for every store.
macro_rules! cancellation {
    ($($case:ident,)*) => {
        mod memory {
            $(
                #[tokio::test(start_paused = true)]
                async fn $case() {
                    super::$case::<super::Memory>().await;
                }
            )*
        }

        #[cfg(feature = "redis")]
        mod redis {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case::<super::common::Redis>().await;
                }
            )*
        }
    };
}

cancellation! {
    an_uncontended_acquisition_dropped_anywhere_leaves_nothing,
    a_waiter_dropped_anywhere_leaves_its_place,
    a_waiter_dropped_while_it_is_granted_passes_the_lock_on,
    a_run_dropped_anywhere_gives_the_lock_back,
    a_release_dropped_anywhere_is_still_carried_out,
    a_locked_function_under_a_timeout_gives_the_lock_back,
    a_locked_function_that_loses_a_select_gives_the_lock_back,
}

/// How a future is dropped: while it waits, or when what it waited for has come.
#[derive(Clone, Copy, Debug)]
enum Drops {
    Parked,
    Woken,
}

async fn poll<F: Future>(future: F, polls: usize, drops: Drops) -> Polled<F::Output> {
    // Boxed: what is polled here is large, and there are many of it.
    let future = Box::pin(future);
    match drops {
        Drops::Parked => soon(poll_times(future, polls)).await,
        Drops::Woken => soon(poll_times_then_wake(future, polls)).await,
    }
}

/// A few processes over one store, and a key for each experiment.
///
/// In front of each manager is a [`Wire`]: it makes every request an await of its own, and knows
/// who has asked for something and not given it back.
struct Processes<E: Env> {
    env: E,
    managers: Vec<LockManager>,
    wires: Vec<Wire<E::Store>>,
    keys: AtomicUsize,
}

impl<E: Env> Processes<E> {
    async fn start(count: usize) -> Self {
        let env = E::start().await;
        let (mut managers, mut wires) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let wire = Wire::new(env.store().await);
            managers.push(LockManager::builder().store(wire.clone()).unwrap());
            wires.push(wire);
        }
        Self {
            env,
            managers,
            wires,
            keys: AtomicUsize::new(0),
        }
    }

    /// A key that nobody has used.
    fn key(&self) -> String {
        format!("order:{}", self.keys.fetch_add(1, Ordering::Relaxed))
    }

    async fn hold(&self, process: usize, key: &str) -> LockGuard {
        soon(self.managers[process].lock(key).acquire())
            .await
            .unwrap()
    }

    /// Another process gets the lock at once, and the one before has nothing left.
    async fn assert_free(&self, key: &str) {
        let taker = self.managers.last().unwrap();
        let before = Instant::now();
        let guard = soon(taker.lock(key).acquire()).await.unwrap();
        assert!(before.elapsed() <= E::PROMPT, "{:?}", before.elapsed());
        soon(guard.release()).await.unwrap();
        self.assert_clean().await;
    }

    async fn assert_clean(&self) {
        let managers: Vec<_> = self.managers.iter().collect();
        let keys = self.keys.load(Ordering::Relaxed);
        self.env.assert_clean(keys, &managers).await;
        for wire in &self.wires {
            wire.assert_nothing_is_owed();
        }
    }
}

/// Tries an experiment with every number of polls, until the future lives to its end; says how
/// many awaits it has.
async fn at_every_await(mut experiment: impl AsyncFnMut(usize, Drops) -> bool) -> usize {
    let mut awaits = 0;
    for drops in [Drops::Parked, Drops::Woken] {
        for polls in 0.. {
            if experiment(polls, drops).await {
                awaits = awaits.max(polls);
                break;
            }
        }
    }
    awaits
}

async fn an_uncontended_acquisition_dropped_anywhere_leaves_nothing<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let awaits = at_every_await(async |polls, drops| {
        let key = processes.key();
        let outcome = poll(processes.managers[0].lock(&key).acquire(), polls, drops).await;
        let finished = matches!(outcome, Polled::Finished(Ok(_)));
        drop(outcome);
        processes.assert_free(&key).await;
        finished
    })
    .await;
    assert!(awaits >= 2, "there was an await to be dropped at: {awaits}");
}

async fn a_waiter_dropped_anywhere_leaves_its_place<E: Env>() {
    let processes = Processes::<E>::start(3).await;
    let probe = processes.env.store().await;
    let mut probe = OneKey::new(probe, "order");
    let awaits = at_every_await(async |polls, drops| {
        let key = processes.key();
        probe.key = dlock::LockKey::new(&key).unwrap();
        let holder = processes.hold(1, &key).await;
        let lock = processes.managers[0].lock(&key).wait(E::BRIEF);
        let outcome = poll(lock.acquire(), polls, drops).await;
        let finished = match outcome {
            Polled::Finished(Err(error)) => {
                assert!(error.is_busy(), "{error}");
                true
            }
            Polled::Finished(Ok(guard)) => panic!("it was held all the time: {guard:?}"),
            Polled::Dropped => false,
        };
        assert_idle(&[&processes.managers[0]]).await;
        // Its last request was the release, so nobody is granted who is not there.
        processes.wires[0].assert_nothing_is_owed();
        probe.until_waiting(0).await;
        soon(holder.release()).await.unwrap();
        processes.assert_free(&key).await;
        finished
    })
    .await;
    assert!(awaits >= 3, "it asked and waited and asked: {awaits}");
}

async fn a_waiter_dropped_while_it_is_granted_passes_the_lock_on<E: Env>() {
    let processes = Processes::<E>::start(3).await;
    let probe = processes.env.store().await;
    let mut probe = OneKey::new(probe, "order");
    let awaits = at_every_await(async |polls, drops| {
        let key = processes.key();
        probe.key = dlock::LockKey::new(&key).unwrap();
        let holder = processes.hold(1, &key).await;
        let over = Notify::new();
        let waiter = async {
            let lock = processes.managers[0].lock(&key).wait(Wait::Forever);
            let outcome = poll(lock.acquire(), polls, drops).await;
            over.notify_one();
            let finished = matches!(outcome, Polled::Finished(Ok(_)));
            // Dropping an unused guard is one more way to leave.
            drop(outcome);
            finished
        };
        let releaser = async {
            // As soon as there is somebody to be granted, or will never be.
            tokio::select! {
                () = probe.until_waiting(1) => {}
                () = over.notified() => {}
            }
            soon(holder.release()).await.unwrap();
        };
        let (finished, ()) = tokio::join!(waiter, releaser);
        processes.assert_free(&key).await;
        finished
    })
    .await;
    assert!(awaits >= 3, "it asked, waited and asked again: {awaits}");
}

async fn a_run_dropped_anywhere_gives_the_lock_back<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let bodies = AtomicUsize::new(0);
    at_every_await(async |polls, drops| {
        let key = processes.key();
        let run = processes.managers[0].lock(&key).run(async |_| {
            for _ in 0..3 {
                bodies.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let outcome = poll(run, polls, drops).await;
        processes.assert_free(&key).await;
        outcome == Polled::Finished(Ok(()))
    })
    .await;
    // 1 + 2 + 3 + 3 times each step, at least: it was dropped at each of them.
    assert!(bodies.load(Ordering::Relaxed) >= 2 * 9);
}

async fn a_release_dropped_anywhere_is_still_carried_out<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let awaits = at_every_await(async |polls, drops| {
        let key = processes.key();
        let guard = processes.hold(0, &key).await;
        let outcome = poll(guard.release(), polls, drops).await;
        processes.assert_free(&key).await;
        outcome == Polled::Finished(Ok(()))
    })
    .await;
    assert!(awaits >= 2, "there was an await to be dropped at: {awaits}");
}

#[distributed_lock(key = "<order>", ttl = "30s", manager = locks)]
async fn settle(locks: &LockManager, order: &str, settling: &Notify) -> Result<(), LockError> {
    settling.notify_one();
    std::future::pending::<()>().await;
    unreachable!("it never ends by itself")
}

async fn a_locked_function_under_a_timeout_gives_the_lock_back<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let settling = Notify::new();
    let call = settle(&processes.managers[0], "order-7", &settling);
    assert!(timeout(E::BRIEF, call).await.is_err());
    soon(settling.notified()).await;
    processes.key();
    processes.assert_free("order-7").await;
}

async fn a_locked_function_that_loses_a_select_gives_the_lock_back<E: Env>() {
    let processes = Processes::<E>::start(2).await;
    let settling = Notify::new();
    tokio::select! {
        outcome = settle(&processes.managers[0], "order-7", &settling) => panic!("{outcome:?}"),
        () = soon(settling.notified()) => {}
    }
    processes.key();
    processes.assert_free("order-7").await;
}

/// One manager behind a [`Wire`] over memory, with paused time.
struct Faulty {
    store: MemoryStore,
    wire: Wire<MemoryStore>,
    manager: LockManager,
    /// Another process, whose connection does not fail.
    other: LockManager,
}

impl Faulty {
    fn start() -> Self {
        Self::with_response_timeout(Duration::from_secs(1))
    }

    fn with_response_timeout(limit: Duration) -> Self {
        let store = MemoryStore::new();
        let wire = Wire::new(store.clone());
        // The machine's boot clock goes on while time is paused; moments are to be exact here.
        let builder = LockManager::builder().clock(TestClock::new());
        let manager = builder.clone().response_timeout(limit).store(wire.clone());
        Self {
            manager: manager.unwrap(),
            other: builder.store(store.clone()).unwrap(),
            store,
            wire,
        }
    }

    async fn assert_clean(&self) {
        assert_idle(&[&self.manager, &self.other]).await;
        assert!(self.store.is_empty());
        self.wire.assert_nothing_is_owed();
    }
}

/// A1: the retry of the same owner finds its own lease.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_was_lost_is_found_by_the_retry() {
    for fate in [Fate::ReplyLost, Fate::ReplySwallowed] {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Acquire, fate);
        let guard = soon(faulty.manager.lock("order:42").acquire())
            .await
            .unwrap();
        let sent = faulty.wire.sent();
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].owner, sent[1].owner);
        assert_eq!(sent[0].fence, Some(guard.fencing_token().fence()));
        assert_eq!(sent[1].fence, sent[0].fence);
        guard.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_lost_is_repeated() {
    for fate in [Fate::Lost, Fate::Swallowed] {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Acquire, fate.clone());
        faulty.wire.next(Kind::Acquire, fate);
        let guard = soon(faulty.manager.lock("order:42").acquire())
            .await
            .unwrap();
        assert_eq!(faulty.wire.count(Kind::Acquire), 3);
        guard.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

/// A2: the wait is over, and what was granted without the caller's knowledge is given back.
#[tokio::test(start_paused = true)]
async fn giving_up_after_a_lost_answer_releases() {
    let brief = Duration::from_millis(200);
    for (fate, wait, kind) in [
        (Fate::ReplyLost, Wait::Never, StoreErrorKind::Disconnected),
        (Fate::ReplySwallowed, Wait::Never, StoreErrorKind::TimedOut),
        (
            Fate::ReplySwallowed,
            Wait::For(brief),
            StoreErrorKind::TimedOut,
        ),
        (
            Fate::ReplyLost,
            Wait::For(brief),
            StoreErrorKind::Disconnected,
        ),
    ] {
        let faulty = Faulty::start();
        faulty.wire.always(Kind::Acquire, fate);
        let error = soon(faulty.manager.lock("order:42").wait(wait).acquire())
            .await
            .expect_err("no answer came");
        assert!(
            matches!(&error, LockError::Unavailable { reason, .. } if reason.kind() == kind),
            "{error}"
        );
        let guard = faulty.other.lock("order:42").acquire().await.unwrap();
        guard.release().await.unwrap();
        faulty.assert_clean().await;
    }
}

/// A8: a grant that comes when nobody wants it any more. The release has been sent after it on
/// the same connection, and so comes after it.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_wait_is_released() {
    let faulty = Faulty::start();
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Acquire, Fate::Stalled(opened));
    let before = Instant::now();
    let wait = Duration::from_millis(500);
    let error = faulty.manager.lock("order:42").wait(wait).acquire().await;
    assert!(
        matches!(error, Err(LockError::Unavailable { .. })),
        "{error:?}"
    );
    assert_eq!(before.elapsed(), wait, "not a moment longer");
    faulty.wire.until_sent(Kind::Release, 1).await;
    gate.send_replace(true);
    eventually(LIMIT, "it is granted after all", async || {
        faulty.wire.sent()[0].fence.is_some()
    })
    .await;
    let guard = soon(faulty.other.lock("order:42").acquire()).await.unwrap();
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The time from before the question was sent counts, since the store may have granted then.
#[tokio::test(start_paused = true)]
async fn a_deadline_is_counted_from_the_question_and_not_from_the_answer() {
    let faulty = Faulty::with_response_timeout(TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Acquire, Fate::ReplyHeld(opened));
    let slow = Duration::from_secs(12);
    let lock = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .wait(TTL)
        .renew(false);
    let (guard, ()) = tokio::join!(lock.acquire(), async {
        sleep(slow).await;
        gate.send_replace(true);
    });
    let guard = guard.unwrap();
    assert_eq!(slow + guard.remaining(), TRUSTED);
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// A3: the lease had ended when the answer came, so the body must not start with it.
#[tokio::test(start_paused = true)]
async fn an_answer_that_took_as_long_as_the_lease_is_no_grant() {
    let faulty = Faulty::with_response_timeout(2 * TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Acquire, Fate::ReplyHeld(opened));
    let lock = faulty.manager.lock("order:42").ttl(TTL).wait(2 * TTL);
    let (guard, ()) = tokio::join!(lock.acquire(), async {
        sleep(TRUSTED).await;
        gate.send_replace(true);
    });
    let guard = guard.unwrap();
    assert_eq!(faulty.wire.count(Kind::Acquire), 2, "it asked again");
    assert_eq!(guard.remaining(), TRUSTED, "and has a whole lease");
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// A4: the store has prolonged the lease, but has not said so.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_keeps_the_deadline_and_is_repeated() {
    let faulty = Faulty::start();
    let guard = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    let since = Instant::now();
    faulty.wire.next(Kind::Renew, Fate::ReplyLost);
    faulty.wire.next(Kind::Renew, Fate::Lost);
    faulty.wire.until_sent(Kind::Renew, 1).await;
    assert!(faulty.wire.sent()[1].carried_out);
    let confirmed = |guard: &LockGuard| since.elapsed() + guard.remaining();
    assert_eq!(confirmed(&guard), TRUSTED);
    faulty.wire.until_sent(Kind::Renew, 2).await;
    assert_eq!(confirmed(&guard), TRUSTED);
    eventually(LIMIT, "the third renewal is confirmed", async || {
        confirmed(&guard) > TTL
    })
    .await;
    assert_eq!(faulty.wire.count(Kind::Renew), 3);
    assert!(
        since.elapsed() < TTL / 2,
        "it did not wait for its next turn"
    );
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The store may have started the TTL anew when the request was sent, and not when it answered.
#[tokio::test(start_paused = true)]
async fn a_renewed_deadline_is_counted_from_the_request_and_not_from_the_answer() {
    let faulty = Faulty::with_response_timeout(TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Renew, Fate::ReplyHeld(opened));
    let lock = faulty.manager.lock("order:42").ttl(TTL);
    let guard = lock.acquire().await.unwrap();
    let since = Instant::now();
    faulty.wire.until_sent(Kind::Renew, 1).await;
    let sent = since.elapsed();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        since.elapsed() + guard.remaining(),
        TRUSTED,
        "not confirmed"
    );
    gate.send_replace(true);
    eventually(LIMIT, "it is confirmed", async || {
        since.elapsed() + guard.remaining() > TRUSTED
    })
    .await;
    assert!(since.elapsed() + guard.remaining() <= sent + TRUSTED);
    guard.release().await.unwrap();
    faulty.assert_clean().await;
}

/// A4: the body goes on with the lease it has while a renewal is under way.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_once_is_not_noticed_by_the_body() {
    let faulty = Faulty::start();
    faulty.wire.next(Kind::Renew, Fate::Swallowed);
    let body = faulty.manager.lock("order:42").ttl(TTL).run(async |_| {
        sleep(2 * TTL).await;
    });
    assert_eq!(body.await, Ok(()));
    faulty.assert_clean().await;
}

/// A5: not a moment later than the deadline that was confirmed.
#[tokio::test(start_paused = true)]
async fn a_body_whose_lease_cannot_be_renewed_ends_at_its_deadline() {
    struct EndsAt<'a>(&'a std::sync::Mutex<Option<Instant>>);
    impl Drop for EndsAt<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = Some(Instant::now());
        }
    }

    for fate in [
        Fate::Lost,
        Fate::ReplyLost,
        Fate::Swallowed,
        Fate::ReplySwallowed,
    ] {
        let faulty = Faulty::start();
        faulty.wire.always(Kind::Renew, fate.clone());
        let ended = std::sync::Mutex::new(None);
        let since = Instant::now();
        let body = faulty.manager.lock("order:42").ttl(TTL).run(async |_| {
            let _ends = EndsAt(&ended);
            std::future::pending::<()>().await;
        });
        let outcome = timeout(2 * TTL, body).await.expect("it ends");
        let not_renewed = |cause: &LostCause| matches!(cause, LostCause::NotRenewed { .. });
        assert!(is_lost(&outcome, not_renewed), "{fate:?}: {outcome:?}");
        let held = ended.into_inner().unwrap().unwrap() - since;
        // The timers are exact to a millisecond.
        let moment = Duration::from_millis(1);
        assert!(held <= TRUSTED + moment, "{fate:?}: {held:?}");
        assert!(held + moment >= TRUSTED, "{fate:?}: {held:?}");
        assert!(
            faulty.wire.count(Kind::Renew) >= 3,
            "it tried several times"
        );
        faulty.assert_clean().await;
    }
}

/// The confirmed deadline stays, even if the answer to a renewal comes in the end.
#[tokio::test(start_paused = true)]
async fn a_renewal_confirmed_after_the_deadline_revives_nothing() {
    let faulty = Faulty::with_response_timeout(2 * TTL);
    let (gate, opened) = watch::channel(false);
    faulty.wire.always(Kind::Renew, Fate::ReplyHeld(opened));
    let guard = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    assert!(matches!(guard.lost().await, LockError::Lost { .. }));
    gate.send_replace(true);
    for _ in 0..10 {
        yield_now().await;
        assert!(guard.is_lost() && guard.remaining().is_zero());
    }
    assert!(guard.release().await.is_err());
    faulty.assert_clean().await;
}

/// A6: the body's result stands, and the release is repeated behind the caller's back.
#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_is_repeated_and_no_error() {
    for fate in [
        Fate::ReplyLost,
        Fate::Lost,
        Fate::Swallowed,
        Fate::ReplySwallowed,
    ] {
        let faulty = Faulty::start();
        faulty.wire.next(Kind::Release, fate.clone());
        faulty.wire.next(Kind::Release, fate);
        let outcome = faulty.manager.lock("order:42").run(async |_| "done").await;
        assert_eq!(outcome, Ok("done"));
        let guard = soon(faulty.other.lock("order:42").acquire()).await.unwrap();
        guard.release().await.unwrap();
        faulty.assert_clean().await;
        assert_eq!(faulty.wire.count(Kind::Release), 3);
    }
}

/// A7: when nothing gets through, the store's TTL has to do; the manager does not try for ever.
#[tokio::test(start_paused = true)]
async fn a_release_that_never_arrives_is_given_up_when_the_lease_has_run_out() {
    let faulty = Faulty::start();
    faulty.wire.always(Kind::Release, Fate::Swallowed);
    let since = Instant::now();
    let outcome = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .run(async |_| 7)
        .await;
    assert_eq!(outcome, Ok(7));
    assert!(
        since.elapsed() <= Duration::from_secs(1),
        "one answer's time"
    );
    eventually(2 * TTL, "it is given up", async || {
        faulty.manager.active() == 0
    })
    .await;
    assert!(
        since.elapsed() >= TTL,
        "as long as there may be something to release"
    );
    assert!(faulty.store.is_empty());
    assert_eq!(faulty.wire.count(Kind::Renew), 0);
}

/// B4: a renewal that is under way when the holder leaves has no successor.
#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_the_release() {
    let faulty = Faulty::start();
    let (gate, opened) = watch::channel(false);
    faulty.wire.next(Kind::Renew, Fate::ReplyHeld(opened));
    let guard = faulty
        .manager
        .lock("order:42")
        .ttl(TTL)
        .acquire()
        .await
        .unwrap();
    faulty.wire.until_sent(Kind::Renew, 1).await;
    drop(guard);
    gate.send_replace(true);
    faulty.assert_clean().await;
    sleep(3 * TTL).await;
    let sent: Vec<_> = faulty.wire.sent().iter().map(|sent| sent.kind).collect();
    assert_eq!(sent, [Kind::Acquire, Kind::Renew, Kind::Release]);
}

/// A wait that ends while the question is under way is not exceeded by the answer's time.
#[tokio::test(start_paused = true)]
async fn a_wait_is_kept_even_if_no_answer_comes() {
    let faulty = Faulty::start();
    faulty.wire.always(Kind::Acquire, Fate::Swallowed);
    let started = AtomicBool::new(false);
    for wait in [300, 1000, 2500].map(Duration::from_millis) {
        let before = Instant::now();
        let lock = faulty.manager.lock("order:42").wait(wait);
        let outcome = lock
            .run(async |_| started.store(true, Ordering::Relaxed))
            .await;
        assert!(
            matches!(outcome, Err(LockError::Unavailable { .. })),
            "{outcome:?}"
        );
        assert_eq!(before.elapsed(), wait);
    }
    assert!(!started.load(Ordering::Relaxed), "no body without a lease");
    faulty.assert_clean().await;
}

/// What is known of a busy lock is not forgotten because the end of the wait cut a question short.
#[tokio::test(start_paused = true)]
async fn a_last_question_that_is_cut_short_does_not_hide_who_held_the_lock() {
    let faulty = Faulty::start();
    let holder = faulty.other.lock("order:42").acquire().await.unwrap();
    // It asks again after a second, and has half a second left for the answer.
    let wait = Duration::from_millis(1500);
    let waiter = faulty.manager.lock("order:42").wait(wait).acquire();
    let (outcome, ()) = tokio::join!(waiter, async {
        faulty.wire.until_sent(Kind::Acquire, 1).await;
        faulty.wire.always(Kind::Acquire, Fate::Swallowed);
    });
    let error = outcome.unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert_eq!(faulty.wire.count(Kind::Acquire), 2);
    holder.release().await.unwrap();
    faulty.assert_clean().await;
}

/// The same over the network, where the connection is cut between the deed and the answer.
#[cfg(feature = "redis")]
mod redis_behind_a_proxy {
    use dlock_testkit::Proxy;

    use super::*;
    use crate::common::Redis;

    struct Cut {
        env: Redis,
        proxy: Proxy,
        manager: LockManager,
        other: LockManager,
    }

    impl Cut {
        async fn start() -> Self {
            let env = Redis::start().await;
            let proxy = Proxy::start(env.server.port());
            let manager = LockManager::connect(&proxy.url()).await.unwrap();
            let other = env.manager().await;
            Self {
                env,
                proxy,
                manager,
                other,
            }
        }

        async fn assert_free(&self) {
            let guard = soon(self.other.lock("order:42").acquire()).await.unwrap();
            soon(guard.release()).await.unwrap();
            self.env
                .assert_clean(1, &[&self.manager, &self.other])
                .await;
        }

        async fn value(&self) -> Option<String> {
            let mut connection = self.env.server.connection().await;
            ::redis::cmd("GET")
                .arg("dlock:{order:42}")
                .query_async(&mut connection)
                .await
                .unwrap()
        }
    }

    /// A1.
    #[tokio::test]
    async fn a_grant_whose_answer_was_cut_off_is_found_by_the_retry() {
        let cut = Cut::start().await;
        cut.proxy.cut_before_reply_to("order:42");
        let guard = soon(cut.manager.lock("order:42").acquire()).await.unwrap();
        assert!(!cut.proxy.is_trap_set(), "there was a cut");
        let value = cut.value().await.expect("it is held");
        let fence = value.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(fence, guard.fencing_token().fence().to_string());
        // The first owner's number: no second attempt was needed, which would have been refused.
        assert!(value.contains(".1 "), "{value}");
        soon(guard.release()).await.unwrap();
        cut.assert_free().await;
    }

    /// A2.
    #[tokio::test]
    async fn giving_up_after_the_answer_was_cut_off_releases() {
        let cut = Cut::start().await;
        cut.proxy.cut_before_reply_to("order:42");
        let error = soon(cut.manager.lock("order:42").wait(Wait::Never).acquire())
            .await
            .expect_err("the answer was cut off");
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        cut.assert_free().await;
    }

    /// A4.
    #[tokio::test]
    async fn a_renewal_whose_answer_was_cut_off_is_repeated() {
        let cut = Cut::start().await;
        let ttl = Duration::from_secs(3);
        let body = cut.manager.lock("order:42").ttl(ttl).run(async |lease| {
            cut.proxy.cut_before_reply_to("order:42");
            eventually(LIMIT, "a renewal was cut off", async || {
                !cut.proxy.is_trap_set()
            })
            .await;
            let before = lease.remaining();
            eventually(LIMIT, "the lease is renewed all the same", async || {
                lease.remaining() > before
            })
            .await;
        });
        assert_eq!(soon(body).await, Ok(()));
        cut.assert_free().await;
    }

    /// A6.
    #[tokio::test]
    async fn a_release_whose_answer_was_cut_off_is_no_error() {
        let cut = Cut::start().await;
        let body = cut.manager.lock("order:42").run(async |_| {
            cut.proxy.cut_before_reply_to("order:42");
            "done"
        });
        assert_eq!(soon(body).await, Ok("done"));
        assert!(!cut.proxy.is_trap_set(), "there was a cut");
        cut.assert_free().await;
    }

    /// The request never arrives, the connection breaks: it is repeated over another one.
    #[tokio::test]
    async fn requests_that_were_cut_off_are_repeated() {
        let cut = Cut::start().await;
        cut.proxy.cut_before_request("order:42");
        let guard = soon(cut.manager.lock("order:42").acquire()).await.unwrap();
        cut.proxy.cut_before_request("order:42");
        soon(guard.release()).await.unwrap();
        cut.assert_free().await;
    }

    /// A15: a peer that vanished without a word.
    #[tokio::test]
    async fn a_waiter_survives_a_connection_that_went_silent() {
        let cut = Cut::start().await;
        let holder = soon(cut.other.lock("order:42").acquire()).await.unwrap();
        let key = OneKey::new(cut.env.store().await, "order:42");
        let waiter = cut.manager.lock("order:42").wait(LIMIT);
        let waiter = tokio::spawn(waiter.acquire());
        key.until_waiting(1).await;
        cut.proxy.freeze();
        soon(holder.release()).await.unwrap();
        cut.proxy.cut();
        cut.proxy.thaw();
        let guard = soon(waiter).await.unwrap().unwrap();
        soon(guard.release()).await.unwrap();
        cut.assert_free().await;
    }

    /// The real client library: a dropped future may have been sent, or not.
    #[tokio::test]
    async fn an_acquisition_dropped_anywhere_leaves_nothing() {
        let env = Redis::start().await;
        let managers = [env.manager().await, env.manager().await];
        let mut keys = 0;
        let awaits = at_every_await(async |polls, drops| {
            keys += 1;
            let key = format!("order:{keys}");
            let outcome = poll(managers[0].lock(&key).acquire(), polls, drops).await;
            let finished = matches!(outcome, Polled::Finished(Ok(_)));
            drop(outcome);
            let guard = soon(managers[1].lock(&key).acquire()).await.unwrap();
            soon(guard.release()).await.unwrap();
            env.assert_clean(keys, &[&managers[0], &managers[1]]).await;
            finished
        })
        .await;
        assert!(awaits >= 2, "{awaits}");
    }

    /// B2: whoever is dropped at an unknown moment always sends the release.
    #[tokio::test]
    async fn acquisitions_dropped_at_any_time_leave_nothing() {
        let env = Redis::start().await;
        let manager = env.manager().await;
        for round in 0..200_u64 {
            let lock = manager.lock(format!("order:{}", round % 7)).acquire();
            let pause = sleep(Duration::from_micros(round * 17 % 1000));
            tokio::select! {
                guard = lock => drop(guard.unwrap()),
                () = pause => {}
            }
        }
        env.assert_clean(7, &[&manager]).await;
    }
}
