//! Servers in odd states, and foreign values at the key of a lock.

use std::time::{Duration, Instant};

use dlock::{LostCause, Wait, store::StoreErrorKind};
use dlock_testkit::{Proxy, RedisServer, eventually};

use crate::bad_input::{SECRET, WAIT, assert_says, patient, refusal, refused, run, unavailable};
use crate::common::{Env, LIMIT, Redis, assert_idle, builder, is_lost, shown, soon};

#[tokio::test]
async fn somebodys_data_at_the_key_is_never_deleted() {
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.wait(LIMIT)).await;
    let mut connection = env.server.connection().await;
    run(&mut connection, &["HSET", "dlock:{order:42}", "a", "1"]).await;
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::WrongType);
    assert_says(&error, &["dlock:{order:42}", "never deletes"]);
    assert_eq!(error.retry_after(), None);
    assert_idle(&[&manager]).await;
    assert_eq!(env.locks().await, ["dlock:{order:42}"]);
    let kept = run(&mut connection, &["HGETALL", "dlock:{order:42}"]).await;
    assert!(format!("{kept:?}").contains('a'), "{kept:?}");
}

/// A fence that nobody could exceed.
#[tokio::test]
async fn a_fence_that_is_no_number_grants_nothing() {
    let env = Redis::start().await;
    let manager = env.manager().await;
    soon(manager.lock("order:42").run(async |_| ()))
        .await
        .unwrap();
    let fence = env.server.keys("dlock:fence:*").await.remove(0);
    let mut connection = env.server.connection().await;
    for nonsense in ["x", "-1", "1e9", "9223372036854775807"] {
        run(&mut connection, &["SET", &fence, nonsense]).await;
        let error = refusal(&manager).await;
        unavailable(&error);
        assert_says(&error, &["fence"]);
        assert_eq!(
            env.locks().await,
            Vec::<String>::new(),
            "no lock without a fence"
        );
    }
}

/// A crashed client of another kind has left it.
#[tokio::test]
async fn a_foreign_value_is_held_and_says_so() {
    let env = Redis::start().await;
    let waits = env.manager_with(|it| it.wait(2 * WAIT)).await;
    let manager = env.manager_with(|it| it.wait(Wait::Never)).await;
    let mut connection = env.server.connection().await;
    for value in ["1", "", "me", "a b c d", "1700000000.123 5 -", "ü ü ü"] {
        run(&mut connection, &["SET", "dlock:{order:42}", value]).await;
        // One of them is waited for.
        let error = refusal(if value.is_empty() { &waits } else { &manager }).await;
        assert!(error.is_busy(), "`{value}`: {error}");
        assert_says(&error, &["`order:42`", "without a TTL"]);
        assert_idle(&[&manager, &waits]).await;
        let kept = run(&mut connection, &["GET", "dlock:{order:42}"]).await;
        assert_eq!(
            kept,
            redis::Value::BulkString(value.into()),
            "it is not ours"
        );
    }
    run(&mut connection, &["DEL", "dlock:{order:42}"]).await;
    env.assert_clean(1, &[&manager, &waits]).await;
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_no_place_for_locks() {
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.wait(2 * WAIT)).await;
    soon(manager.lock("order:42").run(async |_| ()))
        .await
        .unwrap();
    let (_proxy, nobody) = refused();
    let port = nobody.rsplit(':').next().unwrap();
    let mut connection = env.server.connection().await;
    run(&mut connection, &["REPLICAOF", "127.0.0.1", port]).await;
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::ReadOnly);
    assert_says(&error, &["point dlock at the master"]);
    run(&mut connection, &["REPLICAOF", "NO", "ONE"]).await;
    let guard = soon(manager.lock("order:42").wait(LIMIT).acquire())
        .await
        .unwrap();
    soon(guard.release()).await.unwrap();
}

/// What a replica says of a lease is not the last word, and it does not keep one, even if it takes writes.
#[tokio::test]
async fn a_replica_does_not_take_a_lease_away() {
    for is_read_only in ["yes", "no"] {
        let env = Redis::start().await;
        let manager = env.manager().await;
        let (_proxy, nobody) = refused();
        let port = nobody.rsplit(':').next().unwrap();
        let mut connection = env.server.connection().await;
        let set = ["CONFIG", "SET", "replica-read-only", is_read_only];
        run(&mut connection, &set).await;
        // A renewal has failed before the deadline, also on a machine that stands still for a second.
        let ttl = Duration::from_secs(4);
        let body = manager.lock("order:42").ttl(ttl).run(async |_| {
            run(&mut connection, &["REPLICAOF", "127.0.0.1", port]).await;
            std::future::pending::<()>().await;
        });
        let outcome = soon(body).await;
        let not_renewed = |cause: &LostCause| matches!(cause, LostCause::NotRenewed { .. });
        assert!(
            is_lost(&outcome, not_renewed),
            "at its deadline, not before: {outcome:?}"
        );
    }
}

