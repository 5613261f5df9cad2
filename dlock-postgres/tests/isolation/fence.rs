//! `fence` at each isolation level: what it finds, and what no process can do before the transaction has ended.

use dlock_postgres::FenceError;
use dlock_runtime::{LockError, LockManager, OnLost};
use dlock_testkit::eventually;

use super::{DEADLINE, Driver, Level, Transaction, begin, is_free};

pub(crate) async fn nobody_gets_the_key_before_the_commit_even_when_the_lease_has_ended<
    D: Driver,
>() {
    for level in Level::ALL {
        let database = D::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
        let mut connection = database.connection().await;
        let mut tx = begin::<D>(&mut connection, level).await;
        tx.fence(&guard).await.unwrap();
        database.end_lease("account:7").await;
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free beside a transaction that relies on it: {level:?}"
        );
        tx.execute("UPDATE account SET cents = 0 WHERE id = 7")
            .await;
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free beside a transaction that relies on it: {level:?}"
        );
        tx.commit().await;
        assert!(is_free(&other, "account:7").await, "{level:?}");
    }
}

pub(crate) async fn a_lease_that_was_lost_before_is_not_found<D: Driver>() {
    for level in Level::ALL {
        let database = D::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let late = one.lock("account:7").renew(false).acquire().await.unwrap();
        database.end_lease("account:7").await;
        let next = other.lock("account:7").acquire().await.unwrap();
        let mut connection = database.connection().await;
        let mut tx = begin::<D>(&mut connection, level).await;
        let refused = tx.fence(&late).await;
        let refused = refused.expect_err("broken promise: a late transaction was accepted");
        assert!(
            matches!(&refused, FenceError::NotHeld { key } if key.as_str() == "account:7"),
            "{level:?}: {refused:?}"
        );
        let text = refused.to_string();
        assert!(
            text.contains("`account:7`") && text.contains("roll back"),
            "{text}"
        );
        tx.roll_back().await;
        next.release().await.unwrap();
    }
}

pub(crate) async fn a_lease_that_was_lost_since_the_snapshot_is_not_found_or_cannot_be_serialized<
    D: Driver,
>() {
    for level in Level::ALL {
        let database = D::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let late = one.lock("account:7").renew(false).acquire().await.unwrap();
        let mut connection = database.connection().await;
        let mut tx = begin::<D>(&mut connection, level).await;
        database.end_lease("account:7").await;
        let next = other.lock("account:7").acquire().await.unwrap();
        let refused = tx.fence(&late).await;
        let refused = refused.expect_err("broken promise: a late transaction was accepted");
        match (level, &refused) {
            (Level::ReadCommitted, FenceError::NotHeld { .. }) => {}
            (Level::RepeatableRead | Level::Serializable, FenceError::Database(error)) => {
                assert_eq!(
                    D::code(error).as_deref(),
                    Some("40001"),
                    "{level:?}: {refused:?}"
                );
            }
            _ => panic!("{level:?}: {refused:?}"),
        }
        tx.roll_back().await;
        next.release().await.unwrap();
    }
}

pub(crate) async fn a_renewal_since_the_snapshot_changes_nothing<D: Driver>() {
    for level in Level::ALL {
        let database = D::new().await;
        let manager = database.manager().await;
        let guard = manager.lock("account:7").acquire().await.unwrap();
        let mut connection = database.connection().await;
        let mut tx = begin::<D>(&mut connection, level).await;
        let renew = "UPDATE dlock.holder SET ends = ends + interval '1 second'";
        database.execute(renew).await;
        tx.fence(&guard).await.unwrap();
        // And renewals go on beside the transaction.
        database.execute(renew).await;
        tx.commit().await;
        guard.release().await.unwrap();
    }
}

