//! The contract of stores.

use dlock_conformance::{Level, Suite};

use dlock_testkit::eventually;

use crate::database::{DEADLINE, Database};

#[tokio::test]
async fn the_store_keeps_the_contract() {
    let database = Database::new().await;
    let suite = Suite::new(Level::Grants).limit(2 * DEADLINE);
    suite.run(&database.store()).await.assert();
}

/// As behind a pooler that passes no messages.
#[tokio::test]
async fn the_store_keeps_the_contract_without_messages() {
    let database = Database::new().await;
    let store = database.store_with("listen=off");
    let suite = Suite::new(Level::Queue).limit(2 * DEADLINE);
    suite.run(&store).await.assert();
}

#[tokio::test]
async fn a_manager_has_two_connections_whatever_it_holds() {
    let database = Database::new().await;
    let manager = database.manager().await;
    let mut guards = Vec::new();
    for key in 0..200 {
        guards.push(
            manager
                .lock(format!("order:{key}"))
                .acquire()
                .await
                .unwrap(),
        );
    }
    let connections = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name LIKE '%/{} %'",
        database.name,
        std::process::id()
    );
    assert_eq!(database.number(&connections).await, 2);
    for guard in guards {
        guard.release().await.unwrap();
    }
    // A release whose answer is late is repeated in the background.
    let left = "SELECT (SELECT count(*) FROM dlock.holder) + (SELECT count(*) FROM dlock.waiter)";
    let nothing_is_left = async || database.number(left).await == 0;
    eventually(DEADLINE, "nothing is left", nothing_is_left).await;
}

#[tokio::test]
async fn a_release_wakes_the_waiter_of_another_process_by_a_message() {
    let database = Database::new().await;
    let (one, other) = (database.manager().await, database.manager().await);
    for _ in 0..20 {
        let guard = one.lock("order:42").acquire().await.unwrap();
        let waiting = tokio::spawn(other.lock("order:42").acquire());
        // The place in the queue comes before the release.
        let queued = "SELECT count(*) FROM dlock.waiter";
        let is_queued = async || database.number(queued).await == 1;
        eventually(DEADLINE, "the other waits", is_queued).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn rows_that_nobody_uses_are_swept_after_an_hour() {
    let database = Database::new().await;
    let manager = database.manager().await;
    for key in ["order:1", "order:2", "order:3"] {
        manager.lock(key).run(async |_| ()).await.unwrap();
    }
    let held = manager.lock("order:3").acquire().await.unwrap();
    let client = database.client().await;
    let age = "UPDATE dlock.turn SET granted_at = granted_at - interval '61 minutes' WHERE key <> 'order:2'";
    client.batch_execute(age).await.unwrap();
    assert_eq!(database.number("SELECT dlock.sweep()").await, 3);
    assert_eq!(database.number("SELECT count(*) FROM dlock.turn").await, 2);
    held.release().await.unwrap();
    // A fence of the swept key still grows, by the clock.
    manager.lock("order:1").run(async |_| ()).await.unwrap();
}
