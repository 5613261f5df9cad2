//! Tables, permissions and places on the server that are taken away from managers that run.

use std::{future::pending, time::Duration};

use dlock_postgres::{Fence, FenceError, Schema};
use dlock_runtime::{LockError, LockManager, StoreErrorKind};
use dlock_testkit::{PostgresOptions, Proxy, eventually};
use tokio_postgres::NoTls;

use crate::world::{CONNECTIONS, DEADLINE, World, builder, connect};

/// A body that ends with its lease.
async fn hold(manager: &LockManager, entered: impl AsyncFnOnce()) -> LockError {
    let lock = manager.lock("account:7").ttl(Duration::from_secs(8));
    let held = lock.run(async |_| {
        entered().await;
        pending::<()>().await;
    });
    held.await.unwrap_err()
}

#[tokio::test]
async fn a_permission_that_is_revoked_is_named_with_the_statement_that_grants_it() {
    let world = World::shared().await;
    let role = format!("app_{}", world.database);
    let grants = Schema::new("dlock").unwrap().grants(&role).unwrap();
    world
        .execute(&format!("CREATE ROLE {role} LOGIN; {grants}"))
        .await;
    let manager = connect(&world.server.url_of(&role, &world.database)).await;
    let named = |text: &str, function: &str| {
        let grant = format!("GRANT EXECUTE ON FUNCTION \"dlock\".{function}");
        assert!(
            text.contains(&grant) && text.contains(&format!("TO \"{role}\"")),
            "{text}"
        );
    };

    let finished = manager
        .lock("order:42")
        .ttl(Duration::from_secs(10))
        .run(async |_| {
            let revoke = format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA dlock FROM {role}");
            world.execute(&revoke).await;
            7
        });
    assert_eq!(
        finished.await.unwrap(),
        7,
        "the result of a body is never thrown away"
    );
    let error = manager.lock("order:43").acquire().await.unwrap_err();
    let LockError::Unavailable { reason, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(reason.kind(), StoreErrorKind::Denied);
    assert_eq!(error.retry_after(), None);
    named(&error.to_string(), "acquire(text, ");

    world.execute(&grants).await;
    let lost = hold(&manager, async || {
        let revoke = format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA dlock FROM {role}");
        world.execute(&revoke).await;
    })
    .await;
    assert!(lost.is_lost(), "{lost}");
    named(&lost.to_string(), "renew(text[], ");

    world
        .execute(&format!("REVOKE USAGE ON SCHEMA dlock FROM {role}"))
        .await;
    let text = manager
        .lock("order:43")
        .acquire()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(&format!("GRANT USAGE ON SCHEMA \"dlock\" TO \"{role}\"")),
        "{text}"
    );

    world.execute(&grants).await;
    manager.lock("order:43").run(async |_| ()).await.unwrap();
    manager.lock("account:7").run(async |_| ()).await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn tables_of_another_version_are_named_when_a_manager_connects_again() {
    let world = World::shared().await;
    let manager = builder().wait(Duration::from_secs(2));
    let manager = manager.connect(world.url()).await.unwrap();
    let version = |number: i32, oldest: i32| {
        let function = |name: &str, number: i32| {
            format!(
                "CREATE OR REPLACE FUNCTION dlock.{name}() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT {number}';"
            )
        };
        function("version", number) + &function("oldest", oldest)
    };
    let terminate = CONNECTIONS.replace("count(*)", "count(pg_terminate_backend(pid))");
    world.execute(&version(3, 3)).await;
    world.execute(&terminate).await;
    let mut text = String::new();
    eventually(DEADLINE, "the version is named", async || {
        let acquired = manager.lock("order:42").acquire().await;
        text = acquired.map_or_else(|error| error.to_string(), |_| String::new());
        text.contains("version 3")
    })
    .await;
    assert!(
        text.contains("schema `dlock`") && text.contains("update the program"),
        "{text}"
    );
    world.execute(&version(2, 1)).await;
    eventually(DEADLINE, "the manager connects again", async || {
        manager.lock("order:42").run(async |_| ()).await.is_ok()
    })
    .await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_schema_that_is_dropped_ends_its_leases_and_is_named() {
    let world = World::shared().await;
    let manager = world.manager().await;
    let mut earlier = None;
    let first = manager.lock("account:7").run(async |lease| {
        earlier = Some(lease.fencing_token());
    });
    first.await.unwrap();
    let lost = hold(&manager, async || {
        world.execute("DROP SCHEMA dlock CASCADE").await;
        let error = manager.lock("order:42").acquire().await.unwrap_err();
        let LockError::Unavailable { reason, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(reason.kind(), StoreErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("schema `dlock`") && text.contains("`Schema::migration`"),
            "{text}"
        );
    })
    .await;
    assert!(lost.is_lost(), "{lost}");
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    world.execute(&migration).await;
    let again = manager.lock("account:7").run(async |lease| {
        assert!(
            Some(lease.fencing_token()) > earlier,
            "broken promise: the token did not grow"
        );
    });
    again.await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn leases_that_are_truncated_are_lost_at_their_next_renewal_and_refused_by_fence() {
    let world = World::shared().await;
    let (one, other) = (world.manager().await, world.manager().await);
    let guard = one.lock("account:7").ttl(DEADLINE).acquire().await.unwrap();
    world
        .execute("TRUNCATE dlock.turn, dlock.holder, dlock.waiter")
        .await;
    let next = other.lock("account:7").acquire().await.unwrap();
    assert!(
        next.fencing_token() > guard.fencing_token(),
        "broken promise: the token did not grow"
    );
    let mut client = world.client().await;
    let tx = client.transaction().await.unwrap();
    let refused = guard
        .fence(&tx)
        .await
        .expect_err("broken promise: a late transaction was accepted");
    assert!(
        matches!(refused, FenceError::NotHeld { .. } | FenceError::Lock(_)),
        "{refused:?}"
    );
    tx.rollback().await.unwrap();
    next.release().await.unwrap();
    drop(guard);

    let lost = hold(&one, async || {
        world
            .execute("TRUNCATE dlock.turn, dlock.holder, dlock.waiter")
            .await;
    })
    .await;
    assert!(lost.is_lost(), "{lost}");
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_manager_whose_places_others_have_taken_comes_back_when_there_is_room() {
    let options = PostgresOptions::new().set("max_connections", "6");
    let options = options.set("superuser_reserved_connections", "0");
    let world = World::new(options).await;
    let proxy = Proxy::start(world.server.port());
    let manager = builder().wait(Duration::from_secs(2));
    let manager = manager.connect(world.url_at(proxy.port())).await.unwrap();
    let guard = manager
        .lock("order:42")
        .ttl(4 * DEADLINE)
        .acquire()
        .await
        .unwrap();
    proxy.refuse();
    proxy.cut();
    world.server.restart().await;
    let mut others = Vec::new();
    eventually(DEADLINE, "others take all places", async || {
        if let Ok((client, connection)) = tokio_postgres::connect(&world.url(), NoTls).await {
            tokio::spawn(connection);
            others.push(client);
        }
        others.len() == 6
    })
    .await;
    proxy.accept();
    let mut text = String::new();
    eventually(DEADLINE, "the reason is named", async || {
        text = manager
            .lock("order:43")
            .acquire()
            .await
            .unwrap_err()
            .to_string();
        text.contains("too many clients")
    })
    .await;
    assert!(
        text.contains("raise `max_connections`") && text.contains("two connections"),
        "{text}"
    );
    others.clear();
    let lock = manager.lock("order:43").wait(DEADLINE);
    lock.run(async |_| ()).await.unwrap();
    guard.ensure_held().unwrap();
    guard.release().await.unwrap();
    world.nothing_is_left().await;
}
