//! What a sweep removes, what it leaves, and when there is another one.

use tokio_postgres::Client;

use crate::database::Database;

const SWEEP: &str = "SELECT dlock.sweep()";

/// Has another sweep begin.
async fn sweep_again(database: &Database, client: &Client) -> i64 {
    let due = "UPDATE dlock.sweep_state SET due = clock_timestamp()";
    client.batch_execute(due).await.unwrap();
    database.number(SWEEP).await
}

/// The owners in a table, or its keys, as one text.
async fn all(client: &Client, column: &str, table: &str) -> String {
    let all = format!(
        "SELECT coalesce(string_agg({column}, ' ' ORDER BY {column}), '') FROM dlock.{table}"
    );
    client.query_one(&all, &[]).await.unwrap().get(0)
}

/// Keys that were used half an hour ago or hours ago, and holders and waiters of half a minute or some minutes ago.
const ROWS: &str = "
    INSERT INTO dlock.turn (key, last_fence, granted_at) SELECT key, 7, clock_timestamp() - age::interval FROM (VALUES
        ('recent', '30 minutes'), ('unused', '3 hours'), ('held', '3 hours'), ('old_held', '3 hours'), ('awaited', '3 hours'),
        ('ended', '3 hours'), ('just_ended', '3 hours'), ('dead', '3 hours'), ('just_dead', '3 hours')) it (key, age);
    INSERT INTO dlock.holder (key, owner, fence, number, ends) SELECT key, key, 7, number, clock_timestamp() - age::interval
        FROM (VALUES ('held', 7, '-1 hour'), ('old_held', 0, '-1 hour'), ('ended', 7, '10 minutes'),
            ('just_ended', 7, '30 seconds')) it (key, number, age);
    INSERT INTO dlock.waiter (key, owner, most, since, alive) SELECT key, key, 0, now(), clock_timestamp() - age::interval
        FROM (VALUES ('awaited', '-1 hour'), ('dead', '10 minutes'), ('just_dead', '30 seconds')) it (key, age)";

#[tokio::test]
async fn a_sweep_removes_what_is_over_and_keys_that_were_not_used_for_an_hour() {
    let database = Database::new().await;
    let client = database.client().await;
    client.batch_execute(ROWS).await.unwrap();
    assert_eq!(database.number(SWEEP).await, 9, "it has looked at all keys");
    let kept = "awaited held just_dead just_ended old_held recent";
    assert_eq!(all(&client, "key", "turn").await, kept);
    assert_eq!(
        all(&client, "owner", "holder").await,
        "held just_ended old_held"
    );
    assert_eq!(all(&client, "owner", "waiter").await, "awaited just_dead");
}

#[tokio::test]
async fn a_sweep_passes_over_what_others_have_locked() {
    let database = Database::new().await;
    let (client, mut other) = (database.client().await, database.client().await);
    client.batch_execute(ROWS).await.unwrap();
    let tx = other.transaction().await.unwrap();
    for locked in [
        "SELECT FROM dlock.holder WHERE key = 'ended' FOR KEY SHARE",
        "SELECT FROM dlock.waiter WHERE key = 'dead' FOR UPDATE",
        "SELECT FROM dlock.turn WHERE key = 'unused' FOR NO KEY UPDATE",
    ] {
        assert_eq!(tx.query(locked, &[]).await.unwrap().len(), 1, "{locked}");
    }
    // A wait would fail.
    let at_once = "SET lock_timeout = '10s'";
    client.batch_execute(at_once).await.unwrap();
    client.batch_execute(SWEEP).await.unwrap();
    let kept = "awaited dead ended held just_dead just_ended old_held recent unused";
    assert_eq!(all(&client, "key", "turn").await, kept);
    tx.commit().await.unwrap();
    sweep_again(&database, &client).await;
    let kept = "awaited held just_dead just_ended old_held recent";
    assert_eq!(all(&client, "key", "turn").await, kept);
}

#[tokio::test]
async fn a_sweep_goes_on_where_the_last_one_has_ended_until_all_is_looked_at() {
    const NEW: &str = "INSERT INTO dlock.turn (key, last_fence) SELECT 'key:' || n, 7 FROM generate_series(1, {0}) n";
    // Whether another one is due now.
    const IS_DUE: &str =
        "SELECT (due <= clock_timestamp())::integer::bigint FROM dlock.sweep_state";
    let database = Database::new().await;
    let client = database.client().await;
    for (keys, parts) in [
        (2500, &[1000, 1000, 500][..]),
        (1000, &[1000, 0]),
        (999, &[999]),
    ] {
        let made = NEW.replace("{0}", &keys.to_string());
        let made = format!(
            "TRUNCATE dlock.turn; {made}; UPDATE dlock.sweep_state SET due = clock_timestamp()"
        );
        client.batch_execute(&made).await.unwrap();
        for (index, part) in parts.iter().enumerate() {
            assert_eq!(database.number(IS_DUE).await, 1, "{keys}: {index}");
            assert_eq!(database.number(SWEEP).await, *part, "{keys}: {index}");
        }
        // The last keys were looked at too: now the first ones again.
        let next = "SELECT (due BETWEEN clock_timestamp() + interval '8 minutes' AND clock_timestamp() + interval '9 minutes'
                AND after = '')::integer::bigint FROM dlock.sweep_state";
        assert_eq!(database.number(next).await, 1, "{keys}");
        assert_eq!(database.number(SWEEP).await, 0, "{keys}: not before");
    }
    // The last of many keys is not used any more.
    let old = "UPDATE dlock.turn SET granted_at = granted_at - interval '3 hours' WHERE key = (SELECT max(key) FROM dlock.turn)";
    client.batch_execute(old).await.unwrap();
    sweep_again(&database, &client).await;
    assert_eq!(
        database.number("SELECT count(*) FROM dlock.turn").await,
        998
    );
}

#[tokio::test]
async fn a_sweep_of_many_leases_or_waiters_goes_on_at_once() {
    let database = Database::new().await;
    let client = database.client().await;
    let holders = "INSERT INTO dlock.holder (key, owner, fence, ends)
        SELECT n::text, 'a.1', 7, clock_timestamp() - interval '10 minutes' FROM generate_series(1, 1001) n";
    let waiters = "INSERT INTO dlock.waiter (key, owner, most, alive, since)
        SELECT n::text, 'a.1', 0, clock_timestamp() - interval '10 minutes', now() FROM generate_series(1, 1001) n";
    for rows in [holders, waiters] {
        client.batch_execute(rows).await.unwrap();
        assert_eq!(sweep_again(&database, &client).await, 1000);
        assert_eq!(database.number(SWEEP).await, 1, "there was more");
        assert_eq!(database.number(SWEEP).await, 0, "there is no more");
    }
}
