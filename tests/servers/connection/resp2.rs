//! RESP2: hints have a connection of their own, which lives and dies with that of the requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock::{LockManager, store::StoreErrorKind};
use dlock_testkit::{Proxy, RedisServer, eventually};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    time::sleep,
};

use crate::common::{assert_idle, connect, soon};
use crate::connection::{LIMIT, assert_works, clients, not_reached, refused, run};

fn resp2(url: &str) -> String {
    format!("{url}?protocol=resp2")
}

/// Those of our connections that are subscribed.
async fn subscribed(server: &RedisServer) -> usize {
    let clients = clients(server).await;
    clients.iter().filter(|it| !it.contains(" sub=0 ")).count()
}

#[tokio::test]
async fn hints_come_over_a_second_connection() {
    let server = RedisServer::start().await;
    let url = resp2(&server.url());
    let one = connect(&url).await;
    let other = connect(&url).await;
    assert_works(&server, &one, &other).await;
    let all = clients(&server).await;
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.iter().all(|it| it.contains(" resp=2")), "{all:?}");
    assert_eq!(subscribed(&server).await, 2);
    drop(one);
    eventually(LIMIT, "its two connections are closed", async || {
        clients(&server).await.len() == 2
    })
    .await;
}

#[tokio::test]
async fn it_goes_together_with_sockets_databases_and_passwords() {
    let server = RedisServer::start_with(&["--requirepass", "p+s:w@rd"]).await;
    let socket = server.socket();
    let url = format!(
        "redis+unix://{}?db=3&pass=p+s%3Aw@rd&protocol=",
        socket.display()
    );
    let [old, new] = ["resp2", "resp3"].map(|protocol| format!("{url}{protocol}"));
    let by_socket = connect(&old).await;
    let same = connect(&new).await;
    let guard = soon(by_socket.lock("order:42").acquire()).await.unwrap();
    let tried = soon(same.lock("order:42").try_acquire()).await.unwrap();
    assert!(
        tried.is_none(),
        "broken promise: two hold the key: they meet in one database"
    );
    soon(guard.release()).await.unwrap();
    assert_eq!(soon(same.lock("order:42").run(async |_| 7)).await, Ok(7));
}

#[tokio::test]
async fn a_subscriber_that_is_killed_is_replaced_and_waiters_look_again() {
    let server = RedisServer::start().await;
    let url = resp2(&server.url());
    let one = connect(&url).await;
    let other = connect(&url).await;
    for _ in 0..3 {
        let mut behind = server.connection().await;
        let before = clients(&server).await;
        run(&mut behind, "CLIENT KILL TYPE pubsub").await;
        eventually(
            LIMIT,
            "all are new, those of the requests too",
            async || {
                let now = clients(&server).await;
                let id = |line: &str| line.split(' ').next().unwrap().to_owned();
                let old: Vec<_> = before.iter().map(|line| id(line)).collect();
                now.len() == 4 && !now.iter().any(|line| old.contains(&id(line)))
            },
        )
        .await;
        eventually(LIMIT, "both are subscribed", async || {
            subscribed(&server).await == 2
        })
        .await;
        assert_works(&server, &one, &other).await;
    }
    // The other way round: nothing listens without a connection for the requests.
    run(
        &mut server.connection().await,
        "CLIENT KILL TYPE normal SKIPME yes",
    )
    .await;
    eventually(LIMIT, "both are there again", async || {
        clients(&server).await.len() == 4 && subscribed(&server).await == 2
    })
    .await;
    assert_works(&server, &one, &other).await;
}

/// Between a manager and its server; one of the connections can be made a black hole.
struct Relay {
    port: u16,
    accepted: Arc<AtomicUsize>,
    swallows_second: Arc<AtomicBool>,
}

impl Relay {
    async fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            accepted: Arc::default(),
            swallows_second: Arc::default(),
        };
        let (accepted, swallows) = (relay.accepted.clone(), relay.swallows_second.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let is_second = accepted.fetch_add(1, Ordering::Relaxed) == 1;
                let server = TcpStream::connect(("127.0.0.1", upstream)).await.unwrap();
                let ((from, to), (back, out)) = (client.into_split(), server.into_split());
                let swallows = if is_second {
                    swallows.clone()
                } else {
                    Arc::default()
                };
                tokio::spawn(pass_on(from, out, swallows.clone()));
                tokio::spawn(pass_on(back, to, swallows));
            }
        });
        relay
    }
}

