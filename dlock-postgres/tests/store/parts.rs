//! The parts in which all locks are read, while others come and go.

use dlock_admin::{Inspect, LockInfo};
use dlock_postgres::admin::PostgresInspector;
use dlock_runtime::store::StoreOptions;
use tokio::{runtime::Handle, task::block_in_place};
use tokio_postgres::Client;

use crate::database::{DEADLINE, Database};

/// The number of locks that a statement reads.
const MOST: usize = 500;

/// Three full parts of locks with a holder, with a waiter, and with both. The last lock of the first part has more waiters than
/// a part has locks.
const LOCKS: &str = "
    INSERT INTO dlock.turn (key) SELECT format('k:%s', lpad(n::text, 4, '0')) FROM generate_series(0, 1499) n;
    INSERT INTO dlock.holder (key, owner, fence, ends)
        SELECT key, repeat('0', 32) || '.1', 1, now() + interval '1 hour' FROM dlock.turn WHERE key NOT LIKE '%5';
    INSERT INTO dlock.waiter (key, owner, most, alive, since)
        SELECT key, repeat('0', 32) || '.2', 0, now() + interval '1 hour', now() FROM dlock.turn
        WHERE key LIKE '%5' OR key LIKE '%7';
    INSERT INTO dlock.waiter (key, owner, most, alive, since)
        SELECT 'k:0499', repeat('0', 32) || '.' || n, 0, now() + interval '1 hour', now()
        FROM generate_series(3, 602) n";

async fn inspector(database: &Database) -> PostgresInspector {
    let mut options = StoreOptions::default();
    options.response_timeout = DEADLINE;
    options.connect_timeout = DEADLINE;
    let connected = PostgresInspector::connect(&database.url(), &options).await;
    connected.unwrap()
}

/// Other locks come, between all of those.
async fn come(client: &Client, name: &str) {
    let come = format!(
        "INSERT INTO dlock.holder (key, owner, fence, ends)
         SELECT format('k:%s:{name}', lpad(n::text, 4, '0')), repeat('0', 32) || '.1', 1, now() + interval '1 hour'
         FROM generate_series(0, 1490, 10) n"
    );
    client.batch_execute(&come).await.unwrap();
}

/// They go: all before a key, and half of those behind it.
async fn go(client: &Client, key: &str) {
    let go = "DELETE FROM dlock.holder WHERE key LIKE 'k:____:%' AND (key <= $1 OR key LIKE 'k:___0:%' AND key LIKE 'k:__5%')";
    client.execute(go, &[&key]).await.unwrap();
}

/// Reads all locks in parts. If `others` come and go, they do so between any two parts.
async fn parts(inspector: &PostgresInspector, others: Option<&Client>) -> Vec<Vec<LockInfo>> {
    let mut parts: Vec<Vec<LockInfo>> = Vec::new();
    let mut part = |locks: Vec<LockInfo>| {
        if let (Some(client), Some(last)) = (others, locks.last()) {
            let change = async {
                go(client, &last.key).await;
                come(client, &format!("part{}", parts.len())).await;
            };
            block_in_place(|| Handle::current().block_on(change));
        }
        parts.push(locks);
    };
    let rest = inspector.overview_in_parts(&mut part).await.unwrap();
    assert!(rest.locks.is_empty() && rest.process_count.is_some());
    parts
}

fn seen(lock: &LockInfo) -> (&str, usize, usize) {
    (&lock.key, lock.holder_count, lock.waiter_count)
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_short_and_add_up_to_all_locks_while_others_come_and_go() {
    let database = Database::new().await;
    let client = database.client().await;
    client.batch_execute(LOCKS).await.unwrap();
    let inspector = inspector(&database).await;
    inspector.lift_limit();
    let whole = inspector.locks(None).await.unwrap();
    let whole: Vec<_> = whole.iter().map(seen).collect();
    assert_eq!(whole.len(), 3 * MOST);
    assert_eq!(
        whole[497..500],
        [("k:0497", 1, 1), ("k:0498", 1, 0), ("k:0499", 1, 600)]
    );
    let undisturbed = parts(&inspector, None).await;
    let lengths: Vec<_> = undisturbed.iter().map(Vec::len).collect();
    assert_eq!(lengths, [MOST, MOST, MOST, 0]);
    let all = undisturbed.iter().flatten().map(seen);
    assert!(all.eq(whole.iter().copied()));

    come(&client, "first").await;
    let disturbed = parts(&inspector, Some(&client)).await;
    assert!(disturbed.iter().all(|part| part.len() <= MOST));
    let all: Vec<_> = disturbed.iter().flatten().map(seen).collect();
    assert!(
        all.is_sorted_by(|one, next| one.0 < next.0),
        "none comes twice"
    );
    let (lasting, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(key, ..)| key.len() == 6);
    assert_eq!(lasting, whole);
    assert!(
        others.iter().any(|(key, ..)| key.ends_with("part1")),
        "{others:?}"
    );
}

/// The fence of a waiter may be from long before its grant.
#[tokio::test]
async fn a_lease_is_held_since_its_grant_and_not_since_its_fence() {
    let database = Database::new().await;
    let client = database.client().await;
    let [first, second] = [1, 2].map(|number| format!("{}.{number}", "0".repeat(32)));
    for owner in [&first, &second] {
        let acquire = "SELECT FROM dlock.acquire('order:42', $1, 60000, 0, true, '', '')";
        client.execute(acquire, &[owner]).await.unwrap();
    }
    let inspector = inspector(&database).await;
    let long_ago = "UPDATE dlock.turn SET last_fence = 1;
        UPDATE dlock.waiter SET number = 2, message = '', alive = now() + interval '1 hour'";
    client.batch_execute(long_ago).await.unwrap();
    let release = "SELECT dlock.release('order:42', $1)";
    client.execute(release, &[&first]).await.unwrap();
    let lasting = "UPDATE dlock.holder SET ends = now() + interval '1 hour'";
    client.execute(lasting, &[]).await.unwrap();

    let locks = inspector.locks(None).await.unwrap();
    let holder = locks[0].holder.as_ref().unwrap();
    assert_eq!(
        (holder.owner.unwrap().to_string(), holder.fence),
        (second, 2)
    );
    let held = holder.since.unwrap().elapsed();
    // By the clock of the same machine.
    assert!(held.is_ok_and(|it| it < DEADLINE), "{:?}", holder.since);
}
