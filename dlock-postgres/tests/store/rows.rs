//! The rules of the rows, one by one: statements of two connections, in an order that a manager meets by chance only.

use std::time::Duration;

use dlock_postgres::Postgres;
use dlock_runtime::LockManager;
use dlock_testkit::eventually;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::database::{DEADLINE, Database};

/// Requests an exclusive lease of half a minute.
pub(crate) fn acquire(owner: &str) -> String {
    format!("SELECT is_granted FROM dlock.acquire('order:42', '{owner}', 30000, 0, true, '', '')")
}

pub(crate) async fn is_true(client: &Client, statement: &str) -> bool {
    client.query_one(statement, &[]).await.unwrap().get(0)
}

/// Waits until a connection waits for the lock of another one, or `has_ended` says that it waits for nothing.
pub(crate) async fn waits_for_a_lock(database: &Database, has_ended: impl Fn() -> bool) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        database.name
    );
    let is_waiting = async || has_ended() || database.number(&waiting).await > 0;
    eventually(DEADLINE, "it waits", is_waiting).await;
}

#[tokio::test]
async fn two_that_ask_at_once_are_one_after_the_other() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    // The row of the key is there already: an insert would be a mutex by itself.
    assert!(is_true(&one, &acquire("c.1")).await);
    assert!(is_true(&one, "SELECT dlock.release('order:42', 'c.1')").await);
    let tx = one.transaction().await.unwrap();
    assert!(
        tx.query_one(&acquire("a.1"), &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
    );
    let late = tokio::spawn(async move { is_true(&other, &acquire("b.1")).await });
    waits_for_a_lock(&database, || late.is_finished()).await;
    tx.commit().await.unwrap();
    assert!(!late.await.unwrap(), "the first one has it");
}

/// The second one waits for the first one, whose grant has given the row another number.
#[tokio::test]
async fn two_that_use_a_key_first_make_one_row() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    // The row of another key, which is about to be used for the first time.
    let unused = "SELECT dlock.make_turn('order:7')";
    one.batch_execute(unused).await.unwrap();
    let tx = one.transaction().await.unwrap();
    tx.query_one(&acquire("a.1"), &[]).await.unwrap();
    let late = tokio::spawn(async move { is_true(&other, &acquire("b.1")).await });
    waits_for_a_lock(&database, || late.is_finished()).await;
    tx.commit().await.unwrap();
    assert!(!late.await.unwrap(), "broken promise: both have the lock");
    let rows = "SELECT count(*) FROM dlock.turn WHERE key = 'order:7' AND last_fence = 0
        OR last_fence = (SELECT fence FROM dlock.holder)";
    assert_eq!(database.number(rows).await, 2);
    assert_eq!(database.number("SELECT count(*) FROM dlock.turn").await, 2);
}

#[tokio::test]
async fn a_release_waits_for_a_renewal_that_is_under_way() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    assert!(is_true(&one, &acquire("a.1")).await);
    let tx = one.transaction().await.unwrap();
    let renew = "SELECT dlock.renew(ARRAY['order:42'], ARRAY['a.1'], ARRAY[30000::bigint], ARRAY[''], ARRAY[''])";
    assert_eq!(tx.query(renew, &[]).await.unwrap().len(), 1);
    let release = "SELECT dlock.release('order:42', 'a.1')";
    let released = tokio::spawn(async move { is_true(&other, release).await });
    waits_for_a_lock(&database, || released.is_finished()).await;
    assert!(!released.is_finished(), "it waits for the renewal");
    tx.commit().await.unwrap();
    assert!(released.await.unwrap());
}

