//! `fence` and `lock_in`, and the transactions around them, dropped at every await.

use std::cell::Cell;

use dlock::{LockGuard, LockManager};
use dlock_postgres::{Fence, FenceError, lock_in};
use dlock_testkit::{Polled, eventually};
use tokio_postgres::{Client, Transaction, error::SqlState};

use super::env::Postgres;
use crate::{
    common::{Env, LIMIT, OneKey, soon},
    driver::{Drops, at_every_await, poll},
    stores::until_waiting_or,
};

const KEY: &str = "account:7";

struct World {
    env: Postgres,
    manager: LockManager,
    other: LockManager,
    client: Client,
}

impl World {
    async fn start() -> Self {
        let env = Postgres::start().await;
        let (manager, other) = (env.manager().await, env.manager().await);
        let client = env.client().await;
        Self {
            env,
            manager,
            other,
            client,
        }
    }

    async fn cents(&self) -> i64 {
        self.env.number("SELECT cents FROM account").await
    }

    /// Another process gets the key long before a lease of a dropped call would end by itself.
    async fn assert_free(&self) {
        let guard = soon(self.other.lock(KEY).wait(LIMIT).acquire()).await;
        soon(guard.unwrap().release()).await.unwrap();
        self.env
            .assert_clean(1, &[&self.manager, &self.other])
            .await;
    }
}

async fn withdraw(tx: &Transaction<'_>) -> Result<(), FenceError> {
    tx.execute("UPDATE account SET cents = cents - 1 WHERE id = 7", &[])
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_check_that_is_dropped_anywhere_leaves_the_lease_and_the_transaction_usable() {
    let mut world = World::start().await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let guard = soon(world.manager.lock(KEY).acquire()).await.unwrap();
        let tx = soon(world.client.transaction()).await.unwrap();
        let outcome = soon(poll(guard.fence(&tx), polls, drops)).await;
        guard.ensure_held().unwrap();
        // Once more, on the same connection.
        soon(guard.fence(&tx)).await.unwrap();
        soon(tx.rollback()).await.unwrap();
        soon(guard.release()).await.unwrap();
        world.assert_free().await;
        matches!(outcome, Polled::Finished(Ok(())))
    })
    .await;
    assert!(parked >= 1 && woken >= 1, "{parked} {woken}");
}

/// The lock, the check, the write, the commit and the release.
async fn transfer(manager: LockManager, client: &mut Client) -> Result<(), FenceError> {
    let guard = manager.lock(KEY).wait(LIMIT).acquire().await?;
    let tx = client.transaction().await?;
    guard.fence(&tx).await?;
    withdraw(&tx).await?;
    tx.commit().await?;
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_transaction_under_a_lease_is_carried_out_as_a_whole_or_not_at_all() {
    let mut world = World::start().await;
    let (mut done, mut runs) = (0, 0);
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let before = world.cents().await;
        let call = transfer(world.manager.clone(), &mut world.client);
        let outcome = soon(poll(call, polls, drops)).await;
        // The connection is given back only with its transaction at an end.
        soon(world.client.query_one("SELECT 1", &[])).await.unwrap();
        let after = world.cents().await;
        assert!([before, before - 1].contains(&after), "{before} {after}");
        done += before - after;
        runs += 1;
        world.assert_free().await;
        assert_eq!(world.cents().await, after, "it has ended");
        matches!(outcome, Polled::Finished(Ok(())))
    })
    .await;
    // The request, the begin, the check, the write, the commit and the release.
    assert!(parked >= 6 && woken >= 6, "{parked} {woken}");
    assert!(done >= 2 && done < runs, "{done} of {runs}");
}

/// The body of `run` relies on its lease.
#[tokio::test]
async fn a_body_with_a_transaction_is_carried_out_as_a_whole_or_not_at_all() {
    let mut world = World::start().await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let before = world.cents().await;
        let client = &mut world.client;
        let run = world.manager.lock(KEY).run(async |lease| {
            let tx = client.transaction().await?;
            lease.fence(&tx).await?;
            withdraw(&tx).await?;
            tx.commit().await?;
            Ok::<_, FenceError>("done")
        });
        let outcome = soon(poll(run, polls, drops)).await;
        soon(world.client.query_one("SELECT 1", &[])).await.unwrap();
        let after = world.cents().await;
        assert!([before, before - 1].contains(&after), "{before} {after}");
        world.assert_free().await;
        match outcome {
            Polled::Finished(result) => {
                assert_eq!(result.unwrap().unwrap(), "done");
                assert_eq!(after, before - 1);
                true
            }
            Polled::Dropped => false,
        }
    })
    .await;
    assert!(parked >= 5 && woken >= 5, "{parked} {woken}");
}

