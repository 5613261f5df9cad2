//! Transactions of users that conflict: with each other, and with leases.

use std::{sync::Arc, time::Duration};

use dlock_faults::names;
use dlock_postgres::{Fence, FenceError, lock_in};
use dlock_runtime::{LockError, LockManager};
use dlock_testkit::{PostgresOptions, PostgresServer};
use tokio::{sync::Barrier, task::JoinSet};
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::world::{DEADLINE, World, builder};

/// Whether another attempt from the beginning may succeed.
fn is_worth_another_try(error: &FenceError) -> bool {
    match error {
        FenceError::NotHeld { .. } => true,
        FenceError::Database(error) => is_conflict(error),
        _ => false,
    }
}

fn is_conflict(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| ["40001", "40P01"].contains(&code.code()))
}

async fn has_cents(world: &World<&'static PostgresServer>, cents: i64) {
    let sum = world.number("SELECT sum(cents)::bigint FROM account").await;
    assert_eq!(sum, cents, "broken promise: a write was lost");
}

/// Moves a cent, and returns `false` if the transaction has met another one.
async fn transfer(manager: &LockManager, client: &mut Client, from: i32, to: i32) -> bool {
    let keys = [from, to].map(|id| format!("account:{id}"));
    let guard = manager.lock_all(keys).acquire().await.unwrap();
    let is_done = write(&guard, client, from, to).await;
    guard.release().await.unwrap();
    match is_done {
        Ok(()) => true,
        Err(error) if is_worth_another_try(&error) => false,
        Err(error) => panic!("{error:?}"),
    }
}

