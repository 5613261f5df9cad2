//! What is answered when the server refuses, and that nothing is given away or left behind.

use std::time::{Duration, Instant};

use dlock_runtime::{
    ConnectError, LockMode,
    store::{
        AcquireOutcome, LockStore, Queue, QuorumNode, RaiseRequest, ReleaseRequest, Released,
        Renewal, StoreError, StoreErrorKind,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Make, RedisServer, eventually};
use tokio::time::timeout;

use crate::{
    DEADLINE, connect, get, key, owner, queue, refusals_of, renewal, request, run,
    server_and_store, take, try_take,
};

async fn refused(url: String) -> (StoreErrorKind, String) {
    let config = RedisConfig::new(url).connect_timeout(2 * DEADLINE);
    let error = timeout(DEADLINE, RedisStore::connect(config))
        .await
        .expect("what is final is said without trying again")
        .expect_err("the server refuses");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    match &error {
        ConnectError::Unavailable { reason, .. } => (reason.kind(), error.to_string()),
        other => panic!("{other}"),
    }
}

pub(crate) async fn passwords_are_asked_for_and_checked(make: Make) {
    let server = RedisServer::start_make_with(make, &["--requirepass", "right"]).await;
    let (kind, text) = refused(format!("redis://127.0.0.1:{}", server.port())).await;
    assert_eq!(kind, StoreErrorKind::Unauthenticated);
    assert!(text.contains("the server requires a password"), "{text}");
    let (kind, text) = refused(format!("redis://:s3cret@127.0.0.1:{}", server.port())).await;
    assert_eq!(kind, StoreErrorKind::Unauthenticated);
    assert!(text.contains("invalid username-password pair"), "{text}");
    let (kind, _) = refused(format!("redis://me:s3cret@127.0.0.1:{}", server.port())).await;
    assert_eq!(kind, StoreErrorKind::Unauthenticated);

    let (lock, me) = (key("k"), owner());
    take(&connect(&server.url()).await, &lock, me).await;
    // One that starts with the wrong password works when the server's is changed to it.
    let url = format!("redis://:s3cret@127.0.0.1:{}", server.port());
    let store = RedisStore::connect_lazy(RedisConfig::new(url)).unwrap();
    let error = store
        .renew_one(renewal(&lock, me))
        .await
        .expect_err("the password is wrong");
    assert!(error.is_final() && error.kind() == StoreErrorKind::Unauthenticated);
    assert!(!format!("{error} {store:?}").contains("s3cret"));
    run(
        &mut server.connection().await,
        "CONFIG SET requirepass s3cret",
    )
    .await;
    eventually(DEADLINE, "it logs in", async || {
        store.renew_one(renewal(&lock, me)).await.is_ok()
    })
    .await;
}

pub(crate) async fn a_wrong_password_is_not_tried_again_and_again(make: Make) {
    let server = RedisServer::start_make_with(make, &["--requirepass", "right"]).await;
    let url = format!("redis://:s3cret@127.0.0.1:{}", server.port());
    let store = RedisStore::connect_lazy(RedisConfig::new(url)).unwrap();
    let (lock, me) = (key("k"), owner());
    let begin = Instant::now();
    let mut asked = 0;
    eventually(DEADLINE, "two seconds have passed", async || {
        asked += 1;
        let error = store
            .renew_one(renewal(&lock, me))
            .await
            .expect_err("the password is wrong");
        assert_eq!(error.kind(), StoreErrorKind::Unauthenticated);
        begin.elapsed() > Duration::from_secs(2)
    })
    .await;
    let hellos = server.command_count("hello").await;
    assert!(hellos <= 5, "{hellos} logins for {asked} questions");
}

pub(crate) async fn a_replica_takes_no_locks_and_does_not_say_whose_they_are(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    run(&mut behind, "REPLICAOF 127.0.0.1 1").await;
    let error = store
        .renew_one(renewal(&lock, me))
        .await
        .expect_err("a replica cannot know");
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error}");
    assert!(!error.is_final());
    // One that is under way while the connection is given up only learns of that.
    eventually(DEADLINE, "it is refused as well", async || {
        let error = store
            .release(ReleaseRequest::new(&lock, me))
            .await
            .expect_err("nor does it release");
        error.kind() == StoreErrorKind::ReadOnly
    })
    .await;
    eventually(DEADLINE, "it is refused as well", async || {
        let error = try_take(&store, &lock, me)
            .await
            .expect_err("it takes no locks");
        error.kind() == StoreErrorKind::ReadOnly
    })
    .await;
    let connects =
        RedisStore::connect(RedisConfig::new(server.url()).connect_timeout(Duration::from_secs(3)));
    let error = connects.await.expect_err("it waits for a master");
    assert!(error.to_string().contains("replica"), "{error}");

    run(&mut behind, "REPLICAOF NO ONE").await;
    eventually(DEADLINE, "it is a master", async || {
        try_take(&store, &lock, me).await.is_ok()
    })
    .await;
}

