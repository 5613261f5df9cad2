//! The inspector: locks and server as operators see them, and the outcomes of an unlock.

use std::time::{Duration, SystemTime};

use dlock_admin::{Inspect as _, LockInfo, ServerReport, Unlocked};
use dlock_postgres::{
    Fence as _, Schema,
    admin::{MigrateError, Migrated, Migration, PostgresInspector},
};
use dlock_runtime::{
    LockKey, LockMode,
    store::{OwnerId, StoreErrorKind, StoreOptions},
};
use dlock_testkit::eventually;
use tokio_postgres::Client;

use crate::{
    database::{DEADLINE, Database},
    rows::is_true,
};

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.response_timeout = DEADLINE;
    options.connect_timeout = DEADLINE;
    options
}

async fn inspector(url: &str) -> PostgresInspector {
    let inspector = PostgresInspector::connect(url, &options()).await.unwrap();
    inspector.lift_limit();
    inspector
}

fn owner(number: u64) -> OwnerId {
    format!("{:032x}.{number}", 7).parse().unwrap()
}

/// A lock with each kind of holder, of waiter and of row.
const LOCKS: &str = "
    INSERT INTO dlock.turn (key, last_fence, is_shared, granted_at) VALUES
        ('exclusive', 30, false, clock_timestamp() - interval '1 hour'), ('shared', 40, true, clock_timestamp()),
        ('awaited', 50, true, clock_timestamp()), ('unused', 60, false, clock_timestamp()),
        ('ended', 70, false, clock_timestamp()), ('dead', 80, false, clock_timestamp());
    INSERT INTO dlock.holder (key, owner, fence, number, ends, label, function) VALUES
        ('exclusive', '{1}', 29, 29, clock_timestamp() + interval '2 hours', 'billing@host/1', 'pay'),
        ('shared', '{2}', 38, 38, clock_timestamp() + interval '2 hours', NULL, NULL),
        ('shared', 'by hand', 38, 39, clock_timestamp() + interval '2 hours', 'cron', NULL),
        ('shared', '{3}', 38, 40, clock_timestamp() - interval '1 second', NULL, NULL),
        ('ended', '{4}', 70, 70, clock_timestamp() - interval '1 second', NULL, NULL);
    INSERT INTO dlock.waiter (key, owner, most, alive, since, label) VALUES
        ('exclusive', '{9}', 0, clock_timestamp() + interval '2 hours', clock_timestamp() - interval '1 hour', 'one'),
        ('exclusive', '{8}', -1, clock_timestamp() + interval '2 hours', clock_timestamp() + interval '1 hour', NULL),
        ('exclusive', '{7}', 3, clock_timestamp() - interval '1 second', clock_timestamp(), NULL),
        ('exclusive', '{6}', 3, clock_timestamp() - interval '2 minutes', clock_timestamp(), NULL),
        ('awaited', '{5}', 0, clock_timestamp() + interval '2 hours', clock_timestamp(), NULL),
        ('awaited', 'by hand', 0, clock_timestamp() + interval '2 hours', clock_timestamp(), NULL),
        ('dead', '{5}', 0, clock_timestamp() - interval '2 minutes', clock_timestamp(), NULL)";

async fn with_locks() -> Database {
    let database = Database::new().await;
    let mut rows = LOCKS.to_owned();
    for number in 1..10 {
        rows = rows.replace(&format!("{{{number}}}"), &owner(number).to_string());
    }
    database.client().await.batch_execute(&rows).await.unwrap();
    database
}

fn keys(locks: &[LockInfo]) -> Vec<&str> {
    locks.iter().map(|it| &*it.key).collect()
}

/// A time that is an hour before or after another one, but for a pause of the machine.
fn is_an_hour(time: Duration) -> bool {
    (Duration::from_secs(3600)..Duration::from_secs(3600) + DEADLINE).contains(&time)
}

