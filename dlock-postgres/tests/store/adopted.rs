//! Requests about a lease that an open transaction has adopted or fenced, and about one that it is about to adopt.

use tokio_postgres::{Client, Transaction};

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
    // As one of version 1, which has no number.
    let old = "UPDATE dlock.holder SET number = 0; UPDATE dlock.turn SET least = 0";
    other.batch_execute(old).await.unwrap();
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

/// Has `a.1` and `b.1` share a lock, and `a.1` hold another one. Returns the fence of the first one.
async fn shared_and_another(database: &Database) -> i64 {
    let client = database.client().await;
    for (key, owner) in [("catalog", "a.1"), ("catalog", "b.1"), ("other", "a.1")] {
        let share = format!(
            "SELECT is_granted FROM dlock.acquire('{key}', '{owner}', 30000, -1, true, '', '')"
        );
        assert!(is_true(&client, &share).await);
    }
    // As those of version 1, which have no numbers.
    let old = "UPDATE dlock.holder SET number = 0; UPDATE dlock.turn SET least = 0";
    client.batch_execute(old).await.unwrap();
    let fence = "SELECT fence FROM dlock.holder WHERE key = 'catalog' LIMIT 1";
    database.number(fence).await
}

#[tokio::test]
async fn a_transaction_with_one_lease_delays_no_request_about_another() {
    for function in [
        "adopt(key, owner, fence)",
        "fence(ARRAY[key], ARRAY[owner], ARRAY[fence])",
    ] {
        let database = Database::new().await;
        let (mut one, other) = (database.client().await, database.client().await);
        let fence = shared_and_another(&database).await;
        let tx = one.transaction().await.unwrap();
        let take = format!(
            "SELECT dlock.{function} FROM dlock.holder WHERE owner = 'b.1' OR key = 'other'"
        );
        assert_eq!(tx.query(&take, &[]).await.unwrap().len(), 2);
        // A wait would fail.
        let at_once = "SET lock_timeout = '10s'";
        other.batch_execute(at_once).await.unwrap();
        let unlock = format!("SELECT dlock.unlock('catalog', 'a.1', {fence})");
        for (request, answer) in [
            (
                "SELECT is_granted FROM dlock.acquire('catalog', 'a.1', 30000, -1, true, '', '')",
                true,
            ),
            (
                "SELECT it = 1 FROM dlock.renew('{catalog}', '{a.1}', '{30000}', '{\"\"}', '{\"\"}') it",
                true,
            ),
            (
                "SELECT dlock.fence('{catalog}', '{a.1}', '{1}') IS NULL",
                false,
            ),
            (
                "SELECT is_granted FROM dlock.acquire('catalog', 'w.1', 30000, 0, true, '', '')",
                false,
            ),
            // It leaves the queue.
            ("SELECT dlock.release('catalog', 'w.1')", false),
            (
                "SELECT is_granted FROM dlock.acquire('catalog', 'c.1', 30000, -1, true, '', '')",
                true,
            ),
            ("SELECT dlock.release('catalog', 'c.1')", true),
            ("SELECT dlock.unlock('catalog', 'a.1', 1)", false),
            (&unlock, true),
        ] {
            assert_eq!(
                is_true(&other, request).await,
                answer,
                "{function}: {request}"
            );
        }
        tx.rollback().await.unwrap();
    }
}

/// Has another session renew the lease of `a.1` on `catalog` in a transaction, which is open.
async fn renewing(client: &mut Client) -> Transaction<'_> {
    let tx = client.transaction().await.unwrap();
    let renew = "SELECT dlock.renew('{catalog}', '{a.1}', '{30000}', '{\"\"}', '{\"\"}')";
    assert_eq!(tx.query(renew, &[]).await.unwrap().len(), 1);
    tx
}

