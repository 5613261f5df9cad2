//! `dlock unlock` over PostgreSQL: it ends only the lease that it has shown, and none on which a transaction relies.

use std::time::Duration;

use dlock::{LockKey, store::StoreOptions};
use dlock_admin::{Inspect as _, Unlocked};
use dlock_postgres::{Fence as _, admin::PostgresInspector, lock_in};
use dlock_testkit::{PgBouncer, eventually};
use serde_json::Value;
use tokio_postgres::{IsolationLevel, Transaction};

use super::{Database, at};
use crate::{
    LIMIT, call,
    cases::{self, Place as _, json},
    until_answered,
};

async fn inspector(database: &Database) -> PostgresInspector {
    inspector_at(&database.url()).await
}

async fn inspector_at(url: &str) -> PostgresInspector {
    let mut options = StoreOptions::default();
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    PostgresInspector::connect(url, &options).await.unwrap()
}

#[tokio::test]
async fn the_next_waiter_holds_the_lock_and_the_old_holder_is_notified() {
    let database = Database::with_claims().await;
    cases::the_next_waiter_holds_the_lock_and_the_old_holder_is_notified(database).await;
}

#[tokio::test]
async fn a_lease_is_not_released_while_a_transaction_relies_on_it() {
    let database = Database::new().await;
    let manager = database.manager("billing").await;
    let mut client = database.client().await;
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    let pid: i32 = tx
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);
    // Another one that relies on another lease is not to be ended.
    let mut stranger = database.client().await;
    let other = manager.lock("account:8").acquire().await.unwrap();
    let other_tx = stranger.transaction().await.unwrap();
    other.fence(&other_tx).await.unwrap();
    let stranger: i32 = other_tx
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);

    // Twice: a refused release leaves its mark in the row.
    for _ in 0..2 {
        let refused = database.call(&["unlock", "-y", "account:7"]).await.with(1);
        for part in [
            "`account:7` was not released",
            "a transaction relies on its lease",
            &format!("pg_terminate_backend({pid})"),
            "idle in transaction since 20",
        ] {
            assert!(
                refused.stderr.contains(part),
                "no `{part}`: {}",
                refused.stderr
            );
        }
        let named = format!("pid {stranger}");
        assert!(!refused.stderr.contains(&named), "{}", refused.stderr);
        guard.ensure_held().unwrap();
    }
    // A role that does not see the transactions of others is told so.
    let role = database.role("operator").await;
    let words = ["postgres", "migrate", "--operator-role", &role];
    database.call(&words).await.with(0);
    let refused = database
        .call_as(&role, &["unlock", "-y", "account:7"])
        .await
        .with(1);
    assert!(
        refused.stderr.contains(&pid.to_string()) && refused.stderr.contains("pg_read_all_stats"),
        "{}",
        refused.stderr
    );
    tx.commit().await.unwrap();
    database.call(&["unlock", "-y", "account:7"]).await.with(0);
    guard.lost().await;
    other_tx.commit().await.unwrap();
    other.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_ends_with_a_transaction_is_refused_without_waiting_for_it() {
    let database = Database::new().await;
    let (one, other) = (
        database.manager("one").await,
        database.manager("other").await,
    );
    let mut client = database.client().await;
    let tx = client.transaction().await.unwrap();
    lock_in(one.lock("account:7"), &tx).await.unwrap();
    let refused = database.call(&["unlock", "-y", "account:7"]).await.with(1);
    assert!(
        refused.stderr.contains("relies on its lease"),
        "{}",
        refused.stderr
    );
    // Requests for the key are answered meanwhile.
    assert!(
        other
            .lock("account:7")
            .try_acquire()
            .await
            .unwrap()
            .is_none(),
        "broken promise: two hold the key"
    );
    tx.commit().await.unwrap();
    let next = other.lock("account:7").try_acquire().await.unwrap();
    next.expect("the transaction has ended")
        .release()
        .await
        .unwrap();
}

