//! TLS, at a server that asks for certificates of its clients.

use std::{fs, net::SocketAddr, time::Duration};

use dlock::{ConnectError, LockManager};
use dlock_runtime::{
    StoreErrorKind,
    store::{AcquireRequest, LockStore, StoreOptions, StoreScheme},
};
use dlock_testkit::{Authority, Identity, Proxy, SecureZooKeeper, ZooKeepers, eventually};
use dlock_zookeeper::ZooKeeper;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::rustls::crypto::ring;

use crate::world::{LIMIT, SESSION, TTL, key, manager, opened, owner};

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
    let secure = |host: &str, authority: &Authority, own: Option<&Identity>| {
        let options = authority.ssl_options(own);
        format!("{}&{options}", server.url(host, SESSION))
    };

    let right = secure("127.0.0.1", &authority, Some(&client));
    let locks = manager(&right).await;
    let held = locks.lock("order:42").acquire().await.unwrap();
    held.release().await.unwrap();
    #[cfg(feature = "admin")]
    is_seen_by_operators(&right).await;

    for (host, trusted, own, advice) in [
        ("127.0.0.1", &stranger, Some(&client), "set `sslrootcert`"),
        (
            "localhost",
            &authority,
            Some(&client),
            "the host in the URL",
        ),
        (
            "127.0.0.1",
            &authority,
            Some(&foreign),
            "`sslcert` and `sslkey`",
        ),
        ("127.0.0.1", &authority, None, "`sslcert` and `sslkey`"),
    ] {
        let (kind, text) = refusal(&secure(host, trusted, own)).await;
        assert_eq!(kind, StoreErrorKind::Tls, "{text}");
        assert!(text.contains(advice), "{text}\n{}", server.log());
    }

    let trusting = authority.ssl_options(None);
    for (is_silent, of_kind) in [
        (false, StoreErrorKind::Tls),
        // A server that has too many connections does the same.
        (true, StoreErrorKind::Disconnected),
    ] {
        let (plain, _closing) = plain_port(is_silent).await;
        let (kind, text) = refusal(&format!("zookeeper://{plain}?{trusting}")).await;
        assert_eq!(kind, of_kind, "{text}");
        assert!(text.contains("`secureClientPort`"), "{text}");
    }

    // A server that is only being restarted may let the client in soon.
    let (plain, _closing) = plain_port(false).await;
    let gone = Proxy::start(1);
    gone.refuse();
    let port = gone.port();
    let url = format!("zookeeper://{plain},127.0.0.1:{port}?{trusting}");
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, StoreErrorKind::Disconnected, "{text}");
    assert!(text.contains("`secureClientPort`"), "{text}");

    // Files that were wrong are replaced, and read for the next session.
    let renewed = stranger.issue(&["shop"]);
    let store = opened(&secure("127.0.0.1", &authority, Some(&renewed)));
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

/// A port without TLS: it closes connections behind the first bytes, with or without an answer.
async fn plain_port(is_silent: bool) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut closing = JoinSet::new();
    closing.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The client may have closed it.
            stream.read_u8().await.ok();
            if !is_silent {
                stream.write_all(b"This is no TLS at all").await.ok();
            }
        }
    });
    (address, closing)
}

/// A session lasts longer than a certificate may.
#[tokio::test]
async fn a_session_reconnects_with_the_newest_files_that_can_be_used() {
    ring::default_provider().install_default().ok();
    let (authority, stranger) = (Authority::new(), Authority::new());
    let [server, files, renewed] = ["127.0.0.1", "shop", "shop"].map(|it| authority.issue(&[it]));
    let foreign = stranger.issue(&["shop"]);
    let server = SecureZooKeeper::start(&server, &authority).await;
    let proxy = Proxy::start(server.port());
    let url = ZooKeepers::url_of(&format!("127.0.0.1:{}", proxy.port()), SESSION);
    let url = format!("{url}&{}", authority.ssl_options(Some(&files)));
    let replace = |by: &Identity| {
        fs::write(files.cert_file(), by.cert_pem()).unwrap();
        fs::write(files.key_file(), by.key_pem()).unwrap();
    };
    let locks = manager(&url).await;
    let held = locks.lock("order:42").acquire().await.unwrap();
    let is_usable = async || match locks.lock("other").try_acquire().await {
        Ok(Some(guard)) => guard.release().await.is_ok(),
        _ => false,
    };

    // Without files, the certificates from before are as good.
    let key = fs::read(files.key_file()).unwrap();
    fs::remove_file(files.key_file()).unwrap();
    proxy.cut();
    eventually(LIMIT, "it reconnects without the files", is_usable).await;
    fs::write(files.key_file(), key).unwrap();

    // The server refuses it.
    replace(&foreign);
    proxy.cut();
    eventually(LIMIT, "the new certificate is shown", async || {
        // It may have reconnected before it had read the files.
        if let Ok(true) = timeout(Duration::from_millis(100), is_usable()).await {
            proxy.cut();
        }
        server.refusals() > 0
    })
    .await;
    replace(&renewed);
    // Between its tries, the client pauses longer and longer.
    eventually(SESSION, "it reconnects with the newest files", is_usable).await;
    held.release().await.expect("the session has lasted");
}

#[tokio::test]
async fn a_server_whose_certificate_was_revoked_is_refused() {
    ring::default_provider().install_default().ok();
    let authority = Authority::new();
    let (identity, list) = authority.issue_revoked(&["127.0.0.1"]);
    let client = authority.issue(&["shop"]);
    let server = SecureZooKeeper::start(&identity, &authority).await;
    let options = authority.ssl_options(Some(&client));
    let url = format!("{}&{options}", server.url("127.0.0.1", SESSION));
    manager(&url).await;
    let both = format!("{}{list}", authority.ca_pem());
    fs::write(authority.ca_file(), both).unwrap();
    let (kind, text) = refusal(&url).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
    assert!(text.contains("was revoked"), "{text}");
}

#[tokio::test]
async fn a_url_that_tls_cannot_use_is_refused() {
    ring::default_provider().install_default().ok();
    for (url, reason) in [
        (
            "zookeeper://u:secret@a?sslmode=require&sslrootcert=/none",
            "cannot use `/none`",
        ),
        (
            "zookeeper://u:secret@a,b%20c?sslmode=require",
            "a host has a character",
        ),
        (
            "zookeeper://a,[fe80::1%25eth0]?sslmode=require",
            "a host has a character",
        ),
    ] {
        let refused = ZooKeeper.open(url, &StoreOptions::default());
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[cfg(feature = "admin")]
async fn is_seen_by_operators(url: &str) {
    use dlock_admin::Inspect;
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
