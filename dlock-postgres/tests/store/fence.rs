//! `fence` at each isolation level: what it finds, and what nobody can do before the transaction has ended.

use dlock_postgres::{Fence, FenceError};
use dlock_runtime::{LockError, LockManager, OnLost};
use dlock_testkit::eventually;

use crate::database::{DEADLINE, Database, LEVELS, begin, begin_without_snapshot};

#[tokio::test]
async fn nobody_gets_the_key_before_the_commit_even_when_the_lease_has_ended() {
    for level in LEVELS {
        let database = Database::new().await;
        let (one, other) = (database.manager().await, database.manager().await);
        let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
        let mut client = database.client().await;
        let tx = begin(&mut client, level).await;
        guard.fence(&tx).await.unwrap();
        database.end_lease("account:7").await;
        assert!(
            other
                .lock("account:7")
                .try_acquire()
                .await
                .unwrap()
                .is_none(),
            "{level:?}"
        );
        tx.execute("UPDATE account SET cents = 0 WHERE id = 7", &[])
            .await
            .unwrap();
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
        let mut client = database.client().await;
        let tx = begin(&mut client, level).await;
        let refused = late.fence(&tx).await;
        assert!(
            matches!(refused, Err(FenceError::NotHeld { .. })),
            "{level:?}: {refused:?}"
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
        let mut client = database.client().await;
        let tx = begin(&mut client, level).await;
        database.end_lease("account:7").await;
        let next = other.lock("account:7").acquire().await.unwrap();
        let refused = late.fence(&tx).await.unwrap_err();
        if matches!(level, tokio_postgres::IsolationLevel::ReadCommitted) {
            assert!(matches!(refused, FenceError::NotHeld { .. }), "{refused:?}");
        } else {
            let FenceError::Database(error) = refused else {
                panic!("{level:?}: {refused:?}");
            };
            assert_eq!(error.code().unwrap().code(), "40001", "{level:?}");
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
        let mut client = database.client().await;
        let tx = begin(&mut client, level).await;
        let renewed = "UPDATE dlock.holder SET ends = ends + interval '1 second'";
        database
            .client()
            .await
            .batch_execute(renewed)
            .await
            .unwrap();
        guard.fence(&tx).await.unwrap();
        // And renewals go on beside the transaction.
        database
            .client()
            .await
            .batch_execute(renewed)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_is_older_than_the_snapshot_or_not_found() {
    for level in LEVELS {
        let database = Database::new().await;
        let manager = database.manager().await;
        let mut client = database.client().await;
        let tx = begin(&mut client, level).await;
        let guard = manager.lock("account:7").acquire().await.unwrap();
        let fenced = guard.fence(&tx).await;
        match level {
            tokio_postgres::IsolationLevel::ReadCommitted => fenced.unwrap(),
            _ => assert!(
                matches!(fenced, Err(FenceError::NotHeld { .. })),
                "{fenced:?}"
            ),
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
    let mut client = database.client().await;
    let tx = begin(&mut client, LEVELS[0]).await;
    guard.fence(&tx).await.unwrap();
    guard.release().await.unwrap();
    assert!(
        other
            .lock("account:7")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    tx.commit().await.unwrap();
    // Long before the lease would end by itself.
    let next = other
        .lock("account:7")
        .wait(DEADLINE / 2)
        .acquire()
        .await
        .unwrap();
    next.release().await.unwrap();
    eventually(DEADLINE, "nothing is left", async || one.active_keys() == 0).await;
}

#[tokio::test]
async fn another_task_of_the_process_does_not_get_a_lease_that_a_transaction_relies_on() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let mut client = database.client().await;
    let tx = begin(&mut client, LEVELS[0]).await;
    guard.fence(&tx).await.unwrap();
    let next = tokio::spawn(manager.lock("account:7").acquire());
    eventually(DEADLINE, "it waits", async || manager.active_keys() == 1).await;
    guard.release().await.unwrap();
    // Not even after a request of its own.
    let asked = "SELECT count(*) FROM dlock.waiter";
    eventually(DEADLINE, "it is in the queue", async || {
        database.number(asked).await == 1
    })
    .await;
    assert!(!next.is_finished());
    tx.commit().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn readers_keep_writers_out_until_each_has_committed() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let readers = [
        one.lock("catalog").shared().acquire().await.unwrap(),
        other.lock("catalog").shared().acquire().await.unwrap(),
    ];
    let mut clients = [database.client().await, database.client().await];
    let mut open = Vec::new();
    for (reader, client) in readers.iter().zip(&mut clients) {
        let tx = begin(client, LEVELS[0]).await;
        reader.fence(&tx).await.unwrap();
        open.push(tx);
    }
    for reader in readers {
        reader.release().await.unwrap();
    }
    let third = database.manager().await;
    for tx in open {
        assert!(third.lock("catalog").try_acquire().await.unwrap().is_none());
        tx.commit().await.unwrap();
    }
    third
        .lock("catalog")
        .wait(DEADLINE)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn each_of_several_keys_is_checked() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let keys = ["account:9", "account:7", "account:8"];
    let guard = one.lock_all(keys).renew(false).acquire().await.unwrap();
    let mut client = database.client().await;
    let tx = begin_without_snapshot(&mut client, LEVELS[0]).await;
    guard.fence(&tx).await.unwrap();
    tx.commit().await.unwrap();
    // Not the first one, neither in the order of the call nor in that of the keys.
    database.end_lease("account:8").await;
    let next = other.lock("account:8").acquire().await.unwrap();
    let tx = begin_without_snapshot(&mut client, LEVELS[0]).await;
    let refused = guard.fence(&tx).await;
    let Err(FenceError::NotHeld { key, .. }) = refused else {
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
    let mut client = database.client().await;
    let mut tx = begin(&mut client, LEVELS[0]).await;
    let savepoint = tx.transaction().await.unwrap();
    guard.fence(&savepoint).await.unwrap();
    savepoint.rollback().await.unwrap();
    database.end_lease("account:7").await;
    let next = other.lock("account:7").acquire().await.unwrap();
    assert!(matches!(
        guard.fence(&tx).await,
        Err(FenceError::NotHeld { .. })
    ));
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_lost_or_kept_elsewhere_is_refused_without_a_question() {
    let database = Database::new().await;
    let mut client = database.client().await;
    let tx = begin(&mut client, LEVELS[0]).await;

    let memory = LockManager::memory();
    let guard = memory.lock("account:7").acquire().await.unwrap();
    let refused = guard.fence(&tx).await;
    assert!(
        matches!(refused, Err(FenceError::OtherStore { .. })),
        "{refused:?}"
    );
    guard.release().await.unwrap();

    let manager = database.manager().await;
    let lost = manager
        .lock("account:7")
        .on_lost(OnLost::Finish)
        .acquire()
        .await
        .unwrap();
    manager.shutdown(std::time::Duration::ZERO).await;
    let refused = lost.fence(&tx).await;
    assert!(
        matches!(refused, Err(FenceError::Lock(LockError::Lost { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_owner_whose_ended_lease_is_in_a_transaction_waits_for_it_and_hinders_nobody() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let client = database.client().await;
    let acquire =
        "SELECT is_granted FROM dlock.acquire('catalog', 'late.1', 30000, -1, true, '', '')";
    let is_granted = async || {
        client
            .query_one(acquire, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
    };
    assert!(is_granted().await);
    let mut user = database.client().await;
    let tx = begin(&mut user, LEVELS[0]).await;
    let fenced = "SELECT dlock.fence(ARRAY['catalog'], ARRAY['late.1'], ARRAY[(SELECT fence FROM dlock.holder)])";
    tx.query_one(fenced, &[]).await.unwrap();
    database.end_lease("catalog").await;
    assert!(!is_granted().await, "its transaction is open");
    // Another one that shares the key is let in, and its release grants nothing to the first.
    manager
        .lock("catalog")
        .shared()
        .run(async |_| ())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert!(is_granted().await);
}