#[tokio::test]
async fn a_lock_is_listed_with_its_holders_and_waiters() {
    let database = with_locks().await;
    let inspector = inspector(&database.url()).await;
    let locks = inspector.locks(None).await.unwrap();
    // Neither a key without holders and waiters, nor one whose lease has ended or whose waiter died long ago.
    assert_eq!(keys(&locks), ["awaited", "exclusive", "shared"]);

    let lock = &locks[1];
    assert_eq!(lock.mode, Some(LockMode::Exclusive));
    assert_eq!(
        (lock.last_fence, lock.holder_count, lock.waiter_count),
        (30, 1, 3)
    );
    let holder = lock.holder.as_ref().unwrap();
    assert_eq!((holder.owner, holder.fence), (Some(owner(1)), 29));
    assert_eq!(holder.label.as_deref(), Some("billing@host/1"));
    assert_eq!(holder.function.as_deref(), Some("pay"));
    let two_hours = Duration::from_secs(7200);
    let left = holder.ttl.unwrap();
    assert!(left <= two_hours && left + DEADLINE > two_hours, "{left:?}");
    let since = SystemTime::now().duration_since(holder.since.unwrap());
    assert!(is_an_hour(since.unwrap()), "{:?}", holder.since);
    let waiters: Vec<_> = lock.waiters.iter().collect();
    let places = waiters.iter().map(|it| (it.owner, it.mode, it.is_alive));
    let expected = [
        (owner(9), LockMode::Exclusive, true),
        (owner(8), LockMode::Shared, true),
        (owner(7), LockMode::Permits(3), false),
    ];
    assert!(places.eq(expected), "{waiters:?}");
    assert_eq!(waiters[0].label.as_deref(), Some("one"));
    assert!(is_an_hour(waiters[0].waiting), "{waiters:?}");
    // By a clock that has been set back since.
    assert_eq!(waiters[1].waiting, Duration::ZERO);

    let lock = &locks[2];
    assert_eq!(lock.mode, Some(LockMode::Shared));
    assert_eq!((lock.holder_count, lock.others.len()), (2, 1));
    let holders: Vec<_> = lock
        .holders()
        .map(|it| (it.owner, it.label.as_deref()))
        .collect();
    assert!(holders.contains(&(Some(owner(2)), None)), "{holders:?}");
    assert!(
        holders.contains(&(None, Some("cron"))),
        "written by hand: {holders:?}"
    );
    let are_fences = lock.holders().all(|it| it.fence == 38);
    assert!(are_fences, "{lock:?}");

    let lock = &locks[0];
    assert_eq!(
        (lock.mode, lock.holder_count, lock.waiter_count),
        (None, 0, 2)
    );
    // The other one was written by hand, and is never granted the key.
    assert_eq!(lock.waiters.len(), 1);
    assert_eq!(lock.waiters[0].owner, owner(5));
}

