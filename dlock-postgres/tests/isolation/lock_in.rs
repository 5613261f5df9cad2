//! Locks that end with a transaction, at each isolation level.

use std::time::Duration;

use dlock_postgres::FenceError;
use dlock_runtime::LockManager;
use dlock_testkit::eventually;

use super::{DEADLINE, Driver, Level, Transaction, begin, is_free};

pub(crate) async fn a_commit_ends_the_lock_at_once<D: Driver>() {
    for level in Level::ALL {
        let database = D::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let mut connection = database.connection().await;
        let mut tx = D::begin(&mut connection, level).await;
        tx.lock_in(one.lock("account:7")).await.unwrap();
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free while a transaction holds it: {level:?}"
        );
        // Longer than its lease: the transaction holds it.
        let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
        let is_over = async || database.number(over).await == 1;
        eventually(DEADLINE, "the lease ends", is_over).await;
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free while a transaction holds it: {level:?}"
        );
        tx.commit().await;
        assert!(is_free(&other, "account:7").await, "{level:?}");
        assert_eq!(one.active_keys(), 0);
    }
}

pub(crate) async fn a_roll_back_ends_the_lock_with_its_lease<D: Driver>() {
    let database = D::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut connection = database.connection().await;
    let mut tx = D::begin(&mut connection, Level::ReadCommitted).await;
    tx.lock_in(one.lock("account:7")).await.unwrap();
    tx.roll_back().await;
    let next = other.lock("account:7").wait(DEADLINE).acquire().await;
    next.unwrap().release().await.unwrap();
}

pub(crate) async fn a_lease_and_a_transaction_exclude_each_other<D: Driver>() {
    let database = D::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let mut connection = database.connection().await;
    let mut tx = D::begin(&mut connection, Level::ReadCommitted).await;
    let busy = tx
        .lock_in(other.lock("account:7").wait(Duration::ZERO))
        .await;
    assert!(matches!(busy, Err(FenceError::Lock(_))), "{busy:?}");
    guard.release().await.unwrap();
    let first = tx.lock_in(other.lock("account:7")).await.unwrap();
    tx.commit().await;
    let guard = one.lock("account:7").acquire().await.unwrap();
    assert!(
        guard.fencing_token() > first,
        "broken promise: the token did not grow"
    );
    guard.release().await.unwrap();
}

pub(crate) async fn the_options_of_a_lease_do_not_apply<D: Driver>() {
    let database = D::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut connection = database.connection().await;
    let (long, instant) = (Duration::from_secs(4000), Duration::from_millis(1));
    let request = one.lock("account:7").ttl(long).renew(true);
    for request in [
        request.clone().min_hold(long),
        request.max_hold(instant).min_hold(instant),
    ] {
        let mut tx = D::begin(&mut connection, Level::ReadCommitted).await;
        tx.lock_in(request).await.unwrap();
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free while a transaction holds it"
        );
        tx.commit().await;
        assert!(is_free(&other, "account:7").await);
    }
}

pub(crate) async fn an_older_snapshot_is_refused<D: Driver>() {
    for level in Level::ALL {
        let database = D::new().await;
        let manager = database.manager().await;
        let mut connection = database.connection().await;
        let mut tx = begin::<D>(&mut connection, level).await;
        let locked = tx.lock_in(manager.lock("account:7")).await;
        if level == Level::ReadCommitted {
            locked.unwrap();
        } else {
            assert!(
                matches!(locked, Err(FenceError::NotHeld { .. })),
                "{locked:?}"
            );
        }
        tx.roll_back().await;
    }
}

pub(crate) async fn several_keys_end_with_one_transaction_whatever_its_search_path_is<D: Driver>() {
    let database = D::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut connection = database.connection().await;
    let keys = ["account:9", "account:7"];
    database.execute("CREATE SCHEMA mine").await;
    let min = "CREATE FUNCTION mine.min(text) RETURNS text LANGUAGE sql AS 'SELECT NULL'";
    database.execute(min).await;
    let mut tx = D::begin(&mut connection, Level::ReadCommitted).await;
    tx.execute("SET LOCAL search_path = mine, pg_catalog").await;
    tx.lock_in(one.lock_all(keys)).await.unwrap();
    for key in keys {
        assert!(
            !is_free(&other, key).await,
            "broken promise: the key is free while a transaction holds it: {key}"
        );
    }
    tx.commit().await;
    for key in keys {
        assert!(is_free(&other, key).await, "{key}");
    }
}

pub(crate) async fn a_lock_of_another_store_is_refused_by_name_and_released<D: Driver>() {
    let database = D::new().await;
    let memory = LockManager::memory();
    let mut connection = database.connection().await;
    let mut tx = D::begin(&mut connection, Level::ReadCommitted).await;
    let refused = tx.lock_in(memory.lock("account:7")).await;
    let Err(FenceError::OtherStore { key }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(key.as_str(), "account:7");
    let is_released = async || is_free(&memory, "account:7").await;
    eventually(DEADLINE, "it is released", is_released).await;
    tx.roll_back().await;
}

/// Makes a test of each case for a driver.
macro_rules! cases_of_lock_in {
    ($driver:ident) => {
        crate::isolation::cases! { $driver, lock_in:
            a_commit_ends_the_lock_at_once,
            a_roll_back_ends_the_lock_with_its_lease,
            a_lease_and_a_transaction_exclude_each_other,
            the_options_of_a_lease_do_not_apply,
            an_older_snapshot_is_refused,
            several_keys_end_with_one_transaction_whatever_its_search_path_is,
            a_lock_of_another_store_is_refused_by_name_and_released,
        }
    };
}
pub(crate) use cases_of_lock_in;
