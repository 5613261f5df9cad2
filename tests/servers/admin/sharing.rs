//! Shared locks and permits: all holders are seen, and one or all of them lose the lock.

use dlock::{
    LockKey, LockMode, LockRequest, Wait,
    admin::{Inspect as _, LockInfo, Unlocked},
    store::OwnerId,
};
use dlock_testkit::{RedisServer, eventually};

use crate::admin::{TTL, inspector, look, manager, with_waiters};
use crate::common::{LIMIT, soon};

fn owners(lock: &LockInfo) -> Vec<OwnerId> {
    lock.holders().filter_map(|it| it.owner).collect()
}

/// Writes a shared lock as scripts do: each holder with the time from now until its lease ends, in ms.
async fn write(server: &RedisServer, holders: &[(&str, i64)]) {
    const SCRIPT: &str = r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('HSET', KEYS[1], '!', '17 0')
        for at = 1, #ARGV, 2 do
          redis.call('HSET', KEYS[1], ARGV[at], string.format('%.0f', now + ARGV[at + 1]) .. ' svc@host/1#shop::read')
        end
        redis.call('PEXPIRE', KEYS[1], 60000)";
    let mut script = redis::cmd("EVAL");
    script.arg(SCRIPT).arg(1).arg("dlock:{catalog}");
    for (owner, left) in holders {
        script.arg(owner).arg(left);
    }
    let mut behind = server.connection().await;
    soon(script.exec_async(&mut behind)).await.unwrap();
}

#[tokio::test]
async fn everybody_who_shares_a_lock_is_seen() {
    let server = RedisServer::start().await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let third = manager(&server.url()).await;
    let inspector = inspector(&server.url()).await;
    let shared = |manager: &dlock::LockManager| manager.lock("catalog").shared().ttl(TTL);
    let first = soon(shared(&one).acquire()).await.unwrap();
    let alone = look(&inspector, "catalog").await.unwrap();
    assert_eq!(
        (alone.mode, alone.holder_count),
        (Some(LockMode::Shared), 1)
    );
    let second = soon(shared(&other).acquire()).await.unwrap();
    let wants = |request: LockRequest| tokio::spawn(request.wait(Wait::Forever).acquire());
    let writer = wants(third.lock("catalog"));
    let seen = with_waiters(&inspector, "catalog", 1).await;
    let reader = wants(manager(&server.url()).await.lock("catalog").shared());
    with_waiters(&inspector, "catalog", 2).await;
    let worker = wants(manager(&server.url()).await.lock("catalog").permits(3));
    let seen_by_list = with_waiters(&inspector, "catalog", 3).await;

    assert_eq!(seen.mode, Some(LockMode::Shared));
    assert_eq!((seen.holder_count, owners(&seen).len()), (2, 2));
    let fence = first.fencing_token().fence();
    assert_eq!(
        second.fencing_token().fence(),
        fence,
        "broken promise: two tokens together"
    );
    for holder in seen.holders() {
        assert_eq!(holder.fence, fence);
        assert!(holder.label.as_deref().unwrap().starts_with("billing@"));
        assert!(holder.ttl.is_some_and(|ttl| ttl <= TTL && ttl > TTL / 2));
    }
    let wishes: Vec<_> = seen_by_list.waiters.iter().map(|it| it.mode).collect();
    assert_eq!(
        wishes,
        [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(3)]
    );
    let listed = soon(inspector.locks(None)).await.unwrap();
    assert_eq!(owners(&listed[0]), owners(&seen));

    soon(first.release()).await.unwrap();
    soon(second.release()).await.unwrap();
    let next = soon(writer).await.unwrap().unwrap();
    let held = look(&inspector, "catalog").await.unwrap();
    assert_eq!(held.mode, Some(LockMode::Exclusive));
    soon(next.release()).await.unwrap();
    for guard in [reader, worker] {
        soon(soon(guard).await.unwrap().unwrap().release())
            .await
            .unwrap();
    }
    assert_eq!(look(&inspector, "catalog").await, None);
}

#[tokio::test]
async fn holders_that_have_ended_and_foreign_hashes_are_left_out() {
    const CLIENT: &str = "0123456789abcdef0123456789abcdef";
    let server = RedisServer::start().await;
    let inspector = inspector(&server.url()).await;
    let [one, two, three] = [1, 2, 3].map(|it| format!("{CLIENT}.{it}"));
    write(
        &server,
        &[
            (&three, 50_000),
            (&two, -1),
            (&one, 40_000),
            ("stranger", 9_000),
        ],
    )
    .await;
    let mut behind = server.connection().await;
    for (key, kind) in [("hash", "HSET"), ("list", "RPUSH")] {
        let mut write = redis::cmd(kind);
        write.arg(format!("dlock:{{{key}}}")).arg("f");
        if kind == "HSET" {
            write.arg("v");
        }
        soon(write.exec_async(&mut behind)).await.unwrap();
        let key = LockKey::new(key).unwrap();
        let error = soon(inspector.lock(&key)).await.unwrap_err();
        assert_eq!(error.kind(), dlock::StoreErrorKind::WrongType);
    }
    let listed = soon(inspector.locks(None)).await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let [one, two, three] = [one, two, three].map(|it| it.parse::<OwnerId>().unwrap());
    assert_eq!(owners(&listed[0]), [one, three]);
    assert_eq!(
        listed[0].holder.as_ref().unwrap().function.as_deref(),
        Some("shop::read")
    );
    assert_eq!(
        soon(inspector.unlock(&listed[0], Some(two))).await,
        Ok(Unlocked::Changed)
    );
    assert_eq!(
        soon(inspector.unlock(&listed[0], Some(one))).await,
        Ok(Unlocked::StillShared)
    );
    assert_eq!(owners(&look(&inspector, "catalog").await.unwrap()), [three]);
    // Nobody whose lease has not ended.
    write(&server, &[(&three.to_string(), -1), ("stranger", -1)]).await;
    assert_eq!(look(&inspector, "catalog").await, None);
    assert_eq!(
        soon(inspector.unlock(&listed[0], None)).await,
        Ok(Unlocked::Changed)
    );
}

