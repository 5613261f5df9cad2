//! A forced release takes a lock only from the holder that was seen, and tells that holder at once.

use std::{sync::Arc, time::Duration};

use dlock::{
    LockError, LockManager, LostCause, StoreErrorKind, Wait,
    admin::{Inspect as _, Unlocked},
};
use dlock_testkit::{RedisServer, eventually};
use tokio::{sync::Notify, time::Instant};

use crate::admin::{TTL, inspector, look, manager, with_waiters};
use crate::common::{LIMIT, begin, is_lost, shown, soon};

#[tokio::test]
async fn a_lease_that_has_changed_hands_stays() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let seen = look(&inspector, "order:42").await.unwrap();
    soon(guard.release()).await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Changed)
    );
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Changed)
    );
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
}

/// A waiter keeps its owner id when it loses a grant and gets another: its fence tells the two leases apart.
#[tokio::test]
async fn a_later_lease_of_the_same_owner_stays() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let seen = look(&inspector, "order:42").await.unwrap();
    let mut behind = server.connection().await;
    let mut value = redis::cmd("GET");
    let value = value.arg("dlock:{order:42}");
    let value: String = soon(value.query_async(&mut behind)).await.unwrap();
    let [owner, fence, label] = value.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{value}");
    };
    let later: u64 = fence.parse::<u64>().unwrap() + 1;
    // Longer than the one that was seen, and its beginning.
    for later in [later.to_string(), format!("{fence}0")] {
        let again = format!("{owner} {later} {label}");
        let mut set = redis::cmd("SET");
        set.arg("dlock:{order:42}").arg(&again).arg("KEEPTTL");
        soon(set.exec_async(&mut behind)).await.unwrap();
        assert_eq!(
            soon(inspector.unlock(&seen, None)).await,
            Ok(Unlocked::Changed)
        );
        let mut value = redis::cmd("GET");
        let value = value.arg("dlock:{order:42}");
        let value: String = soon(value.query_async(&mut behind)).await.unwrap();
        assert_eq!(value, again, "nothing was done");
    }
    // The same lease by another label is the one that was seen.
    let mut set = redis::cmd("SET");
    let relabelled = format!("{owner} {fence} other");
    set.arg("dlock:{order:42}").arg(relabelled).arg("KEEPTTL");
    soon(set.exec_async(&mut behind)).await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    soon(guard.lost()).await;
}

#[tokio::test]
async fn the_first_waiter_gets_it_and_the_holders_body_ends_at_once() {
    let server = RedisServer::start().await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let inspector = inspector(&server.url()).await;
    let begun = Arc::new(Notify::new());
    let body = tokio::spawn({
        let begun = begun.clone();
        one.lock("order:42").ttl(TTL).run(async move |_| {
            begun.notify_one();
            std::future::pending::<()>().await;
        })
    });
    soon(begun.notified()).await;
    let waits = tokio::spawn(other.lock("order:42").wait(Wait::Forever).acquire());
    let seen = with_waiters(&inspector, "order:42", 1).await;
    let since = Instant::now();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Granted)
    );
    let outcome = soon(body).await.unwrap();
    // A third of the TTL would be its next renewal.
    assert!(since.elapsed() < TTL / 6, "{:?}", since.elapsed());
    assert!(
        is_lost(&outcome, |cause| *cause == LostCause::Revoked),
        "{outcome:?}"
    );
    let guard = soon(waits).await.unwrap().unwrap();
    let held = seen.holder.unwrap();
    assert!(
        guard.fencing_token().fence() > held.fence + 1,
        "broken promise: the token did not grow: it was raised in between"
    );
    soon(guard.release()).await.unwrap();
}

