//! Locks that end with a transaction.

use std::time::Duration;

use dlock_runtime::LockManager;
use dlock_sqlx::{FenceError, lock_in};
use dlock_testkit::eventually;

use crate::database::{DEADLINE, Database, LEVELS, is_free};

#[tokio::test]
async fn a_commit_ends_the_lock_at_once() {
    for level in LEVELS {
        let database = Database::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let mut tx = database.pool.begin_with(level).await.unwrap();
        lock_in(one.lock("account:7"), &mut tx).await.unwrap();
        assert!(!is_free(&other, "account:7").await);
        // Longer than its lease: the transaction holds it.
        let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
        let is_over = async || database.number(over).await == 1;
        eventually(DEADLINE, "the lease ends", is_over).await;
        assert!(!is_free(&other, "account:7").await, "{level}");
        tx.commit().await.unwrap();
        assert!(is_free(&other, "account:7").await, "{level}");
        assert_eq!(one.active_keys(), 0);
    }
}

#[tokio::test]
async fn a_roll_back_ends_the_lock_with_its_lease() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut tx = database.pool.begin().await.unwrap();
    lock_in(one.lock("account:7"), &mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let next = other.lock("account:7").wait(DEADLINE).acquire().await;
    next.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lease_and_a_transaction_exclude_each_other() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let mut tx = database.pool.begin().await.unwrap();
    let busy = lock_in(other.lock("account:7").wait(Duration::ZERO), &mut tx).await;
    assert!(matches!(busy, Err(FenceError::Lock(_))), "{busy:?}");
    guard.release().await.unwrap();
    let first = lock_in(other.lock("account:7"), &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let guard = one.lock("account:7").acquire().await.unwrap();
    assert!(guard.fencing_token() > first);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn several_keys_end_with_one_transaction() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let keys = ["account:9", "account:7"];
    let mut tx = database.pool.begin().await.unwrap();
    lock_in(one.lock_all(keys), &mut tx).await.unwrap();
    for key in keys {
        assert!(!is_free(&other, key).await, "{key}");
    }
    tx.commit().await.unwrap();
    for key in keys {
        assert!(is_free(&other, key).await, "{key}");
    }
}

#[tokio::test]
async fn the_options_of_a_lease_do_not_apply() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let (hour, instant) = (Duration::from_secs(3600), Duration::from_millis(1));
    let request = one.lock("account:7").ttl(hour).renew(true);
    for request in [
        request.clone().min_hold(hour),
        request.max_hold(instant).min_hold(instant),
    ] {
        let mut tx = database.pool.begin().await.unwrap();
        lock_in(request, &mut tx).await.unwrap();
        assert!(!is_free(&other, "account:7").await);
        tx.commit().await.unwrap();
        assert!(is_free(&other, "account:7").await);
    }
}

#[tokio::test]
async fn an_older_snapshot_is_refused() {
    for level in LEVELS {
        let database = Database::new().await;
        let manager = database.manager().await;
        let mut tx = database.begin(level).await;
        let locked = lock_in(manager.lock("account:7"), &mut tx).await;
        if level == LEVELS[0] {
            locked.unwrap();
        } else {
            assert!(
                matches!(locked, Err(FenceError::NotHeld { .. })),
                "{locked:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_lock_of_another_store_is_refused_by_name_and_released() {
    let database = Database::new().await;
    let memory = LockManager::memory();
    let mut tx = database.pool.begin().await.unwrap();
    let refused = lock_in(memory.lock("account:7"), &mut tx).await;
    let Err(FenceError::OtherStore { key }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(key.as_str(), "account:7");
    let is_released = async || is_free(&memory, "account:7").await;
    eventually(DEADLINE, "it is released", is_released).await;
}