#[tokio::test]
async fn locks_are_listed_by_pattern_by_keys_or_one_by_one() {
    let database = with_locks().await;
    let inspector = inspector(&database.url()).await;
    let key = |name: &str| LockKey::new(name).unwrap();
    for (pattern, expected) in [
        ("*", &["awaited", "exclusive", "shared"][..]),
        ("[as]*", &["awaited", "shared"]),
        ("e*", &["exclusive"]),
        ("x*", &[]),
    ] {
        let locks = inspector.locks(Some(pattern)).await.unwrap();
        assert_eq!(keys(&locks), expected, "{pattern}");
    }
    let some = ["shared", "unused", "awaited", "shared", "never"].map(key);
    let locks = inspector.locks_of(&some).await.unwrap();
    assert_eq!(keys(&locks), ["awaited", "shared"]);
    let lock = inspector.lock(&key("shared")).await.unwrap();
    let shown = |lock: &LockInfo| {
        let mut lock = lock.clone();
        // It has become shorter.
        lock.holder.as_mut().unwrap().ttl = None;
        lock.others.iter_mut().for_each(|it| it.ttl = None);
        lock
    };
    assert_eq!(lock.as_ref().map(shown), locks.last().map(shown));
    for name in ["unused", "never"] {
        assert_eq!(inspector.lock(&key(name)).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn more_keys_than_a_page_are_looked_at_in_several() {
    let database = Database::new().await;
    let many = "INSERT INTO dlock.holder (key, owner, fence, ends) SELECT 'k:' || n, repeat('0', 32) || '.1', 1,
            clock_timestamp() + interval '1 hour' FROM generate_series(1000, 1999) n";
    database.client().await.batch_execute(many).await.unwrap();
    let inspector = inspector(&database.url()).await;
    let some: Vec<_> = (900..1900)
        .map(|it| LockKey::new(format!("k:{it}")).unwrap())
        .collect();
    let locks = inspector.locks_of(&some).await.unwrap();
    assert_eq!(
        (locks.len(), &*locks[0].key, &*locks[899].key),
        (900, "k:1000", "k:1899")
    );
    // As far as the statistics of the tables say.
    let counted = "ANALYZE dlock.holder";
    database
        .client()
        .await
        .batch_execute(counted)
        .await
        .unwrap();
    let mut shown = Vec::new();
    assert_eq!(inspector.progress(), None);
    let mut part = |_: Vec<LockInfo>| shown.push(inspector.progress());
    inspector.locks_in_parts(None, &mut part).await.unwrap();
    assert_eq!(shown, [Some(0.0), Some(0.5), Some(0.99)]);
    assert_eq!(inspector.progress(), None);
}

#[tokio::test]
async fn processes_are_counted_by_the_names_of_their_connections() {
    let database = Database::new().await;
    let inspector = inspector(&database.url()).await;
    let count = async || inspector.overview().await.unwrap().process_count;
    assert_eq!(count().await, Some(0), "an inspector is none");
    // Two connections of one process, one of an earlier version, and two of other programs.
    let names = [
        "shop@a/1 dlock/2",
        "shop@a/1 dlock/2",
        "shop@a/2",
        "psql",
        "a b/3",
    ];
    let mut clients = Vec::new();
    for name in names {
        let client = database.client().await;
        let set = format!("SET application_name = '{name}'");
        client.batch_execute(&set).await.unwrap();
        clients.push(client);
    }
    assert_eq!(count().await, Some(2));
    let mut locks = Vec::new();
    let mut part = |some: Vec<LockInfo>| locks.extend(some);
    let overview = inspector.overview_in_parts(&mut part).await.unwrap();
    assert_eq!((overview.process_count, locks.len()), (Some(2), 0));
}

#[tokio::test]
async fn grants_are_not_published_and_that_is_said() {
    let database = Database::new().await;
    let inspector = inspector(&database.url()).await;
    let error = inspector.grants().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "PostgreSQL sends a message about a grant to its waiter only; grants are found by reading the locks"
    );
    let shown = format!("{inspector:?}");
    assert!(
        shown.contains("127.0.0.1") && shown.contains("dlock"),
        "{shown}"
    );
}

async fn report(inspector: &PostgresInspector) -> ServerReport {
    let mut reports = inspector.servers().await;
    assert_eq!(reports.len(), 1);
    let report = reports.remove(0);
    assert_eq!(report.failure, None);
    report
}

fn said<'a>(report: &'a ServerReport, name: &str) -> Option<&'a str> {
    report.info.get(name).map(String::as_str)
}

