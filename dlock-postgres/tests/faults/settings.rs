//! Settings of roles and databases, for direct connections and behind a pooler, and locks that others hold on dlock's
//! tables.

use std::{sync::Arc, time::Duration};

use dlock_faults::{Process, Resource, is_released, names, unavailable};
use dlock_postgres::{Fence, FenceError, Postgres};
use dlock_runtime::{LockManager, StoreErrorKind};
use dlock_testkit::{PgBouncer, PostgresServer, eventually};
use tokio::task::JoinSet;

use crate::world::{CONNECTIONS, DEADLINE, World, connect};

/// Settings of the database for connections that begin from now on.
async fn set(world: &World<&'static PostgresServer>, settings: &[(&str, &str)]) {
    // One connection, which none of the settings reaches.
    let client = world.client().await;
    for (name, value) in settings {
        let set = format!("ALTER DATABASE {} SET {name} = '{value}'", world.database);
        client.batch_execute(&set).await.unwrap();
    }
}

/// Enters one key again and again from several managers: never two at once, and no call fails.
async fn contend(managers: &[Process], sections: usize) {
    let resource = Arc::new(Resource::default());
    let mut tasks = JoinSet::new();
    for (number, manager) in managers.iter().enumerate() {
        for _ in 0..2 {
            let (manager, resource) = (manager.clone(), resource.clone());
            tasks.spawn(async move {
                for _ in 0..sections {
                    let body = manager.lock("order:42").run(async |lease| {
                        let _inside = resource.enter(number, lease.fencing_token());
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    });
                    body.await.unwrap();
                }
            });
        }
    }
    tasks.join_all().await;
    assert_eq!(resource.entered().len(), 2 * sections * managers.len());
}

