//! Wrong passwords, which no error and no log may show.

use std::time::Duration;

use dlock::{
    ConnectError, LockManager,
    store::{
        StoreErrorKind,
        redis::{RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Proxy, RedisServer, eventually};

use crate::bad_input::{
    SECRET, WAIT, assert_says, lazy, patient, refusal, refused, run, unavailable,
};
use crate::common::{LIMIT, Log, connect, shown, soon};

async fn guarded() -> RedisServer {
    RedisServer::start_with(&["--requirepass", SECRET]).await
}

fn url(server: &RedisServer, login: &str) -> String {
    format!("redis://{login}127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn that_are_wrong_or_missing_are_refused_at_once() {
    let server = guarded().await;
    for login in ["", ":wr0ng@", "somebody:wr0ng@"] {
        let url = url(&server, login);
        let error = soon(LockManager::connect(&url)).await.unwrap_err();
        let ConnectError::Unavailable { reason, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(reason.kind(), StoreErrorKind::Unauthenticated, "{error}");
        assert_says(&error, &["check the user and the password", "127.0.0.1"]);
        assert!(!shown(&error).contains("wr0ng"), "{error:?}");

        let error = refusal(&patient(&url)).await;
        assert_eq!(unavailable(&error).kind(), StoreErrorKind::Unauthenticated);
        assert_eq!(
            error.retry_after(),
            None,
            "it will not get better by itself"
        );
        assert!(!shown(&error).contains("wr0ng"), "{error:?}");
    }
}

#[tokio::test]
async fn of_a_user_nobody_knows_are_refused() {
    let server = RedisServer::start().await;
    let url = url(&server, &format!("nobody:{SECRET}@"));
    let error = soon(LockManager::connect(&url)).await.unwrap_err();
    assert_says(&error, &["check the user and the password"]);
    assert!(!shown(&error).contains(SECRET), "{error:?}");
}

#[tokio::test]
async fn that_are_right_work() {
    let server = guarded().await;
    let manager = connect(&server.url()).await;
    assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
}

/// The password is rotated while the manager runs; whoever waits is told.
#[tokio::test]
async fn that_were_changed_meanwhile_are_found_out() {
    let server = guarded().await;
    let manager = soon(LockManager::builder().wait(WAIT).connect(&server.url()))
        .await
        .unwrap();
    let mut connection = server.connection().await;
    run(
        &mut connection,
        &["CONFIG", "SET", "requirepass", "another"],
    )
    .await;
    run(&mut connection, &["CLIENT", "KILL", "TYPE", "normal"]).await;
    run(&mut connection, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    // The old connection may serve until it is found broken.
    eventually(LIMIT, "it is refused", async || {
        match manager.lock("order:42").acquire().await {
            Ok(guard) => {
                guard.release().await.unwrap();
                false
            }
            Err(error) => {
                assert!(!shown(&error).contains(SECRET), "{error:?}");
                unavailable(&error).kind() == StoreErrorKind::Unauthenticated
            }
        }
    })
    .await;
}

/// Neither errors, nor what the types print, nor anything that is logged.
#[tokio::test]
async fn are_never_shown() {
    let (log, _capturing) = Log::capture();
    let mut seen = Vec::new();
    let server = guarded().await;
    let (_proxy, nobody) = refused();
    let nobody = nobody.replace("redis://", &format!("redis://user:{SECRET}@"));
    let proxy = Proxy::start(server.port());

    // One that works until its network does not.
    let behind = proxy
        .url()
        .replace("redis://", &format!("redis://:{SECRET}@"));
    let manager = lazy(&behind);
    seen.push(format!("{manager:?} {:?}", manager.lock("order:42")));
    let lock = manager.lock("order:42").ttl(WAIT).wait(LIMIT);
    let guard = soon(lock.acquire()).await.unwrap();
    seen.push(format!("{guard:?}"));
    proxy.freeze();
    seen.push(shown(&soon(guard.lost()).await));
    drop(guard);
    seen.push(shown(&refusal(&manager).await));
    proxy.cut();
    proxy.refuse();
    seen.push(shown(&refusal(&manager).await));

    for url in [
        nobody.clone(),
        format!("redis://:{SECRET}@127.0.0.1:{}/77", server.port()),
        format!("redis://{SECRET}:wrong@127.0.0.1:{}", server.port()),
        format!("redis://:{SECRET}x@127.0.0.1:{}", server.port()),
        format!(
            "redis://:{SECRET}x@127.0.0.1:{}?protocol=resp2",
            server.port()
        ),
        format!("redis://:{SECRET}@127.0.0.1:1?protocol={SECRET}"),
        format!("rediss://:{SECRET}@127.0.0.1:1"),
        format!("rediss://:{SECRET}@127.0.0.1:{}", server.port()),
        format!("rediss://127.0.0.1:1?key={SECRET}"),
        format!("rediss://127.0.0.1:1?ca=/-----BEGIN{SECRET}"),
        format!("redis+unix:///nowhere?pass={SECRET}"),
        format!("redis+unix:///nowhere?pass={SECRET}&pass={SECRET}"),
        format!("redis+unix:///nowhere?{SECRET}"),
        format!("postgres://me:{SECRET}@127.0.0.1:1"),
        format!("redis://:{SECRET}@127.0.0.1:99999"),
        format!("redis://:{SECRET}@[::1"),
        format!("redis://:{SECRET}@"),
        format!("redis//:{SECRET}@127.0.0.1"),
        format!("redis://me:{SECRET} 127.0.0.1"),
        SECRET.to_owned(),
    ] {
        let builder = LockManager::builder()
            .connect_timeout(Duration::from_millis(500))
            .application("billing");
        seen.push(format!("{builder:?}"));
        if let Err(error) = soon(builder.connect(&url)).await {
            seen.push(shown(&error));
        } else {
            assert!(url.contains("wrong") || url.contains("/77"), "{url} works?");
        }
        let config = RedisConfig::new(&url);
        seen.push(format!("{config:?}"));
        if let Ok(store) = RedisStore::connect_lazy(config) {
            seen.push(format!("{store:?}"));
        }
    }
    seen.push(shown(&refusal(&lazy(&nobody)).await));

    for text in &seen {
        assert!(!text.contains(SECRET), "{text}");
    }
    let log = log.text();
    assert!(
        log.contains("order:42") && log.contains("error="),
        "failures are captured: {log}"
    );
    assert!(!log.contains(SECRET), "{log}");
}
