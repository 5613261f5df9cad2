//! `ls`, `inspect` and `top` over PostgreSQL.

use std::time::Duration;

use dlock::{LockKey, store::StoreOptions};
use dlock_admin::Inspect as _;
use dlock_postgres::{Fence as _, admin::PostgresInspector};

use super::Database;
use crate::{
    LIMIT,
    cases::{self, Place as _, json},
    reads::is_harmless,
    top::{left_behind_nothing, terminal_at},
};

#[tokio::test]
async fn holders_and_waiters_are_shown_in_order() {
    cases::holders_and_waiters_are_shown_in_order(Database::new().await).await;
}

#[tokio::test]
async fn those_who_share_a_lock_or_have_its_permits_are_shown_together() {
    let database = Database::with_claims().await;
    cases::those_who_share_or_have_permits_are_shown_together(database).await;
}

#[tokio::test]
async fn hostile_keys_and_labels_drive_no_terminal_and_are_complete_in_json() {
    let database = Database::new().await;
    let manager = database.manager("one").await;
    let long = "k".repeat(512);
    let good = ["\u{202e}evil\u{2066}", "<script>alert(1)</script>", &long];
    let mut guards = Vec::new();
    for key in good {
        guards.push(manager.lock(key).acquire().await.unwrap());
    }
    // Keys that no client of dlock writes.
    let bad = "a\u{1b}[2J{b}\u{9b}31m";
    let client = database.client().await;
    let lock = "INSERT INTO dlock.turn (key) VALUES ($1)";
    client.execute(lock, &[&bad]).await.unwrap();
    let holder = "INSERT INTO dlock.holder VALUES ($1, $2, -7, now() + interval '1 hour', $1, $1)";
    client
        .execute(holder, &[&bad, &"not an owner\u{7}"])
        .await
        .unwrap();
    let waiter = "INSERT INTO dlock.waiter (key, owner, most, alive, since, label)
                  VALUES ($1, 'x', -9, now() + interval '1 hour', now() + interval '1 hour', $1)";
    client.execute(waiter, &[&bad]).await.unwrap();

    let listed = json(&database.call(&["ls", "--json"]).await.with(0).stdout);
    let keys: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["key"].as_str().unwrap())
        .collect();
    let mut expected = [&good[..], &[bad]].concat();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    for words in [&["ls"][..], &["ls", "--json"]] {
        let shown = database.call(words).await.with(0);
        assert!(is_harmless(&shown.stdout), "{:?}", shown.stdout);
    }
    let top = database.call(&["top", "--once"]).await.with(0).stdout;
    let drives = |c: char| {
        c != '\n' && c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!top.contains(drives), "{top:?}");
    for key in good {
        let shown = database.call(&["inspect", "--", key]).await.with(0);
        assert!(is_harmless(&shown.stdout), "{:?}", shown.stdout);
    }
    drop(guards);
}

#[tokio::test]
async fn all_pages_are_listed_and_patterns_mean_what_they_mean_in_redis() {
    let database = Database::new().await;
    let many = "INSERT INTO dlock.turn (key) SELECT format('k:%s', lpad(n::text, 4, '0')) FROM generate_series(0, 1199) n;
        INSERT INTO dlock.holder (key, owner, fence, ends)
            SELECT key, repeat('0', 32) || '.1', 1, now() + interval '1 hour' FROM dlock.turn;
        INSERT INTO dlock.turn (key) SELECT format('free:%s', n) FROM generate_series(0, 1199) n;
        INSERT INTO dlock.turn (key) VALUES ('a.b'), ('axb'), ('a%b'), ('a_b'), ('a\\b'), ('a*b');
        INSERT INTO dlock.waiter (key, owner, most, alive, since)
            SELECT key, repeat('0', 32) || '.2', 0, now() + interval '1 hour', now() FROM dlock.turn WHERE key LIKE 'a%'";
    database.execute(many).await;
    for words in [&["ls", "--json", "--fast"][..], &["ls", "--json"]] {
        let listed = json(&database.call(words).await.with(0).stdout);
        let locks = listed.as_array().unwrap().iter();
        let keys: Vec<_> = locks.map(|it| it["key"].as_str().unwrap()).collect();
        assert_eq!(keys.len(), 1206);
        assert!(
            keys.is_sorted() && keys[1205] == "k:1199",
            "{:?}",
            &keys[1200..]
        );
    }
    for (pattern, count) in [
        ("k:*", 1200),
        ("k:1???", 200),
        ("k:11[0-4]9", 5),
        ("k:11[^0-4]9", 5),
        ("*99", 12),
        ("k:0042", 1),
        ("k:004", 0),
        ("k:?", 0),
        ("a?b", 6),
        ("a.b", 1),
        ("a%b", 1),
        ("a_b", 1),
        (r"a\\b", 1),
        (r"a\*b", 1),
        ("[]", 0),
        ("free:*", 0),
    ] {
        let listed = database
            .call(&["ls", "--json", "--fast", pattern])
            .await
            .with(0);
        let listed = json(&listed.stdout);
        assert_eq!(listed.as_array().unwrap().len(), count, "{pattern}");
    }
}

#[tokio::test]
async fn a_lease_that_ended_is_shown_as_long_as_a_transaction_relies_on_it() {
    let database = Database::new().await;
    let manager = database.manager("sleeper").await;
    let mut options = StoreOptions::default();
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    let inspector = PostgresInspector::connect(&database.url(), &options)
        .await
        .unwrap();
    let key = LockKey::new("account:7").unwrap();
    let seen = async || inspector.lock(&key).await.unwrap();
    let request = || {
        manager
            .lock("account:7")
            .renew(false)
            .ttl(Duration::from_secs(60))
    };

    let guard = request().acquire().await.unwrap();
    database.end_lease("account:7").await;
    assert_eq!(seen().await, None, "nothing keeps the key");
    drop(guard);

    for in_savepoint in [false, true] {
        let mut client = database.client().await;
        let guard = request().wait(LIMIT).acquire().await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        if in_savepoint {
            let savepoint = tx.transaction().await.unwrap();
            guard.fence(&savepoint).await.unwrap();
            savepoint.commit().await.unwrap();
        } else {
            guard.fence(&tx).await.unwrap();
        }
        database.end_lease("account:7").await;
        let lock = seen().await.expect("the transaction relies on it");
        assert_eq!(lock.holder.as_ref().unwrap().ttl, Some(Duration::ZERO));
        // A refused release leaves a list of transactions in the row.
        for _ in 0..2 {
            inspector.unlock(&lock, None).await.unwrap_err();
            assert!(seen().await.is_some());
        }
        tx.commit().await.unwrap();
        assert_eq!(seen().await, None);
        drop(guard);
    }
}

#[tokio::test]
async fn the_screen_shows_locks_and_survives_an_end_of_its_connection() {
    let database = Database::new().await;
    let billing = database.manager("billing").await;
    let guard = billing.lock("order:42").acquire().await.unwrap();
    let steps = [
        "see:order:42",
        // All of it is drawn again.
        "size:110x28",
        "see:grants unknown",
        r"press:\r",
        "see:handle",
        "see:order:77",
        "press:q",
    ];
    let worker = terminal_at(&database.url(), "120x30", &steps);
    worker.line("seen handle", LIMIT).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'dlock operator%'
               AND datname = current_database()";
    database.execute(end).await;
    let later = billing.lock("order:77").acquire().await.unwrap();
    left_behind_nothing(&worker, 0).await;
    drop((guard, later));
}