#[tokio::test]
async fn settings_of_the_database_do_not_reach_direct_connections() {
    let world = World::shared().await;
    // No request can be carried out with these, and no connection lasts.
    let settings = [
        ("statement_timeout", "1ms"),
        ("lock_timeout", "1ms"),
        ("idle_session_timeout", "100ms"),
        ("idle_in_transaction_session_timeout", "1ms"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
    ];
    let client = world.client().await;
    set(&world, &settings).await;
    let managers = [connect(&world.url()).await, connect(&world.url()).await];
    let connections =
        format!("{CONNECTIONS} AND clock_timestamp() - state_change > interval '400ms'");
    eventually(
        DEADLINE,
        "all connections are idle for longer than they may",
        async || {
            let row = client.query_one(&connections, &[]).await.unwrap();
            row.get::<_, i64>(0) == 4
        },
    )
    .await;
    contend(&managers, 10).await;
}

/// At these levels a request would read the queue as it was before it has waited for the mutex of its key.
#[tokio::test]
async fn behind_a_pooler_another_isolation_level_is_refused_with_the_statement_that_sets_it() {
    for level in ["repeatable read", "serializable"] {
        let world = World::shared().await;
        let client = world.client().await;
        set(&world, &[("default_transaction_isolation", level)]).await;
        let pooler = PgBouncer::start(world.server).await;
        let url = pooler.url_of("postgres", &world.database);
        let builder = LockManager::builder().scheme("postgres", Postgres);
        let patient = builder.response_timeout(DEADLINE).connect_timeout(DEADLINE);
        let refused = patient.connect(&url).await;
        let right = "SET default_transaction_isolation = 'read committed'";
        let advice = format!("ALTER ROLE \"postgres\" {right}");
        names(&refused.unwrap_err(), &[level, &advice]);
        let right = format!("ALTER DATABASE {} {right}", world.database);
        client.batch_execute(&right).await.unwrap();
        let pooler = PgBouncer::start(world.server).await;
        let url = pooler.url_of("postgres", &world.database);
        let managers = [connect(&url).await, connect(&url).await];
        contend(&managers, 5).await;
        world.nothing_is_left().await;
    }
}

#[tokio::test]
async fn a_database_that_only_reads_is_named_behind_a_pooler() {
    let world = World::shared().await;
    let client = world.client().await;
    set(&world, &[("default_transaction_read_only", "on")]).await;
    let pooler = PgBouncer::start(world.server).await;
    let manager = connect(&pooler.url_of("postgres", &world.database)).await;
    let words = ["`order:42`", "set `default_transaction_read_only`"];
    let error = manager.is_refused("order:42", Duration::from_secs(2), &words);
    assert_eq!(unavailable(&error.await), StoreErrorKind::ReadOnly);
    let row = client.query_one("SELECT count(*) FROM dlock.holder", &[]);
    assert_eq!(row.await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_transaction_that_only_reads_cannot_be_fenced_and_says_so() {
    let world = World::shared().await;
    let manager = world.manager().await;
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let mut client = world.client().await;
    let reading = client.build_transaction().read_only(true).start().await;
    let refused = guard.fence(&reading.unwrap()).await.unwrap_err();
    assert!(matches!(refused, FenceError::Database(_)), "{refused:?}");
    let advice = "read-only transaction (25006); begin a transaction that may write";
    names(&refused, &[advice]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_is_idle_for_too_long_is_ended_and_its_lease_stays() {
    let world = World::shared().await;
    let (one, other) = (world.manager().await, world.manager().await);
    let guard = one.holds("account:7", DEADLINE).await;
    let mut client = world.client().await;
    let watch = world.client().await;
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    let written = tx.execute("UPDATE account SET cents = 0 WHERE id = 7", &[]);
    written.await.unwrap();
    // From now on: on a slow machine, the transaction is idle before each of its statements.
    let limit = "SET idle_in_transaction_session_timeout = '100ms'";
    tx.batch_execute(limit).await.unwrap();
    eventually(DEADLINE, "the server ends the transaction", async || {
        tx.client().is_closed()
    })
    .await;
    assert!(
        tx.commit().await.is_err(),
        "what is not written is not reported as written"
    );
    let row = watch.query_one("SELECT cents FROM account WHERE id = 7", &[]);
    assert_eq!(row.await.unwrap().get::<_, i64>(0), 100);
    other.finds_held("account:7").await;
    is_released(guard).await;
    other.lock("account:7").run(async |_| ()).await.unwrap();
    world.nothing_is_left().await;
}

/// The settings of the database are in force there.
#[tokio::test]
async fn a_request_that_a_time_limit_ends_behind_a_pooler_is_repeated() {
    let world = World::shared().await;
    let mut client = world.client().await;
    set(&world, &[("statement_timeout", "500ms")]).await;
    let pooler = PgBouncer::start(world.server).await;
    let manager = connect(&pooler.url_of("postgres", &world.database)).await;
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let locked = "SELECT FROM dlock.turn WHERE key = 'order:42' FOR UPDATE";
    tx.execute(locked, &[]).await.unwrap();
    let words = ["PostgreSQL has undone the request", "statement timeout"];
    let wait = Duration::from_secs(3);
    manager.is_refused("order:42", wait, &words).await;
    tx.rollback().await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_fence_that_a_time_limit_ends_is_an_error_and_the_next_one_is_right() {
    let world = World::shared().await;
    let manager = world.manager().await;
    let guard = manager.holds("account:7", DEADLINE).await;
    let (mut client, mut other) = (world.client().await, world.client().await);
    let blocks = other.transaction().await.unwrap();
    blocks
        .execute("SELECT FROM dlock.holder FOR UPDATE", &[])
        .await
        .unwrap();
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("SET LOCAL statement_timeout = '100ms'")
        .await
        .unwrap();
    let refused = guard.fence(&tx).await.unwrap_err();
    let FenceError::Database(error) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.code().unwrap().code(), "57014");
    tx.rollback().await.unwrap();
    blocks.rollback().await.unwrap();
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    tx.commit().await.unwrap();
    guard.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn tables_that_another_session_has_locked_are_named_and_cost_no_connections() {
    let world = World::shared().await;
    let manager = world.manager().await;
    let mut client = world.client().await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("LOCK TABLE dlock.turn IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let words = ["`order:42`", "`pg_locks`", "schema `dlock`"];
    let wait = Duration::from_secs(3);
    manager.is_refused("order:42", wait, &words).await;
    // Without a limit, each connection that was given up would leave a process that waits. The third one is that of requests that
    // have to wait.
    let is_right = |count| count <= 3;
    world
        .until("only three are left", CONNECTIONS, is_right)
        .await;
    tx.rollback().await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_release_does_not_wait_for_a_transaction_that_has_adopted_the_lease() {
    let world = World::shared().await;
    let (one, other) = (world.manager().await, world.manager().await);
    let guard = one.lock("account:7").acquire().await.unwrap();
    let mut client = world.client().await;
    let tx = client.transaction().await.unwrap();
    // The statement that `lock_in` sends before it is dropped.
    tx.execute("DELETE FROM dlock.holder", &[]).await.unwrap();
    for statement in [
        "release('account:7', $1)",
        "unlock('account:7', $1, (SELECT fence FROM dlock.holder))",
    ] {
        let mut client = world.client().await;
        let asking = client.transaction().await.unwrap();
        asking
            .batch_execute("SET LOCAL lock_timeout = '10s'")
            .await
            .unwrap();
        let owner = asking
            .query_one("SELECT owner FROM dlock.holder", &[])
            .await
            .unwrap();
        let statement = format!("SELECT dlock.{statement}");
        let owner: String = owner.get(0);
        let refused = asking.query_one(&statement, &[&owner]).await.unwrap_err();
        let refusal = refused.as_db_error().unwrap();
        assert_eq!(refusal.code().code(), "55P03");
        assert!(
            refusal.message().starts_with("could not obtain"),
            "it waited: {refusal}"
        );
    }
    tx.rollback().await.unwrap();
    guard.release().await.unwrap();
    other.lock("account:7").run(async |_| ()).await.unwrap();
}