pub(crate) async fn without_memory_locks_can_be_kept_and_given_back(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    let fence = take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    run(&mut behind, "CONFIG SET maxmemory 1").await;
    let error = try_take(&store, &key("other"), me)
        .await
        .expect_err("there is no memory");
    assert_eq!(error.kind(), StoreErrorKind::OutOfMemory);
    assert!(!error.to_string().contains("script"), "{error}");
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease: what is ours is not refused"
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld),
        "although somebody waits"
    );
    assert_eq!(server.keys("dlock:{k}").await, Vec::<String>::new());
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, waiter)).await,
        Ok(Released::WasGone)
    );
    assert_eq!(server.keys("dlock:{*").await, Vec::<String>::new());
}

pub(crate) async fn a_master_without_its_replicas_refuses_for_a_while(make: Make) {
    let (_server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    let fence = take(&store, &lock, me).await;
    run(&mut behind, "CONFIG SET min-replicas-to-write 1").await;
    for error in refusals_of(&store, &lock, me).await {
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(
            !error.is_final() && error.to_string().starts_with("NOREPLICAS "),
            "{error}"
        );
    }
    run(&mut behind, "CONFIG SET min-replicas-to-write 0").await;
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease"
    );
}

pub(crate) async fn foreign_data_is_never_touched(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    run(&mut behind, "HSET dlock:{k} field value").await;
    for error in refusals_of(&store, &lock, me).await {
        assert_eq!(error.kind(), StoreErrorKind::WrongType);
        let text = error.to_string();
        assert!(
            text.contains("`dlock:{k}`") && !text.contains("user_script"),
            "{text}"
        );
    }
    run(&mut behind, "DEL dlock:{k}").await;

    // An error of this kind promises that nothing was written.
    for part in ["q", "a"] {
        take(&store, &lock, me).await;
        run(&mut behind, &format!("SET dlock:{{k}}:{part} x")).await;
        let (waiter, asks) = (owner(), request(&lock, me).queue(Queue::ForLease));
        let error = store.acquire(asks.owner(waiter)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::WrongType);
        names(&error, &format!("dlock:{{k}}:{part}"));
        assert_eq!(
            server.keys("dlock:{k}:*").await,
            [format!("dlock:{{k}}:{part}")]
        );
        run(&mut behind, &format!("DEL dlock:{{k}}:{part}")).await;
    }

    // Foreign data in the place of the queue hinders waiting, not releasing.
    take(&store, &lock, me).await;
    run(&mut behind, "SET dlock:{k}:q x").await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    assert_eq!(get(&mut behind, "dlock:{k}").await, None);
    assert_eq!(get(&mut behind, "dlock:{k}:q").await.as_deref(), Some("x"));
}

/// The error names the key that has the data, and the lock.
fn names(error: &StoreError, key: &str) {
    let text = error.to_string();
    let place = format!("(value at `{key}`, lock at `dlock:{{k}}`); remove that data");
    assert!(text.contains(&place), "{text}");
}

