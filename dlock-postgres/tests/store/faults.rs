//! Servers that are away, refuse, or are the wrong ones: what callers are told, and that locks go on afterwards.

use std::{fs, time::Duration};

use dlock_postgres::{Postgres, Schema};
use dlock_runtime::{ConnectError, LockError, LockManager, LockManagerBuilder, StoreErrorKind};
use dlock_testkit::{Authority, Identity, PgBouncer, PostgresOptions, PostgresServer, eventually};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use crate::database::{DEADLINE, Database};

fn builder() -> LockManagerBuilder {
    let builder = LockManager::builder().scheme("postgres", Postgres);
    builder
        .response_timeout(Duration::from_millis(1400))
        .connect_timeout(DEADLINE)
}

async fn server(options: PostgresOptions) -> PostgresServer {
    let server = PostgresServer::start_with(options).await;
    let migration = Schema::new("dlock").unwrap().migration(None).unwrap();
    server.execute(&migration).await;
    server
}

async fn refusal(url: &str) -> String {
    let refused = builder().connect(url).await;
    assert!(
        matches!(refused, Err(ConnectError::Unavailable { .. })),
        "{refused:?}"
    );
    refused.unwrap_err().to_string()
}

#[tokio::test]
async fn a_certificate_is_verified() {
    let (authority, other) = (Authority::new(), Authority::new());
    let identity = authority.issue(&["127.0.0.1"]);
    let server = server(PostgresOptions::new().tls(&identity, None)).await;
    let url = |ca: &Authority| format!("{}?{}", server.url(), ca.ssl_options(None));
    let manager = builder().connect(url(&authority)).await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    let encrypted = "SELECT 1 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE ssl AND application_name LIKE '%/%'";
    let client = server.client("postgres").await;
    assert_eq!(client.query(encrypted, &[]).await.unwrap().len(), 2);
    let text = refusal(&url(&other)).await;
    assert!(text.contains("certificate"), "{text}");
    let by_name = url(&authority).replace("@127.0.0.1", "@localhost");
    let text = refusal(&by_name).await;
    assert!(
        text.contains("not valid for the name `localhost`"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_without_tls_is_named_with_what_to_do() {
    let (server, authority) = (PostgresServer::shared().await, Authority::new());
    let url = format!("{}?{}", server.url(), authority.ssl_options(None));
    let text = refusal(&url).await;
    let words = "does not support TLS; enable TLS in the server with `ssl = on`";
    assert!(text.contains(words), "{text}");
}

#[tokio::test]
async fn a_manager_that_connects_later_needs_no_server_before() {
    let server = server(PostgresOptions::new()).await;
    server.kill();
    let manager = builder().connect_lazy(server.url()).unwrap();
    let refused = manager.lock("order:42").try_acquire().await.unwrap_err();
    assert!(
        matches!(refused, LockError::Unavailable { .. }),
        "{refused}"
    );
    server.restart().await;
    eventually(DEADLINE, "the lock is acquired", async || {
        manager.lock("order:42").run(async |_| ()).await.is_ok()
    })
    .await;
    assert!(
        builder().connect_lazy("postgres://db/shop").is_err(),
        "it names no user"
    );
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.issue(&["127.0.0.1"]);
    let [own, foreign] = [&authority, &stranger].map(|it| it.issue(&["guest"]));
    let options = PostgresOptions::new().tls(&identity, Some(&authority));
    let access = "hostssl all guest 127.0.0.1/32 trust clientcert=verify-ca";
    let server = server(options.access(access)).await;
    server.execute("CREATE USER guest SUPERUSER").await;
    let url = |client: &Identity| {
        let options = authority.ssl_options(Some(client));
        format!("{}?{options}", server.url_of("guest", "postgres"))
    };
    let manager = builder().connect(url(&own)).await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    let text = refusal(&url(&foreign)).await;
    assert!(text.contains("refused the client certificate"), "{text}");
}

/// All at once: an authority, and the certificates of the server and of the client.
#[tokio::test]
async fn certificates_are_replaced_while_a_program_runs() {
    let [first, second] = [(); 2].map(|()| Authority::new());
    let of = |it: &Authority| [&["127.0.0.1"], &["guest"]].map(|names| it.issue(names));
    let ([identity, client], [next_identity, next_client]) = (of(&first), of(&second));
    let options = PostgresOptions::new().tls(&identity, Some(&first));
    let access = "hostssl all guest 127.0.0.1/32 trust clientcert=verify-ca";
    let server = server(options.access(access)).await;
    server.execute("CREATE USER guest SUPERUSER").await;
    let options = first.ssl_options(Some(&client));
    let url = format!("{}?{options}", server.url_of("guest", "postgres"));
    let manager = builder().connect(url).await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
    server.replace_tls(&next_identity, &second).await;
    fs::write(first.ca_file(), second.ca_pem()).unwrap();
    fs::write(client.cert_file(), next_client.cert_pem()).unwrap();
    fs::write(client.key_file(), next_client.key_pem()).unwrap();
    let serial = "SELECT client_serial::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                  WHERE usename = 'guest' AND ssl";
    let admin = server.client("postgres").await;
    let serials = async || -> Vec<String> {
        let rows = admin.query(serial, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let before = serials().await;
    assert_eq!(before.len(), 2);
    eventually(DEADLINE, "both connections have the new ones", async || {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE usename = 'guest' AND client_serial::text = ANY ($1)";
        // The server may not have read its files yet.
        admin.query(end, &[&before]).await.unwrap();
        let now = serials().await;
        let are_new = now.len() == 2 && now.iter().all(|it| !before.contains(it));
        are_new && manager.lock("order:42").run(async |_| ()).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_closed_in_its_handshake_is_no_fault_of_certificates() {
    let authority = Authority::new();
    for (word, expected) in [
        (b'S', StoreErrorKind::Unreachable),
        // It has no TLS.
        (b'N', StoreErrorKind::Tls),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        let mut closing = JoinSet::new();
        closing.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.read_u64().await.ok();
                stream.write_u8(word).await.ok();
            }
        });
        let options = authority.ssl_options(None);
        let url = format!("postgres://shop@{place}/shop?{options}");
        let refused = builder().connect(url).await;
        let Err(ConnectError::Unavailable { reason, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(reason.kind(), expected, "{reason}");
    }
}

#[tokio::test]
async fn a_login_that_is_refused_says_why() {
    let access = "host all guest 127.0.0.1/32 scram-sha-256";
    let server = server(PostgresOptions::new().access(access)).await;
    server.execute("CREATE USER guest PASSWORD 'right'").await;
    let text = refusal(&server.url_of("guest:wrong", "postgres")).await;
    assert!(
        text.contains("check the user and the password") && !text.contains("wrong"),
        "{text}"
    );
    let refused = builder().connect(server.url_of("guest", "postgres")).await;
    let Err(ConnectError::Unavailable { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::Unauthenticated, "{reason}");
    assert!(reason.message().contains("password missing"), "{reason}");
    let text = refusal(&server.url_of("guest:right", "nowhere")).await;
    assert!(text.contains("\"nowhere\" does not exist"), "{text}");
}

#[tokio::test]
async fn a_server_without_a_connection_left_says_so() {
    let options = PostgresOptions::new().set("max_connections", "5");
    let server = server(options.set("superuser_reserved_connections", "0")).await;
    let mut others = vec![server.client("postgres").await];
    eventually(DEADLINE, "earlier connections have ended", async || {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        let row = others[0].query_one(count, &[]).await.unwrap();
        row.get::<_, i64>(0) == 1
    })
    .await;
    for _ in 1..5 {
        others.push(server.client("postgres").await);
    }
    let text = refusal(&server.url()).await;
    assert!(text.contains("raise `max_connections`"), "{text}");
}

#[tokio::test]
async fn a_standby_is_refused_until_it_is_promoted() {
    let server = server(PostgresOptions::new()).await;
    let standby = server.start_standby().await;
    let text = refusal(&standby.url()).await;
    assert!(text.contains("is a standby"), "{text}");
    server.kill();
    standby.promote().await;
    let manager = builder().connect(standby.url()).await.unwrap();
    manager.lock("order:42").run(async |_| ()).await.unwrap();
}

#[tokio::test]
async fn a_lease_outlives_a_server_that_is_killed_and_comes_back() {
    let server = server(PostgresOptions::new()).await;
    let manager = builder().connect(server.url()).await.unwrap();
    let other = builder().connect(server.url()).await.unwrap();
    let guard = manager
        .lock("order:42")
        .ttl(DEADLINE)
        .acquire()
        .await
        .unwrap();
    server.restart().await;
    eventually(
        DEADLINE,
        "the other manager is told that the key is held",
        async || matches!(other.lock("order:42").try_acquire().await, Ok(None)),
    )
    .await;
    guard.ensure_held().unwrap();
    guard.release().await.unwrap();
    other
        .lock("order:42")
        .wait(DEADLINE)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn behind_a_pooler_waiters_poll_and_its_restart_loses_nothing() {
    let database = Database::new().await;
    let server = database.server;
    let pooler = PgBouncer::start(server).await;
    let url = pooler.url_of("postgres", &database.name);
    let (one, other) = (
        builder().connect(&url).await.unwrap(),
        builder().connect(&url).await.unwrap(),
    );
    let guard = one.lock("order:42").ttl(DEADLINE).acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:42").wait(DEADLINE).acquire());
    pooler.restart().await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    // With a server for messages beside it, there is no need to poll.
    let direct = format!("{url}?listen=127.0.0.1:{}", server.port());
    let (one, other) = (
        builder().connect(&direct).await.unwrap(),
        builder().connect(&direct).await.unwrap(),
    );
    let guard = one.lock("order:43").acquire().await.unwrap();
    let waiting = tokio::spawn(other.lock("order:43").wait(DEADLINE).acquire());
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