#[tokio::test]
async fn a_release_is_carried_out_although_a_batch_with_its_lease_waits_for_another() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    for key in ["a", "b"] {
        let acquire =
            format!("SELECT is_granted FROM dlock.acquire('{key}', 'a.1', 30000, 0, true, '', '')");
        assert!(is_true(&one, &acquire).await);
    }
    let tx = one.transaction().await.unwrap();
    let renew =
        "SELECT dlock.renew(ARRAY['a'], ARRAY['a.1'], ARRAY[30000::bigint], ARRAY[''], ARRAY[''])";
    assert_eq!(tx.query(renew, &[]).await.unwrap().len(), 1);
    // In the order of the call, the lease that is free comes first.
    let both = "SELECT dlock.renew(ARRAY['b', 'a'], ARRAY['a.1', 'a.1'], ARRAY[30000, 30000]::bigint[], \
                ARRAY['', ''], ARRAY['', ''])";
    let renewed = tokio::spawn(async move { other.query(both, &[]).await.unwrap() });
    waits_for_a_lock(&database, || renewed.is_finished()).await;
    assert!(!renewed.is_finished(), "it waits for the other renewal");
    let client = database.client().await;
    assert!(is_true(&client, "SELECT dlock.release('b', 'a.1')").await);
    tx.commit().await.unwrap();
    let renewed: Vec<i64> = renewed
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(renewed, [2], "the other one was released");
}

#[tokio::test]
async fn a_lease_that_is_twice_in_a_batch_is_renewed_and_harms_no_other() {
    let database = Database::new().await;
    let client = database.client().await;
    for key in ["a", "b"] {
        let acquire = format!(
            "SELECT is_granted FROM dlock.acquire('{key}', '{key}.1', 30000, 0, true, '', '')"
        );
        assert!(is_true(&client, &acquire).await);
    }
    let renew = "SELECT dlock.renew(ARRAY['a', 'a', 'b'], ARRAY['a.1', 'a.1', 'b.1'], \
                 ARRAY[60000, 60000, 60000]::bigint[], ARRAY['', '', ''], ARRAY['', '', ''])";
    let renewed = client.query(renew, &[]).await.unwrap();
    let renewed: Vec<i64> = renewed.iter().map(|row| row.get(0)).collect();
    assert_eq!(renewed, [1, 2, 3]);
    let longer =
        "SELECT count(*) FROM dlock.holder WHERE ends > clock_timestamp() + interval '31 seconds'";
    assert_eq!(database.number(longer).await, 2);
}

#[tokio::test]
async fn a_sweep_keeps_a_fence_that_is_ahead_of_the_clock() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(is_true(&client, &acquire("a.1")).await);
    // The clock of the server was two hours ahead at the last grant, and has been set back.
    let ahead = "UPDATE dlock.turn SET last_fence = last_fence + 7200 * 100000, epoch = epoch + 7200 * 100000;
                 UPDATE dlock.turn SET granted_at = granted_at - interval '61 minutes'";
    client.batch_execute(ahead).await.unwrap();
    assert!(is_true(&client, "SELECT dlock.release('order:42', 'a.1')").await);
    let last = database.number("SELECT last_fence FROM dlock.turn").await;
    assert_eq!(database.number("SELECT dlock.sweep()").await, 1);
    let next = "SELECT fence FROM dlock.acquire('order:42', 'b.1', 30000, 0, true, '', '')";
    assert_eq!(database.number(next).await, last + 1);
}