#[tokio::test]
async fn a_report_has_the_server_the_tables_and_the_transactions_that_rely_on_leases() {
    let database = with_locks().await;
    let inspector = inspector(&database.url()).await;
    let settings =
        "ALTER TABLE dlock.holder SET (autovacuum_enabled = false); ANALYZE dlock.holder";
    let admin = database.client().await;
    admin.batch_execute(settings).await.unwrap();
    let mut client = database.client().await;
    client
        .batch_execute("SET application_name = 'shop'")
        .await
        .unwrap();
    let tx = client.transaction().await.unwrap();
    let relies = "SELECT dlock.fence('{exclusive}', ARRAY[owner], '{29}'), pg_backend_pid()
        FROM dlock.holder WHERE key = 'exclusive'";
    let pid: i32 = tx.query_one(relies, &[]).await.unwrap().get(1);
    let behind = database.client().await;
    behind
        .batch_execute("SET application_name = 'old@host/7'")
        .await
        .unwrap();

    let report = report(&inspector).await;
    assert_eq!(report.product.as_deref(), Some("PostgreSQL"));
    for (name, value) in [
        ("schema", "dlock"),
        ("needed_version", "2"),
        ("oldest_version", "1"),
        ("schema_version", "2"),
        ("processes_behind", "old@host/7"),
        ("pooled", "false"),
        ("listen", "direct"),
        ("has_schema", "true"),
        ("reads_tables", "true"),
        ("owner", "postgres"),
        ("owner_is_superuser", "true"),
        ("in_recovery", "off"),
        ("user", "postgres"),
        ("database", &database.name),
        ("reads_all_stats", "true"),
        ("holder_unvacuumed", "true"),
        ("holder_unlogged", "false"),
        ("waiter_unvacuumed", "false"),
        ("waiter_unlogged", "true"),
        ("turn_unlogged", "false"),
        ("relying", "1"),
    ] {
        assert_eq!(said(&report, name), Some(value), "{name}");
    }
    for name in [
        "server_version",
        "max_connections",
        "fsync",
        "holder_live",
        "turn_dead",
        "connections",
    ] {
        assert!(said(&report, name).is_some(), "{name}");
    }
    assert_eq!(said(&report, "distrust"), None);
    let relying = said(&report, "relying0").unwrap();
    let parts: Vec<_> = relying.split(',').collect();
    let [place, seconds, state, user, application] = &*parts else {
        panic!("{relying}");
    };
    assert_eq!(*place, format!("pid={pid}"));
    assert!(
        seconds
            .strip_prefix("seconds=")
            .unwrap()
            .parse::<u64>()
            .is_ok(),
        "{relying}"
    );
    assert_eq!(
        (*state, *user),
        ("state=idle in transaction", "user=postgres")
    );
    assert_eq!(*application, "application=shop");
    assert_eq!(report.denied, []);

    // It is the same machine, and the clock is read by the shortest of all round trips.
    assert_eq!(report.round_trips.len(), 20);
    let clock = report.clock.unwrap();
    let shortest = *report.round_trips.iter().min().unwrap();
    assert_eq!(
        clock.uncertainty,
        (shortest / 2).max(Duration::from_micros(1))
    );
    let ahead = u128::from(clock.ahead_us.unsigned_abs());
    assert!(ahead <= shortest.as_micros(), "{clock:?}");
    tx.commit().await.unwrap();
    assert_eq!(said(&self::report(&inspector).await, "relying"), Some("0"));
}

#[tokio::test]
async fn a_report_says_how_messages_come_and_what_is_missing() {
    let database = Database::new().await;
    for (query, listen) in [
        ("listen=off".to_owned(), "off"),
        (
            format!("listen=127.0.0.1:{}", database.server.port()),
            "other",
        ),
    ] {
        let inspector = inspector(&format!("{}?{query}", database.url())).await;
        assert_eq!(said(&report(&inspector).await, "listen"), Some(listen));
    }
    let none = database.server.database().await;
    let url = database.server.url_of("postgres", &none);
    let refused = PostgresInspector::connect(&url, &options()).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("dlock postgres migrate")
    );
    let unchecked = PostgresInspector::connect_unchecked(&url, &options())
        .await
        .unwrap();
    let report = report(&unchecked).await;
    assert_eq!(said(&report, "has_schema"), Some("false"));
    for name in ["owner", "schema_version", "relying", "holder_live"] {
        assert_eq!(said(&report, name), None, "{name}");
    }
    assert_eq!(report.denied, []);
}