pub(crate) async fn foreign_data_is_named_by_the_key_that_has_it(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me) = (key("k"), owner());
    take(&store, &lock, me).await;
    let fence = server.keys("dlock:fence:*").await.remove(0);
    let released = store.release(ReleaseRequest::new(&lock, me)).await;
    assert_eq!(released, Ok(Released::WasHeld));
    let modes = [LockMode::Exclusive, LockMode::Shared, LockMode::Permits(2)];
    for (holds, wants) in modes.iter().flat_map(|it| modes.map(|wants| (*it, wants))) {
        for part in ["dlock:{k}:q", "dlock:{k}:a", &fence] {
            let holder = request(&lock, me).mode(holds);
            store.acquire(holder).await.unwrap();
            run(&mut behind, &format!("DEL {part}")).await;
            run(&mut behind, &format!("HSET {part} field value")).await;
            let asks = request(&lock, owner()).mode(wants);
            match store.acquire(asks.queue(Queue::ForLease)).await {
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::WrongType);
                    names(&error, part);
                }
                // A request that joins others needs only the queue.
                Ok(answer) => {
                    let is_let_in = matches!(answer, AcquireOutcome::Granted { .. });
                    assert!(is_let_in && !holds.is_exclusive() && !wants.is_exclusive());
                    assert_eq!(part, "dlock:{k}:a");
                }
            }
            // A release by the owner is not hindered.
            let released = ReleaseRequest::new(&lock, me).mode(holds);
            assert_eq!(
                store.release(released).await,
                Ok(Released::WasHeld),
                "{part}"
            );
            run(&mut behind, &format!("DEL dlock:{{k}} {part}")).await;
        }
    }
    for part in ["dlock:{k}:q", "dlock:{k}:a"] {
        run(&mut behind, &format!("HSET {part} field value")).await;
        let error = store.release(ReleaseRequest::new(&lock, me)).await;
        names(&error.expect_err("it cannot leave the queue"), part);
        run(&mut behind, &format!("DEL {part}")).await;
    }
    let held = take(&store, &lock, me).await;
    run(&mut behind, &format!("DEL {fence}")).await;
    run(&mut behind, &format!("HSET {fence} field value")).await;
    let error = store
        .raise(RaiseRequest::new(&lock, me, held, held + 1))
        .await;
    names(&error.expect_err("the fence cannot be kept"), &fence);
}

pub(crate) async fn a_fence_that_cannot_be_read_gives_no_lock(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    let fence = server.keys("dlock:fence:*").await.remove(0);
    for value in ["x", "-1", "1.5", "4503599627370496", "9007199254740993", ""] {
        redis::cmd("SET")
            .arg(&fence)
            .arg(value)
            .exec_async(&mut behind)
            .await
            .unwrap();
        let error = try_take(&store, &lock, owner())
            .await
            .expect_err("no fence");
        assert_eq!(error.kind(), StoreErrorKind::WrongType);
        assert!(error.to_string().contains(&fence), "{error}");
        assert_eq!(get(&mut behind, &fence).await.as_deref(), Some(value));
    }
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    assert!(try_take(&store, &lock, waiter).await.is_err());
    assert_eq!(server.keys("dlock:{k}").await, Vec::<String>::new());
}

/// The lock is free then, and what lies at the counter is left as it is.
pub(crate) async fn a_release_grants_nothing_if_no_fence_can_be_counted(make: Make) {
    let (server, store, mut behind) = server_and_store(make).await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    for value in [
        Some("x"),
        Some("-1"),
        Some("4503599627370496"),
        Some(""),
        None,
    ] {
        take(&store, &lock, me).await;
        queue(&store, &lock, waiter).await;
        let fence = server.keys("dlock:fence:*").await.remove(0);
        run(&mut behind, &format!("DEL {fence}")).await;
        match value {
            Some(value) => run(&mut behind, &format!("SET {fence} {value}")).await,
            None => run(&mut behind, &format!("HSET {fence} field value")).await,
        }
        let released = store.release(ReleaseRequest::new(&lock, me)).await;
        assert_eq!(released, Ok(Released::WasHeld), "{value:?}");
        assert_eq!(server.keys("dlock:{k}").await, [""; 0], "{value:?}");
        let mut kind = redis::cmd("TYPE");
        let kind: String = kind.arg(&fence).query_async(&mut behind).await.unwrap();
        assert_eq!(kind, if value.is_some() { "string" } else { "hash" });
        if value.is_some() {
            assert_eq!(get(&mut behind, &fence).await.as_deref(), value);
        }
        run(
            &mut behind,
            &format!("DEL {fence} dlock:{{k}}:q dlock:{{k}}:a"),
        )
        .await;
    }
}

