//! The master stands still, is replaced, and goes on as if nothing had happened.

use std::time::Duration;

use dlock::LockError;
use dlock_testkit::{Sentinels, eventually};
use tokio::time::Instant;

use crate::common::soon;
use crate::sentinel::{LONG, clients, manager, manager_with};

/// Its connection is open and good, so only the Sentinels can tell.
#[tokio::test]
async fn an_idle_client_is_moved_at_once() {
    let all = Sentinels::start().await;
    // By itself it would ask its master after minutes, and the Sentinels as well.
    let idle = manager_with(&all, |it| it.response_timeout(Duration::from_secs(60))).await;
    let first = all.master().await;
    assert_eq!(clients(first).await, 1);
    listened_to(&all).await;
    let paused = Instant::now();
    first.pause();
    let second = all.master_after(first).await;
    let promoted = paused.elapsed();
    eventually(LONG, "the client is there", async || {
        clients(second).await == 1
    })
    .await;
    println!(
        "stopped: a new master after {promoted:.1?}, an idle client is there after {:.1?}",
        paused.elapsed()
    );
    first.resume();
    let guard = soon(idle.lock("order:42").acquire()).await.unwrap();
    assert_eq!(second.keys("dlock:{order:42}").await.len(), 1);
    assert_eq!(first.keys("dlock:{order:42}:q").await.len(), 0);
    soon(guard.release()).await.unwrap();
}

/// Waits until a client listens to one of the Sentinels, and says to which.
async fn listened_to(all: &Sentinels) -> usize {
    let found = std::cell::Cell::new(None);
    eventually(LONG, "a client listens to a Sentinel", async || {
        for index in 0..3 {
            let mut connection = all.sentinel_connection(index).await;
            let list: String = redis::cmd("CLIENT")
                .arg("LIST")
                .query_async(&mut connection)
                .await
                .unwrap();
            if list.contains(" sub=1 ") {
                found.set(Some(index));
            }
        }
        found.get().is_some()
    })
    .await;
    found.get().unwrap()
}

/// It listens to the next one.
#[tokio::test]
async fn an_idle_client_whose_sentinel_has_died_is_moved_too() {
    let all = Sentinels::start().await;
    let idle = manager_with(&all, |it| it.response_timeout(Duration::from_secs(60))).await;
    let first = all.master().await;
    all.kill_sentinel(listened_to(&all).await);
    first.pause();
    let second = all.master_after(first).await;
    eventually(LONG, "the client is there", async || {
        clients(second).await == 1
    })
    .await;
    first.resume();
    let guard = soon(idle.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

/// A lease of the old master ends by its deadline or lives on at the new one, and who comes after
/// it has a greater token; the old master serves nobody afterwards.
#[tokio::test]
async fn everybody_is_at_the_new_master_afterwards() {
    let all = Sentinels::start().await;
    let holder = manager_with(&all, |it| it.ttl(Duration::from_secs(4))).await;
    let waiter = manager(&all).await;
    let first = all.master().await;
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    let token = guard.fencing_token();
    let paused = Instant::now();
    first.pause();
    let waiting = tokio::spawn(waiter.lock("order:42").acquire());
    let second = all.master_after(first).await;
    first.resume();
    // Held on, or ended in time: not both at once.
    let outcome = tokio::time::timeout(
        Duration::from_secs(5),
        guard.run_while_held(std::future::pending::<()>()),
    );
    let told = match outcome.await {
        Err(_) => {
            assert!(
                !waiting.is_finished(),
                "broken promise: two hold the key: the lease lives on"
            );
            assert_eq!(second.keys("dlock:{order:42}").await.len(), 1);
            soon(guard.release()).await.unwrap();
            "the lease lived on".to_owned()
        }
        Ok(told) => {
            let Err(lost @ LockError::Lost { .. }) = told else {
                panic!("{told:?}");
            };
            drop(guard);
            lost.to_string()
        }
    };
    let next = soon(waiting).await.unwrap().unwrap();
    println!(
        "stopped: {told}; the next one had it after {:.1?}",
        paused.elapsed()
    );
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();

    all.until_in_sync(&[first]).await;
    // The holder may have one more connection, for renewals.
    eventually(LONG, "nobody is left at the old master", async || {
        clients(first).await == 0 && clients(second).await >= 2
    })
    .await;
}
