//! `fence` at each isolation level, and beside tasks, readers and requests of the same owner.

use dlock_postgres::{Fence, FenceError, LeaseStatement};
use dlock_testkit::eventually;

use crate::{
    database::{DEADLINE, Database, begin},
    isolation::fence::cases_of_fence,
};

cases_of_fence! { Database }

#[tokio::test]
async fn another_task_of_the_process_does_not_get_a_lease_that_a_transaction_relies_on() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let mut client = database.client().await;
    let tx = begin(&mut client).await;
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
        let tx = begin(client).await;
        reader.fence(&tx).await.unwrap();
        open.push(tx);
    }
    for reader in readers {
        reader.release().await.unwrap();
    }
    let third = database.manager().await;
    for tx in open {
        assert!(
            third.lock("catalog").try_acquire().await.unwrap().is_none(),
            "broken promise: a writer holds the key beside readers"
        );
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
async fn a_savepoint_that_is_rolled_back_takes_the_check_with_it() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
    let mut client = database.client().await;
    let mut tx = begin(&mut client).await;
    let savepoint = tx.transaction().await.unwrap();
    guard.fence(&savepoint).await.unwrap();
    savepoint.rollback().await.unwrap();
    database.end_lease("account:7").await;
    let next = other.lock("account:7").acquire().await.unwrap();
    assert!(
        matches!(guard.fence(&tx).await, Err(FenceError::NotHeld { .. })),
        "broken promise: a late transaction was accepted"
    );
    next.release().await.unwrap();
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
    let tx = begin(&mut user).await;
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

/// For drivers other than tokio-postgres.
#[tokio::test]
async fn a_statement_about_a_lease_names_all_of_its_keys_and_reads_each_answer() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let guard = manager.lock_all(["b", "a"]).acquire().await.unwrap();
    let statement = || LeaseStatement::fence::<tokio_postgres::Error>(&guard).unwrap();
    let check = statement();
    assert_eq!(check.sql(), "SELECT \"dlock\".fence($1, $2, $3)");
    let leases = "SELECT count(*) FROM dlock.holder h
        JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS it (key, owner, fence) USING (key, owner, fence)";
    let (keys, owners, fences) = (check.keys(), check.owners(), check.fences());
    let client = database.client().await;
    let found = client.query_one(leases, &[&keys, &owners, &fences]).await;
    assert_eq!(found.unwrap().get::<_, i64>(0), 2);
    check.verdict::<tokio_postgres::Error>(None).unwrap();
    for (answer, expected) in [("a", "a"), ("b", "b"), ("no key of it", "b")] {
        let refused = statement().verdict::<tokio_postgres::Error>(Some(answer));
        let Err(FenceError::NotHeld { key }) = refused else {
            panic!("broken promise: {answer}: {refused:?}");
        };
        assert_eq!(key.as_str(), expected);
    }
    guard.release().await.unwrap();
}