#[tokio::test]
async fn an_end_of_a_lease_waits_for_its_renewal_and_for_no_transaction_with_another() {
    for request in [
        "release('catalog', 'a.1')",
        "unlock('catalog', 'a.1', {fence})",
    ] {
        let database = Database::new().await;
        let (mut one, other) = (database.client().await, database.client().await);
        let mut third = database.client().await;
        let fence = shared_and_another(&database).await;
        let statement = format!("SELECT dlock.{request}").replace("{fence}", &fence.to_string());
        let adopting = third.transaction().await.unwrap();
        let adopt = "SELECT dlock.adopt(key, owner, fence) FROM dlock.holder WHERE owner = 'b.1' OR key = 'other'";
        assert_eq!(adopting.query(adopt, &[]).await.unwrap().len(), 2);
        let renewal = renewing(&mut one).await;
        let ended = tokio::spawn(async move { is_true(&other, &statement).await });
        waits_for_a_lock(&database, || ended.is_finished()).await;
        assert!(!ended.is_finished(), "it waits for the renewal: {request}");
        renewal.commit().await.unwrap();
        assert!(ended.await.unwrap(), "{request}");
        adopting.rollback().await.unwrap();
        let left = "SELECT count(*) FROM dlock.holder";
        assert_eq!(database.number(left).await, 2, "{request}");
    }
}

#[tokio::test]
async fn a_release_that_has_waited_for_a_renewal_grants_the_key_when_no_other_lease_is_left() {
    for others in [false, true] {
        let database = Database::new().await;
        let (mut one, other) = (database.client().await, database.client().await);
        shared_and_another(&database).await;
        if !others {
            let ended = "UPDATE dlock.holder SET ends = clock_timestamp() WHERE owner = 'b.1'";
            one.batch_execute(ended).await.unwrap();
        }
        let wait = "SELECT is_granted FROM dlock.acquire('catalog', 'w.1', 30000, 0, true, '', '')";
        assert!(!is_true(&one, wait).await);
        let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
        one.batch_execute(patient).await.unwrap();
        let renewal = renewing(&mut one).await;
        let release = "SELECT dlock.release('catalog', 'a.1')";
        let released = tokio::spawn(async move { is_true(&other, release).await });
        waits_for_a_lock(&database, || released.is_finished()).await;
        assert!(!released.is_finished());
        renewal.commit().await.unwrap();
        assert!(released.await.unwrap());
        let granted = "SELECT count(*) FROM dlock.holder WHERE owner = 'w.1'";
        let is_granted = database.number(granted).await == 1;
        assert_eq!(is_granted, !others, "broken promise: two hold the key");
    }
}

#[tokio::test]
async fn an_unlock_of_an_adopted_lease_is_refused_at_once() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    let fence = shared_and_another(&database).await;
    let tx = one.transaction().await.unwrap();
    let adopt = format!("SELECT dlock.adopt('catalog', 'a.1', {fence})");
    assert!(tx.query_one(&adopt, &[]).await.unwrap().get::<_, bool>(0));
    // A wait would fail by another error.
    let at_once = "SET lock_timeout = '10s'";
    other.batch_execute(at_once).await.unwrap();
    for owner in ["'a.1'", "NULL"] {
        let unlock = format!("SELECT dlock.unlock('catalog', {owner}, {fence})");
        let refused = other.query(&unlock, &[]).await.unwrap_err();
        let error = refused.as_db_error().unwrap();
        assert_eq!(error.code().code(), "55P03");
        assert_ne!(error.routine(), Some("ProcessInterrupts"), "it has waited");
    }
    tx.rollback().await.unwrap();
    let left = "SELECT count(*) FROM dlock.holder";
    assert_eq!(database.number(left).await, 3);
}

#[tokio::test]
async fn an_unlock_grants_the_key_to_a_waiter_of_the_last_moment() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    assert!(is_true(&one, &acquire("a.1")).await);
    let fence = database.number("SELECT fence FROM dlock.holder").await;
    let coming = one.transaction().await.unwrap();
    let answer = coming.query_one(&acquire("w.1"), &[]).await.unwrap();
    assert!(!answer.get::<_, bool>(0));
    let unlock = format!("SELECT dlock.unlock('order:42', 'a.1', {fence})");
    let unlocked = tokio::spawn(async move { is_true(&other, &unlock).await });
    waits_for_a_lock(&database, || unlocked.is_finished()).await;
    assert!(
        !unlocked.is_finished(),
        "it waits for the queue to be as it is"
    );
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    coming.batch_execute(patient).await.unwrap();
    coming.commit().await.unwrap();
    assert!(unlocked.await.unwrap());
    let granted = "SELECT count(*) FROM dlock.holder WHERE owner = 'w.1'";
    assert_eq!(database.number(granted).await, 1);
}
