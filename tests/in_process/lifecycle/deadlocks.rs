//! Tasks that would wait for themselves.

use std::time::Duration;

use dlock::{LockError, LockManager, Wait, distributed_lock};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    runtime,
    sync::Barrier,
    task::{JoinSet, LocalSet, spawn_local},
    time::{Instant, sleep, timeout},
};

use crate::lifecycle::{assert_clean, memory};

#[tokio::test(start_paused = true)]
async fn of_a_task_with_itself_are_refused_at_once() {
    let (store, manager) = memory();
    let before = Instant::now();
    let outer = manager.lock("order:42").run(async |_| {
        let lock = manager.lock("order:42").wait(Wait::Forever);
        let error = lock.clone().run(async |_| ()).await.unwrap_err();
        assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`order:42`") && text.contains("Lease"),
            "{text}"
        );
        let deeper = manager.lock("order:7").run(async |_| lock.acquire().await);
        assert!(matches!(
            deeper.await,
            Ok(Err(LockError::WouldDeadlock { .. }))
        ));
        // Another key, or the same in another store, is no matter.
        manager.lock("order:1").run(async |_| ()).await.unwrap();
        LockManager::memory()
            .lock("order:42")
            .run(async |_| ())
            .await
            .unwrap();
    });
    outer.await.unwrap();
    assert!(before.elapsed().is_zero());
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn of_locked_functions_are_refused_too() {
    #[distributed_lock(key = "order:<id>", manager = locks)]
    async fn outer(locks: &LockManager, id: u32) -> Result<(), LockError> {
        inner(locks, id).await
    }

    #[distributed_lock(key = "order:<order>", manager = locks)]
    async fn inner(locks: &LockManager, order: u32) -> Result<(), LockError> {
        Ok(())
    }

    let (store, manager) = memory();
    let outcome = outer(&manager, 42).await;
    assert!(
        matches!(outcome, Err(LockError::WouldDeadlock { .. })),
        "{outcome:?}"
    );
    inner(&manager, 42).await.unwrap();
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn are_not_seen_in_tasks_that_wait_their_turn() {
    let (store, manager) = memory();
    let (mut tasks, child) = (JoinSet::new(), manager.lock("order:42").wait(Wait::Forever));
    let parent = manager.lock("order:42").run(async |_| {
        tasks.spawn(child.run(async |_| "my turn"));
        sleep(Duration::from_secs(3)).await;
        assert!(
            tasks.try_join_next().is_none(),
            "broken promise: two are inside"
        );
    });
    parent.await.unwrap();
    let child = tasks.join_next().await.expect("it is there");
    assert_eq!(child.unwrap(), Ok("my turn"));
    assert_clean(&store, &manager).await;
}

#[tokio::test(start_paused = true)]
async fn are_not_seen_in_two_sections_that_one_task_joins() {
    let (store, manager) = memory();
    let section = || {
        manager.lock("order:42").run(async |_| {
            sleep(Duration::from_secs(1)).await;
        })
    };
    let (one, two) = tokio::join!(section(), section());
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert_clean(&store, &manager).await;
}

// H2
/// A task of its own waits its turn, and here that never comes: its wait ends that.
#[tokio::test(start_paused = true)]
async fn with_a_task_that_is_waited_for_end_with_its_wait() {
    let wait = Duration::from_secs(3);
    let (store, manager) = memory();
    let child = manager.lock("order:42").wait(wait);
    let before = Instant::now();
    let parent = manager.lock("order:42").run(async |lease| {
        let child = tokio::spawn(child.run(async |_| panic!("broken promise: two at once")));
        let outcome = child.await.unwrap();
        lease.ensure_held().unwrap();
        outcome
    });
    let error = parent.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert_eq!(before.elapsed(), wait);
    assert_clean(&store, &manager).await;
}

/// Two functions that nest the same locks in opposite orders. Each has its outer lock when the other one asks for it.
struct Nested {
    locks: LockManager,
    have_outer: Barrier,
}

const LONG: Duration = Duration::from_secs(3600);

impl Nested {
    #[distributed_lock(key = "order:1", manager = self.locks, max_hold = max_hold)]
    async fn order_first(&self, wait: Wait, max_hold: Duration) -> Result<(), LockError> {
        self.have_outer.wait().await;
        self.locks
            .lock("stock:7")
            .wait(wait)
            .run(async |_| ())
            .await
    }

    #[distributed_lock(key = "stock:7", manager = self.locks)]
    async fn stock_first(&self, wait: Wait) -> Result<(), LockError> {
        self.have_outer.wait().await;
        self.locks
            .lock("order:1")
            .wait(wait)
            .run(async |_| ())
            .await
    }

    #[distributed_lock(key = ["order:1", "stock:7"], manager = self.locks)]
    async fn order_and_stock(&self) -> Result<(), LockError> {
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    #[distributed_lock(key = ["stock:7", "order:1"], manager = self.locks)]
    async fn stock_and_order(&self) -> Result<(), LockError> {
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn of_nested_calls_last_until_a_wait_or_a_max_hold_ends() {
    let (store, locks) = memory();
    let (manager, have_outer) = (locks.clone(), Barrier::new(2));
    let nested = Nested { locks, have_outer };
    let (short, long) = (Duration::from_secs(2), Duration::from_secs(60));

    let before = Instant::now();
    let (order, stock) = tokio::join!(
        nested.order_first(long.into(), LONG),
        nested.stock_first(short.into())
    );
    let stock = stock.unwrap_err();
    assert!(stock.is_busy(), "{stock}");
    assert_eq!((order, before.elapsed()), (Ok(()), short));

    let both = async {
        tokio::join!(
            nested.order_first(Wait::Forever, LONG * 20),
            nested.stock_first(Wait::Forever)
        )
    };
    let waited = timeout(LONG, both).await;
    assert!(waited.is_err(), "{waited:?}");

    let (order, stock) = tokio::join!(
        nested.order_first(Wait::Forever, short),
        nested.stock_first(Wait::Forever)
    );
    let order = order.unwrap_err();
    assert!(matches!(order, LockError::Lost { .. }), "{order}");
    assert_eq!(stock, Ok(()));

    // In one call, the order does not matter.
    let both = tokio::join!(nested.order_and_stock(), nested.stock_and_order());
    assert_eq!(both, (Ok(()), Ok(())));
    assert_clean(&store, &manager).await;
}

/// Whether somebody who wants `order:42` here would wait for himself.
async fn would_deadlock(manager: &LockManager) -> bool {
    let asked = manager.lock("order:42").wait(Wait::Never).acquire().await;
    let error = asked.expect_err("it is held");
    assert!(
        error.is_busy() || matches!(error, LockError::WouldDeadlock { .. }),
        "{error}"
    );
    !error.is_busy()
}

/// What a body does, wherever it is polled.
async fn is_seen_in_what_it_awaits(manager: &LockManager) {
    let body = manager.lock("order:42").run(async |_| {
        assert!(would_deadlock(manager).await, "in place");
        let (one, other) = tokio::join!(would_deadlock(manager), async {
            tokio::task::yield_now().await;
            would_deadlock(manager).await
        });
        assert!(one && other, "joined");
        let mut some: FuturesUnordered<_> = (0..2).map(|_| would_deadlock(manager)).collect();
        while let Some(seen) = some.next().await {
            assert!(seen, "in a set of futures");
        }
    });
    body.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn are_seen_in_whatever_a_body_awaits_in_place() {
    let (store, manager) = memory();
    is_seen_in_what_it_awaits(&manager).await;
    let in_a_task = manager.clone();
    tokio::spawn(async move { is_seen_in_what_it_awaits(&in_a_task).await })
        .await
        .unwrap();
    let (set, in_a_set) = (LocalSet::new(), manager.clone());
    set.run_until(async {
        is_seen_in_what_it_awaits(&manager).await;
        spawn_local(async move { is_seen_in_what_it_awaits(&in_a_set).await })
            .await
            .unwrap();
    })
    .await;
    assert_clean(&store, &manager).await;
}

/// It polls them, but they are tasks of their own, which go on when it has ended.
#[tokio::test(start_paused = true)]
async fn are_not_seen_in_tasks_of_a_local_set_that_a_body_drives() {
    let (store, manager) = memory();
    // In no task, and in one.
    drive_a_local_set(&manager).await;
    let set = LocalSet::new();
    let in_a_task = manager.clone();
    set.run_until(async {
        let task = spawn_local(async move { drive_a_local_set(&in_a_task).await });
        task.await.unwrap();
    })
    .await;
    assert_clean(&store, &manager).await;
}

async fn drive_a_local_set(manager: &LockManager) {
    let set = LocalSet::new();
    let (one, other) = (manager.clone(), manager.clone());
    let task = set.spawn_local(async move { would_deadlock(&one).await });
    let last = set.spawn_local(async move {
        let lock = other.lock("order:42").wait(Wait::Forever);
        lock.run(async |_| "my turn").await
    });
    let body = manager.lock("order:42").run(async |_| {
        set.run_until(async {
            assert!(!task.await.unwrap(), "it waits for nobody who waits for it");
            assert!(would_deadlock(manager).await, "the body itself does");
        })
        .await;
    });
    body.await.unwrap();
    set.await;
    assert_eq!(last.await.unwrap(), Ok("my turn"));
}

/// A body that no runtime polls as a task.
#[test]
fn are_seen_outside_of_tasks() {
    let (_, manager) = memory();
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(is_seen_in_what_it_awaits(&manager));
    runtime.block_on(drive_a_local_set(&manager));
}