#[tokio::test]
async fn each_missing_permission_is_named_with_its_purpose_and_what_grants_it() {
    let database = Database::new().await;
    let admin = database.client().await;
    let role = format!("poor_{}", database.name);
    admin
        .batch_execute(&format!("CREATE ROLE {role} LOGIN"))
        .await
        .unwrap();
    let url = database.server.url_of(&role, &database.name);
    let unchecked = PostgresInspector::connect_unchecked(&url, &options())
        .await
        .unwrap();
    let denied = report(&unchecked).await.denied;
    let found: Vec<_> = denied
        .iter()
        .map(|it| (&*it.rule, &*it.purpose, it.is_required))
        .collect();
    let function = |it: &str| format!("GRANT EXECUTE ON FUNCTION \"dlock\".{it} TO \"{role}\";");
    let table = |it: &str| format!("GRANT SELECT ON TABLE \"dlock\".{it} TO \"{role}\";");
    let expected = [
        (
            format!("GRANT USAGE ON SCHEMA \"dlock\" TO \"{role}\";"),
            "naming anything in the schema",
            true,
        ),
        (function("version()"), "connecting", true),
        (
            function("acquire(text, text, bigint, integer, boolean, text, text)"),
            "acquiring locks",
            true,
        ),
        (function("release(text, text)"), "releasing locks", true),
        (
            function("renew(text[], text[], bigint[], text[], text[])"),
            "renewing leases",
            true,
        ),
        (
            function("fence(text[], text[], bigint[])"),
            "checking a lease in a transaction",
            true,
        ),
        (function("adopt(text, text, bigint)"), "`lock_in`", true),
        (function("sweep()"), "removing old rows", true),
        (
            function("unlock(text, text, bigint)"),
            "forcing a release",
            false,
        ),
        (table("turn"), "listing locks", false),
        (table("holder"), "listing locks", false),
        (table("waiter"), "listing locks", false),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(rule, purpose, required)| (&**rule, *purpose, *required))
        .collect();
    assert_eq!(found, expected);
    // They are all that is missing.
    for (rule, ..) in &found {
        admin.batch_execute(rule).await.unwrap();
    }
    let report = report(&unchecked).await;
    assert_eq!(report.denied, []);
    assert_eq!(said(&report, "schema_version"), Some("2"));
    assert_eq!(said(&report, "reads_all_stats"), Some("false"));
}

#[tokio::test]
async fn an_inspector_comes_back_after_the_end_of_its_connection() {
    let database = with_locks().await;
    let inspector = inspector(&database.url()).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'dlock operator%'";
    for _ in 0..2 {
        assert_eq!(
            database.number(end).await,
            1,
            "it has one connection, and a name of its own"
        );
        eventually(DEADLINE, "it lists locks again", async || {
            inspector.locks(None).await.is_ok_and(|it| it.len() == 3)
        })
        .await;
    }
}

/// A lock as an operator has seen it.
async fn seen(inspector: &PostgresInspector, key: &str) -> LockInfo {
    let key = LockKey::new(key).unwrap();
    inspector.lock(&key).await.unwrap().unwrap()
}

