//! Tasks that would wait for themselves.

use std::time::Duration;

use dlock::{LockError, LockManager, Wait, distributed_lock};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{assert_clean, memory};

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
        assert!(tasks.try_join_next().is_none());
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
        let child = tokio::spawn(child.run(async |_| panic!("two at once")));
        let outcome = child.await.unwrap();
        lease.ensure().unwrap();
        outcome
    });
    let error = parent.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert_eq!(before.elapsed(), wait);
    assert_clean(&store, &manager).await;
}