#[tokio::test]
async fn a_lease_is_checked_by_its_owner_and_by_its_fence() {
    let database = Database::new().await;
    let client = database.client().await;
    // Two that share a lock have one fence.
    for owner in ["a.1", "b.1"] {
        let share = format!(
            "SELECT is_granted FROM dlock.acquire('catalog', '{owner}', 30000, -1, true, '', '')"
        );
        assert!(is_true(&client, &share).await);
    }
    let fence = database.number("SELECT max(fence) FROM dlock.holder").await;
    let other = "SELECT fence FROM dlock.acquire('order', 'd.1', 30000, 0, true, '', '')";
    let other = database.number(other).await;
    // Alone, and as one of several.
    let check = async |owner: &str, fence: i64| {
        let one = format!("ARRAY['catalog'], ARRAY['{owner}'], ARRAY[{fence}::bigint]");
        let both =
            format!("ARRAY['order', 'catalog'], ARRAY['d.1', '{owner}'], ARRAY[{other}, {fence}]");
        let is_held =
            async |leases| is_true(&client, &format!("SELECT dlock.fence({leases}) IS NULL")).await;
        let (one, both) = (is_held(one).await, is_held(both).await);
        assert_eq!(one, both);
        one
    };
    assert!(check("a.1", fence).await);
    assert!(
        !check("c.1", fence).await,
        "broken promise: a check passes without a lease"
    );
    assert!(
        !check("a.1", fence - 1).await,
        "broken promise: a check passes for an earlier lease"
    );
    let adopt = async |owner: &str, fence: i64| {
        is_true(
            &client,
            &format!("SELECT dlock.adopt('catalog', '{owner}', {fence})"),
        )
        .await
    };
    assert!(!adopt("c.1", fence).await);
    assert!(!adopt("a.1", fence - 1).await);
    assert!(adopt("a.1", fence).await);
    assert!(
        check("b.1", fence).await,
        "the other one still has its lease"
    );
}

#[tokio::test]
async fn a_fence_grows_although_the_clock_is_behind_the_last_one() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(is_true(&client, &acquire("a.1")).await);
    let ahead = "UPDATE dlock.turn SET last_fence = last_fence + 1000000000";
    client.batch_execute(ahead).await.unwrap();
    let last = database.number("SELECT last_fence FROM dlock.turn").await;
    let fence = "SELECT fence FROM dlock.holder";
    assert!(is_true(&client, "SELECT dlock.release('order:42', 'a.1')").await);
    assert!(is_true(&client, &acquire("b.1")).await);
    assert_eq!(database.number(fence).await, last + 1);

    // A grant to a waiter, which is there also if the machine was away for seconds.
    assert!(!is_true(&client, &acquire("c.1")).await);
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    client.batch_execute(patient).await.unwrap();
    assert!(is_true(&client, "SELECT dlock.release('order:42', 'b.1')").await);
    assert_eq!(database.number(fence).await, last + 2);
    let counted = "SELECT last_fence FROM dlock.turn WHERE last_fence = epoch AND NOT is_shared";
    assert_eq!(database.number(counted).await, last + 2);

    // Two waiters that have reserved the same number.
    let lasting = "UPDATE dlock.holder SET ends = ends + interval '1 hour'";
    client.batch_execute(lasting).await.unwrap();
    for owner in ["d.1", "e.1"] {
        assert!(!is_true(&client, &acquire(owner)).await);
    }
    let reserved =
        "SELECT count(*) FROM dlock.waiter WHERE number = (SELECT last_fence + 1 FROM dlock.turn)";
    assert_eq!(database.number(reserved).await, 2);
    client.batch_execute(patient).await.unwrap();
    for (owner, number) in [("c.1", 3), ("d.1", 4)] {
        let release = format!("SELECT dlock.release('order:42', '{owner}')");
        client.batch_execute(&release).await.unwrap();
        assert_eq!(
            database.number(fence).await,
            last + number,
            "broken promise: the token did not grow by one"
        );
    }
}

/// The fences that were given are lost with the row.
#[tokio::test]
async fn a_number_that_a_waiter_has_reserved_means_nothing_after_the_row_of_its_key_was_lost() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(is_true(&client, &acquire("a.1")).await);
    assert!(!is_true(&client, &acquire("b.1")).await);
    let lost =
        "UPDATE dlock.waiter SET number = number + 1000000000, alive = alive + interval '1 hour';
                DELETE FROM dlock.turn";
    client.batch_execute(lost).await.unwrap();
    // The row is made again.
    assert!(!is_true(&client, &acquire("b.1")).await);
    let reserved = database.number("SELECT number FROM dlock.waiter").await;
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    client.batch_execute(patient).await.unwrap();
    assert!(is_true(&client, "SELECT dlock.release('order:42', 'a.1')").await);
    let fence = "SELECT fence FROM dlock.holder WHERE owner = 'b.1'";
    let fence = database.number(fence).await;
    assert!(fence < reserved, "{fence} is that of the clock");
}

