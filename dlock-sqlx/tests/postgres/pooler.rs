//! Behind PgBouncer in transaction mode, where clients take turns on the same connections.

use dlock_postgres::Schema;
use dlock_sqlx::{Fence, lock_in};
use dlock_testkit::{PgBouncer, PostgresOptions, PostgresServer};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::database::{DEADLINE, is_free, manager};

/// A pool of one connection to the pooler.
async fn client(url: &str) -> PgPool {
    let options: PgConnectOptions = url.parse().unwrap();
    let pool = PgPoolOptions::new().max_connections(1);
    // sqlx asks for the digits of floats when it connects, which poolers refuse.
    let pool = pool
        .acquire_timeout(DEADLINE)
        .connect_with(options.extra_float_digits(None));
    pool.await.unwrap()
}

#[tokio::test]
async fn clients_that_share_a_connection_of_the_server_check_their_leases() {
    let server = PostgresServer::start_with(PostgresOptions::new()).await;
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    server.execute(&migration).await;
    let pooler = PgBouncer::start(&server).await;
    let url = pooler.url_of("postgres", "postgres");
    let (one, other) = (manager(&url).await, manager(&url).await);
    let clients = [client(&url).await, client(&url).await];
    // One after the other, they get the same connection of the server.
    for pool in clients.iter().cycle().take(6) {
        let guard = one.lock("account:7").acquire().await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        guard.fence(&mut tx).await.unwrap();
        guard.release().await.unwrap();
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free beside a transaction that relies on it"
        );
        tx.commit().await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        lock_in(one.lock("account:8"), &mut tx).await.unwrap();
        assert!(
            !is_free(&other, "account:8").await,
            "broken promise: the key is free beside a transaction that relies on it"
        );
        tx.commit().await.unwrap();
    }
    // And at the same time, they have one each.
    let guard = one.lock_all(["account:7", "account:8"]).acquire().await;
    let guard = guard.unwrap();
    let mut open = Vec::new();
    for pool in &clients {
        let mut tx = pool.begin().await.unwrap();
        guard.fence(&mut tx).await.unwrap();
        open.push(tx);
    }
    guard.release().await.unwrap();
    for tx in open {
        assert!(
            !is_free(&other, "account:7").await,
            "broken promise: the key is free beside a transaction that relies on it"
        );
        tx.commit().await.unwrap();
    }
}
