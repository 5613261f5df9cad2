//! Connections over TLS: which are made, and why others are refused.

use std::{fs, time::Duration};

use dlock::{
    LockManager,
    store::{StoreErrorKind, redis::Tls},
};
use dlock_testkit::{Authority, Identity, Proxy, RedisServer, eventually};

use crate::common::{assert_idle, builder, connect, shown, soon};
use crate::connection::{LIMIT, assert_works, clients, failed, not_reached, refused, run};

const NAMES: &[&str] = &["localhost", "127.0.0.1"];

/// Before files are loaded again without a reason.
const SOON: Duration = Duration::from_secs(40);

fn url(server: &RedisServer) -> String {
    format!("rediss://127.0.0.1:{}", server.tls_port())
}

fn with_own(server: &RedisServer, authority: &Authority, own: &Identity) -> String {
    let (cert, key) = (own.cert_file(), own.key_file());
    let (url, cert, key) = (server.tls_url(authority), cert.display(), key.display());
    format!("{url}&cert={cert}&key={key}")
}

async fn secured(identity: &Identity) -> RedisServer {
    RedisServer::start_with_tls(identity, None, &[]).await
}

#[tokio::test]
async fn a_server_is_trusted_by_name_and_by_address() {
    let authority = Authority::new();
    let server = secured(&authority.issue(NAMES)).await;
    let by_address = server.tls_url(&authority);
    let by_name = by_address.replace("127.0.0.1", "localhost");
    let valkey = by_name.replace("rediss://", "valkeys://");
    let given = builder().tls(Tls::new().ca_pem(authority.ca_pem()));
    let one = connect(&by_address).await;
    for other in [
        connect(&by_name).await,
        connect(&valkey).await,
        soon(given.connect(&url(&server))).await.unwrap(),
    ] {
        assert_works(&server, &one, &other).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_who_it_is_gets_no_request() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (identity, words) in [
        (stranger.issue(NAMES), "from an unknown authority"),
        (authority.issue_expired(NAMES), "has expired"),
        (authority.issue_early(NAMES), "is not valid yet"),
        (
            authority.issue(&["db.example"]),
            "is not valid for the name `127.0.0.1`",
        ),
        (
            authority.issue_authority(NAMES),
            "issue one with `basicConstraints=CA:FALSE`",
        ),
    ] {
        let server = secured(&identity).await;
        let url = server
            .tls_url(&authority)
            .replace("rediss://", "rediss://:s3cr3t-p4ssw0rd@");
        let (kind, text) = refused(LockManager::builder(), &url).await;
        assert_eq!(kind, StoreErrorKind::Tls, "{text}");
        assert!(text.contains(words), "{text}");

        let manager = LockManager::builder().connect_lazy(&url).unwrap();
        let error = soon(manager.lock("order:42").acquire()).await.unwrap_err();
        assert!(shown(&error).contains(words), "{error}");
        assert_eq!(
            error.retry_after(),
            None,
            "it will not get better by itself"
        );
        assert_idle(&[&manager]).await;
        assert_eq!(server.command_count("hello").await, 0, "{words}");
        assert_eq!(server.command_count("auth").await, 0, "{words}");
    }
}

#[tokio::test]
async fn without_a_ca_those_of_the_machine_are_asked() {
    let authority = Authority::new();
    let server = secured(&authority.issue(NAMES)).await;
    let outcome = LockManager::builder().connect(&url(&server)).await;
    let text = shown(&outcome.expect_err("nobody knows the authority"));
    let machine_has_some = text.contains("from an unknown authority");
    assert!(
        machine_has_some || text.contains("`ca-certificates`"),
        "{text}"
    );
}

#[tokio::test]
async fn a_client_shows_the_certificate_that_a_server_wants() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.issue(NAMES);
    let server = RedisServer::start_with_tls(&identity, Some(&authority), &[]).await;
    let client = authority.issue(&["a client"]);
    let one = connect(&with_own(&server, &authority, &client)).await;
    let tls = Tls::new().identity_pem(client.cert_pem(), client.key_pem());
    assert!(!format!("{tls:?}").contains("PRIVATE"), "{tls:?}");
    let builder = builder().tls(tls);
    assert!(!format!("{builder:?}").contains("PRIVATE"), "{builder:?}");
    let url = server.tls_url(&authority);
    let other = soon(builder.connect(&url)).await.unwrap();
    assert_works(&server, &one, &other).await;

    for _ in 0..5 {
        let (kind, text) = refused(LockManager::builder(), &url).await;
        assert_eq!(kind, StoreErrorKind::Tls, "{text}");
        let words = "requires a client certificate; set `cert` and `key`";
        assert!(text.contains(words), "{text}");

        let unknown = stranger.issue(&["a client"]);
        let tls = Tls::new().identity_files(unknown.cert_file(), unknown.key_file());
        let (kind, text) = refused(LockManager::builder().tls(tls), &url).await;
        assert_eq!(kind, StoreErrorKind::Tls, "{text}");
        assert!(text.contains("refused the client certificate ("), "{text}");
    }
}

