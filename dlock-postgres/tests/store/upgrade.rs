//! From one version of the tables to the next, under managers that use them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

use dlock_postgres::{
    Fence, Schema,
    admin::{Migrated, Migration},
};
use dlock_runtime::{LockManager, store::StoreOptions};
use dlock_testkit::{PostgresServer, eventually};

use crate::database::{DEADLINE, Database, begin};

/// As the first version of `Schema::migration` has made it.
const VERSION_1: &str = include_str!("../fixtures/schema-1.sql");

const TASKS: u64 = 8;

/// A database with version 1, whose application and operators have roles.
async fn old_database() -> (Database, String, String) {
    let server = PostgresServer::shared().await;
    let name = server.database().await;
    let database = Database { server, name };
    let [app, operator] = ["app", "operator"].map(|it| format!("{it}_{}", database.name));
    let tables = VERSION_1.replace("{schema}", "dlock");
    let grants = Schema::new("dlock").unwrap().grants(&app).unwrap();
    let made = format!(
        "CREATE SCHEMA dlock; {tables}
         REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dlock FROM PUBLIC;
         CREATE ROLE {app} LOGIN; CREATE ROLE {operator} LOGIN; {grants}
         GRANT USAGE ON SCHEMA dlock TO {operator};
         GRANT SELECT ON TABLE dlock.lock, dlock.holder, dlock.waiter TO {operator};
         CREATE TABLE account (id int PRIMARY KEY, cents bigint); INSERT INTO account VALUES (7, 100)"
    );
    database.client().await.batch_execute(&made).await.unwrap();
    (database, app, operator)
}

async fn migrated(database: &Database) -> Migrated {
    let mut options = StoreOptions::default();
    options.response_timeout = DEADLINE;
    options.connect_timeout = DEADLINE;
    let migration = Migration::new(Schema::new("dlock").unwrap());
    migration.apply(&database.url(), &options).await.unwrap()
}

/// The sections of a key, which see each other.
#[derive(Default)]
struct Sections {
    writers: AtomicI64,
    readers: AtomicI64,
    last: AtomicI64,
    count: AtomicU64,
}