/// How often the server has refused a command because it has no memory.
async fn refused_for_memory(server: &RedisServer) -> u64 {
    let info: String = server.read(redis::cmd("INFO").arg("errorstats")).await;
    let count = |line: &str| line.strip_prefix("errorstat_OOM:count=")?.parse().ok();
    info.lines().find_map(count).unwrap_or(0)
}

/// A client whose connection has broken subscribes anew, and a server without memory may refuse that.
#[tokio::test]
async fn a_full_server_that_refuses_subscriptions_renews_and_releases() {
    // Long enough for a machine that stands still for a second.
    const TTL: Duration = Duration::from_secs(4);
    for protocol in ["resp3", "resp2"] {
        let env = Redis::start().await;
        let proxy = Proxy::start(env.server.port());
        let url = format!("{}?protocol={protocol}", proxy.url());
        let manager = soon(builder().wait(LIMIT).connect(&url)).await.unwrap();
        let lock = manager.lock("order:42").ttl(TTL);
        let held = soon(lock.acquire()).await.unwrap();
        let mut connection = env.server.connection().await;
        run(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]).await;
        // Not every version refuses `SUBSCRIBE`. All of them refuse this one, which takes as many words.
        proxy.rename("SUBSCRIBE", "RPOPLPUSH");
        let refused = refused_for_memory(&env.server).await;
        proxy.cut();
        eventually(LIMIT, "a subscription is refused", async || {
            refused_for_memory(&env.server).await > refused
        })
        .await;
        let refused = Instant::now();
        eventually(LIMIT, "the first TTL has passed", async || {
            refused.elapsed() > TTL
        })
        .await;
        held.ensure_held().expect("it was renewed");
        soon(held.release()).await.unwrap();
        assert_eq!(env.locks().await, Vec::<String>::new());

        proxy.rename("SUBSCRIBE", "SUBSCRIBE");
        run(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await;
        eventually(LIMIT, "it is subscribed", async || {
            let clients: String = env.server.read(redis::cmd("CLIENT").arg("LIST")).await;
            clients.contains(" sub=2 ")
        })
        .await;
        env.assert_clean(1, &[&manager]).await;
    }
}

/// Acquiring needs memory, renewing and releasing do not.
#[tokio::test]
async fn a_full_server_refuses_new_locks_and_keeps_the_old() {
    // Long enough for a machine that stands still for a second.
    const TTL: Duration = Duration::from_secs(4);
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.wait(TTL + TTL / 4)).await;
    let held = soon(manager.lock("order:7").ttl(TTL).acquire())
        .await
        .unwrap();
    let mut connection = env.server.connection().await;
    run(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::OutOfMemory);
    assert_says(&error, &["maxmemory"]);
    held.ensure_held()
        .expect("longer than its TTL, so it was renewed");
    soon(held.release()).await.unwrap();
    assert_eq!(env.locks().await, Vec::<String>::new());
    run(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]).await;
    env.assert_clean(2, &[&manager]).await;
}

/// Writes are refused for a time, as when a replica is away.
#[tokio::test]
async fn a_server_that_refuses_writes_is_asked_again() {
    let env = Redis::start().await;
    let manager = env.manager_with(|it| it.wait(WAIT)).await;
    let mut connection = env.server.connection().await;
    run(
        &mut connection,
        &["CONFIG", "SET", "min-replicas-to-write", "1"],
    )
    .await;
    let error = refusal(&manager).await;
    assert_eq!(unavailable(&error).kind(), StoreErrorKind::Refused);
    assert_says(
        &error,
        &["NOREPLICAS", "`min-replicas-to-write` needs more"],
    );
    let waiter = tokio::spawn(manager.lock("order:42").wait(LIMIT).acquire());
    run(
        &mut connection,
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
    )
    .await;
    let guard = soon(waiter).await.unwrap().unwrap();
    soon(guard.release()).await.unwrap();
    env.assert_clean(1, &[&manager]).await;
}

/// Inside a script the server says `ERR`, not `NOPERM`.
#[tokio::test]
async fn a_user_without_permission_is_told_what_is_missing() {
    let env = Redis::start().await;
    let mut connection = env.server.connection().await;
    let password = format!(">{SECRET}");
    for (rules, words) in [
        (
            &["~dlock:*", "&*", "+@all", "-set"][..],
            &["set", "grant the user"][..],
        ),
        (&["~other:*", "&*", "+@all"], &["grant the user"]),
        (
            &["~dlock:*", "&*", "+@all", "-eval", "-evalsha"],
            &["evalsha"],
        ),
    ] {
        let set = ["ACL", "SETUSER", "me", "reset", "on", &password];
        run(&mut connection, &[&set, rules].concat()).await;
        let url = env
            .server
            .url()
            .replace("redis://", &format!("redis://me:{SECRET}@"));
        let error = refusal(&patient(&url)).await;
        assert_eq!(
            unavailable(&error).kind(),
            StoreErrorKind::Denied,
            "{error}"
        );
        let text = error.to_string().to_lowercase();
        assert!(words.iter().all(|word| text.contains(word)), "{error}");
        assert!(!shown(&error).contains(SECRET), "{error:?}");
        assert_eq!(env.locks().await, Vec::<String>::new());
    }
}
