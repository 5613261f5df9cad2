//! The same for servers that belong together: Sentinels and what they watch, and clusters.

use dlock::{LockManager, store::StoreErrorKind};
use dlock_testkit::{Authority, Cluster, RedisServer, Sentinels, TlsSentinel, eventually};

use crate::common::{assert_idle, connect, soon};
use crate::connection::{LIMIT, assert_works, clients, refused, run};

/// A lock that one has and gives back goes to the other.
async fn assert_handed_on(one: &LockManager, other: &LockManager) {
    for key in ["order:1", "order:2", "order:3", "order:4"] {
        let held = soon(one.lock(key).acquire()).await.unwrap();
        let tried = soon(other.lock(key).try_acquire()).await.unwrap();
        assert!(tried.is_none(), "broken promise: two hold `{key}`");
        let waits = soon(other.lock(key).wait(LIMIT).run(async |_| 7));
        let (waited, given) = tokio::join!(waits, held.release());
        assert_eq!((waited, given), (Ok(7), Ok(())));
    }
    assert_idle(&[one, other]).await;
}

#[tokio::test]
async fn sentinels_find_a_master_that_speaks_resp2() {
    let sentinels = Sentinels::pooled().await;
    let url = format!("{}?protocol=resp2", sentinels.url());
    let one = connect(&url).await;
    let other = connect(&url).await;
    assert_works(sentinels.master().await, &one, &other).await;
}

#[tokio::test]
async fn a_cluster_speaks_resp2() {
    let cluster = Cluster::pooled().await;
    let url = format!("{}?protocol=resp2", cluster.url());
    let one = connect(&url).await;
    let other = connect(&url).await;
    assert_handed_on(&one, &other).await;
}

#[tokio::test]
async fn a_cluster_is_reached_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost", "127.0.0.1"]);
    let arguments = ["--cluster-enabled", "yes", "--tls-cluster", "yes"];
    let server = RedisServer::start_with_tls(&identity, None, &arguments).await;
    let mut behind = server.connection().await;
    run(&mut behind, "CLUSTER ADDSLOTSRANGE 0 16383").await;
    eventually(LIMIT, "it has all slots", async || {
        run(&mut behind, "CLUSTER INFO")
            .await
            .contains("cluster_state:ok")
    })
    .await;
    let url = |ca: &Authority| {
        let (port, ca) = (server.tls_port(), ca.ca_file());
        format!("rediss-cluster://localhost:{port}?ca={}", ca.display())
    };
    let one = connect(&url(&authority)).await;
    let other = connect(&url(&authority)).await;
    assert_handed_on(&one, &other).await;

    let (kind, text) = refused(LockManager::builder(), &url(&Authority::new())).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
}

#[tokio::test]
async fn a_master_is_found_and_reached_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost", "127.0.0.1"]);
    let server = RedisServer::start_with_tls(&identity, None, &[]).await;
    let sentinel = TlsSentinel::watch(&server, &identity, &authority).await;
    let url = |ca: &Authority| {
        let (port, ca) = (sentinel.port(), ca.ca_file());
        let service = TlsSentinel::SERVICE;
        format!(
            "rediss-sentinel://localhost:{port}/{service}?ca={}",
            ca.display()
        )
    };
    let one = connect(&url(&authority)).await;
    let other = connect(&url(&authority)).await;
    assert_works(&server, &one, &other).await;

    let (kind, text) = refused(LockManager::builder(), &url(&Authority::new())).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
    assert!(text.contains("from an unknown authority"), "{text}");
}

/// So many connections of this manager are at each server.
async fn assert_connections(url: &str, servers: &[&RedisServer], count: usize) {
    let manager = connect(url).await;
    assert_eq!(soon(manager.lock("order:42").run(async |_| 7)).await, Ok(7));
    // What is asked only once has a connection of its own for that moment.
    eventually(LIMIT, "there are as many connections", async || {
        for server in servers {
            if clients(server).await.len() != count {
                return false;
            }
        }
        true
    })
    .await;
    drop(manager);
}

/// As `docs/book/src/how-to/servers.md` counts them.
#[tokio::test]
async fn each_way_to_reach_servers_has_its_number_of_connections() {
    let sentinels = Sentinels::pooled().await;
    let master = sentinels.master().await;
    assert_connections(&sentinels.url(), &[master], 1).await;
    eventually(LIMIT, "they are closed", async || {
        clients(master).await.is_empty()
    })
    .await;
    let confirmed = format!("{}?min_replicas=1", sentinels.url());
    assert_connections(&confirmed, &[master], 2).await;

    let cluster = Cluster::pooled().await;
    let nodes: Vec<_> = (0..3).map(|node| cluster.node(node)).collect();
    assert_connections(&cluster.url(), &nodes, 1).await;

    let (a, b, c) = tokio::join!(
        RedisServer::start(),
        RedisServer::start(),
        RedisServer::start()
    );
    let [one, two, three] = [a.port(), b.port(), c.port()];
    let url = format!("redlock://127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{three}");
    assert_connections(&url, &[&a, &b, &c], 1).await;
}
