//! Requests about a lease that an open transaction has adopted or fenced, and about one that it is about to adopt.

use crate::{
    database::Database,
    rows::{acquire, is_true, waits_for_a_lock},
};

#[tokio::test]
async fn a_renewal_does_not_wait_for_a_lease_that_a_transaction_has_adopted() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    let mut fences = Vec::new();
    for key in ["a", "b"] {
        let acquire =
            format!("SELECT fence FROM dlock.acquire('{key}', 'a.1', 30000, 0, true, '', '')");
        fences.push(database.number(&acquire).await);
    }
    let tx = one.transaction().await.unwrap();
    let adopt = format!("SELECT dlock.adopt('b', 'a.1', {})", fences[1]);
    assert!(tx.query_one(&adopt, &[]).await.unwrap().get::<_, bool>(0));
    // A wait would fail.
    let at_once = "SET lock_timeout = '10s'";
    other.batch_execute(at_once).await.unwrap();
    let renew = "SELECT dlock.renew(ARRAY['a', 'b', 'c'], ARRAY['a.1', 'a.1', 'a.1'], \
                 ARRAY[30000, 30000, 30000]::bigint[], ARRAY['', '', ''], ARRAY['', '', ''])";
    let renewed = other.query(renew, &[]).await.unwrap();
    let renewed: Vec<i64> = renewed.iter().map(|row| row.get(0)).collect();
    assert_eq!(renewed, [1], "the lease that is not in the transaction");
    tx.rollback().await.unwrap();
    let renewed = other.query(renew, &[]).await.unwrap();
    assert_eq!(renewed.len(), 2, "both leases are there again");
}

#[tokio::test]
async fn a_transaction_adopts_a_lease_after_a_repeated_request_of_its_owner() {
    let database = Database::new().await;
    let (mut one, mut other) = (database.client().await, database.client().await);
    assert!(is_true(&one, &acquire("a.1")).await);
    let fence = database.number("SELECT fence FROM dlock.holder").await;
    // The repeated request finds the row, and has not committed.
    let repeated = one.transaction().await.unwrap();
    let answer = repeated.query_one(&acquire("a.1"), &[]).await.unwrap();
    assert!(answer.get::<_, bool>(0));
    let adopt = format!("SELECT dlock.adopt('order:42', 'a.1', {fence})");
    let adopting = tokio::spawn(async move {
        let tx = other.transaction().await.unwrap();
        let is_adopted: bool = tx.query_one(&adopt, &[]).await.unwrap().get(0);
        tx.commit().await.unwrap();
        is_adopted
    });
    waits_for_a_lock(&database, || adopting.is_finished()).await;
    assert!(!adopting.is_finished(), "it cannot come between");
    repeated.commit().await.unwrap();
    assert!(adopting.await.unwrap());
    let held = "SELECT count(*) FROM dlock.holder";
    assert_eq!(
        database.number(held).await,
        0,
        "it ended with its transaction"
    );
}

#[tokio::test]
async fn requests_of_an_owner_do_not_wait_for_the_transaction_that_has_adopted_its_lease() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    // A wait would fail by another error.
    other
        .batch_execute("SET lock_timeout = '10s'")
        .await
        .unwrap();
    assert!(is_true(&other, &acquire("a.1")).await);
    let fence = database.number("SELECT fence FROM dlock.holder").await;
    let adopt = format!("SELECT dlock.adopt('order:42', 'a.1', {fence})");
    let tx = one.transaction().await.unwrap();
    assert!(tx.query_one(&adopt, &[]).await.unwrap().get::<_, bool>(0));
    assert!(
        !is_true(&other, &acquire("a.1")).await,
        "the transaction has the lease"
    );
    let waiters = "SELECT count(*) FROM dlock.waiter";
    assert_eq!(database.number(waiters).await, 0, "its row may come back");
    let refused = other
        .query("SELECT dlock.release('order:42', 'a.1')", &[])
        .await;
    let refused = refused.unwrap_err();
    let error = refused.as_db_error().unwrap();
    assert_eq!(error.code().code(), "55P03");
    assert_ne!(error.routine(), Some("ProcessInterrupts"), "it has waited");
    tx.rollback().await.unwrap();
    assert!(
        is_true(&other, &acquire("a.1")).await,
        "its lease is there again"
    );
    assert_eq!(
        database.number("SELECT fence FROM dlock.holder").await,
        fence
    );

    let tx = one.transaction().await.unwrap();
    assert!(tx.query_one(&adopt, &[]).await.unwrap().get::<_, bool>(0));
    tx.commit().await.unwrap();
    assert!(is_true(&other, &acquire("a.1")).await, "a late request");
    let later = database.number("SELECT fence FROM dlock.holder").await;
    assert!(later > fence, "it is another lease");
}

#[tokio::test]
async fn a_release_does_not_wait_for_the_transaction_that_has_fenced_the_lease() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    // A wait would fail by another error.
    other
        .batch_execute("SET lock_timeout = '10s'")
        .await
        .unwrap();
    assert!(is_true(&other, &acquire("a.1")).await);
    let fence = database.number("SELECT fence FROM dlock.holder").await;
    let tx = one.transaction().await.unwrap();
    let check = format!("SELECT dlock.fence('{{order:42}}', '{{a.1}}', '{{{fence}}}') IS NULL");
    assert!(tx.query_one(&check, &[]).await.unwrap().get::<_, bool>(0));
    for request in [
        "release('order:42', 'a.1')".to_owned(),
        format!("unlock('order:42', 'a.1', {fence})"),
    ] {
        let statement = format!("SELECT dlock.{request}");
        let refused = other.query(&statement, &[]).await.unwrap_err();
        let error = refused.as_db_error().unwrap();
        assert_eq!(error.code().code(), "55P03", "{request}");
        assert_ne!(
            error.routine(),
            Some("ProcessInterrupts"),
            "it has waited: {request}"
        );
    }
    tx.commit().await.unwrap();
    assert!(is_true(&other, "SELECT dlock.release('order:42', 'a.1')").await);
}
