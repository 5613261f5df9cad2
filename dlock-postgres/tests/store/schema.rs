//! The tables: their versions, their privileges, and what a program says that does not find them.

use std::time::{Duration, Instant};

use dlock_postgres::{Fence, Postgres, Schema};
use dlock_runtime::{
    ConnectError, LockError, LockManager, LockManagerBuilder, store::StoreErrorKind,
};
use dlock_testkit::{PostgresServer, eventually};

use crate::database::{DEADLINE, Database, begin};

/// The TTL of a lease that is renewed.
const RENEWED: Duration = Duration::from_secs(5);

/// The server may answer late on a machine that is busy.
fn builder() -> LockManagerBuilder {
    LockManager::builder()
        .scheme("postgres", Postgres)
        .response_timeout(DEADLINE)
        .connect_timeout(DEADLINE)
}

async fn refusal(url: &str) -> String {
    let refused = builder().connect(url).await;
    assert!(
        matches!(refused, Err(ConnectError::Unavailable { .. })),
        "{refused:?}"
    );
    refused.unwrap_err().to_string()
}

#[tokio::test]
async fn a_schema_that_is_missing_or_of_another_version_is_refused_by_name() {
    let server = PostgresServer::shared().await;
    let name = server.database().await;
    let url = server.url_of("postgres", &name);
    let text = refusal(&url).await;
    assert!(
        text.contains("`dlock`") && text.contains("`Schema::migration`"),
        "{text}"
    );

    let database = Database::new().await;
    for (version, oldest, advice) in [
        (0, 0, "dlock postgres migrate"),
        (3, 3, "update the program"),
    ] {
        has_version(&database, version, oldest).await;
        let text = refusal(&database.url()).await;
        let named = format!("version {version} ");
        assert!(text.contains(&named) && text.contains(advice), "{text}");
    }
}

#[tokio::test]
async fn a_later_schema_that_is_for_this_program_too_is_used() {
    let database = Database::new().await;
    has_version(&database, 3, 2).await;
    let manager = builder().connect(database.url()).await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
}

async fn has_version(database: &Database, version: i32, oldest: i32) {
    for (function, number) in [("version", version), ("oldest", oldest)] {
        let other = format!(
            "CREATE OR REPLACE FUNCTION dlock.{function}() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT {number}'"
        );
        database.client().await.batch_execute(&other).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_granted_is_enough_and_no_more() {
    let database = Database::new().await;
    let admin = database.client().await;
    let role = format!("app_{}", database.name);
    let grants = Schema::new("dlock").unwrap().grants(&role).unwrap();
    let set_up = format!("CREATE ROLE {role} LOGIN; GRANT ALL ON account TO {role}");
    admin.batch_execute(&set_up).await.unwrap();
    let url = database.server.url_of(&role, &database.name);

    let text = refusal(&url).await;
    assert!(
        text.contains("permission denied") && text.contains("`Schema::grants`"),
        "{text}"
    );

    admin.batch_execute(&grants).await.unwrap();
    let manager = builder().connect(&url).await.unwrap();
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let tx = begin(&mut client).await;
    guard.fence(&tx).await.unwrap();
    tx.commit().await.unwrap();
    guard.release().await.unwrap();
    let tx = client.transaction().await.unwrap();
    dlock_postgres::lock_in(manager.lock("account:7"), &tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    client.batch_execute("SELECT dlock.sweep()").await.unwrap();
    renews_and_waits(&url, &manager, &admin).await;

    for forbidden in [
        "SELECT * FROM dlock.holder",
        "DELETE FROM dlock.holder",
        "SELECT dlock.unlock('a', 'b', 1)",
        "SELECT dlock.grant_waiters('a', now(), NULL, NULL)",
        "CREATE TABLE dlock.mine ()",
    ] {
        let refused = client.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "42501", "{forbidden}");
    }
}

#[tokio::test]
async fn a_key_outside_the_encoding_of_the_database_is_refused_at_once() {
    let server = PostgresServer::shared().await;
    let name = format!("{}_latin", server.database().await);
    let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    server.execute(&create).await;
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    let client = server.client(&name).await;
    client.batch_execute(&migration).await.unwrap();
    let url = server.url_of("postgres", &name);
    let manager = builder().connect(&url).await.unwrap();
    let guard = manager.lock("\u{fc}ber").acquire().await.unwrap();
    guard.release().await.unwrap();
    let refused = manager.lock("\u{65e5}").wait(DEADLINE).acquire().await;
    let Err(LockError::Unavailable { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Unsupported, "{reason}");
    assert!(reason.to_string().contains("UTF8"), "{reason}");
}

/// A lease is renewed beyond its TTL, and released while another manager of the same role waits.
async fn renews_and_waits(url: &str, manager: &LockManager, admin: &tokio_postgres::Client) {
    let other = builder().connect(url).await.unwrap();
    let held = manager.lock("account:8").ttl(RENEWED).acquire();
    let (held, begun) = (held.await.unwrap(), Instant::now());
    let waits = other.lock("account:8").wait(DEADLINE).acquire();
    let releases = async {
        let waiting = "SELECT FROM dlock.waiter WHERE key = 'account:8'";
        eventually(
            DEADLINE,
            "it waits, and the lease is older than its TTL",
            async || {
                let is_waiting = !admin.query(waiting, &[]).await.unwrap().is_empty();
                is_waiting && begun.elapsed() > RENEWED
            },
        )
        .await;
        held.ensure_held().unwrap();
        held.release().await.unwrap();
    };
    let (granted, ()) = tokio::join!(waits, releases);
    granted.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_operator_reads_and_unlocks_and_no_more() {
    let database = Database::new().await;
    let admin = database.client().await;
    let role = format!("operator_{}", database.name);
    admin
        .batch_execute(&format!("CREATE ROLE {role} LOGIN"))
        .await
        .unwrap();
    let grants = Schema::new("dlock")
        .unwrap()
        .operator_grants(&role)
        .unwrap();
    admin.batch_execute(&grants).await.unwrap();
    let url = database.server.url_of(&role, &database.name);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    for allowed in [
        "SELECT * FROM dlock.holder",
        "SELECT dlock.unlock('a', 'b.1', 1)",
    ] {
        client.batch_execute(allowed).await.unwrap();
    }
    for forbidden in [
        "DELETE FROM dlock.holder",
        "SELECT dlock.release('a', 'b.1')",
    ] {
        let refused = client.batch_execute(forbidden).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "42501", "{forbidden}");
    }
}
