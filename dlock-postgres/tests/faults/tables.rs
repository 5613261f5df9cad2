//! Tables, permissions and places on the server that are taken away from managers that run.

use std::time::Duration;

use dlock_faults::{grew, is_released, names, unavailable};
use dlock_postgres::Schema;
use dlock_runtime::{LockError, StoreErrorKind};
use dlock_testkit::{PostgresOptions, eventually};
use tokio_postgres::NoTls;

use crate::world::{CONNECTIONS, DEADLINE, World, builder, connect, connect_by, is_refused};

/// The TTL of a lease that a test has end.
const TTL: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_permission_that_is_revoked_is_named_with_the_statement_that_grants_it() {
    let world = World::shared().await;
    let role = format!("app_{}", world.database);
    let grants = Schema::new("dlock").unwrap().grants(&role).unwrap();
    world
        .execute(&format!("CREATE ROLE {role} LOGIN; {grants}"))
        .await;
    let manager = connect(&world.server.url_of(&role, &world.database)).await;
    let named = |error: &LockError, function: &str| {
        let grant = format!("GRANT EXECUTE ON FUNCTION \"dlock\".{function}");
        names(error, &[&grant, &format!("TO \"{role}\"")]);
    };

    let revoke = format!("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA dlock FROM {role}");
    let lock = manager.lock("order:42").ttl(Duration::from_secs(10));
    let finished = lock.run(async |_| {
        world.execute(&revoke).await;
        7
    });
    assert_eq!(
        finished.await.unwrap(),
        7,
        "the result of a body is never thrown away"
    );
    let error = manager.lock("order:43").acquire().await.unwrap_err();
    assert_eq!(unavailable(&error), StoreErrorKind::Denied);
    assert_eq!(error.retry_after(), None);
    named(&error, "acquire(text, ");

    world.execute(&grants).await;
    let fault = async || world.execute(&revoke).await;
    let lost = manager.loses("account:7", TTL, fault).await;
    named(&lost, "renew(text[], ");

    world
        .execute(&format!("REVOKE USAGE ON SCHEMA dlock FROM {role}"))
        .await;
    let error = manager.lock("order:43").acquire().await.unwrap_err();
    let grant = format!("GRANT USAGE ON SCHEMA \"dlock\" TO \"{role}\"");
    names(&error, &[&grant]);

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
    let manager = connect_by(manager, &world.url()).await;
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
    names(&text, &["schema `dlock`", "update the program"]);
    world.execute(&version(2, 1)).await;
    manager.works("order:42").await;
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
    let fault = async || {
        world.execute("DROP SCHEMA dlock CASCADE").await;
        let error = manager.lock("order:42").acquire().await.unwrap_err();
        assert_eq!(unavailable(&error), StoreErrorKind::Unsupported);
        names(&error, &["schema `dlock`", "`Schema::migration`"]);
    };
    manager.loses("account:7", TTL, fault).await;
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    world.execute(&migration).await;
    let again = manager.lock("account:7").run(async |lease| {
        grew(earlier, lease.fencing_token());
    });
    again.await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn leases_that_are_truncated_are_lost_at_their_next_renewal_and_refused_by_fence() {
    let world = World::shared().await;
    let (one, other) = (world.manager().await, world.manager().await);
    let truncate = "TRUNCATE dlock.turn, dlock.holder, dlock.waiter";
    let guard = one.holds("account:7", DEADLINE).await;
    world.execute(truncate).await;
    let next = other.lock("account:7").acquire().await.unwrap();
    grew(guard.fencing_token(), next.fencing_token());
    is_refused(&guard, &mut world.client().await).await;
    next.release().await.unwrap();
    drop(guard);

    let fault = async || world.execute(truncate).await;
    one.loses("account:7", TTL, fault).await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_manager_whose_places_others_have_taken_comes_back_when_there_is_room() {
    let options = PostgresOptions::new().set("max_connections", "6");
    let options = options.set("superuser_reserved_connections", "0");
    let world = World::new(options).await;
    let (proxy, manager) = world.behind_proxy().await;
    let guard = manager.holds("order:42", 4 * DEADLINE).await;
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
    let words = [
        "too many clients",
        "raise `max_connections`",
        "two connections",
    ];
    let wait = Duration::from_secs(2);
    manager.is_refused("order:43", wait, &words).await;
    others.clear();
    manager.lock("order:43").run(async |_| ()).await.unwrap();
    is_released(guard).await;
    world.nothing_is_left().await;
}