/// The process knows that the lease is gone, and its next task asks for one.
#[tokio::test]
async fn a_lease_that_was_unlocked_begins_no_other_body_of_its_process() {
    let server = RedisServer::start().await;
    let url = server.url();
    let (one, other, third) = (
        manager(&url).await,
        manager(&url).await,
        manager(&url).await,
    );
    let inspector = inspector(&url).await;
    let lock = |manager: &LockManager, key| manager.lock(key).wait(Wait::Forever);
    let before = soon(third.lock("order:42").acquire()).await.unwrap();
    let told = soon(third.lock("told").acquire()).await.unwrap();
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let body = tokio::spawn({
        let (begun, end) = (begun.clone(), end.clone());
        lock(&one, "order:42").run(async move |_| {
            begun.notify_one();
            end.notified().await;
        })
    });
    with_waiters(&inspector, "order:42", 1).await;
    let mut next = Box::pin(lock(&one, "order:42").acquire());
    begin(&mut next).await;
    let next = tokio::spawn(next);
    let rival = tokio::spawn(lock(&other, "order:42").acquire());
    with_waiters(&inspector, "order:42", 2).await;
    let is_told = tokio::spawn(lock(&one, "told").acquire());
    with_waiters(&inspector, "told", 1).await;

    soon(before.release()).await.unwrap();
    soon(begun.notified()).await;
    let seen = look(&inspector, "order:42").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Granted)
    );
    // A later message over the same connection: the one about the lease has come before it.
    soon(told.release()).await.unwrap();
    drop(soon(is_told).await.unwrap().unwrap());
    end.notify_one();
    let outcome = soon(body).await.unwrap();
    let revoked = |cause: &LostCause| *cause == LostCause::Revoked;
    assert!(is_lost(&outcome, revoked), "{outcome:?}");

    let rival = soon(rival).await.unwrap().unwrap();
    with_waiters(&inspector, "order:42", 1).await;
    let token = rival.fencing_token();
    soon(rival.release()).await.unwrap();
    let next = soon(next).await.unwrap().unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