#[tokio::test]
async fn one_of_several_loses_the_lock_and_the_others_keep_it() {
    let server = RedisServer::start().await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let inspector = inspector(&server.url()).await;
    let shared = |manager: &dlock::LockManager| manager.lock("catalog").shared().ttl(TTL);
    let first = soon(shared(&one).acquire()).await.unwrap();
    let owner = owners(&look(&inspector, "catalog").await.unwrap())[0];
    let second = soon(shared(&other).acquire()).await.unwrap();
    let third = manager(&server.url()).await;
    let writer = tokio::spawn(third.lock("catalog").wait(Wait::Forever).acquire());
    let seen = with_waiters(&inspector, "catalog", 1).await;

    assert_eq!(
        soon(inspector.unlock(&seen, Some(owner))).await,
        Ok(Unlocked::StillShared)
    );
    soon(first.lost()).await;
    second.ensure_held().unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, Some(owner))).await,
        Ok(Unlocked::Changed)
    );
    let left = look(&inspector, "catalog").await.unwrap();
    assert_eq!(left.holder_count, 1);
    assert!(
        left.last_fence > second.fencing_token().fence(),
        "broken promise: the token did not grow: raised"
    );
    // The last one's place goes to the writer.
    let last = owners(&left)[0];
    assert_eq!(
        soon(inspector.unlock(&left, Some(last))).await,
        Ok(Unlocked::Granted)
    );
    soon(second.lost()).await;
    let next = soon(writer).await.unwrap().unwrap();
    assert!(
        next.fencing_token().fence() > left.last_fence,
        "broken promise: the token did not grow"
    );
    soon(next.release()).await.unwrap();
}

#[tokio::test]
async fn all_lose_a_shared_lock_at_once_with_those_that_came_since() {
    let server = RedisServer::start().await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let inspector = inspector(&server.url()).await;
    let shared = |manager: &dlock::LockManager| manager.lock("catalog").shared().ttl(TTL);
    let first = soon(shared(&one).acquire()).await.unwrap();
    let seen = look(&inspector, "catalog").await.unwrap();
    let second = soon(shared(&other).acquire()).await.unwrap();
    assert_eq!(seen.holder_count, 1);
    let token = first.fencing_token();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Freed)
    );
    soon(first.lost()).await;
    soon(second.lost()).await;
    assert_eq!(look(&inspector, "catalog").await, None);

    // Those that share it again have another fence.
    let again = soon(shared(&one).acquire()).await.unwrap();
    assert!(
        again.fencing_token() > token,
        "broken promise: the token did not grow"
    );
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Changed)
    );
    again.ensure_held().unwrap();
    soon(again.release()).await.unwrap();
}

#[tokio::test]
async fn all_waiters_that_may_share_the_lock_come_in_after_a_forced_release() {
    let server = RedisServer::start().await;
    let inspector = inspector(&server.url()).await;
    let holder = manager(&server.url()).await;
    let guard = soon(holder.lock("catalog").ttl(TTL).acquire())
        .await
        .unwrap();
    let mut readers = Vec::new();
    for count in 1..=3 {
        let manager = manager(&server.url()).await;
        let request = manager.lock("catalog").shared().ttl(TTL);
        readers.push(tokio::spawn(request.wait(Wait::Forever).acquire()));
        with_waiters(&inspector, "catalog", count).await;
    }
    let seen = look(&inspector, "catalog").await.unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, None)).await,
        Ok(Unlocked::Granted)
    );
    soon(guard.lost()).await;
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(soon(reader).await.unwrap().unwrap());
    }
    eventually(LIMIT, "all share it", async || {
        let seen = look(&inspector, "catalog").await;
        seen.is_some_and(|it| it.holder_count == 3)
    })
    .await;
    for guard in guards {
        soon(guard.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_permit_of_a_holder_goes_to_a_waiter_and_the_counter_may_be_lost() {
    let server = RedisServer::start().await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let third = manager(&server.url()).await;
    let inspector = inspector(&server.url()).await;
    let permit = |manager: &dlock::LockManager| {
        let request = manager.lock("pool").permits(2).ttl(TTL);
        request.wait(Wait::Forever)
    };
    let first = soon(permit(&one).acquire()).await.unwrap();
    let owner = owners(&look(&inspector, "pool").await.unwrap())[0];
    let second = soon(permit(&other).acquire()).await.unwrap();
    let waits = tokio::spawn(permit(&third).acquire());
    let seen = with_waiters(&inspector, "pool", 1).await;
    let token = first.fencing_token();
    let counter = server.keys("dlock:fence:*").await;
    let mut delete = redis::cmd("DEL");
    let mut behind = server.connection().await;
    soon(delete.arg(counter).exec_async(&mut behind))
        .await
        .unwrap();
    assert_eq!(
        soon(inspector.unlock(&seen, Some(owner))).await,
        Ok(Unlocked::StillShared)
    );
    soon(first.lost()).await;
    let next = soon(waits).await.unwrap().unwrap();
    assert_eq!(next.fencing_token().fence(), token.fence());
    second.ensure_held().unwrap();
    let seen = look(&inspector, "pool").await.unwrap();
    assert!(
        seen.last_fence > token.fence(),
        "broken promise: the token did not grow: raised above the epoch"
    );
    soon(next.release()).await.unwrap();
    soon(second.release()).await.unwrap();
}