/// All at once: an authority, and the certificates of the server and of the client.
#[tokio::test]
async fn certificates_are_replaced_while_a_program_runs() {
    let [first, second] = [(); 2].map(|()| Authority::new());
    let of = |it: &Authority| [NAMES, &["a client"]].map(|names| it.issue(names));
    let ([identity, client], [next_identity, next_client]) = (of(&first), of(&second));
    let server = RedisServer::start_with_tls(&identity, Some(&first), &[]).await;
    let manager = connect(&with_own(&server, &first, &client)).await;
    soon(manager.lock("order:42").run(async |_| ()))
        .await
        .unwrap();
    fs::write(first.ca_file(), second.ca_pem()).unwrap();
    for (before, after) in [(&identity, &next_identity), (&client, &next_client)] {
        fs::write(before.cert_file(), after.cert_pem()).unwrap();
        fs::write(before.key_file(), after.key_pem()).unwrap();
    }
    let mut plain = server.connection().await;
    let [cert, key] =
        [identity.cert_file(), identity.key_file()].map(|it| it.display().to_string());
    let read_again = format!("CONFIG SET tls-cert-file {cert} tls-key-file {key}");
    assert_eq!(run(&mut plain, &read_again).await, "ok");
    let ids = async || -> Vec<String> {
        let ours = clients(&server).await;
        let ids = ours.iter().filter_map(|line| line.split(' ').next());
        ids.map(str::to_owned).collect()
    };
    let before = ids().await;
    assert!(!before.is_empty());
    run(&mut plain, "CLIENT KILL USER default SKIPME yes").await;
    eventually(SOON, "the connections have the new ones", async || {
        let lock = soon(manager.lock("order:42").run(async |_| ())).await;
        let now = ids().await;
        let are_new = now.len() == before.len() && now.iter().all(|it| !before.contains(it));
        lock.is_ok() && are_new
    })
    .await;
}

#[tokio::test]
async fn whoever_takes_the_wrong_port_is_told_the_right_scheme() {
    let authority = Authority::new();
    let server = secured(&authority.issue(NAMES)).await;
    let plain = server.port().to_string();
    let secure = server.tls_port().to_string();

    let to_plain = server.tls_url(&authority).replace(&secure, &plain);
    let (kind, text) = refused(LockManager::builder(), &to_plain).await;
    assert_eq!(kind, StoreErrorKind::Tls, "{text}");
    assert!(text.contains("write `redis://`"), "{text}");

    for protocol in ["resp3", "resp2"] {
        let to_secure = format!("redis://127.0.0.1:{secure}?protocol={protocol}");
        let (kind, text) = not_reached(LockManager::builder(), &to_secure).await;
        assert_eq!(kind, StoreErrorKind::Unreachable, "{text}");
        assert!(text.contains("write `rediss://`"), "{text}");
    }
}

#[tokio::test]
async fn silence_in_the_handshake_ends_with_the_time_to_connect() {
    let authority = Authority::new();
    let server = secured(&authority.issue(NAMES)).await;
    let proxy = Proxy::start(server.tls_port());
    proxy.freeze();
    let url = server
        .tls_url(&authority)
        .replace(&server.tls_port().to_string(), &proxy.port().to_string());
    // An attempt ends after two seconds. One during which the machine stands still may end without its particulars.
    eventually(3 * LIMIT, "the handshake is named", async || {
        let builder = LockManager::builder().connect_timeout(Duration::from_secs(3));
        let (kind, text) = failed(soon(builder.connect(&url)).await);
        assert_eq!(kind, StoreErrorKind::Unreachable, "{text}");
        text.contains("TLS handshake")
    })
    .await;
}

#[tokio::test]
async fn connections_are_replaced_when_they_break_or_fall_silent() {
    let authority = Authority::new();
    let server = secured(&authority.issue(NAMES)).await;
    let proxy = Proxy::start(server.tls_port());
    for protocol in ["resp3", "resp2"] {
        let url = server
            .tls_url(&authority)
            .replace(&server.tls_port().to_string(), &proxy.port().to_string());
        let url = format!("{url}&protocol={protocol}");
        let builder = LockManager::builder().response_timeout(Duration::from_millis(300));
        let manager = soon(builder.connect(&url)).await.unwrap();
        let works = async || {
            let lock = manager.lock("order:42").wait(LIMIT);
            soon(lock.run(async |_| 7)).await == Ok(7)
        };
        assert!(works().await);
        proxy.cut();
        assert!(works().await, "after a cut");
        let before = proxy.accepted_connections();
        proxy.freeze();
        eventually(LIMIT, "another connection is tried", async || {
            proxy.accepted_connections() > before
        })
        .await;
        proxy.thaw();
        assert!(works().await, "after a silence");
        drop(manager);
        eventually(LIMIT, "nothing is left", async || {
            clients(&server).await.is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn a_login_is_sent_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(NAMES);
    let rule = [
        "--user",
        "me",
        "on",
        ">s3cr3t-p4ssw0rd",
        "~*",
        "&*",
        "+@all",
    ];
    let server = RedisServer::start_with_tls(&identity, None, &rule).await;
    let url = server
        .tls_url(&authority)
        .replace("127.0.0.1", "me:s3cr3t-p4ssw0rd@localhost");
    let url = url.replace('?', "/2?");
    let manager = connect(&url).await;
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    let keyspace = run(&mut server.connection().await, "INFO keyspace").await;
    assert!(keyspace.contains("db2:"), "{keyspace}");
    let clients = clients(&server).await;
    assert!(clients[0].contains("user=me"), "{clients:?}");
    soon(guard.release()).await.unwrap();

    let wrong = url.replace("p4ssw0rd", "p4ssw0rd-not");
    let (kind, text) = refused(LockManager::builder(), &wrong).await;
    assert_eq!(kind, StoreErrorKind::Unauthenticated, "{text}");
}
