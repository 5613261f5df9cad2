//! TLS, at a server that asks for certificates of its clients.

use std::{fs, net::SocketAddr};

use dlock::{ConnectError, LockManager};
use dlock_runtime::{
    StoreErrorKind,
    store::{AcquireRequest, LockStore},
};
use dlock_testkit::{Authority, Identity, SecureZooKeeper, eventually};
use dlock_zookeeper::ZooKeeper;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::rustls::crypto::ring;

use crate::world::{LIMIT, SESSION, TTL, key, manager, opened, owner};

fn own(identity: &Identity) -> String {
    let (cert, key) = (identity.cert_file(), identity.key_file());
    format!("&sslcert={}&sslkey={}", cert.display(), key.display())
}

async fn refusal(url: &str) -> (StoreErrorKind, String) {
    let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
    let builder = builder.response_timeout(LIMIT / 2).connect_timeout(LIMIT);
    let error = builder.connect(url).await.unwrap_err();
    let text = error.to_string();
    let ConnectError::Unavailable { reason, .. } = error else {
        panic!("{text}");
    };
    (reason.kind(), text)
}

#[tokio::test]
async fn both_sides_are_verified_and_a_refusal_says_what_to_do() {
    // A program does this at its start. Another test may have done it.
    ring::default_provider().install_default().ok();
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = authority.issue(&["127.0.0.1"]);
    let (client, foreign) = (authority.issue(&["shop"]), stranger.issue(&["shop"]));
    let server = SecureZooKeeper::start(&server, &authority).await;
    let url = |host: &str, authority: &Authority| {
        let ca = authority.ca_file();
        format!("{}&sslrootcert={}", server.url(host, SESSION), ca.display())
    };

    let right = url("127.0.0.1", &authority);
    let locks = manager(&format!("{right}{}", own(&client))).await;
    let held = locks.lock("order:42").acquire().await.unwrap();
    held.release().await.unwrap();
    #[cfg(feature = "admin")]
    is_seen_by_operators(&format!("{right}{}", own(&client))).await;

    let elsewhere = url("localhost", &authority);
    let untrusted = url("127.0.0.1", &stranger);
    for (url, advice) in [
        (format!("{untrusted}{}", own(&client)), "in `sslrootcert`"),
        (
            format!("{elsewhere}{}", own(&client)),
            "the host in the URL",
        ),
        (
            format!("{right}{}", own(&foreign)),
            "`sslcert` and `sslkey`",
        ),
        (right.clone(), "`sslcert` and `sslkey`"),
    ] {
        let (kind, text) = refusal(&url).await;
        assert_eq!(kind, StoreErrorKind::Tls, "{text}");
        assert!(text.contains(advice), "{text}\n{}", server.log());
    }

    let (plain, _closing) = plain_port().await;
    let ca = authority.ca_file();
    let url = format!(
        "zookeeper://{plain}?sslmode=require&sslrootcert={}",
        ca.display()
    );
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
    assert!(text.contains("`secureClientPort`"), "{text}");

    // Files that were wrong are replaced, and read for the next session.
    let renewed = stranger.issue(&["shop"]);
    let store = opened(&format!("{right}{}", own(&renewed)));
    let (key, owner) = (key("order"), owner());
    let acquire = async || store.acquire(AcquireRequest::new(&key, owner, TTL)).await;
    eventually(LIMIT, "the certificate is refused", async || {
        let error = acquire().await.unwrap_err();
        error.kind() == StoreErrorKind::Tls
    })
    .await;
    fs::write(renewed.key_file(), client.key_pem()).unwrap();
    fs::write(renewed.cert_file(), client.cert_pem()).unwrap();
    eventually(LIMIT, "the certificate is read again", async || {
        acquire().await.is_ok()
    })
    .await;
}

/// A port that closes connections, as one without TLS does behind the first bytes.
async fn plain_port() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut closing = JoinSet::new();
    closing.spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    (address, closing)
}

#[cfg(feature = "admin")]
async fn is_seen_by_operators(url: &str) {
    use dlock_runtime::{admin::Inspect, store::StoreOptions};
    use dlock_zookeeper::admin::ZooKeeperInspector;

    let mut options = StoreOptions::default();
    options.response_timeout = LIMIT / 2;
    options.connect_timeout = LIMIT;
    let inspector = ZooKeeperInspector::connect(url, &options).await.unwrap();
    let reports = inspector.servers().await;
    let [report] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert!(report.failure.is_none(), "{report:?}");
    // Only the word `srvr` tells the mode.
    assert_eq!(report.info["mode"], "standalone", "{report:?}");
}