pub(crate) async fn missing_permissions_are_named(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let (lock, me) = (key("k"), owner());
    let url = format!("redis://me:s3cret@127.0.0.1:{}", server.port());
    run(
        &mut behind,
        "ACL SETUSER me on >s3cret +@all ~dlock:* resetchannels &dlock:*",
    )
    .await;
    let store = connect(&url).await;

    run(&mut behind, "ACL SETUSER me -getex").await;
    take(&store, &lock, me).await;
    let error = store
        .renew_one(renewal(&lock, me))
        .await
        .expect_err("a command is missing");
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(
        error.to_string().contains("`GETEX` in script `renew`"),
        "{error}"
    );
    assert!(error.to_string().contains("lock at `dlock:{k}`"), "{error}");

    run(&mut behind, "ACL SETUSER me +getex resetkeys ~other:*").await;
    let error = store
        .renew_one(renewal(&lock, me))
        .await
        .expect_err("the key is missing");
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("lock at `dlock:{k}`"), "{error}");

    run(&mut behind, "ACL SETUSER me -evalsha").await;
    let error = store
        .release(ReleaseRequest::new(&lock, me))
        .await
        .expect_err("the command is missing");
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("evalsha"), "{error}");
}

pub(crate) async fn a_lock_is_handed_on_although_nobody_may_be_told(make: Make) {
    let server = RedisServer::start_make(make).await;
    let mut behind = server.connection().await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    let rules = "ACL SETUSER me on >s3cret +@all -publish ~dlock:* resetchannels &dlock:*";
    run(&mut behind, rules).await;
    let store = connect(&format!("redis://me:s3cret@127.0.0.1:{}", server.port())).await;
    let fence = take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    let value = get(&mut behind, "dlock:{k}").await.unwrap();
    assert!(value.starts_with(&waiter.to_string()), "{value}");

    // So it is by who finds the lock free.
    queue(&store, &lock, me).await;
    run(&mut behind, "DEL dlock:{k}").await;
    let busy = queue(&store, &lock, waiter).await;
    assert!(
        busy.last_fence > fence,
        "broken promise: the fence did not grow"
    );
    assert_eq!(take(&store, &lock, me).await, busy.last_fence);
}

pub(crate) async fn few_permissions_are_enough(make: Make) {
    let server = RedisServer::start_make(make).await;
    // The very line that the documentation shows.
    let line = include_str!("../../src/store/redis/permissions.txt");
    run(&mut server.connection().await, line.trim_end()).await;
    let store = connect(&format!(
        "redis://app:change-me@127.0.0.1:{}",
        server.port()
    ))
    .await;
    let (lock, me, waiter) = (key("k"), owner(), owner());
    take(&store, &lock, me).await;
    queue(&store, &lock, waiter).await;
    assert_eq!(
        store.renew_one(renewal(&lock, me)).await,
        Ok(Renewal::Renewed)
    );
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, me)).await,
        Ok(Released::WasHeld)
    );
    take(&store, &lock, waiter).await;
    assert_eq!(
        store.release(ReleaseRequest::new(&lock, waiter)).await,
        Ok(Released::WasHeld)
    );
}

#[tokio::test]
async fn what_is_no_redis_server_is_told_apart() {
    use tokio::io::AsyncWriteExt;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://:s3cret@{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            client
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
        }
    });
    let (kind, text) = refused(url).await;
    assert_eq!(kind, StoreErrorKind::BadAnswer, "{text}");
    server.abort();
}
