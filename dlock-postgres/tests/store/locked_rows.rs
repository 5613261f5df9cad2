//! Rows of keys that other sessions have locked. They hold up the requests for these keys alone.

use std::time::Duration;

use dlock_postgres::{Postgres, Schema};
use dlock_runtime::{LockError, LockManager, store::StoreErrorKind};
use dlock_testkit::eventually;
use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::database::{DEADLINE, Database};

/// Requests wait for rows longer than the tests do.
const PATIENCE: Duration = Duration::from_secs(3600);

async fn patient(url: &str, patience: Duration) -> LockManager {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    let builder = builder.connect_timeout(DEADLINE).ttl(PATIENCE);
    builder
        .response_timeout(patience)
        .connect(url)
        .await
        .unwrap()
}

/// Has another session lock the rows of these keys until it is dropped.
async fn lock_rows(database: &Database, keys: &[&str]) -> Client {
    let client = database.client().await;
    for key in keys {
        let statement = "SELECT dlock.make_turn($1)";
        client.execute(statement, &[key]).await.unwrap();
    }
    client.batch_execute("BEGIN").await.unwrap();
    let statement = "SELECT FROM dlock.turn WHERE key = ANY ($1) FOR UPDATE";
    assert_eq!(
        client.query(statement, &[&keys]).await.unwrap().len(),
        keys.len()
    );
    client
}

/// How many requests wait for a lock of others.
async fn waiting(database: &Database) -> i64 {
    let statement = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        database.name
    );
    database.number(&statement).await
}

#[track_caller]
fn assert_locked_row<T: std::fmt::Debug>(refused: &Result<T, LockError>) {
    let Err(LockError::Unavailable { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Refused, "{reason}");
    assert!(reason.to_string().contains("pg_locks"), "{reason}");
}

#[tokio::test]
async fn a_locked_row_delays_no_other_key() {
    let database = Database::new().await;
    let manager = patient(&database.url(), PATIENCE).await;
    let held = manager.lock("held").acquire().await.unwrap();
    let other = lock_rows(&database, &["held", "first", "second"]).await;
    let release = held.release();
    let acquire = join_all(["first", "second"].map(|key| manager.lock(key).acquire()));
    let delayed = async { tokio::join!(release, acquire) };
    tokio::pin!(delayed);
    let others = async {
        let waits = async || waiting(&database).await > 0;
        eventually(DEADLINE, "one waits for a row", waits).await;
        for number in 0..100 {
            let guard = manager.lock(format!("free:{number}")).acquire();
            guard.await.unwrap().release().await.unwrap();
        }
    };
    tokio::select! {
        done = timeout(DEADLINE, others) => done.expect("other keys are not delayed"),
        _ = &mut delayed => panic!("the rows are locked"),
    }
    drop(other);
    let (released, acquired) = timeout(DEADLINE, delayed).await.unwrap();
    released.unwrap();
    for guard in acquired {
        guard.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_waits_for_a_row_for_too_long_says_what_to_do() {
    let database = Database::new().await;
    let manager = patient(&database.url(), Duration::from_secs(3)).await;
    let _other = lock_rows(&database, &["order:42"]).await;
    let refused = manager.lock("order:42").try_acquire().await;
    assert_locked_row(&refused);
}

#[tokio::test]
async fn a_server_without_another_connection_is_asked_on_the_usual_one() {
    let database = Database::new().await;
    let admin = database.client().await;
    let role = format!("locks_{}", database.name);
    let grants = Schema::new("dlock").unwrap().grants(&role).unwrap();
    let create = format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 2; {grants}");
    admin.batch_execute(&create).await.unwrap();
    let url = database.server.url_of(&role, &database.name);
    let manager = patient(&url, Duration::from_secs(3)).await;
    let other = lock_rows(&database, &["order:42"]).await;
    // The reason is the locked row, and not the connection that is missing.
    let refused = manager.lock("order:42").try_acquire().await;
    assert_locked_row(&refused);
    drop(other);
    let guard = manager.lock("order:42").acquire();
    let guard = timeout(DEADLINE, guard).await.unwrap().unwrap();
    guard.release().await.unwrap();
}