#[tokio::test]
async fn a_grant_changes_no_other_key_that_has_counted_as_far() {
    let database = Database::new().await;
    let client = database.client().await;
    let begin = "SELECT dlock.acquire('order:7', 'a.1', 30000, 0, true, '', '');
                 SELECT dlock.make_turn('order:42')";
    client.batch_execute(begin).await.unwrap();
    let row = "SELECT t::text FROM dlock.turn t WHERE key = 'order:7'";
    let as_far = "UPDATE dlock.turn SET last_fence = 7;
                  UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    let wait = format!("{}; {}", ask("b.1", 0), ask("c.1", -1));
    // A request, the usual grant to a waiter, and the one to those that share the key.
    for (before, grants, holder) in [
        ("SELECT", &*ask("a.1", 0), "a.1"),
        (&*wait, "SELECT dlock.release('order:42', 'a.1')", "b.1"),
        ("SELECT", "SELECT dlock.release('order:42', 'b.1')", "c.1"),
    ] {
        client.batch_execute(before).await.unwrap();
        client.batch_execute(as_far).await.unwrap();
        let other = client.query_one(row, &[]).await.unwrap();
        client.batch_execute(grants).await.unwrap();
        let is_granted = format!(
            "SELECT count(*) FROM dlock.holder WHERE key = 'order:42' AND owner = '{holder}'"
        );
        assert_eq!(database.number(&is_granted).await, 1, "{holder}");
        let after = client.query_one(row, &[]).await.unwrap();
        let [other, after] = [&other, &after].map(|it| it.get::<_, String>(0));
        assert_eq!(after, other, "{holder}");
    }
}

#[tokio::test]
async fn a_commit_that_gives_a_lease_is_durable_whatever_the_role_prefers() {
    let database = Database::new().await;
    let mut client = database.client().await;
    client
        .batch_execute("SET synchronous_commit = off")
        .await
        .unwrap();
    let renew = "SELECT dlock.renew(ARRAY['order:42'], ARRAY['b.1'], ARRAY[30000::bigint], ARRAY[''], ARRAY[''])";
    // In this order: a lease, the same again, a place in the queue, a grant to it, a renewal, and a last release.
    for (request, commit) in [
        (acquire("a.1").as_str(), "on"),
        (acquire("a.1").as_str(), "on"),
        (acquire("b.1").as_str(), "off"),
        // It is still there when the machine was away for seconds.
        (
            "UPDATE dlock.waiter SET alive = alive + interval '1 hour'",
            "off",
        ),
        ("SELECT dlock.release('order:42', 'a.1')", "on"),
        (renew, "on"),
        ("SELECT dlock.release('order:42', 'b.1')", "off"),
    ] {
        let tx = client.transaction().await.unwrap();
        tx.query(request, &[]).await.unwrap();
        let found = tx.query_one("SHOW synchronous_commit", &[]).await.unwrap();
        assert_eq!(found.get::<_, &str>(0), commit, "{request}");
        tx.commit().await.unwrap();
    }
}

async fn manager(url: &str) -> LockManager {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    let patient = builder
        .response_timeout(Duration::from_millis(1400))
        .connect_timeout(DEADLINE);
    patient.connect(url).await.unwrap()
}

#[tokio::test]
async fn a_url_with_listen_off_has_no_connection_that_listens() {
    let database = Database::new().await;
    // It was the last statement of such a connection, until that is tried after some seconds.
    let listening = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE 'LISTEN%'",
        database.name
    );
    let url = format!("{}?listen=off", database.url());
    let (one, other) = (manager(&url).await, manager(&url).await);
    let guard = one.lock("order:42").acquire().await.unwrap();
    assert_eq!(database.number(&listening).await, 0);
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    let is_queued = async || {
        assert_eq!(database.number(&listening).await, 0);
        database.number("SELECT count(*) FROM dlock.waiter").await == 1
    };
    eventually(DEADLINE, "the other waits", is_queued).await;
    guard.release().await.unwrap();
    // It polls.
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(database.number(&listening).await, 0);
}

