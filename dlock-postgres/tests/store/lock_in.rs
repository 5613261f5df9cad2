//! Locks that end with a transaction.

use std::time::Duration;

use dlock_postgres::{Adoption, FenceError, lock_in};
use dlock_testkit::eventually;

use crate::database::{DEADLINE, Database, LEVELS, begin, begin_without_snapshot};

#[tokio::test]
async fn a_commit_ends_the_lock_at_once() {
    for level in LEVELS {
        let database = Database::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let mut client = database.client().await;
        let tx = begin_without_snapshot(&mut client, level).await;
        lock_in(one.lock("account:7"), &tx).await.unwrap();
        assert!(
            other
                .lock("account:7")
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        // Longer than its lease: the transaction holds it.
        let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
        eventually(DEADLINE, "the lease ends", async || {
            database.number(over).await == 1
        })
        .await;
        assert!(
            other
                .lock("account:7")
                .try_acquire()
                .await
                .unwrap()
                .is_none(),
            "{level:?}"
        );
        tx.commit().await.unwrap();
        let next = other.lock("account:7").try_acquire().await.unwrap();
        next.expect("the transaction has ended")
            .release()
            .await
            .unwrap();
        assert_eq!(one.active_keys(), 0);
    }
}

#[tokio::test]
async fn a_roll_back_ends_the_lock_with_its_lease() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut client = database.client().await;
    let tx = begin_without_snapshot(&mut client, LEVELS[0]).await;
    lock_in(one.lock("account:7"), &tx).await.unwrap();
    tx.rollback().await.unwrap();
    let next = other
        .lock("account:7")
        .wait(DEADLINE)
        .acquire()
        .await
        .unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_and_a_transaction_exclude_each_other() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let mut client = database.client().await;
    let tx = begin_without_snapshot(&mut client, LEVELS[0]).await;
    let busy = lock_in(other.lock("account:7").wait(Duration::ZERO), &tx).await;
    assert!(matches!(busy, Err(FenceError::Lock(_))), "{busy:?}");
    guard.release().await.unwrap();
    let first = lock_in(other.lock("account:7"), &tx).await.unwrap();
    tx.commit().await.unwrap();
    let guard = one.lock("account:7").acquire().await.unwrap();
    assert!(guard.fencing_token() > first);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_options_of_a_lease_do_not_apply() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut client = database.client().await;
    let (hour, instant) = (Duration::from_secs(3600), Duration::from_millis(1));
    let request = one.lock("account:7").ttl(hour).renew(true);
    for request in [
        request.clone().min_hold(hour),
        request.max_hold(instant).min_hold(instant),
    ] {
        let tx = begin_without_snapshot(&mut client, LEVELS[0]).await;
        lock_in(request, &tx).await.unwrap();
        let early = other.lock("account:7").try_acquire().await.unwrap();
        assert!(early.is_none(), "the transaction has the lock");
        tx.commit().await.unwrap();
        let next = other.lock("account:7").try_acquire().await.unwrap();
        let next = next.expect("the transaction has ended");
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_no_transaction_adopts_is_released_whatever_its_min_hold_is() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let request = manager.lock("account:7").min_hold(Duration::from_secs(2));
    let adoption: Result<_, FenceError> = Adoption::acquire(request).await;
    let held = "SELECT count(*) FROM dlock.holder";
    assert_eq!(database.number(held).await, 1);
    drop(adoption.unwrap());
    // The row of a lease that has ended by time would still be there.
    let is_released = async || database.number(held).await == 0;
    eventually(DEADLINE, "the lock is released", is_released).await;
}

#[tokio::test]
async fn an_older_snapshot_is_refused() {
    for level in LEVELS {
        let database = Database::new().await;
        let manager = database.manager().await;
        let mut client = database.client().await;
        let tx = begin(&mut client, level).await;
        let locked = lock_in(manager.lock("account:7"), &tx).await;
        match level {
            tokio_postgres::IsolationLevel::ReadCommitted => drop(locked.unwrap()),
            _ => assert!(
                matches!(locked, Err(FenceError::NotHeld { .. })),
                "{locked:?}"
            ),
        }
    }
}

#[tokio::test]
async fn several_keys_end_with_one_transaction_whatever_its_search_path_is() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let mut client = database.client().await;
    let keys = ["account:9", "account:7"];
    let tx = begin_without_snapshot(&mut client, LEVELS[0]).await;
    let path = "CREATE SCHEMA mine; CREATE FUNCTION mine.min(text) RETURNS text LANGUAGE sql AS 'SELECT NULL'; \
                SET LOCAL search_path = mine, pg_catalog";
    tx.batch_execute(path).await.unwrap();
    lock_in(one.lock_all(keys), &tx).await.unwrap();
    for key in keys {
        let next = other.lock(key).try_acquire().await.unwrap();
        assert!(next.is_none(), "{key}");
    }
    tx.commit().await.unwrap();
    let next = other.lock_all(keys).try_acquire().await.unwrap();
    next.expect("the transaction has ended")
        .release()
        .await
        .unwrap();
}