#[tokio::test]
async fn an_operator_ends_the_lease_that_was_seen_and_learns_what_came_of_it() {
    let database = Database::new().await;
    let inspector = inspector(&database.url()).await;
    let client = database.client().await;
    let ask = async |owner: OwnerId, most: i32| {
        let acquire = format!(
            "SELECT is_granted FROM dlock.acquire('job', '{owner}', 3600000, {most}, true, '', '')"
        );
        is_true(&client, &acquire).await
    };
    let holders = "SELECT count(*) FROM dlock.holder";

    assert!(ask(owner(1), 0).await);
    let lock = seen(&inspector, "job").await;
    assert_eq!(
        inspector.unlock(&lock, Some(owner(2))).await.unwrap(),
        Unlocked::Changed
    );
    assert_eq!(database.number(holders).await, 1);
    assert_eq!(
        inspector.unlock(&lock, Some(owner(1))).await.unwrap(),
        Unlocked::Freed
    );
    assert_eq!(
        inspector.unlock(&lock, None).await.unwrap(),
        Unlocked::Changed
    );

    assert!(ask(owner(1), 0).await && !ask(owner(2), 0).await);
    let patient = "UPDATE dlock.waiter SET alive = alive + interval '1 hour'";
    client.batch_execute(patient).await.unwrap();
    let lock = seen(&inspector, "job").await;
    assert_eq!(
        inspector.unlock(&lock, None).await.unwrap(),
        Unlocked::Granted
    );
    let release = format!("SELECT dlock.release('job', '{}')", owner(2));
    client.batch_execute(&release).await.unwrap();

    for number in 1..4 {
        assert!(ask(owner(number), -1).await);
    }
    let lock = seen(&inspector, "job").await;
    assert_eq!(
        inspector.unlock(&lock, Some(owner(2))).await.unwrap(),
        Unlocked::StillShared
    );
    assert_eq!(database.number(holders).await, 2);
    assert_eq!(
        inspector.unlock(&lock, None).await.unwrap(),
        Unlocked::Freed
    );
    assert_eq!(database.number(holders).await, 0);
    let mut free = lock;
    free.holder = None;
    free.others.clear();
    assert_eq!(
        inspector.unlock(&free, None).await.unwrap(),
        Unlocked::Changed
    );
}

#[tokio::test]
async fn a_lease_that_a_transaction_relies_on_is_not_ended_and_the_transaction_is_named() {
    let database = Database::new().await;
    let inspector = inspector(&database.url()).await;
    let manager = database.manager().await;
    let guard = manager.lock("account:7").acquire().await.unwrap();
    let lock = seen(&inspector, "account:7").await;
    let mut clients = [database.client().await, database.client().await];
    let mut open = Vec::new();
    let mut pids = Vec::new();
    for (client, name) in clients.iter_mut().zip(["shop", ""]) {
        let name = format!("SET application_name = '{name}'");
        client.batch_execute(&name).await.unwrap();
        let tx = client.transaction().await.unwrap();
        guard.fence(&tx).await.unwrap();
        let pid: i32 = tx
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .unwrap()
            .get(0);
        pids.push(pid);
        open.push(tx);
    }
    let refusal = async || {
        let error = inspector.unlock(&lock, None).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.has_no_effect());
        error.to_string()
    };
    let begin = "`account:7` was not released: a transaction relies on its lease; ";
    let each = |index: usize, name: &str| {
        format!(
            "pid {} ({name}user \"postgres\", idle in transaction since ",
            pids[index]
        )
    };
    let text = refusal().await;
    assert!(
        text.starts_with(&format!("{begin}end them as follows, or wait for them: ")),
        "{text}"
    );
    for (index, name) in [(0, "shop, "), (1, "")] {
        assert!(text.contains(&each(index, name)), "{text}");
        assert!(
            text.contains(&format!(
                "Z): `SELECT pg_terminate_backend({})`",
                pids[index]
            )),
            "{text}"
        );
    }
    open.pop().unwrap().commit().await.unwrap();
    let text = refusal().await;
    let one = format!(
        "{begin}end it with `SELECT pg_terminate_backend({})`, or wait for it: {}",
        pids[0],
        each(0, "shop, ")
    );
    assert!(text.starts_with(&one), "{text}");
    open.pop().unwrap().commit().await.unwrap();
    assert_eq!(
        inspector.unlock(&lock, None).await.unwrap(),
        Unlocked::Freed
    );
    drop(guard);
}

async fn migrate(url: &str, migration: Migration) -> Result<Migrated, MigrateError> {
    migration.apply(url, &options()).await
}

fn migration() -> Migration {
    Migration::new(Schema::new("dlock").unwrap())
}

