//! How long a connection may take, and an answer: our limits hold, and no others.

use std::time::Duration;

use dlock::{LockManager, store::StoreErrorKind};
use dlock_testkit::{Authority, Proxy, RedisServer, eventually};
use futures_util::future::join_all;

use crate::common::{assert_idle, soon};
use crate::connection::{LIMIT, not_reached, run};

/// The client library has limits of its own, of half a second for an answer.
#[tokio::test]
async fn a_slow_server_has_the_time_that_it_is_given() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let server = RedisServer::start_with_tls(&identity, None, &[]).await;
    let socket = format!("redis+unix://{}", server.socket().display());
    for url in [
        server.url(),
        format!("{}?protocol=resp2", server.url()),
        server.tls_url(&authority),
        socket,
    ] {
        let builder = LockManager::builder().response_timeout(LIMIT);
        let manager = soon(builder.connect(&url)).await.unwrap();
        let guard = soon(manager.lock("order:1").acquire()).await.unwrap();
        run(&mut server.connection().await, "CLIENT PAUSE 900 WRITE").await;
        let before = server.command_count("evalsha").await;
        assert_eq!(soon(manager.lock("order:2").run(async |_| 7)).await, Ok(7));
        let asked = server.command_count("evalsha").await - before;
        assert_eq!(asked, 2, "nothing was asked twice over {url}");
        soon(guard.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let server = RedisServer::start().await;
    let socket = format!("redis+unix://{}", server.socket().display());
    let proxy = Proxy::start(server.port());
    proxy.freeze();
    server.pause();
    for url in [
        server.url(),
        format!("{}?protocol=resp2", proxy.url()),
        socket,
    ] {
        let (kind, text) = not_reached(LockManager::builder(), &url).await;
        assert_eq!(kind, StoreErrorKind::Unreachable, "{url}: {text}");
        assert!(
            text.contains("no answer within") || text.contains("no connection to"),
            "{text}"
        );
    }
    server.resume();
}

/// More than the connection queues, while nothing is answered.
#[tokio::test]
async fn a_crowd_waits_for_its_place_on_the_connection() {
    const CROWD: usize = 1500;
    // It is about places, not about time: on a busy machine so many sections take more than the usual limit.
    const PATIENCE: Duration = Duration::from_mins(3);
    let server = RedisServer::start().await;
    for protocol in ["resp3", "resp2"] {
        let url = format!("{}?protocol={protocol}", server.url());
        let builder = LockManager::builder().response_timeout(PATIENCE);
        let manager = soon(builder.connect(&url)).await.unwrap();
        server.pause();
        let crowd = (0..CROWD).map(|number| {
            let lock = manager.lock(format!("order:{number}")).wait(PATIENCE);
            async move { lock.run(async |_| ()).await }
        });
        let resumed = async {
            eventually(PATIENCE, "all have begun", async || {
                manager.active_keys() == CROWD
            })
            .await;
            server.resume();
        };
        let (outcomes, ()) = tokio::join!(join_all(crowd), resumed);
        let failures = outcomes.into_iter().filter_map(Result::err);
        assert_eq!(failures.collect::<Vec<_>>(), [], "{protocol}");
        assert_idle(&[&manager]).await;
        let accepted = run(&mut server.connection().await, "INFO clients").await;
        assert!(accepted.contains("connected_clients:"), "{accepted}");
    }
    assert_eq!(server.keys("dlock:{*").await, Vec::<String>::new());
}
