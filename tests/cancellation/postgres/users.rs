//! Users of a lock that panic, shut down, and block their threads.

use std::{
    panic::AssertUnwindSafe,
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use dlock::{LockError, LockManager};
use dlock_testkit::{Polled, eventually};
use futures_util::FutureExt;
use tokio::{runtime::Builder, task::yield_now};

use super::env::Postgres;
use crate::{
    common::{Env, LIMIT, soon},
    driver::{at_every_await, poll},
};

async fn assert_free(env: &Postgres, manager: &LockManager, other: &LockManager, key: &str) {
    let guard = soon(other.lock(key).acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[manager, other]).await;
}

#[tokio::test]
async fn a_body_that_panics_at_any_await_gives_the_lock_back() {
    let env = Postgres::start().await;
    let (manager, other) = (env.manager().await, env.manager().await);
    for (awaits, is_shared) in [(0, false), (1, false), (1, true), (3, false)] {
        let lock = manager.lock("order:42");
        let lock = if is_shared { lock.shared() } else { lock };
        let run = lock.run(async |_| {
            for _ in 0..awaits {
                yield_now().await;
            }
            // Without the hook: this executable counts the panics that nobody catches.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        let panic = soon(AssertUnwindSafe(run).catch_unwind()).await;
        let panic = panic.expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        assert_free(&env, &manager, &other, "order:42").await;
    }
}

#[tokio::test]
async fn a_shutdown_at_any_await_ends_and_leaves_no_row() {
    let env = Postgres::start().await;
    let other = env.manager().await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let manager = env.manager().await;
        let lock = manager.lock("order:42").wait(LIMIT);
        let run = lock.run(async |_| yield_now().await);
        let outcome = soon(poll(run, polls, drops)).await;
        let report = soon(manager.shutdown(LIMIT)).await;
        assert_eq!((report.cut_short, report.unreleased), (0, 0));
        let refused = manager.lock("order:42").acquire().await;
        assert!(matches!(refused, Err(LockError::Closed { .. })));
        assert_free(&env, &manager, &other, "order:42").await;
        matches!(outcome, Polled::Finished(Ok(())))
    })
    .await;
    assert!(parked >= 3 && woken >= 3, "{parked} {woken}");
}

#[tokio::test]
async fn a_shutdown_without_time_ends_a_holder_and_a_waiter() {
    let env = Postgres::start().await;
    let (manager, other) = (env.manager().await, env.manager().await);
    let elsewhere = soon(other.lock("order:42").acquire()).await.unwrap();
    let waiter = tokio::spawn(manager.lock("order:42").wait(LIMIT).acquire());
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let body = manager.lock("order:43").run(async |_| {
        begun.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let body = tokio::spawn(body);
    soon(has_begun).await.unwrap();
    let report = soon(manager.shutdown(Duration::ZERO)).await;
    assert_eq!((report.cut_short, report.unreleased), (1, 0));
    let refused = soon(waiter).await.unwrap();
    assert!(matches!(refused, Err(LockError::Closed { .. })));
    let lost = soon(body).await.unwrap();
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    soon(elsewhere.release()).await.unwrap();
    env.assert_clean(2, &[&manager, &other]).await;
}

#[test]
fn a_body_that_blocks_the_only_worker_for_longer_than_its_lease_keeps_it() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    keeps_its_lease_while_blocked_in(builder);
}

#[test]
fn a_body_that_blocks_the_only_thread_for_longer_than_its_lease_keeps_it() {
    keeps_its_lease_while_blocked_in(Builder::new_current_thread());
}

/// The renewals are those of the thread of dlock: no timer and no task of the blocked runtime goes on.
fn keeps_its_lease_while_blocked_in(mut builder: Builder) {
    // The machine may be busy for seconds.
    const TTL: Duration = Duration::from_secs(12);

    let around = Builder::new_multi_thread().enable_all().build().unwrap();
    let env = around.block_on(Postgres::start());
    let other = around.block_on(env.manager());
    let user = builder.enable_all().build().unwrap();
    let manager = user.block_on(env.manager());
    let (begun, has_begun) = mpsc::channel();
    let (end, is_to_end) = mpsc::channel::<()>();
    let is_to_end = Mutex::new(is_to_end);
    let call = manager.clone();
    let blocked = thread::spawn(move || {
        let run = async move {
            let lock = call.lock("order:42").ttl(TTL);
            lock.run(async |lease| {
                begun.send(Instant::now()).unwrap();
                is_to_end.lock().unwrap().recv().unwrap();
                lease.ensure_held()
            })
            .await
        };
        user.block_on(async { tokio::spawn(run).await.unwrap() })
    });
    let since = has_begun.recv_timeout(LIMIT).unwrap();
    while since.elapsed() < TTL + TTL / 12 {
        let busy = around.block_on(other.lock("order:42").try_acquire());
        assert!(busy.unwrap().is_none(), "broken promise: two hold the key");
        thread::sleep(TTL / 100);
    }
    end.send(()).unwrap();
    assert_eq!(blocked.join().unwrap(), Ok(Ok(())));
    around.block_on(assert_free(&env, &manager, &other, "order:42"));
}

/// The thread of the store sends the releases: nothing else is left that could.
#[test]
fn a_runtime_that_ends_with_its_manager_leaves_no_row() {
    // The rows of a release that is lost stay for longer than is waited for.
    const TTL: Duration = Duration::from_secs(300);
    const LONG: Duration = Duration::from_secs(120);

    let around = Builder::new_multi_thread().enable_all().build().unwrap();
    let env = around.block_on(Postgres::start());
    let other = around.block_on(env.manager());
    let elsewhere = around.block_on(other.lock("order:43").acquire()).unwrap();
    let here = Builder::new_multi_thread().enable_all().build().unwrap();
    let manager = here.block_on(env.manager_with(|it| it.ttl(TTL)));
    let (begun, has_begun) = mpsc::channel();
    for is_shared in [false, true] {
        let lock = manager.lock(if is_shared { "catalog" } else { "order:42" });
        let lock = if is_shared { lock.shared() } else { lock };
        let begun = begun.clone();
        here.spawn(lock.run(async move |_| {
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
    }
    here.spawn(manager.lock("order:43").wait(LIMIT).acquire());
    for _ in 0..2 {
        has_begun.recv_timeout(LIMIT).unwrap();
    }
    around.block_on(eventually(LIMIT, "the third waits", async || {
        env.number("SELECT count(*) FROM dlock.waiter").await == 1
    }));
    drop(here);
    let keys = ["order:42", "order:43", "catalog"].map(str::to_owned);
    around.block_on(async {
        eventually(LONG, "no row is left but that of the other", async || {
            env.rows_of(&keys).await.len() == 1
        })
        .await;
        soon(elsewhere.release()).await.unwrap();
        env.assert_clean(3, &[&manager, &other]).await;
    });
}