/// Whether it came to its end.
async fn locked_in(world: &mut World, polls: usize, drops: Drops) -> bool {
    let before = world.cents().await;
    let tx = soon(world.client.transaction()).await.unwrap();
    let lock = lock_in(world.manager.lock(KEY).wait(LIMIT), &tx);
    let outcome = soon(poll(lock, polls, drops)).await;
    let has_ended = match outcome {
        Polled::Finished(token) => {
            token.unwrap();
            true
        }
        Polled::Dropped => false,
    };
    if has_ended {
        soon(withdraw(&tx)).await.unwrap();
        soon(tx.commit()).await.unwrap();
        assert_eq!(world.cents().await, before - 1);
    } else {
        soon(tx.rollback()).await.unwrap();
        assert_eq!(world.cents().await, before);
    }
    world.assert_free().await;
    has_ended
}

#[tokio::test]
async fn a_lock_in_a_transaction_that_is_dropped_anywhere_leaves_nothing() {
    let mut world = World::start().await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        locked_in(&mut world, polls, drops).await
    })
    .await;
    assert!(parked >= 2 && woken >= 2, "{parked} {woken}");
}

#[tokio::test]
async fn a_transaction_that_waits_for_its_lock_and_is_dropped_leaves_its_place() {
    let world = &mut World::start().await;
    let [parked, woken] = at_every_await(0.., async |polls, drops| {
        let holder = soon(world.other.lock(KEY).acquire()).await.unwrap();
        let key = OneKey::new(world.env.store().await, KEY);
        let is_over = Cell::new(false);
        let release = async {
            until_waiting_or(&key, &is_over).await;
            soon(holder.release()).await.unwrap();
        };
        let tx = soon(world.client.transaction()).await.unwrap();
        let wait = async {
            let lock = lock_in(world.manager.lock(KEY).wait(LIMIT), &tx);
            let outcome = soon(poll(lock, polls, drops)).await;
            is_over.set(true);
            outcome
        };
        let (outcome, ()) = tokio::join!(wait, release);
        soon(tx.rollback()).await.unwrap();
        world.assert_free().await;
        matches!(outcome, Polled::Finished(Ok(_)))
    })
    .await;
    assert!(parked >= 3 && woken >= 3, "{parked} {woken}");
}

/// The lease ends with the process's wish, and the row with the transaction.
#[tokio::test]
async fn a_guard_that_is_dropped_in_an_open_transaction_is_released_at_its_end() {
    let mut world = World::start().await;
    let guard: LockGuard = soon(world.manager.lock(KEY).acquire()).await.unwrap();
    let tx = soon(world.client.transaction()).await.unwrap();
    soon(guard.fence(&tx)).await.unwrap();
    drop(guard);
    let waiter = tokio::spawn(world.other.lock(KEY).wait(LIMIT).acquire());
    eventually(LIMIT, "the other process waits", async || {
        let waiters = world.env.number("SELECT count(*) FROM dlock.waiter");
        waiters.await == 1
    })
    .await;
    let holders = world.env.number("SELECT count(*) FROM dlock.holder").await;
    assert_eq!((holders, world.manager.active_keys()), (1, 1));
    assert!(!waiter.is_finished());
    soon(withdraw(&tx)).await.unwrap();
    soon(tx.commit()).await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    soon(next.release()).await.unwrap();
    world.assert_free().await;
}

/// While the transaction is open that has the lock, neither the process that has given up nor an operator holds up others.
#[tokio::test]
async fn a_lock_in_an_open_transaction_holds_up_no_other_request() {
    let mut world = World::start().await;
    let manager = world.manager.clone();
    at_every_await(0.., async |polls, drops| {
        let tx = soon(world.client.transaction()).await.unwrap();
        let outcome = soon(poll(lock_in(manager.lock(KEY), &tx), polls, drops)).await;
        // All that was sent before has been carried out.
        soon(tx.query_one("SELECT 1", &[])).await.unwrap();
        let is_free = soon(world.other.lock(KEY).try_acquire()).await.unwrap();
        if let Some(guard) = is_free {
            soon(guard.release()).await.unwrap();
        }
        let elsewhere = soon(manager.lock("account:8").acquire()).await.unwrap();
        soon(elsewhere.release()).await.unwrap();
        soon(tx.rollback()).await.unwrap();
        let guard = soon(world.other.lock(KEY).wait(LIMIT).acquire()).await;
        soon(guard.unwrap().release()).await.unwrap();
        world
            .env
            .assert_clean(2, &[&world.manager, &world.other])
            .await;
        matches!(outcome, Polled::Finished(Ok(_)))
    })
    .await;

    let tx = soon(world.client.transaction()).await.unwrap();
    let token = soon(lock_in(manager.lock(KEY), &tx)).await.unwrap();
    let operator = world.env.client().await;
    let unlock = "SELECT dlock.unlock(key, owner, fence) FROM dlock.holder WHERE fence = $1";
    let fence = i64::try_from(token.fence()).unwrap();
    let refused = soon(operator.query_one(unlock, &[&fence])).await;
    let refused = refused.expect_err("the transaction is open");
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE));
    let busy = soon(world.other.lock(KEY).try_acquire()).await.unwrap();
    assert!(busy.is_none(), "broken promise: two hold the key");
    soon(tx.commit()).await.unwrap();
    let guard = soon(world.other.lock(KEY).acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
}
