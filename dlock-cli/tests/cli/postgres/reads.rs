//! `ls`, `inspect` and `top` over PostgreSQL.

use std::time::Duration;

use dlock::Wait;
use dlock::{LockKey, admin::Inspect as _, store::StoreOptions};
use dlock_postgres::{Fence as _, admin::PostgresInspector};
use dlock_testkit::eventually;

use super::{Database, json};
use crate::{
    LIMIT,
    reads::is_harmless,
    top::{left_behind_nothing, terminal_at},
};

#[tokio::test]
async fn holders_and_waiters_are_shown_in_order() {
    let database = Database::new().await;
    let nothing = database.call(&["ls"]).await.with(0);
    assert!(nothing.stderr.contains("no locks"), "{}", nothing.stderr);
    let [billing, mail, cron] = [
        database.manager("billing").await,
        database.manager("mail").await,
        database.manager("cron").await,
    ];
    let guard = billing.lock("order:1").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (count, manager) in [(1, &mail), (2, &cron)] {
        let request = manager.lock("order:1").wait(Wait::Forever);
        waiting.push(tokio::spawn(request.acquire()));
        database.has_waiters(count).await;
    }
    let free = database.call(&["inspect", "order:2"]).await.with(1);
    assert!(
        free.stdout.contains("holder         none"),
        "{}",
        free.stdout
    );

    let lock = json(
        &database
            .call(&["inspect", "--json", "order:1"])
            .await
            .with(0)
            .stdout,
    );
    let holder = &lock["holder"];
    let label = holder["label"].as_str().unwrap();
    assert!(label.starts_with("billing@"), "{lock:#}");
    assert_eq!(lock["mode"], "exclusive");
    assert_eq!(lock["last_fence"], holder["fence"]);
    let token = holder["token"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(token >> 12, holder["fence"].as_u64().unwrap());
    let ttl = holder["ttl_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&ttl), "{lock:#}");
    assert!(holder["held_ms"].as_u64().unwrap() < 600_000, "{lock:#}");
    let waiters = lock["waiters"].as_array().unwrap();
    let labels = waiters.iter().map(|it| it["label"].as_str().unwrap());
    let names: Vec<_> = labels.map(|it| it.split('@').next().unwrap()).collect();
    assert_eq!(names, ["mail", "cron"]);
    assert_eq!(lock["waiter_count"], 2);
    let waits: Vec<_> = waiters
        .iter()
        .map(|it| it["waiting_ms"].as_u64().unwrap())
        .collect();
    assert!(waits[0] >= waits[1], "{waits:?}");
    assert!(waiters.iter().all(|it| it["is_alive"] == true), "{lock:#}");

    let shown = database.call(&["ls"]).await.with(0).stdout;
    assert!(shown.contains("order:1  billing@"), "{shown}");
    let top = database.call(&["top", "--once"]).await.with(0).stdout;
    for part in ["1 lock   1 held   2 waiting   3 processes", "PostgreSQL 1"] {
        assert!(top.contains(part), "no `{part}`:\n{top}");
    }
    let top = json(&database.call(&["top", "--json"]).await.with(0).stdout);
    assert_eq!(
        (&top["processes"], &top["namespace"]),
        (&3.into(), &"dlock".into())
    );
    assert_eq!(top["locks"][0]["key"], "order:1");

    guard.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    eventually(LIMIT, "nothing is shown", async || {
        let listed = database.call(&["ls", "--json"]).await.with(0).stdout;
        json(&listed).as_array().unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn those_who_share_a_lock_or_have_its_permits_are_shown_together() {
    let database = Database::new().await;
    let (one, other) = (
        database.manager("one").await,
        database.manager("other").await,
    );
    let _shared = (
        one.lock("catalog").shared().acquire().await.unwrap(),
        other.lock("catalog").shared().acquire().await.unwrap(),
    );
    let _permits = (
        one.lock("encoder").permits(2).acquire().await.unwrap(),
        other.lock("encoder").permits(2).acquire().await.unwrap(),
    );
    let third = database.manager("third").await;
    let request = third.lock("encoder").permits(2).wait(Wait::Forever);
    let waiting = tokio::spawn(request.acquire());
    database.has_waiters(1).await;
    let listed = json(&database.call(&["ls", "--json"]).await.with(0).stdout);
    for (index, key) in [(0, "catalog"), (1, "encoder")] {
        let lock = &listed[index];
        assert_eq!(
            (&lock["key"], &lock["mode"], &lock["holder_count"]),
            (&key.into(), &"shared".into(), &2.into())
        );
        let holders = lock["holders"].as_array().unwrap();
        let labels = holders.iter().map(|it| it["label"].as_str().unwrap());
        let mut names: Vec<_> = labels.map(|it| it.split('@').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "other"]);
        assert_eq!(
            holders[0]["fence"], holders[1]["fence"],
            "they share an epoch"
        );
    }
    assert_eq!(listed[1]["waiters"][0]["permits"], 2);
    let shown = database.call(&["inspect", "encoder"]).await.with(0).stdout;
    assert!(
        shown.contains("third@") && shown.contains("(one of 2 permits)"),
        "{shown}"
    );
    waiting.abort();
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
    let lock = "INSERT INTO dlock.lock (key) VALUES ($1)";
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
    let many = "INSERT INTO dlock.lock (key) SELECT format('k:%s', lpad(n::text, 4, '0')) FROM generate_series(0, 1199) n;
        INSERT INTO dlock.holder (key, owner, fence, ends)
            SELECT key, repeat('0', 32) || '.1', 1, now() + interval '1 hour' FROM dlock.lock;
        INSERT INTO dlock.lock (key) SELECT format('free:%s', n) FROM generate_series(0, 1199) n;
        INSERT INTO dlock.lock (key) VALUES ('a.b'), ('axb'), ('a%b'), ('a_b'), ('a\\b'), ('a*b');
        INSERT INTO dlock.waiter (key, owner, most, alive, since)
            SELECT key, repeat('0', 32) || '.2', 0, now() + interval '1 hour', now() FROM dlock.lock WHERE key LIKE 'a%'";
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
        "see:owner",
        "see:order:77",
        "press:q",
    ];
    let worker = terminal_at(&database.url(), "120x30", &steps);
    worker.line("seen owner", LIMIT).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dlock operator'
               AND datname = current_database()";
    database.execute(end).await;
    let later = billing.lock("order:77").acquire().await.unwrap();
    left_behind_nothing(&worker, 0).await;
    drop((guard, later));
}
