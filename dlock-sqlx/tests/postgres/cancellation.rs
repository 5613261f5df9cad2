//! Futures that are dropped at every await: neither the transaction nor the connection is harmed, and nothing is left.

use dlock_sqlx::{Fence, lock_in};
use dlock_testkit::{Polled, eventually, poll_times, poll_times_then_wake};
use sqlx::{PgPool, PgTransaction, postgres::PgPoolOptions};

use crate::database::{DEADLINE, Database, is_free};

/// The only connection of the pool meets each future that was dropped before.
async fn one_connection(database: &Database) -> PgPool {
    let options = (*database.pool.connect_options()).clone();
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(DEADLINE);
    pool.connect_with(options).await.unwrap()
}

#[tokio::test]
async fn a_check_that_is_dropped_leaves_a_transaction_that_goes_on() {
    let database = Database::new().await;
    let pool = one_connection(&database).await;
    let (one, other) = (database.manager().await, database.manager().await);
    for is_woken in [false, true] {
        for polls in 0.. {
            let guard = one.lock("account:7").acquire().await.unwrap();
            let mut tx = pool.begin().await.unwrap();
            let check = guard.fence(&mut tx);
            let polled = if is_woken {
                poll_times_then_wake(check, polls).await
            } else {
                poll_times(check, polls).await
            };
            if let Polled::Finished(checked) = polled {
                checked.unwrap();
                tx.commit().await.unwrap();
                guard.release().await.unwrap();
                break;
            }
            assert_eq!(answer_to_another_question(&mut tx).await, 42);
            guard.fence(&mut tx).await.unwrap();
            tx.rollback().await.unwrap();
            guard.release().await.unwrap();
            let next = other.lock("account:7").wait(DEADLINE).acquire().await;
            next.unwrap().release().await.unwrap();
        }
    }
}

/// The next statement gets its own answer, and not that of the one that was dropped.
async fn answer_to_another_question(tx: &mut PgTransaction<'_>) -> i32 {
    let question = sqlx::query_scalar("SELECT 41 + 1");
    question.fetch_one(&mut **tx).await.unwrap()
}

#[tokio::test]
async fn a_check_that_is_dropped_while_the_server_waits_is_carried_out_later() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("account:7").renew(false).acquire().await.unwrap();
    // As a release does for a moment.
    let mut blocks = database.pool.begin().await.unwrap();
    let row = sqlx::query("SELECT FROM dlock.holder FOR UPDATE");
    row.fetch_one(&mut *blocks).await.unwrap();
    let mut tx = database.pool.begin().await.unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let is_waiting = async || database.number(waiting).await == 1;
    tokio::select! {
        checked = guard.fence(&mut tx) => panic!("{checked:?}"),
        () = eventually(DEADLINE, "the check waits", is_waiting) => {}
    }
    blocks.rollback().await.unwrap();
    assert_eq!(answer_to_another_question(&mut tx).await, 42);
    database.end_lease("account:7").await;
    assert!(
        !is_free(&other, "account:7").await,
        "broken promise: the key is free beside a transaction that relies on it"
    );
    tx.rollback().await.unwrap();
    assert!(is_free(&other, "account:7").await);
}

#[tokio::test]
async fn a_lock_in_a_transaction_that_is_dropped_is_free_after_the_roll_back() {
    let database = Database::new().await;
    let pool = one_connection(&database).await;
    let (one, other) = (database.manager().await, database.manager().await);
    for polls in 0.. {
        let mut tx = pool.begin().await.unwrap();
        let polled = poll_times(lock_in(one.lock("account:7"), &mut tx), polls).await;
        if let Polled::Finished(locked) = polled {
            locked.unwrap();
            tx.commit().await.unwrap();
            break;
        }
        tx.rollback().await.unwrap();
        let next = other.lock("account:7").wait(DEADLINE).acquire().await;
        next.unwrap().release().await.unwrap();
    }
    assert_eq!(
        database.number("SELECT count(*) FROM dlock.holder").await,
        0
    );
}