async fn execute(client: &Client, statements: &str) {
    client.batch_execute(statements).await.unwrap();
}

#[tokio::test]
async fn a_migration_that_is_refused_says_why_and_leaves_nothing() {
    let server = dlock_testkit::PostgresServer::shared().await;
    let begin = "the tables of dlock were not created in schema `dlock`: ";
    for (before, as_poor, role, part, advice) in [
        (
            "",
            true,
            None,
            "permission denied",
            "apply it as the owner of the database or of the schema, or have it printed",
        ),
        (
            "",
            false,
            Some("nobody_has_this_name"),
            "nobody_has_this_name",
            "create the role first, with `CREATE ROLE … LOGIN`",
        ),
        (
            "CREATE SCHEMA dlock; CREATE TABLE dlock.holder ()",
            false,
            None,
            "holder",
            "schema `dlock` has objects of the same names that are not dlock's: choose another schema",
        ),
        (
            "CREATE SCHEMA dlock; CREATE FUNCTION dlock.sweep() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
            false,
            None,
            "sweep",
            "schema `dlock` has objects of the same names that are not dlock's: choose another schema",
        ),
    ] {
        let name = server.database().await;
        let admin = server.client(&name).await;
        execute(&admin, before).await;
        let poor = format!("poor_{name}");
        execute(&admin, &format!("CREATE ROLE {poor} LOGIN")).await;
        let url = server.url_of(if as_poor { &poor } else { "postgres" }, &name);
        let asked = role
            .map_or_else(|| Ok(migration()), |it| migration().role(it))
            .unwrap();
        let refused = migrate(&url, asked).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, MigrateError::Refused(_)), "{text}");
        assert!(
            text.starts_with(begin) && text.contains(part) && text.contains(advice),
            "{text}"
        );
        let made = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = 'dlock' AND p.proname = 'acquire'";
        assert_eq!(
            admin.query_one(made, &[]).await.unwrap().get::<_, i64>(0),
            0
        );
    }
}

#[tokio::test]
async fn a_migration_says_what_was_there_and_grants_what_it_was_asked_to() {
    let server = dlock_testkit::PostgresServer::shared().await;
    let name = server.database().await;
    let (admin, url) = (server.client(&name).await, server.url_of("postgres", &name));
    let [app, operator] = ["app", "operator"].map(|it| format!("{it}_{name}"));
    execute(
        &admin,
        &format!("CREATE ROLE {app} LOGIN; CREATE ROLE {operator} LOGIN"),
    )
    .await;
    let created = migrate(&url, migration()).await.unwrap();
    assert_eq!(created, Migrated::Created { version: 2 });
    let may = async |role: &str, function: &str| {
        let asked = "SELECT has_schema_privilege($1, 'dlock', 'USAGE') AND has_function_privilege($1, $2, 'EXECUTE')";
        let row = admin.query_one(asked, &[&role, &function]).await.unwrap();
        row.get::<_, bool>(0)
    };
    let (release, unlock) = (
        "dlock.release(text, text)",
        "dlock.unlock(text, text, bigint)",
    );
    assert!(!may(&app, release).await && !may(&operator, unlock).await);
    let granting = migration()
        .role(&app)
        .unwrap()
        .operator_role(&operator)
        .unwrap();
    let again = migrate(&url, granting).await.unwrap();
    assert_eq!(again, Migrated::AlreadyThere { version: 2 });
    assert!(may(&app, release).await && may(&operator, unlock).await);
    assert!(!may(&app, unlock).await && !may(&operator, release).await);

    let later = "CREATE OR REPLACE FUNCTION dlock.version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 3'";
    execute(&admin, later).await;
    let refused = migrate(&url, migration()).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, MigrateError::OtherVersion(_)), "{text}");
    assert!(
        text.contains("has version 3") && text.ends_with("update the program"),
        "{text}"
    );
    let refused = PostgresInspector::connect(&url, &options()).await;
    assert!(refused.unwrap_err().to_string().contains("has version 3"));
}
