//! Standbys that are promoted, with and without the last commits of the primary server.

use std::time::Duration;

use dlock_faults::{Process, grew, names};
use dlock_postgres::{Fence, Schema};
use dlock_testkit::{PostgresOptions, PostgresServer, eventually, hosts};

use crate::world::{DEADLINE, World, builder, client, connect, is_refused};

/// The URL of two servers, of which dlock takes the one that writes.
fn url(first: &PostgresServer, second: &PostgresServer) -> String {
    let hosts = hosts([first.port(), second.port()]);
    format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write")
}

async fn standby(world: &World) -> PostgresServer {
    let standby = world.server.start_standby().await;
    let streaming = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    world
        .until("it follows", streaming, |count| count == 1)
        .await;
    standby
}

/// Has commits wait for the standby.
async fn make_synchronous(world: &World) {
    let set = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    world.execute(set).await;
    world.execute("SELECT pg_reload_conf()").await;
    let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    world
        .until("it is synchronous", synchronous, |count| count == 1)
        .await;
}

async fn cents(server: &PostgresServer) -> i64 {
    let client = server.client("postgres").await;
    let row = client.query_one("SELECT cents FROM account WHERE id = 7", &[]);
    row.await.unwrap().get(0)
}

/// Acquires the lock, and writes in a transaction that depends on it.
async fn hold_and_write(world: &World, manager: &Process) -> dlock_runtime::LockGuard {
    let guard = manager.holds("account:7", 4 * DEADLINE).await;
    let mut client = world.client().await;
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    let statement = "UPDATE account SET cents = 50 WHERE id = 7";
    tx.execute(statement, &[]).await.unwrap();
    tx.commit().await.unwrap();
    guard
}

#[tokio::test]
async fn a_failover_that_loses_the_lease_loses_what_was_committed_under_it() {
    let world = World::new(PostgresOptions::new()).await;
    let standby = standby(&world).await;
    let hosts = url(&world.server, &standby);
    let (one, other) = (connect(&hosts).await, connect(&hosts).await);
    standby.kill();
    let guard = hold_and_write(&world, &one).await;
    world.server.kill();
    standby.restart().await;
    standby.promote().await;

    let next = other.lock("account:7").acquire().await.unwrap();
    grew(guard.fencing_token(), next.fencing_token());
    assert_eq!(
        cents(&standby).await,
        100,
        "the commit came after the lease"
    );
    is_refused(&guard, &mut client(&standby.url()).await).await;
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_failover_to_a_synchronous_standby_loses_nothing() {
    let world = World::new(PostgresOptions::new()).await;
    let standby = standby(&world).await;
    make_synchronous(&world).await;
    let hosts = url(&world.server, &standby);
    let (one, other) = (connect(&hosts).await, connect(&hosts).await);
    let guard = hold_and_write(&world, &one).await;
    world.server.kill();
    standby.promote().await;

    other.finds_held("account:7").await;
    assert_eq!(cents(&standby).await, 50);
    let mut later = client(&standby.url()).await;
    let tx = later.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    tx.commit().await.unwrap();
    guard.release().await.unwrap();
    let next = other.lock("account:7").acquire().await.unwrap();
    next.release().await.unwrap();
}

/// PostgreSQL reports a request that was cancelled there as carried out.
#[tokio::test]
async fn a_lease_that_an_operator_keeps_from_the_standby_begins_no_body() {
    let options = PostgresOptions::new().set("synchronous_standby_names", "*");
    let world = World::new(options).await;
    let standby = standby(&world).await;
    // A request is not given up for another reason.
    let patient = builder().response_timeout(4 * DEADLINE).wait(4 * DEADLINE);
    let manager = patient.connect(world.url()).await.unwrap();
    standby.pause();
    let acquiring = tokio::spawn(manager.lock("order:42").acquire());
    let client = world.client().await;
    let waiting = async |known: i32| {
        let waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> $1";
        let row = client.query_opt(waiting, &[&known]).await.unwrap();
        row.map(|row| row.get::<_, i32>(0))
    };
    let mut first = None;
    eventually(DEADLINE, "it waits for the standby", async || {
        first = waiting(0).await;
        first.is_some()
    })
    .await;
    let first = first.unwrap();
    let cancel = "SELECT pg_cancel_backend($1)";
    client.query_one(cancel, &[&first]).await.unwrap();
    eventually(DEADLINE, "it is repeated", async || {
        acquiring.is_finished() || waiting(first).await.is_some()
    })
    .await;
    assert!(!acquiring.is_finished(), "the standby has no lease");
    standby.resume();
    acquiring.await.unwrap().unwrap().release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_silent_host_does_not_hide_the_one_behind_it() {
    let world = World::new(PostgresOptions::new()).await;
    let standby = standby(&world).await;
    let builder = builder().connect_timeout(Duration::from_secs(8));
    let manager = builder.connect(url(&world.server, &standby)).await.unwrap();
    world.server.pause();
    standby.promote().await;
    let lock = manager.lock("order:42").wait(4 * DEADLINE);
    lock.run(async |_| ()).await.unwrap();
    world.server.resume();
    let row = standby.client("postgres").await;
    let row = row.query_one("SELECT count(*) FROM dlock.turn", &[]);
    assert_eq!(row.await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test]
async fn hosts_that_are_all_refused_are_named_with_their_reasons() {
    let world = World::new(PostgresOptions::new()).await;
    let standby = standby(&world).await;
    world.server.kill();
    let refused = builder().connect(url(&world.server, &standby)).await;
    let text = refused.unwrap_err().to_string();
    for server in [&world.server, &standby] {
        names(&text, &[&format!("127.0.0.1:{}: ", server.port())]);
    }
    names(&text, &["refused", "does not allow writes"]);
}

/// A request that waits for a standby keeps its process of the server, also when dlock has given the connection up.
#[tokio::test]
async fn a_limit_for_the_role_bounds_the_connections_while_a_standby_is_away() {
    let world = World::new(PostgresOptions::new()).await;
    let standby = standby(&world).await;
    make_synchronous(&world).await;
    let grants = Schema::new("dlock").unwrap().grants("locks").unwrap();
    let role = format!("CREATE ROLE locks LOGIN CONNECTION LIMIT 4; {grants}");
    world.execute(&role).await;
    let manager = connect(&world.server.url_of("locks", "postgres")).await;
    let others = world.client().await;
    let connections = async || {
        let connections = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'locks'";
        let row = others.query_one(connections, &[]).await;
        row.unwrap().get::<_, i64>(0)
    };
    eventually(DEADLINE, "it has two", async || connections().await == 2).await;
    standby.pause();
    let mut key = 0;
    eventually(
        4 * DEADLINE,
        "the role has no connection left",
        async || {
            key += 1;
            let lock = manager.lock(format!("order:{key}"));
            let refused = lock.wait(Duration::from_secs(2)).acquire().await;
            let refused = refused.expect_err("the standby has no lease").to_string();
            refused.contains("too many connections for role")
        },
    )
    .await;
    assert!(connections().await <= 4);
    others
        .batch_execute("ALTER SYSTEM RESET synchronous_standby_names")
        .await
        .unwrap();
    others
        .batch_execute("SELECT pg_reload_conf()")
        .await
        .unwrap();
    eventually(4 * DEADLINE, "it has two again", async || {
        let acquired = manager.lock("order:0").acquire().await;
        acquired.is_ok() && connections().await == 2
    })
    .await;
}