async fn pass_on(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    swallows: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if !swallows.load(Ordering::Relaxed) && to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_subscriber_that_falls_silent_is_noticed_although_requests_are_answered() {
    let server = RedisServer::start().await;
    let relay = Relay::start(server.port()).await;
    let url = format!("redis://127.0.0.1:{}?protocol=resp2", relay.port);
    // No attempt to connect may be given up by a machine that stands still: it would have the relay's second connection.
    let builder = LockManager::builder().response_timeout(Duration::from_millis(1500));
    let manager = soon(builder.connect(&url)).await.unwrap();
    assert_eq!(relay.accepted.load(Ordering::Relaxed), 2);
    relay.swallows_second.store(true, Ordering::Relaxed);
    eventually(LIMIT, "both connections are replaced", async || {
        soon(manager.lock("order:42").run(async |_| ()))
            .await
            .unwrap();
        // Answers in between are often enough.
        sleep(Duration::from_millis(100)).await;
        relay.accepted.load(Ordering::Relaxed) >= 4
    })
    .await;
    let direct = connect(&server.url()).await;
    assert_works(&server, &direct, &manager).await;
}

/// Its waiters poll.
#[tokio::test]
async fn a_server_that_does_not_answer_on_a_second_connection_is_used_all_the_same() {
    let server = RedisServer::start().await;
    let relay = Relay::start(server.port()).await;
    relay.swallows_second.store(true, Ordering::Relaxed);
    let url = format!("redis://127.0.0.1:{}?protocol=resp2", relay.port);
    let builder = LockManager::builder().connect_timeout(LIMIT);
    let manager = soon(builder.connect(&url)).await.unwrap();
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
    // The next one is answered.
    eventually(LIMIT, "it is subscribed", async || {
        subscribed(&server).await == 1
    })
    .await;
    let direct = connect(&server.url()).await;
    assert_works(&server, &direct, &manager).await;
}

#[tokio::test]
async fn a_network_that_falls_silent_is_left_without_callers() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let builder = LockManager::builder().response_timeout(Duration::from_millis(300));
    let manager = soon(builder.connect(&resp2(&proxy.url()))).await.unwrap();
    proxy.freeze();
    eventually(LIMIT, "another connection is tried", async || {
        proxy.accepted_connections() > 2
    })
    .await;
    proxy.thaw();
    let lock = manager.lock("order:42").wait(LIMIT);
    assert_eq!(soon(lock.run(async |_| 7)).await, Ok(7));
    assert_idle(&[&manager]).await;
}

/// The one for requests has no subscription, which would keep it open.
#[tokio::test]
async fn a_connection_is_kept_from_being_closed_as_idle() {
    // The server closes a connection that has been idle for two seconds.
    let server = RedisServer::start_with(&["--timeout", "1"]).await;
    let manager = connect(&resp2(&server.url())).await;
    // The record of the process keeps it alive for as long once in ten seconds.
    let kept = Duration::from_secs(8);
    eventually(2 * LIMIT, "its connections have a long life", async || {
        let clients = clients(&server).await;
        let ages = clients.iter().filter_map(|line| {
            let age = line.split_once(" age=")?.1.split(' ').next()?;
            Some(Duration::from_secs(age.parse().ok()?))
        });
        ages.filter(|age| *age >= kept).count() == 2
    })
    .await;
    assert_idle(&[&manager]).await;
}

#[tokio::test]
async fn a_server_without_hello_is_told_from_others() {
    let server = RedisServer::start_with(&["--rename-command", "HELLO", ""]).await;
    let (kind, text) = refused(LockManager::builder(), &server.url()).await;
    assert_eq!(kind, StoreErrorKind::Unsupported, "{text}");
    assert!(text.contains("`?protocol=resp2`"), "{text}");

    let url = resp2(&server.url());
    let one = connect(&url).await;
    let other = connect(&url).await;
    assert_works(&server, &one, &other).await;
}

#[tokio::test]
async fn what_is_refused_over_resp3_is_refused_here() {
    let server = RedisServer::start_with(&["--requirepass", "right"]).await;
    let login = |login: &str| format!("redis://{login}127.0.0.1:{}?protocol=resp2", server.port());
    for wrong in ["", ":s3cr3t-p4ssw0rd@", "me:s3cr3t-p4ssw0rd@"] {
        let (kind, text) = refused(LockManager::builder(), &login(wrong)).await;
        assert_eq!(kind, StoreErrorKind::Unauthenticated, "{text}");
    }
    let mut behind = server.connection().await;
    run(&mut behind, "ACL SETUSER me on >pw ~* +@all resetchannels").await;
    let (kind, text) = refused(LockManager::builder(), &login("me:pw@")).await;
    assert_eq!(kind, StoreErrorKind::Denied, "{text}");
    assert!(text.contains("`dlock:wake:*`"), "{text}");

    run(&mut behind, "REPLICAOF 127.0.0.1 1").await;
    let (kind, text) = not_reached(LockManager::builder(), &login(":right@")).await;
    assert_eq!(kind, StoreErrorKind::ReadOnly, "{text}");
    run(&mut behind, "REPLICAOF NO ONE").await;
}