async fn write(
    guard: &dlock_runtime::LockGuard,
    client: &mut Client,
    from: i32,
    to: i32,
) -> Result<(), FenceError> {
    let begun = client.build_transaction();
    let tx = begun
        .isolation_level(IsolationLevel::Serializable)
        .start()
        .await?;
    guard.fence(&tx).await?;
    // A predicate that others write to, so that transactions conflict which do not share a key.
    tx.query_one("SELECT sum(cents)::bigint FROM account", &[])
        .await?;
    for (id, cents) in [(from, -1_i64), (to, 1)] {
        let statement = "UPDATE account SET cents = cents + $2 WHERE id = $1";
        tx.execute(statement, &[&id, &cents]).await?;
    }
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn serializable_transactions_in_a_storm_conflict_with_each_other_and_lose_no_cent() {
    const TASKS: i32 = 8;
    const TRANSFERS: i32 = 6;
    let world = World::shared().await;
    let mut tasks = JoinSet::new();
    let mut managers = Vec::new();
    for task in 0..TASKS {
        let (manager, mut client) = (world.manager().await, world.client().await);
        managers.push(manager.clone());
        tasks.spawn(async move {
            let mut conflicts = 0;
            for number in 0..TRANSFERS {
                let (from, to) = (1 + task, 1 + (task + 1 + number % 7) % 8);
                while !transfer(&manager, &mut client, from, to).await {
                    conflicts += 1;
                }
            }
            conflicts
        });
    }
    let conflicts = tasks.join_all().await;
    assert!(conflicts.iter().any(|it| *it > 0), "it was a storm");
    has_cents(&world, 800).await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_deadlock_of_users_is_theirs_and_their_leases_stay() {
    deadlocks(1, 1).await;
}

#[tokio::test]
async fn deadlocks_of_users_in_a_storm_have_a_victim_each_and_lose_no_lease() {
    deadlocks(4, 3).await;
}

/// Pairs at once, each several times: one of a pair is the victim, and the other one commits.
async fn deadlocks(pairs: i32, rounds: usize) {
    let world = World::shared().await;
    let manager = world.manager().await;
    let mut tasks = JoinSet::new();
    for pair in 0..pairs {
        let both = Arc::new(Barrier::new(2));
        let (first, second) = (2 * pair + 1, 2 * pair + 2);
        for accounts in [[first, second], [second, first]] {
            let (manager, mut client, both) = (manager.clone(), world.client().await, both.clone());
            tasks.spawn(async move {
                client
                    .batch_execute("SET deadlock_timeout = '20ms'")
                    .await
                    .unwrap();
                let key = format!("account:{}", accounts[0]);
                let guard = manager.lock(key).ttl(DEADLINE).acquire().await.unwrap();
                let mut victims = 0;
                for _ in 0..rounds {
                    let tx = client.transaction().await.unwrap();
                    guard.fence(&tx).await.unwrap();
                    let statement = "UPDATE account SET cents = cents + 1 WHERE id = $1";
                    tx.execute(statement, &[&accounts[0]]).await.unwrap();
                    both.wait().await;
                    match tx.execute(statement, &[&accounts[1]]).await {
                        Ok(_) => tx.commit().await.unwrap(),
                        Err(error) => {
                            assert_eq!(error.code().unwrap().code(), "40P01");
                            victims += 1;
                            tx.rollback().await.unwrap();
                        }
                    }
                    both.wait().await;
                }
                guard.ensure_held().unwrap();
                guard.release().await.unwrap();
                victims
            });
        }
    }
    let victims: i32 = tasks.join_all().await.iter().sum();
    let all = i64::from(pairs) * i64::try_from(rounds).unwrap();
    assert_eq!(i64::from(victims), all);
    has_cents(&world, 800 + 2 * all).await;
    world.nothing_is_left().await;
}

/// Acquires two keys one after the other in one transaction, and writes. Only the second key may be awaited for less than
/// usual: an answer that comes late is another error than a busy key.
async fn lock_both(
    manager: &LockManager,
    client: &mut Client,
    keys: [i32; 2],
    met: &Barrier,
) -> Result<(), FenceError> {
    let tx = client.transaction().await?;
    let lock = |id: i32| manager.lock(format!("account:{id}"));
    lock_in(lock(keys[0]), &tx).await?;
    met.wait().await;
    let wait = Duration::from_secs(3) * u32::try_from(keys[0]).unwrap();
    lock_in(lock(keys[1]).wait(wait), &tx).await?;
    tx.execute("UPDATE account SET cents = cents + 1", &[])
        .await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn two_keys_in_both_orders_end_with_busy_for_one_and_locks_go_on() {
    let world = World::shared().await;
    // An answer that comes late is another error than a busy key.
    let patient = || builder().response_timeout(DEADLINE).connect(world.url());
    let met = Arc::new(Barrier::new(2));
    let mut tasks = JoinSet::new();
    // Each has its first key before it asks for the second.
    for keys in [[1, 8], [8, 1]] {
        let (manager, mut client) = (patient().await.unwrap(), world.client().await);
        let met = met.clone();
        tasks.spawn(async move {
            let locked = lock_both(&manager, &mut client, keys, &met).await;
            let Err(error) = locked else {
                return false;
            };
            let FenceError::Lock(busy @ LockError::Busy { .. }) = &error else {
                panic!("{error:?}")
            };
            names(busy, &["`account:8`", "try again later"]);
            assert!(busy.retry_after().is_some());
            // From the beginning, with the keys in one order.
            let alone = Barrier::new(1);
            lock_both(&manager, &mut client, [8, 1], &alone)
                .await
                .unwrap();
            true
        });
    }
    let retried = tasks.join_all().await;
    assert_eq!(retried.iter().filter(|it| **it).count(), 1);
    has_cents(&world, 816).await;
    world.nothing_is_left().await;
}

#[tokio::test]
async fn a_prepared_transaction_keeps_its_keys_also_over_a_crash_of_the_server() {
    let options = PostgresOptions::new().set("max_prepared_transactions", "5");
    let world = World::new(options).await;
    let (one, other) = (world.manager().await, world.manager().await);
    let mut client = world.client().await;
    let guard = one.lock("account:1").acquire().await.unwrap();
    let tx = client.transaction().await.unwrap();
    guard.fence(&tx).await.unwrap();
    tx.execute("UPDATE account SET cents = 101 WHERE id = 1", &[])
        .await
        .unwrap();
    prepare(tx, "fenced").await;
    let tx = client.transaction().await.unwrap();
    lock_in(one.lock("account:2"), &tx).await.unwrap();
    prepare(tx, "adopted").await;

    world.server.restart().await;
    // As if both leases had ended long ago. The row of an adopted one is deleted already, and cannot be changed.
    let end = "UPDATE dlock.holder SET ends = clock_timestamp() WHERE key = 'account:1'";
    world.execute(end).await;
    let over = "SELECT count(*) FROM dlock.holder WHERE ends <= clock_timestamp()";
    world.until("they end", over, |count| count == 2).await;
    for (key, end) in [
        ("account:1", "COMMIT PREPARED 'fenced'"),
        ("account:2", "ROLLBACK PREPARED 'adopted'"),
    ] {
        // The prepared transaction keeps it.
        other.finds_held(key).await;
        world.execute(end).await;
        other.works(key).await;
    }
    let cents = "SELECT cents FROM account WHERE id = 1";
    assert_eq!(world.number(cents).await, 101);
    drop(guard);
    world.nothing_is_left().await;
}

/// Prepares a transaction, which then is in no session any more.
async fn prepare(tx: Transaction<'_>, name: &str) {
    let prepare = format!("PREPARE TRANSACTION '{name}'");
    tx.batch_execute(&prepare).await.unwrap();
}
