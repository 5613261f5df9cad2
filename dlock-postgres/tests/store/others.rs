//! Requests on a key that others hold, await or change at that moment. Requests that find nobody are shorter.

use dlock_testkit::eventually;
use tokio_postgres::Client;

use crate::database::{DEADLINE, Database};

/// Whether this owner is granted the key, without a manager between.
async fn acquire(client: &Client, owner: &str, most: i32) -> bool {
    let statement = "SELECT is_granted FROM dlock.acquire('order:42', $1, 30000, $2, true, '', '')";
    let row = client.query_one(statement, &[&owner, &most]).await.unwrap();
    row.get(0)
}

async fn release(client: &Client, owner: &str) -> bool {
    let statement = "SELECT dlock.release('order:42', $1)";
    client.query_one(statement, &[&owner]).await.unwrap().get(0)
}

/// The owners that hold the key, as one text.
async fn holders(client: &Client) -> String {
    let statement = "SELECT coalesce(string_agg(owner, ' ' ORDER BY owner), '') FROM dlock.holder";
    client.query_one(statement, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_waiter_is_first_though_nobody_holds_the_key() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(acquire(&client, "one.1", 0).await);
    assert!(
        !acquire(&client, "waiter.1", 0).await,
        "broken promise: two hold the key"
    );
    // As if it had been swept before the waiter asked again.
    let swept = "DELETE FROM dlock.holder";
    client.execute(swept, &[]).await.unwrap();
    assert!(
        !acquire(&client, "late.1", 0).await,
        "broken promise: two hold the key"
    );
    assert_eq!(holders(&client).await, "waiter.1");
    // Again, with a waiter whose place is the next one.
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    assert_eq!(client.execute(patient, &[]).await.unwrap(), 1);
    client.execute(swept, &[]).await.unwrap();
    assert!(
        !acquire(&client, "later.1", 0).await,
        "broken promise: two hold the key"
    );
    assert_eq!(holders(&client).await, "late.1");
    assert!(release(&client, "late.1").await);
    assert_eq!(holders(&client).await, "later.1");
}

/// Two readers hold the key, of which one has crashed and its lease has ended, and a writer waits.
async fn one_waits_behind_two(client: &Client) {
    assert!(acquire(client, "one.1", -1).await);
    assert!(acquire(client, "crashed.1", -1).await);
    assert!(
        !acquire(client, "waiter.1", 0).await,
        "broken promise: two hold the key"
    );
    let crashed = "UPDATE dlock.holder SET ends = clock_timestamp() WHERE owner = 'crashed.1'";
    assert_eq!(client.execute(crashed, &[]).await.unwrap(), 1);
}

#[tokio::test]
async fn a_release_removes_the_ended_lease_of_another_holder_for_a_waiter() {
    let database = Database::new().await;
    let client = database.client().await;
    one_waits_behind_two(&client).await;
    assert!(release(&client, "one.1").await);
    assert_eq!(holders(&client).await, "waiter.1");
}

#[tokio::test]
async fn an_unlock_removes_the_ended_lease_of_another_holder_for_a_waiter() {
    let database = Database::new().await;
    let client = database.client().await;
    one_waits_behind_two(&client).await;
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    assert_eq!(client.execute(patient, &[]).await.unwrap(), 1);
    let unlock = "SELECT dlock.unlock(key, owner, fence) FROM dlock.holder WHERE owner = 'one.1'";
    let row = client.query_one(unlock, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(holders(&client).await, "waiter.1");
}

/// An exclusive waiter is granted the key in another way than all others.
const MODES: [i32; 2] = [0, -1];

#[tokio::test]
async fn a_release_passes_over_a_waiter_that_has_died() {
    for most in MODES {
        let database = Database::new().await;
        let client = database.client().await;
        assert!(acquire(&client, "one.1", 0).await);
        assert!(
            !acquire(&client, "dead.1", most).await,
            "broken promise: two hold the key"
        );
        assert!(
            !acquire(&client, "waiter.1", most).await,
            "broken promise: two hold the key"
        );
        // The machine may stand still for longer than a waiter lives.
        for (owner, alive) in [("dead.1", "0"), ("waiter.1", "1 hour")] {
            let set = format!(
                "UPDATE dlock.waiter SET alive = clock_timestamp() + interval '{alive}' WHERE owner = '{owner}'"
            );
            assert_eq!(client.execute(&set, &[]).await.unwrap(), 1);
        }
        assert!(release(&client, "one.1").await);
        assert_eq!(holders(&client).await, "waiter.1");
        let waiters = "SELECT count(*) FROM dlock.waiter";
        assert_eq!(database.number(waiters).await, 0);
    }
}

#[tokio::test]
async fn a_release_grants_the_key_to_the_first_waiter() {
    for most in MODES {
        let database = Database::new().await;
        let client = database.client().await;
        assert!(acquire(&client, "one.1", 0).await);
        assert!(
            !acquire(&client, "first.1", most).await,
            "broken promise: two hold the key"
        );
        assert!(
            !acquire(&client, "second.1", 0).await,
            "broken promise: two hold the key"
        );
        let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
        assert_eq!(client.execute(patient, &[]).await.unwrap(), 2);
        assert!(release(&client, "one.1").await);
        assert_eq!(holders(&client).await, "first.1");
        assert!(release(&client, "first.1").await);
        assert_eq!(holders(&client).await, "second.1");
        let waiters = "SELECT count(*) FROM dlock.waiter";
        assert_eq!(
            database.number(waiters).await,
            0,
            "who holds it waits no more"
        );
    }
}

#[tokio::test]
async fn a_release_waits_for_a_renewal_that_is_under_way() {
    let database = Database::new().await;
    let (client, mut renewing) = (database.client().await, database.client().await);
    assert!(acquire(&client, "one.1", 0).await);
    let renewal = renewing.transaction().await.unwrap();
    let renew = "UPDATE dlock.holder SET ends = ends + interval '1 second'";
    assert_eq!(renewal.execute(renew, &[]).await.unwrap(), 1);
    let releasing = tokio::spawn(async move { (release(&client, "one.1").await, client) });
    let waits = "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually(DEADLINE, "the release waits", async || {
        database.number(waits).await == 1
    })
    .await;
    assert!(!releasing.is_finished());
    renewal.commit().await.unwrap();
    let (was_held, client) = releasing.await.unwrap();
    assert!(was_held);
    assert_eq!(holders(&client).await, "");
}

#[tokio::test]
async fn a_lease_that_has_ended_is_not_released_as_held() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(acquire(&client, "one.1", 0).await);
    database.end_lease("order:42").await;
    assert!(!release(&client, "one.1").await);
    assert!(!release(&client, "never.1").await);
    assert_eq!(holders(&client).await, "");
}