/// It has seen no body, and so the call waits for the key again.
#[tokio::test]
async fn a_lease_that_was_unlocked_begins_no_body_of_a_call_for_several_keys() {
    let server = RedisServer::start().await;
    let url = server.url();
    let (one, other) = (manager(&url).await, manager(&url).await);
    let inspector = inspector(&url).await;
    let last = soon(other.lock("b").acquire()).await.unwrap();
    let call = one.lock_all(["a", "b"]).wait(Wait::Forever).acquire();
    let call = tokio::spawn(call);
    with_waiters(&inspector, "b", 1).await;
    let seen = look(&inspector, "a").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    let rival = soon(other.lock("a").acquire()).await.unwrap();
    soon(last.release()).await.unwrap();
    with_waiters(&inspector, "a", 1).await;
    assert!(!call.is_finished());
    let token = rival.fencing_token();
    soon(rival.release()).await.unwrap();
    let guard = soon(call).await.unwrap().unwrap();
    assert!(
        guard.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn a_free_locks_next_fence_is_greater_even_if_its_counter_was_lost() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let token = guard.fencing_token();
    let seen = look(&inspector, "order:42").await.unwrap();
    let counter = server.keys("dlock:fence:*").await;
    let delete = redis::cmd("DEL").arg(counter).to_owned();
    let mut behind = server.connection().await;
    delete.exec_async(&mut behind).await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    assert_eq!(server.keys("dlock:{*").await, Vec::<String>::new());
    soon(guard.lost()).await;
    let next = soon(manager.lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

/// As a quorum or another server may have put it.
#[tokio::test]
async fn fences_that_are_ahead_of_the_servers_clock_are_not_set_back() {
    for is_deleted in [false, true] {
        let server = RedisServer::start().await;
        let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
        let mut behind = server.connection().await;
        let first = soon(manager.lock("order:42").acquire()).await.unwrap();
        let ahead = first.fencing_token().fence() + 1_000_000_000;
        soon(first.release()).await.unwrap();
        let counter = server.keys("dlock:fence:*").await.remove(0);
        let mut set = redis::cmd("SET");
        set.arg(&counter).arg(ahead);
        set.exec_async(&mut behind).await.unwrap();
        let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
        let token = guard.fencing_token();
        assert_eq!(token.fence(), ahead + 1);
        let seen = look(&inspector, "order:42").await.unwrap();
        if is_deleted {
            let mut delete = redis::cmd("DEL");
            delete.arg(&counter).exec_async(&mut behind).await.unwrap();
        }
        assert_eq!(
            soon(inspector.unlock(&seen, None)).await,
            Ok(Unlocked::Freed)
        );
        let mut get = redis::cmd("GET");
        let last: u64 = get.arg(&counter).query_async(&mut behind).await.unwrap();
        assert!(
            last > token.fence(),
            "broken promise: the token did not grow: {last} after {token}"
        );
        soon(guard.lost()).await;
        let next = soon(manager.lock("order:42").acquire()).await.unwrap();
        assert!(
            next.fencing_token() > token,
            "broken promise: the token did not grow"
        );
        soon(next.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_without_memory_frees_a_lock() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let seen = look(&inspector, "order:42").await.unwrap();
    let mut behind = server.connection().await;
    let limit = async |behind: &mut _, bytes: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg(&["SET", "maxmemory", bytes]);
        soon(set.exec_async(behind)).await.unwrap();
    };
    limit(&mut behind, "1").await;
    let mut write = redis::cmd("SET");
    let refused = soon(write.arg("any").arg("x").exec_async(&mut behind)).await;
    assert!(shown(&refused.unwrap_err()).contains("OOM"));
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    soon(guard.lost()).await;
    limit(&mut behind, "0").await;
    let next = soon(manager.lock("order:42").acquire()).await.unwrap();
    assert!(
        next.fencing_token() > guard.fencing_token(),
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

#[tokio::test]
async fn a_fence_that_is_foreign_data_is_named_with_its_remedy() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let mut behind = server.connection().await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let seen = look(&inspector, "order:42").await.unwrap();
    let [counter] = server.keys("dlock:fence:*").await.try_into().unwrap();
    let list = redis::cmd("RPUSH").arg(&counter).arg("x").to_owned();
    let text = redis::cmd("SET").arg(&counter).arg("9e9").to_owned();
    let delete = redis::cmd("DEL").arg(&counter).to_owned();
    for foreign in [text, list] {
        soon(delete.exec_async(&mut behind)).await.unwrap();
        soon(foreign.exec_async(&mut behind)).await.unwrap();
        let error = soon(inspector.unlock(&seen, None)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::WrongType);
        let text = shown(&error);
        assert!(
            text.contains(&counter) && text.contains("delete that key"),
            "{text}"
        );
        guard.ensure_held().unwrap();
    }
    soon(delete.exec_async(&mut behind)).await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    soon(guard.lost()).await;
}

/// Whichever comes first, nobody loses a lease that was not the one seen.
#[tokio::test]
async fn it_races_with_releases() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let (mut freed, mut changed) = (0, 0);
    for _ in 0..200 {
        let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
        let seen = look(&inspector, "order:42").await.unwrap();
        let (released, unlocked) = tokio::join!(guard.release(), inspector.unlock(&seen, None));
        match unlocked.unwrap() {
            Unlocked::Freed => {
                freed += 1;
                assert!(
                    matches!(released, Err(LockError::Lost { .. })),
                    "{released:?}"
                );
            }
            Unlocked::Changed => {
                changed += 1;
                released.unwrap();
            }
            other => panic!("nobody waits: {other:?}"),
        }
    }
    println!("{freed} freed, {changed} changed");
    assert_eq!(freed + changed, 200);
    eventually(LIMIT, "nothing is left", async || {
        manager.active_keys() == 0
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_at_its_own_deadline() {
    let server = RedisServer::start().await;
    let (manager, inspector) = (manager(&server.url()).await, inspector(&server.url()).await);
    let lock = manager.lock("order:42").renew(false);
    let guard = soon(lock.ttl(Duration::from_secs(5)).acquire())
        .await
        .unwrap();
    let seen = look(&inspector, "order:42").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    guard.ensure_held().unwrap();
    soon(guard.lost()).await;
    assert_eq!(look(&inspector, "order:42").await, None);
}

/// Hints that anybody makes up cost a few renewals, and no lease.
#[tokio::test]
async fn a_flood_of_doubts_is_a_few_renewals() {
    let server = RedisServer::start().await;
    let manager = manager(&server.url()).await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let inspector = inspector(&server.url()).await;
    let seen = look(&inspector, "order:42").await.unwrap();
    let owner = seen.holder.unwrap().owner.unwrap();
    let mut behind = server.connection().await;
    let before = server.command_count("evalsha").await;
    let since = Instant::now();
    for _ in 0..20 {
        let mut flood = redis::pipe();
        for _ in 0..1000 {
            let channel = format!("dlock:wake:{}", owner.client());
            let message = format!("{owner} 0 order:42");
            flood.cmd("PUBLISH").arg(channel).arg(message).ignore();
        }
        soon(flood.exec_async(&mut behind)).await.unwrap();
    }
    eventually(LIMIT, "it has asked", async || {
        server.command_count("evalsha").await > before
    })
    .await;
    let asked = server.command_count("evalsha").await - before;
    let most = since.elapsed().as_millis() / 250 + 2;
    assert!(
        u128::from(asked) <= most,
        "{asked} renewals, {most} are many"
    );
    guard.ensure_held().unwrap();
    soon(guard.release()).await.unwrap();
}
