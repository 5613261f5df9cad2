//! `fence` at each isolation level, in savepoints, and in other databases.

use dlock_sqlx::{Fence as _, FenceError};
use sqlx::Connection as _;

use crate::{
    database::{Database, is_free},
    isolation::{Driver as _, fence::cases_of_fence},
};

cases_of_fence! { Database }

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_the_check_with_it() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
    let mut tx = database.begin().await;
    // One that is released keeps it.
    let mut savepoint = tx.begin().await.unwrap();
    guard.fence(&mut savepoint).await.unwrap();
    savepoint.commit().await.unwrap();
    database.end_lease("account:7").await;
    assert!(
        !is_free(&other, "account:7").await,
        "broken promise: the key is free beside a transaction that relies on it"
    );
    tx.rollback().await.unwrap();
    assert!(is_free(&other, "account:7").await);

    let guard = one.lock("account:8").renew(false).acquire().await.unwrap();
    let mut tx = database.begin().await;
    let mut savepoint = tx.begin().await.unwrap();
    guard.fence(&mut savepoint).await.unwrap();
    savepoint.rollback().await.unwrap();
    database.end_lease("account:8").await;
    let next = other.lock("account:8").acquire().await.unwrap();
    let refused = guard.fence(&mut tx).await;
    assert!(
        matches!(refused, Err(FenceError::NotHeld { .. })),
        "broken promise: a late transaction was accepted: {refused:?}"
    );
    next.release().await.unwrap();
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
    let mut tx = other.begin().await;
    let refused = guard.fence(&mut tx).await;
    assert!(
        matches!(refused, Err(FenceError::NotHeld { .. })),
        "broken promise: a late transaction was accepted: {refused:?}"
    );
    let mut tx = empty.pool.begin().await.unwrap();
    let Err(FenceError::Database(error)) = guard.fence(&mut tx).await else {
        panic!("there is no schema");
    };
    assert_eq!(Database::code(&error).as_deref(), Some("3F000"));
    guard.release().await.unwrap();
}