/// Behind a pooler, the level is that of the database. With the snapshot of its first statement, the release would not see
/// a waiter that has come since.
#[tokio::test]
async fn a_waiter_of_the_last_moment_gets_the_lock_whatever_the_level_of_the_database() {
    let database = Database::new().await;
    let level = "SET default_transaction_isolation = 'repeatable read'";
    let set = format!("ALTER DATABASE {} {level}", database.name);
    database.execute(&set).await;
    let pooler = PgBouncer::start(database.server).await;
    let url = pooler.url_of("postgres", &database.name);
    let key = LockKey::new("job").unwrap();
    let manager = database.manager("one").await;
    let guard = manager.lock("job").ttl(4 * LIMIT).acquire().await.unwrap();
    let inspector = inspector_at(&url).await;
    let seen = inspector.lock(&key).await.unwrap().unwrap();

    let mut client = database.client().await;
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted);
    let tx = tx.start().await.unwrap();
    // The mutex of the key.
    let lock = "SELECT FROM dlock.turn WHERE key = 'job' FOR NO KEY UPDATE";
    tx.execute(lock, &[]).await.unwrap();
    let unlocking = tokio::spawn(async move { inspector.unlock(&seen, None).await });
    let waits = "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually(LIMIT, "the release waits", async || {
        database.number(waits).await == 1
    })
    .await;
    let late = "SELECT is_granted FROM dlock.acquire('job', 'late.1', 300000, 0, true, '', '')";
    assert!(!tx.query_one(late, &[]).await.unwrap().get::<_, bool>(0));
    tx.commit().await.unwrap();
    assert_eq!(unlocking.await.unwrap().unwrap(), Unlocked::Granted);
    guard.lost().await;
    let late = "SELECT count(*) FROM dlock.holder WHERE owner = 'late.1'";
    assert_eq!(database.number(late).await, 1);

    let words = ["unlock", "-y", "job"];
    let ended = until_answered(async || call(&mut at(&url, &words)).await).await;
    let said = ended.with(0).stdout;
    assert!(said.contains("Released `job`: it is free."), "{said}");
}

/// Prepares a transaction, which then is in no session any more.
async fn prepare(tx: Transaction<'_>, name: &str) {
    let prepare = format!("PREPARE TRANSACTION '{}'", name.replace('\'', "''"));
    tx.batch_execute(&prepare).await.unwrap();
}

