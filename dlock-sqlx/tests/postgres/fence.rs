//! `fence` at each isolation level: what it finds, and what no process can do before the transaction has ended.

use dlock_runtime::{LockError, LockManager, OnLost};
use dlock_sqlx::{Fence, FenceError};
use dlock_testkit::eventually;
use sqlx::Connection;

use crate::database::{DEADLINE, Database, LEVELS, is_free};

fn code(error: &FenceError) -> Option<String> {
    let FenceError::Database(error) = error else {
        return None;
    };
    let error = error.as_database_error()?;
    error.code().map(Into::into)
}

#[tokio::test]
async fn no_process_gets_the_key_before_the_commit_even_when_the_lease_has_ended() {
    for level in LEVELS {
        let database = Database::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
        let mut tx = database.begin(level).await;
        guard.fence(&mut tx).await.unwrap();
        database.end_lease("account:7").await;
        assert!(!is_free(&other, "account:7").await, "{level}");
        let spend = sqlx::query("UPDATE account SET cents = 0 WHERE id = 7");
        spend.execute(&mut *tx).await.unwrap();
        assert!(!is_free(&other, "account:7").await, "{level}");
        tx.commit().await.unwrap();
        assert!(is_free(&other, "account:7").await, "{level}");
    }
}

#[tokio::test]
async fn a_lease_that_was_lost_before_is_not_found() {
    for level in LEVELS {
        let database = Database::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let late = one.lock("account:7").renew(false).acquire().await.unwrap();
        database.end_lease("account:7").await;
        let next = other.lock("account:7").acquire().await.unwrap();
        let mut tx = database.begin(level).await;
        let refused = late.fence(&mut tx).await.unwrap_err();
        assert!(
            matches!(&refused, FenceError::NotHeld { key } if key.as_str() == "account:7"),
            "{level}: {refused:?}"
        );
        let text = refused.to_string();
        assert!(
            text.contains("`account:7`") && text.contains("roll back"),
            "{text}"
        );
        tx.rollback().await.unwrap();
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_that_was_lost_since_the_snapshot_is_not_found_or_cannot_be_serialized() {
    for level in LEVELS {
        let database = Database::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let late = one.lock("account:7").renew(false).acquire().await.unwrap();
        let mut tx = database.begin(level).await;
        database.end_lease("account:7").await;
        let next = other.lock("account:7").acquire().await.unwrap();
        let refused = late.fence(&mut tx).await.unwrap_err();
        if level == LEVELS[0] {
            assert!(matches!(refused, FenceError::NotHeld { .. }), "{refused:?}");
        } else {
            assert_eq!(
                code(&refused).as_deref(),
                Some("40001"),
                "{level}: {refused:?}"
            );
        }
        drop(tx);
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_renewal_since_the_snapshot_changes_nothing() {
    for level in LEVELS {
        let database = Database::new().await;
        let manager = database.manager().await;
        let guard = manager.lock("account:7").acquire().await.unwrap();
        let mut tx = database.begin(level).await;
        let renew = "UPDATE dlock.holder SET ends = ends + interval '1 second'";
        sqlx::query(renew).execute(&database.pool).await.unwrap();
        guard.fence(&mut tx).await.unwrap();
        // And renewals go on beside the transaction.
        sqlx::query(renew).execute(&database.pool).await.unwrap();
        tx.commit().await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_is_older_than_the_snapshot_or_not_found() {
    for level in LEVELS {
        let database = Database::new().await;
        let manager = database.manager().await;
        let mut tx = database.begin(level).await;
        let guard = manager.lock("account:7").acquire().await.unwrap();
        let fenced = guard.fence(&mut tx).await;
        if level == LEVELS[0] {
            fenced.unwrap();
        } else {
            assert!(
                matches!(fenced, Err(FenceError::NotHeld { .. })),
                "{fenced:?}"
            );
        }
        drop(tx);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_release_is_carried_out_after_the_transaction() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let mut tx = database.begin(LEVELS[0]).await;
    guard.fence(&mut tx).await.unwrap();
    guard.release().await.unwrap();
    assert!(!is_free(&other, "account:7").await);
    tx.commit().await.unwrap();
    // Long before the lease would end by itself.
    let next = other.lock("account:7").wait(DEADLINE / 2).acquire().await;
    next.unwrap().release().await.unwrap();
    eventually(DEADLINE, "nothing is left", async || one.active_keys() == 0).await;
}

#[tokio::test]
async fn each_of_several_keys_is_checked() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let keys = ["account:9", "account:7", "account:8"];
    let guard = one.lock_all(keys).renew(false).acquire().await.unwrap();
    let mut tx = database.begin(LEVELS[0]).await;
    guard.fence(&mut tx).await.unwrap();
    for key in keys {
        database.end_lease(key).await;
        assert!(!is_free(&other, key).await, "{key}");
    }
    tx.commit().await.unwrap();
    // Not the first one, neither in the order of the call nor in that of the keys.
    let next = other.lock("account:8").acquire().await.unwrap();
    let mut tx = database.begin(LEVELS[0]).await;
    let refused = guard.fence(&mut tx).await;
    let Err(FenceError::NotHeld { key }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(key.as_str(), "account:8");
    drop(tx);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_the_check_with_it() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
    let mut tx = database.begin(LEVELS[0]).await;
    // One that is released keeps it.
    let mut savepoint = tx.begin().await.unwrap();
    guard.fence(&mut savepoint).await.unwrap();
    savepoint.commit().await.unwrap();
    database.end_lease("account:7").await;
    assert!(!is_free(&other, "account:7").await);
    tx.rollback().await.unwrap();
    assert!(is_free(&other, "account:7").await);

    let guard = one.lock("account:8").renew(false).acquire().await.unwrap();
    let mut tx = database.begin(LEVELS[0]).await;
    let mut savepoint = tx.begin().await.unwrap();
    guard.fence(&mut savepoint).await.unwrap();
    savepoint.rollback().await.unwrap();
    database.end_lease("account:8").await;
    let next = other.lock("account:8").acquire().await.unwrap();
    let refused = guard.fence(&mut tx).await;
    assert!(
        matches!(refused, Err(FenceError::NotHeld { .. })),
        "{refused:?}"
    );
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_lost_or_kept_elsewhere_is_refused_by_name() {
    let database = Database::new().await;
    let mut tx = database.begin(LEVELS[0]).await;

    let memory = LockManager::memory();
    let guard = memory.lock("account:7").acquire().await.unwrap();
    let refused = guard.fence(&mut tx).await.unwrap_err();
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
    let refused = lost.fence(&mut tx).await;
    assert!(
        matches!(refused, Err(FenceError::Lock(LockError::Lost { .. }))),
        "{refused:?}"
    );
    // No statement was sent that the transaction would have refused.
    sqlx::query("SELECT 1").execute(&mut *tx).await.unwrap();
}

#[tokio::test]
async fn a_transaction_of_another_database_is_refused() {
    let (database, other, empty) = (
        Database::new().await,
        Database::new().await,
        Database::empty().await,
    );
    let manager = database.manager().await;
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let mut tx = other.begin(LEVELS[0]).await;
    let refused = guard.fence(&mut tx).await;
    assert!(
        matches!(refused, Err(FenceError::NotHeld { .. })),
        "{refused:?}"
    );
    let mut tx = empty.pool.begin().await.unwrap();
    let refused = guard.fence(&mut tx).await.unwrap_err();
    assert_eq!(code(&refused).as_deref(), Some("3F000"), "{refused:?}");
    guard.release().await.unwrap();
}