pub(crate) async fn a_lease_is_older_than_the_snapshot_or_not_found<D: Driver>() {
    for level in Level::ALL {
        let database = D::new().await;
        let manager = database.manager().await;
        let mut connection = database.connection().await;
        let mut tx = begin::<D>(&mut connection, level).await;
        let guard = manager.lock("account:7").acquire().await.unwrap();
        let fenced = tx.fence(&guard).await;
        if level == Level::ReadCommitted {
            fenced.unwrap();
        } else {
            assert!(
                matches!(fenced, Err(FenceError::NotHeld { .. })),
                "broken promise: a late transaction was accepted: {fenced:?}"
            );
        }
        tx.roll_back().await;
        guard.release().await.unwrap();
    }
}

pub(crate) async fn a_release_is_carried_out_after_the_transaction<D: Driver>() {
    let database = D::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let mut connection = database.connection().await;
    let mut tx = begin::<D>(&mut connection, Level::ReadCommitted).await;
    tx.fence(&guard).await.unwrap();
    guard.release().await.unwrap();
    assert!(
        !is_free(&other, "account:7").await,
        "broken promise: the key is free beside a transaction that relies on it"
    );
    tx.commit().await;
    // Long before the lease would end by itself.
    let next = other.lock("account:7").wait(DEADLINE / 2).acquire().await;
    next.unwrap().release().await.unwrap();
    eventually(DEADLINE, "nothing is left", async || one.active_keys() == 0).await;
}

pub(crate) async fn each_of_several_keys_is_checked<D: Driver>() {
    let database = D::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let keys = ["account:9", "account:7", "account:8"];
    let guard = one.lock_all(keys).renew(false).acquire().await.unwrap();
    let mut connection = database.connection().await;
    let mut tx = begin::<D>(&mut connection, Level::ReadCommitted).await;
    tx.fence(&guard).await.unwrap();
    for key in keys {
        database.end_lease(key).await;
        assert!(
            !is_free(&other, key).await,
            "broken promise: the key is free beside a transaction that relies on it: {key}"
        );
    }
    tx.commit().await;
    // Not the first one, neither in the order of the call nor in that of the keys.
    let next = other.lock("account:8").acquire().await.unwrap();
    let mut tx = begin::<D>(&mut connection, Level::ReadCommitted).await;
    let refused = tx.fence(&guard).await;
    let Err(FenceError::NotHeld { key }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(key.as_str(), "account:8");
    tx.roll_back().await;
    next.release().await.unwrap();
}

pub(crate) async fn a_lease_that_is_lost_or_kept_elsewhere_is_refused_by_name<D: Driver>() {
    let database = D::new().await;
    let mut connection = database.connection().await;
    let mut tx = begin::<D>(&mut connection, Level::ReadCommitted).await;

    let memory = LockManager::memory();
    let guard = memory.lock("account:7").acquire().await.unwrap();
    let refused = tx.fence(&guard).await.unwrap_err();
    assert!(
        matches!(refused, FenceError::OtherStore { .. }),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("`account:7`") && text.contains("`postgres://`"),
        "{text}"
    );
    guard.release().await.unwrap();

    let manager = database.manager().await;
    let request = manager.lock("account:7").on_lost(OnLost::Finish);
    let lost = request.acquire().await.unwrap();
    manager.shutdown(std::time::Duration::ZERO).await;
    let refused = tx.fence(&lost).await;
    assert!(
        matches!(refused, Err(FenceError::Lock(LockError::Lost { .. }))),
        "{refused:?}"
    );
    // No statement was sent that the transaction would have refused.
    tx.execute("SELECT 1").await;
    tx.roll_back().await;
}

/// Makes a test of each case for a driver.
macro_rules! cases_of_fence {
    ($driver:ident) => {
        crate::isolation::cases! { $driver, fence:
            nobody_gets_the_key_before_the_commit_even_when_the_lease_has_ended,
            a_lease_that_was_lost_before_is_not_found,
            a_lease_that_was_lost_since_the_snapshot_is_not_found_or_cannot_be_serialized,
            a_renewal_since_the_snapshot_changes_nothing,
            a_lease_is_older_than_the_snapshot_or_not_found,
            a_release_is_carried_out_after_the_transaction,
            each_of_several_keys_is_checked,
            a_lease_that_is_lost_or_kept_elsewhere_is_refused_by_name,
        }
    };
}
pub(crate) use cases_of_fence;
