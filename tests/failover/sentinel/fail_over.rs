//! The master is killed, and a replica takes its place.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{FencingToken, LockError, LockManager, LostCause, OnLost};
use dlock_testkit::{Sentinels, eventually, within};
use tokio::{task::JoinSet, time::Instant};

use crate::common::{is_lost, soon};
use crate::sentinel::{LONG, clients, manager, manager_with, small_and_patient};

#[tokio::test]
async fn a_lease_that_was_replicated_is_renewed_at_the_new_master() {
    let all = Sentinels::start().await;
    let holder = manager(&all).await;
    let waiter = manager(&all).await;
    let first = all.master().await;
    // Its first renewals fall into the outage, and its deadline far behind it.
    let lock = holder.lock("order:42").ttl(Duration::from_secs(20));
    let guard = soon(lock.acquire()).await.unwrap();
    let waiting = tokio::spawn(waiter.lock("order:42").acquire());
    eventually(LONG, "it waits", async || {
        first.keys("dlock:{order:42}:q").await.len() == 1
    })
    .await;
    all.until_replicated(first, 2).await;

    let killed = Instant::now();
    first.kill();
    // A fail-over may take longer than a connection may.
    let free = LockManager::builder().wait(LONG).connect_lazy(all.url());
    let free = free.unwrap();
    let other = free.lock("order:43").acquire().await.unwrap();
    println!(
        "killed: another lock was got after {:.1?}",
        killed.elapsed()
    );
    other.release().await.unwrap();

    let second = all.master_after(first).await;
    let before = ttl(second, "dlock:{order:42}").await;
    eventually(LONG, "the lease is renewed at the new master", async || {
        ttl(second, "dlock:{order:42}").await > before
    })
    .await;
    println!(
        "killed: the lease was renewed after {:.1?}",
        killed.elapsed()
    );
    assert!(!guard.is_lost());
    assert!(!waiting.is_finished());
    let token = guard.fencing_token();
    soon(guard.release()).await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

async fn ttl(server: &dlock_testkit::RedisServer, key: &str) -> i64 {
    server.read(redis::cmd("PTTL").arg(key)).await
}

/// What a section saw of itself.
struct Seen {
    entered: Instant,
    token: FencingToken,
}

/// Many sections during the fall of a master, each of them with a greater token than all before.
#[tokio::test]
async fn sections_go_on_and_their_tokens_grow() {
    let all = Sentinels::start().await;
    let first = all.master().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager_with(&all, |it| it.ttl(Duration::from_secs(3))).await);
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut running = JoinSet::new();
    for manager in &managers {
        let (manager, seen, stopped) = (manager.clone(), seen.clone(), stopped.clone());
        running.spawn(async move {
            while !*stopped.borrow() {
                let body = manager.lock("order:42").run(async |lease| {
                    let (entered, token) = (Instant::now(), lease.fencing_token());
                    seen.lock().unwrap().push(Seen { entered, token });
                    tokio::time::sleep(Duration::from_millis(2)).await;
                });
                match body.await {
                    // It was in its body when its lease was.
                    Ok(()) | Err(LockError::Lost { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    let entered = |after: Instant| {
        let seen = seen.lock().unwrap();
        seen.iter().filter(|it| it.entered > after).count()
    };
    let started = Instant::now();
    eventually(LONG, "all are at work", async || entered(started) > 30).await;
    let killed = Instant::now();
    first.kill();
    all.master_after(first).await;
    let promoted = Instant::now();
    eventually(LONG, "all are at work again", async || {
        entered(promoted) > 30
    })
    .await;
    stop.send(true).unwrap();
    while let Some(ended) = soon(running.join_next()).await {
        ended.unwrap();
    }
    let gap = {
        let seen = seen.lock().unwrap();
        assert!(
            seen.is_sorted_by(|one, next| one.token < next.token),
            "broken promise: the token did not grow"
        );
        let pairs = seen.windows(2);
        let gaps = pairs.map(|pair| pair[1].entered - pair[0].entered);
        gaps.max().unwrap()
    };
    println!(
        "killed: a new master after {:.1?}, no section for {gap:.1?}",
        promoted - killed,
    );
    for manager in &managers {
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
    }
    // A manager whose lease was renewed meanwhile has a connection for that as well. On a busy machine, the Sentinels may have
    // promoted once more.
    eventually(LONG, "all are at the new master", async || {
        clients(all.master().await).await >= 3
    })
    .await;
}

/// The replica has never heard of the last fences and of the lease.
#[tokio::test]
async fn tokens_grow_although_the_replica_missed_the_last_writes() {
    let all = small_and_patient().await;
    let holder = manager_with(&all, |it| it.ttl(Duration::from_secs(30))).await;
    let waiter = manager(&all).await;
    let [first, replica] = all.servers() else {
        panic!("there are two");
    };
    let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    all.until_replicated(first, 1).await;
    all.cut_off(replica).await;
    let mut last = None;
    for _ in 0..20 {
        let guard = soon(holder.lock("order:42").acquire()).await.unwrap();
        last = last.max(Some(guard.fencing_token()));
        soon(guard.release()).await.unwrap();
    }
    let held = soon(
        holder
            .lock("order:42")
            .ttl(Duration::from_secs(24))
            .on_lost(OnLost::Stop)
            .acquire(),
    )
    .await
    .unwrap();
    last = last.max(Some(held.fencing_token()));
    first.kill();
    let second = all.master_after(first).await;
    assert_eq!(second.port(), replica.port());
    // What nobody has replicated nobody keeps: the next holder comes long before the deadline.
    let guard = soon(waiter.lock("order:42").acquire()).await.unwrap();
    assert!(
        Some(guard.fencing_token()) > last,
        "broken promise: the token did not grow: {last:?}"
    );
    let told = held.run_while_held(std::future::pending::<()>());
    let told = within(LONG, Box::pin(told)).await.expect("it hangs");
    assert!(
        is_lost(&told, |cause| matches!(cause, LostCause::Revoked)),
        "{told:?}"
    );
    soon(guard.release()).await.unwrap();
}

/// It waits for the fail-over, within its own limit.
#[tokio::test]
async fn a_call_that_begins_during_the_outage_succeeds() {
    let all = Sentinels::start_small().await;
    let manager = manager(&all).await;
    let first = all.master().await;
    first.kill();
    let before = Instant::now();
    let guard = manager.lock("order:42").wait(LONG).acquire().await.unwrap();
    println!(
        "killed: a call that began then had waited {:.1?}",
        before.elapsed()
    );
    assert_ne!(all.master().await.port(), first.port());
    soon(guard.release()).await.unwrap();
}