/// A transaction that sees the rows as they are now, until it ends.
pub(crate) async fn snapshot(client: &mut Client) -> Transaction<'_> {
    let begun = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead);
    let snapshot = begun.start().await.unwrap();
    snapshot.batch_execute("SELECT 1").await.unwrap();
    snapshot
}

/// The connection of a manager has another level, so this never happens by a request of dlock.
#[tokio::test]
async fn a_request_in_an_old_snapshot_is_undone() {
    let database = Database::new().await;
    let (mut old, one) = (database.client().await, database.client().await);
    assert!(is_true(&one, &acquire("a.1")).await);
    assert!(is_true(&one, "SELECT dlock.release('order:42', 'a.1')").await);
    let tx = snapshot(&mut old).await;
    assert!(is_true(&one, &acquire("b.1")).await);
    let granted = tx.query_one(&acquire("c.1"), &[]).await;
    let refused = granted.expect_err("broken promise: two have the lock");
    assert_eq!(refused.code().unwrap().code(), "40001");
}

/// The pages that a statement reads, with those of the functions that it calls.
pub(crate) async fn pages(client: &Client, statement: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS) {statement}");
    let plan = client.query(&explain, &[]).await.unwrap();
    let mut lines = plan.iter().map(|row| row.get::<_, String>(0));
    let used = lines.find(|it| it.contains("Buffers: shared")).unwrap();
    let counts = used.split([' ', ',']).filter_map(|word| {
        let count = word
            .strip_prefix("hit=")
            .or_else(|| word.strip_prefix("read="));
        count.map(|it| it.parse::<i64>().unwrap())
    });
    counts.sum()
}

pub(crate) fn ask(owner: &str, most: i32) -> String {
    format!("SELECT * FROM dlock.acquire('order:42', '{owner}', 30000, {most}, true, '', '')")
}