impl Sections {
    async fn write(&self, manager: &LockManager, key: &str) {
        let guard = manager.lock(key).wait(DEADLINE).acquire().await.unwrap();
        let beside =
            self.writers.fetch_add(1, Ordering::SeqCst) + self.readers.load(Ordering::SeqCst);
        assert_eq!(beside, 0, "broken promise: two have the lock of {key}");
        let token = guard.fencing_token().to_i64();
        let last = self.last.swap(token, Ordering::SeqCst);
        assert!(last < token, "broken promise: the token did not grow");
        tokio::task::yield_now().await;
        self.writers.fetch_sub(1, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }

    async fn read(&self, manager: &LockManager, key: &str) {
        let shared = manager.lock(key).shared().wait(DEADLINE);
        let guard = shared.acquire().await.unwrap();
        self.readers.fetch_add(1, Ordering::SeqCst);
        let beside = self.writers.load(Ordering::SeqCst);
        assert_eq!(
            beside, 0,
            "broken promise: a reader beside a writer of {key}"
        );
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_under_a_running_crowd_fails_no_request_and_breaks_no_promise() {
    let (database, app, operator) = old_database().await;
    let sections: Arc<[Sections; 3]> = Arc::default();
    let is_over = Arc::new(AtomicBool::new(false));
    let held = database.manager().await;
    let held = held
        .lock("account:7")
        .ttl(DEADLINE)
        .acquire()
        .await
        .unwrap();
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let manager = database.manager().await;
        let (sections, is_over) = (sections.clone(), is_over.clone());
        tasks.push(tokio::spawn(async move {
            let mut round = task;
            while !is_over.load(Ordering::SeqCst) {
                let [one, other, shared] = &*sections;
                match round % 4 {
                    0 | 1 => one.write(&manager, "hot").await,
                    2 => other.write(&manager, "warm").await,
                    _ if round % 8 == 3 => shared.write(&manager, "catalog").await,
                    _ => shared.read(&manager, "catalog").await,
                }
                round += 1;
            }
        }));
    }
    let count = || {
        sections
            .iter()
            .map(|it| it.count.load(Ordering::SeqCst))
            .sum::<u64>()
    };
    let more = async |than: u64| {
        let more =
            async || count() > than + 100 || tasks.iter().any(tokio::task::JoinHandle::is_finished);
        eventually(DEADLINE, "a hundred sections", more).await;
    };
    more(0).await;
    assert_eq!(
        migrated(&database).await,
        Migrated::Upgraded {
            from: 1,
            version: 2
        }
    );
    more(count()).await;
    assert_eq!(
        migrated(&database).await,
        Migrated::AlreadyThere { version: 2 }
    );
    is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }

    // A lease from before.
    let mut client = database.client().await;
    let tx = begin(&mut client).await;
    held.fence(&tx).await.unwrap();
    tx.commit().await.unwrap();
    let other = database.manager().await;
    other.lock("account:7").acquire().await.unwrap_err();
    held.release().await.unwrap();
    other.lock("account:7").run(async |_| ()).await.unwrap();

    // The permissions from before are still enough, and permit no more.
    for (role, statement, is_allowed) in [
        (
            &app,
            "SELECT dlock.acquire('a', 'a.1', 1, 0, false, '', '')",
            true,
        ),
        (&app, "SELECT dlock.extend('a', 'a.1', 1, '', '')", false),
        (&app, "SELECT * FROM dlock.turn", false),
        (&operator, "SELECT * FROM dlock.turn", true),
        (&operator, "SELECT * FROM dlock.sweep_state", false),
    ] {
        let allowed = client
            .batch_execute(&format!("SET ROLE {role}; {statement}"))
            .await;
        assert_eq!(
            allowed.is_ok(),
            is_allowed,
            "{role}: {statement}: {allowed:?}"
        );
        client.batch_execute("RESET ROLE").await.unwrap();
    }
}

/// Of an application whose transaction depends on a lease.
#[tokio::test]
async fn an_upgrade_that_waits_for_a_transaction_delays_no_request() {
    let (database, ..) = old_database().await;
    let manager = database.manager().await;
    let held = manager.lock("account:7").acquire().await.unwrap();
    let mut client = database.client().await;
    let tx = begin(&mut client).await;
    held.fence(&tx).await.unwrap();
    let url = database.url();
    let is_tried = async || {
        // It is the lock on `holder` that it waits for.
        let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE NOT l.granted AND d.datname = current_database() AND l.mode = 'AccessExclusiveLock'";
        database.number(waiting).await > 0
    };
    let upgrade = tokio::spawn(async move {
        let migration = Migration::new(Schema::new("dlock").unwrap());
        migration.apply(&url, &StoreOptions::default()).await
    });
    eventually(DEADLINE, "the upgrade waits", is_tried).await;
    // Longer than it waits for the tables at once.
    for round in 0..5 {
        let key = format!("order:{round}");
        manager
            .lock(key.as_str())
            .wait(DEADLINE)
            .run(async |_| ())
            .await
            .unwrap();
    }
    assert!(!upgrade.is_finished());
    tx.commit().await.unwrap();
    assert_eq!(
        upgrade.await.unwrap().unwrap(),
        Migrated::Upgraded {
            from: 1,
            version: 2
        }
    );
    held.release().await.unwrap();
}

#[tokio::test]
async fn those_who_share_a_lock_share_it_after_the_upgrade() {
    let (database, ..) = old_database().await;
    let manager = database.manager().await;
    let shared = || manager.lock("catalog").shared().ttl(DEADLINE);
    let one = shared().acquire().await.unwrap();
    migrated(&database).await;
    let other = shared().wait(DEADLINE).acquire().await.unwrap();
    one.ensure_held().unwrap();
    assert_eq!(one.fencing_token(), other.fencing_token());
    manager.lock("catalog").acquire().await.unwrap_err();
}

/// For an administrator who applies what is printed.
#[tokio::test]
async fn the_printed_upgrade_makes_the_same_tables_and_functions_as_a_new_schema() {
    let (old, ..) = old_database().await;
    let upgrade = Schema::new("dlock").unwrap().upgrade();
    old.client().await.batch_execute(&upgrade).await.unwrap();
    let new = Database::new().await;
    let parts = "SELECT string_agg(part, E'\\n' ORDER BY part) FROM (
        SELECT p.oid::regprocedure || pg_get_functiondef(p.oid) AS part FROM pg_proc p
            WHERE p.pronamespace = 'dlock'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', c.relname, c.relpersistence, c.reloptions, a.attname, a.atttypid::regtype, a.attnotnull,
                a.attidentity, pg_get_expr(d.adbin, d.adrelid))
            FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
            LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
            WHERE c.relnamespace = 'dlock'::regnamespace
        UNION ALL
        SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relnamespace = 'dlock'::regnamespace
    ) AS parts (part)";
    let mut found = Vec::new();
    for database in [&old, &new] {
        let row = database.client().await.query_one(parts, &[]).await.unwrap();
        found.push(row.get::<_, String>(0));
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn a_new_manager_works_with_tables_that_were_not_upgraded() {
    let (database, ..) = old_database().await;
    let (one, other) = (database.manager().await, database.manager().await);
    let guard = one.lock("order:42").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    let waits = async || database.number("SELECT count(*) FROM dlock.waiter").await == 1;
    eventually(DEADLINE, "it waits", waits).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
