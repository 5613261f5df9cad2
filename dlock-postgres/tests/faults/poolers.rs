//! A pooler that gives one client the answers of another: locks that were not granted are not believed in, and dlock
//! does it to nobody.
//!
//! PgBouncer 1.18 does so when a client has sent two requests at once and leaves after the first answer.

use std::pin::pin;

use dlock_testkit::{PgBouncer, Proxy, eventually};
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::world::{DEADLINE, World, builder, client, connect};

/// A lock without a holder, in the form of an answer. It is held back until the [`GATE`] is open.
const FORGED: &str = "SELECT true AS is_granted, 7::bigint AS fence, NULL::bigint AS last_fence, NULL::bigint AS place, \
     NULL::text AS label, NULL::text AS function, NULL::bigint AS rest_ms, NULL::bigint AS others \
     FROM pg_advisory_xact_lock_shared(7)";

/// Holds back the forged answer as long as its connection lasts.
const GATE: &str = "SELECT pg_advisory_lock(7)";

#[tokio::test]
async fn an_answer_that_a_pooler_has_mixed_up_is_not_believed() {
    let world = World::shared().await;
    let pooler = PgBouncer::start_with_pool(world.server, 1).await;
    let url = pooler.url_of("postgres", &world.database);
    let patient = builder().response_timeout(DEADLINE);
    let manager = patient.connect(&url).await.unwrap();
    let gate = world.client().await;
    gate.batch_execute(GATE).await.unwrap();
    pooler.leave_an_answer(&world.database, FORGED).await;
    let is_passed_on = eventually(DEADLINE, "the request is at the server", async || {
        pooler.used_connections(&world.database).await > 0
    });
    let mut acquired = pin!(manager.lock("order:42").acquire());
    let guard = tokio::select! {
        // A pooler that mixes up nothing gives it a connection of its own.
        guard = &mut acquired => guard,
        () = is_passed_on => {
            drop(gate);
            acquired.await
        }
    };
    let guard = guard.unwrap();
    let granted = world.number("SELECT max(fence) FROM dlock.holder").await;
    assert_eq!(
        i64::try_from(guard.fencing_token().fence()),
        Ok(granted),
        "the lock that is held is the one that was granted"
    );
    guard.release().await.unwrap();
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_manager_that_leaves_a_pooler_mixes_up_no_answers_of_others() {
    let world = World::shared().await;
    let pooler = PgBouncer::start_with_pool(world.server, 1).await;
    let proxy = Proxy::start(pooler.port());
    let manager = connect(&world.url_at(proxy.port())).await;
    // The second request waits in the server for this transaction, and the first is answered.
    let guard = manager.lock("order:1").acquire().await.unwrap();
    guard.release().await.unwrap();
    let mut other = world.client().await;
    let tx = other.transaction().await.unwrap();
    tx.execute(
        "SELECT FROM dlock.turn WHERE key = 'order:1' FOR UPDATE",
        &[],
    )
    .await
    .unwrap();
    let mut second = pin!(manager.lock("order:1").acquire());
    {
        let mut first = pin!(manager.lock("order:2").acquire());
        tokio::select! {
            biased;
            guard = timeout(DEADLINE, &mut first) => drop(guard.unwrap().unwrap()),
            _ = &mut second => unreachable!("its key is locked"),
        }
    }
    proxy.cut();
    let number: i64 = 42;
    let asked = async {
        let own = client(&pooler.url_of("postgres", &world.database)).await;
        let rows = own.query_typed("SELECT $1", &[(&number, Type::INT8)]).await;
        rows.map(|rows| rows[0].try_get::<_, i64>(0).ok())
    };
    let answered = timeout(DEADLINE, asked).await.expect("the pooler answers");
    // It may end this connection with that to the server, but not answer for another request.
    assert!(
        !matches!(answered, Ok(other) if other != Some(number)),
        "{answered:?}"
    );
    tx.rollback().await.unwrap();
}