/// A snapshot keeps the dead versions of all rows, and those of a hot key are many.
#[tokio::test]
async fn an_open_snapshot_lets_no_request_read_more() {
    const TURNS: &str = "DO $$ BEGIN FOR n IN 1 .. 3000 LOOP
            PERFORM dlock.acquire('order:42', 'a.' || n, 30000, {0}, true, '', '');
            PERFORM dlock.acquire('order:42', 'b.' || n, 30000, {0}, true, '', '');
            COMMIT;
            PERFORM dlock.release('order:42', 'a.' || n);
            COMMIT;
            PERFORM dlock.release('order:42', 'b.' || n);
            COMMIT;
        END LOOP; END $$";
    for most in [0, -1] {
        let database = Database::new().await;
        let (mut old, client) = (database.client().await, database.client().await);
        let backup = snapshot(&mut old).await;
        let turns = TURNS.replace("{0}", &most.to_string());
        client.batch_execute(&turns).await.unwrap();
        // With a waiter, if the lock is exclusive. The first turn of a session reads the catalogs as well.
        for turn in ["first", "second"] {
            let [one, other] = [1, 2].map(|number| format!("{turn}.{number}"));
            let release = |owner: &str| format!("SELECT dlock.release('order:42', '{owner}')");
            let requests = [
                ask(&one, most),
                ask(&other, most),
                release(&one),
                release(&other),
            ];
            for request in requests {
                let read = pages(&client, &request).await;
                assert!(turn == "first" || read < 80, "{read} pages: {request}");
            }
        }
        backup.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_poll_reads_as_much_for_the_last_of_many_waiters_as_for_an_early_one() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(is_true(&client, &acquire("a.1")).await);
    let many = "INSERT INTO dlock.waiter (key, owner, most, alive, since)
        SELECT 'order:42', 'w.' || n, 0, now() + interval '1 hour', now() FROM generate_series(0, 2999) n";
    client.batch_execute(many).await.unwrap();
    // The first request reads the catalogs as well.
    pages(&client, &ask("w.1", 0)).await;
    for (owner, place) in [("w.0", 0), ("w.63", 63), ("w.2999", 64)] {
        let read = pages(&client, &ask(owner, 0)).await;
        assert!(read < 200, "{read} pages: {owner}");
        let asked = format!("SELECT place FROM ({}) it", ask(owner, 0));
        assert_eq!(database.number(&asked).await, place);
    }
}

/// The numbers of places are not logged, as the waiters are not.
#[tokio::test]
async fn a_waiter_is_granted_the_key_although_places_have_begun_anew() {
    let database = Database::new().await;
    let client = database.client().await;
    assert!(is_true(&client, &acquire("a.1")).await);
    let crashed = "UPDATE dlock.turn SET head = 1000000";
    client.batch_execute(crashed).await.unwrap();
    assert!(!is_true(&client, &acquire("b.1")).await);
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    client.batch_execute(patient).await.unwrap();
    assert!(is_true(&client, "SELECT dlock.release('order:42', 'a.1')").await);
    let owner = "SELECT count(*) FROM dlock.holder WHERE owner = 'b.1'";
    assert_eq!(database.number(owner).await, 1);
}

#[tokio::test]
async fn one_process_sweeps_for_all() {
    let database = Database::new().await;
    let (mut one, other) = (database.client().await, database.client().await);
    let old = "INSERT INTO dlock.turn (key, granted_at) SELECT 'order:' || n, clock_timestamp() - interval '61 minutes' \
               FROM generate_series(1, 1001) n";
    one.batch_execute(old).await.unwrap();
    let sweep = "SELECT dlock.sweep()";
    let tx = one.transaction().await.unwrap();
    let swept: i64 = tx.query_one(sweep, &[]).await.unwrap().get(0);
    assert_eq!(swept, 1000);
    let beside: i64 = other.query_one(sweep, &[]).await.unwrap().get(0);
    assert_eq!(beside, 0, "another one is about it");
    tx.commit().await.unwrap();
    assert_eq!(database.number(sweep).await, 1, "there was more");
    other.batch_execute(old).await.unwrap();
    assert_eq!(database.number(sweep).await, 0, "it was done a moment ago");
}

/// A session keeps the plan of a function while tables grow, and a small table is read as a whole unless that is off.
#[tokio::test]
async fn requests_read_no_whole_table() {
    let database = Database::new().await;
    let mut client = database.client().await;
    let tables = ["turn", "holder", "waiter"];
    for table in tables {
        let empty = format!("VACUUM ANALYZE dlock.{table}");
        client.batch_execute(&empty).await.unwrap();
    }
    let tx = client.transaction().await.unwrap();
    for request in [
        "acquire('order:42', 'a.1', 30000, 0, true, '', '')",
        "acquire('order:42', 'a.1', 30000, 0, true, '', '')",
        "acquire('order:42', 'b.1', 30000, 0, true, '', '')",
        "acquire('order:42', 'b.2', 30000, -1, true, '', '')",
        "renew('{order:42}', '{a.1}', '{30000}', '{\"\"}', '{\"\"}')",
        "fence('{order:42,order:7}', '{a.1,a.1}', '{1,2}')",
        "fence('{order:42}', '{a.1}', '{1}')",
        "release('order:42', 'a.1')",
        "release('order:42', 'a.2')",
        "unlock('order:42', 'b.1', 1)",
        "adopt('order:42', 'b.1', 1)",
    ] {
        let statement = format!("SELECT * FROM dlock.{request}");
        tx.query(&statement, &[]).await.unwrap();
    }
    for table in tables {
        let scans = format!("SELECT pg_stat_get_xact_numscans('dlock.{table}'::regclass)");
        let scans: i64 = tx.query_one(&scans, &[]).await.unwrap().get(0);
        assert_eq!(scans, 0, "{table}");
    }
}