#[tokio::test]
async fn a_prepared_transaction_that_relies_on_a_lease_is_named() {
    let database = Database::new().await;
    let (one, other) = (
        database.manager("one").await,
        database.manager("other").await,
    );
    // A name may contain a quote, and what separates the parts of a report.
    let fenced = format!("fenced in {}", database.name);
    let adopted = format!("bob's, {}", database.name);
    let quoted = adopted.replace('\'', "''");
    let mut client = database.client().await;
    let guard = one.lock("account:7").acquire().await.unwrap();
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    prepare(tx, &fenced).await;
    let tx = client.transaction().await.unwrap();
    lock_in(one.lock("account:8"), &tx).await.unwrap();
    prepare(tx, &adopted).await;
    // Both leases end, and the transactions still hold the keys.
    database.end_lease("account:7").await;
    let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
    let are_over = async || database.number(over).await == 2;
    eventually(LIMIT, "the leases end", are_over).await;

    for (key, name, quoted) in [
        ("account:7", &fenced, &fenced),
        ("account:8", &adopted, &quoted),
    ] {
        let listed = database.call(&["inspect", "--json", key]).await.with(0);
        assert_ne!(json(&listed.stdout)["holder"], Value::Null, "{key}");
        let early = other.lock(key).try_acquire().await.unwrap();
        assert!(early.is_none(), "broken promise: two hold `{key}`");
        let refused = database.call(&["unlock", "-y", key]).await.with(1);
        let said = &refused.stderr;
        for part in [
            &format!("`{key}` was not released"),
            &format!("`ROLLBACK PREPARED '{quoted}'` or `COMMIT PREPARED '{quoted}'`"),
            &format!("transaction \"{name}\" (user \"postgres\", prepared since 20"),
        ] {
            assert!(said.contains(part), "no `{part}`: {said}");
        }
        assert!(!said.contains("pg_terminate_backend"), "{said}");
    }
    eventually(LIMIT, "the transactions are old", async || {
        let words = ["doctor", "--json", "--ttl", "100ms"];
        let report = json(&database.call(&words).await.stdout);
        let findings = report["findings"].as_array().unwrap();
        let texts: Vec<_> = findings
            .iter()
            .filter_map(|it| it["what"].as_str())
            .collect();
        let is_named = |name| {
            texts
                .iter()
                .any(|it| it.contains(&format!("\"{name}\" for ")))
        };
        is_named(&fenced) && is_named(&adopted)
    })
    .await;
    for end in [
        format!("ROLLBACK PREPARED '{fenced}'"),
        format!("COMMIT PREPARED '{quoted}'"),
    ] {
        database.execute(&end).await;
    }
    for key in ["account:7", "account:8"] {
        let next = other.lock(key).try_acquire().await.unwrap();
        let next = next.expect("the transaction has ended");
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn only_the_lease_that_was_seen_is_ended() {
    let database = Database::new().await;
    let inspector = inspector(&database).await;
    let manager = database.manager("one").await;
    let key = LockKey::new("job").unwrap();
    let guard = manager.lock("job").acquire().await.unwrap();
    let seen = inspector.lock(&key).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(
        inspector.unlock(&seen, None).await.unwrap(),
        Unlocked::Changed
    );
    let later = database
        .manager("two")
        .await
        .lock("job")
        .acquire()
        .await
        .unwrap();
    let owner = seen.holder.as_ref().and_then(|it| it.owner);
    for holder in [None, owner] {
        let outcome = inspector.unlock(&seen, holder).await.unwrap();
        assert_eq!(outcome, Unlocked::Changed, "{holder:?}");
    }
    later.ensure_held().unwrap();
    assert_eq!(
        database.number("SELECT count(*) FROM dlock.holder").await,
        1
    );
    later.release().await.unwrap();
}

#[tokio::test]
async fn those_who_share_a_lock_later_are_not_ended_if_it_was_free_in_between() {
    let database = Database::new().await;
    let inspector = inspector(&database).await;
    let manager = database.manager("one").await;
    let key = LockKey::new("catalog").unwrap();
    let guard = manager.lock("catalog").shared().acquire().await.unwrap();
    let seen = inspector.lock(&key).await.unwrap().unwrap();
    guard.release().await.unwrap();
    let later = database.manager("two").await;
    let later = later.lock("catalog").shared().acquire().await.unwrap();
    let outcome = inspector.unlock(&seen, None).await.unwrap();
    assert_eq!(outcome, Unlocked::Changed);
    later.ensure_held().unwrap();
    later.release().await.unwrap();
}

#[tokio::test]
async fn of_a_shared_lock_one_holder_or_all_are_ended() {
    let database = Database::new().await;
    let [one, two, three] = [
        database.manager("one").await,
        database.manager("two").await,
        database.manager("three").await,
    ];
    let first = one.lock("catalog").shared().acquire().await.unwrap();
    let second = two.lock("catalog").shared().acquire().await.unwrap();
    let inspector = inspector(&database).await;
    let key = LockKey::new("catalog").unwrap();
    let seen = inspector.lock(&key).await.unwrap().unwrap();
    let refused = database.call(&["unlock", "-y", "catalog"]).await.with(2);
    assert!(
        refused.stderr.contains("`--holder HANDLE` or `--all`"),
        "{}",
        refused.stderr
    );
    let holders = seen
        .holders()
        .find(|it| it.label.as_ref().unwrap().starts_with("one@"));
    let handle = holders.unwrap().owner.unwrap().handle().to_string();
    let words = ["unlock", "-y", "catalog", "--holder", &handle];
    let ended = database.call(&words).await.with(0);
    assert!(
        ended.stdout.contains("others share it."),
        "{}",
        ended.stdout
    );
    first.lost().await;
    second.ensure_held().unwrap();

    // A holder that has joined since is ended too, and an exclusive waiter is next.
    let joined = three.lock("catalog").shared().acquire().await.unwrap();
    let waiting = tokio::spawn(one.lock("catalog").wait(LIMIT).acquire());
    database.has_waiters(1).await;
    assert_eq!(
        inspector.unlock(&seen, None).await.unwrap(),
        Unlocked::Granted
    );
    joined.lost().await;
    second.lost().await;
    let next = waiting.await.unwrap().unwrap();
    assert!(
        next.fencing_token() > joined.fencing_token(),
        "broken promise: the token did not grow"
    );
    tokio::time::timeout(Duration::from_secs(30), next.release())
        .await
        .unwrap()
        .unwrap();
}
