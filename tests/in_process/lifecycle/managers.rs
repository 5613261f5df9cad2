//! Which manager a locked function uses.

use dlock::{
    AlreadyInstalled, LockError, LockManager, ShutdownReport, distributed_lock, with_manager,
};

use tokio::{sync::Barrier, task::yield_now};

use crate::lifecycle::{TTL, assert_clean, hold, memory};

#[distributed_lock(key = "order:<id>", wait = never)]
async fn settle(id: u32) -> Result<i64, LockError> {
    Ok(i64::from(id))
}

/// One test, since there is one installed manager in a process.
#[tokio::test]
async fn none_is_used_before_one_is_installed_and_only_one_can_be() {
    assert!(dlock::installed().is_none());
    let error = settle(42).await.unwrap_err();
    assert!(matches!(error, LockError::NotInstalled { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("`order:42`") && text.contains("dlock::install"),
        "{text}"
    );
    // There is nothing to shut down.
    assert_eq!(dlock::shutdown(TTL).await, ShutdownReport::default());

    let (store, manager) = memory();
    dlock::install(manager.clone()).unwrap();
    let second: AlreadyInstalled = dlock::install(LockManager::memory()).unwrap_err();
    assert!(second.to_string().contains("with_manager"));
    assert_eq!(settle(42).await, Ok(42));

    let guard = hold(&manager, "order:42").await;
    assert!(
        settle(42).await.unwrap_err().is_busy(),
        "the first one stays"
    );
    let tenant = LockManager::memory();
    assert_eq!(with_manager(tenant, settle(42)).await, Ok(42));
    guard.release().await.unwrap();

    dlock::shutdown(TTL).await;
    assert!(matches!(settle(42).await, Err(LockError::Closed { .. })));
    assert_clean(&store, &manager).await;
}

#[tokio::test]
async fn the_innermost_one_in_scope_is_used() {
    let [outer, inner] = [LockManager::memory(), LockManager::memory()];
    let (held_outside, held_inside) =
        (hold(&outer, "order:1").await, hold(&inner, "order:2").await);
    with_manager(outer.clone(), async {
        assert!(settle(1).await.unwrap_err().is_busy());
        with_manager(inner.clone(), async {
            assert_eq!(settle(1).await, Ok(1));
            assert!(settle(2).await.unwrap_err().is_busy());
        })
        .await;
        assert!(settle(1).await.unwrap_err().is_busy(), "back outside");
        assert_eq!(settle(2).await, Ok(2));
    })
    .await;
    held_outside.release().await.unwrap();
    held_inside.release().await.unwrap();
}

/// What is awaited beside it in the same task is polled in between.
#[tokio::test]
async fn a_manager_in_scope_is_none_of_those_that_are_awaited_beside_it() {
    // The locks of each are held elsewhere, so that a call tells by its failure which it has used.
    let [one, two] = [LockManager::memory(), LockManager::memory()];
    let guards = [hold(&one, "order:1").await, hold(&two, "order:2").await];
    let in_step = Barrier::new(3);
    let calls = async |busy: u32, free: u32| {
        for _ in 0..3 {
            in_step.wait().await;
            assert!(settle(busy).await.unwrap_err().is_busy());
            in_step.wait().await;
            yield_now().await;
            assert_eq!(settle(free).await, Ok(i64::from(free)));
        }
    };
    // A third manager, as one may be installed for the whole process by another test.
    let beside = LockManager::memory();
    let outer = with_manager(beside, async {
        tokio::join!(
            with_manager(one.clone(), calls(1, 2)),
            async {
                for _ in 0..6 {
                    in_step.wait().await;
                    for id in [1, 2] {
                        assert_eq!(settle(id).await, Ok(i64::from(id)), "neither of theirs");
                    }
                }
            },
            with_manager(two.clone(), calls(2, 1)),
        )
    });
    outer.await;
    for guard in guards {
        guard.release().await.unwrap();
    }
}
