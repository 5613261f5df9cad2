//! Users, permissions and TLS.

use std::{fs, time::Duration};

use dlock::ConnectError;
use dlock_etcd::EtcdStore;
use dlock_faults::{is_released, unavailable};
use dlock_runtime::{
    LockKey, StoreErrorKind,
    random::SystemRandom,
    store::{AcquireRequest, ClientId, LockStore, OwnerId, ReleaseRequest, Released, StoreOptions},
};
use dlock_testkit::{Authority, EtcdMake, EtcdOptions, EtcdServer, Identity, Proxy, eventually};
use serde_json::json;
use tokio::time::timeout;

use crate::world::{DEADLINE, TTL, builder, connect, connect_by};

async fn server() -> EtcdServer {
    server_of(EtcdMake::Usual).await
}

/// A server that wants a login, with a user who may use the prefix `dlock/`, and one who may not.
async fn server_of(make: EtcdMake) -> EtcdServer {
    let server = EtcdServer::start_with(EtcdOptions::new().make(make)).await;
    let range = json!({"permType": "READWRITE", "key": "ZGxvY2sv", "range_end": "ZGxvY2sw"});
    for (path, body) in [
        ("auth/user/add", json!({"name": "root", "password": "top"})),
        ("auth/role/add", json!({"name": "root"})),
        ("auth/user/grant", json!({"user": "root", "role": "root"})),
        ("auth/role/add", json!({"name": "locks"})),
        ("auth/role/grant", json!({"name": "locks", "perm": range})),
        ("auth/user/add", json!({"name": "shop", "password": "p@ss"})),
        ("auth/user/grant", json!({"user": "shop", "role": "locks"})),
        (
            "auth/user/add",
            json!({"name": "guest", "password": "p@ss"}),
        ),
        ("auth/enable", json!({})),
    ] {
        server.call(path, &body).await;
    }
    server
}

fn url(server: &EtcdServer, login: &str) -> String {
    format!("etcd://{login}@127.0.0.1:{}", server.port())
}

async fn refusal(url: &str) -> (StoreErrorKind, String) {
    let error = builder().connect(url).await.unwrap_err();
    let text = error.to_string();
    let ConnectError::Unavailable { reason, .. } = error else {
        panic!("{text}");
    };
    (reason.kind(), text)
}

#[tokio::test]
async fn a_user_with_the_prefix_locks_and_others_are_told_what_they_lack() {
    let server = server().await;
    let manager = connect(&url(&server, "shop:p%40ss")).await;
    manager.works("order:42").await;
    for (login, kind, advice) in [
        (
            "shop:wrong",
            StoreErrorKind::Unauthenticated,
            "check the user and the password",
        ),
        (
            "nobody:p%40ss",
            StoreErrorKind::Unauthenticated,
            "check the user and the password",
        ),
        (
            "guest:p%40ss",
            StoreErrorKind::Denied,
            "readwrite dlock/ --prefix",
        ),
    ] {
        let (found, text) = refusal(&url(&server, login)).await;
        assert_eq!(found, kind, "{text}");
        assert!(
            text.contains(advice) && !text.contains("p%40ss") && !text.contains("wrong"),
            "{text}"
        );
    }
    let (found, text) = refusal(&server.url()).await;
    assert_eq!(found, StoreErrorKind::Unauthenticated, "{text}");
    assert!(text.contains("etcd://user:password@host"), "{text}");
}

#[tokio::test]
async fn a_token_that_has_become_invalid_is_replaced() {
    replaces_a_token(EtcdMake::Usual).await;
}

/// It also refuses a login that names such a token.
#[tokio::test]
async fn a_token_that_has_become_invalid_is_replaced_by_the_oldest_version() {
    replaces_a_token(EtcdMake::Old).await;
}

async fn replaces_a_token(make: EtcdMake) {
    let server = server_of(make).await;
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://shop:p%40ss@127.0.0.1:{}", proxy.port());
    // A connection that is slow is not replaced.
    let manager = connect_by(builder().response_timeout(DEADLINE), &url).await;
    let guard = manager.holds("order:42", TTL).await;
    has_both(&proxy).await;
    end_tokens(&server).await;
    is_released(guard).await;
    manager.works("order:42").await;
    assert_eq!(
        proxy.accepted_connections(),
        2,
        "by logins, and not by other connections"
    );
}

/// Waits until there is also the connection for callers.
async fn has_both(proxy: &Proxy) {
    eventually(DEADLINE, "there are two connections", async || {
        proxy.open_connections() == 2
    })
    .await;
}

/// Ends the tokens of the user, as their expiry does.
async fn end_tokens(server: &EtcdServer) {
    set_password(server, "p@ss").await;
}

async fn set_password(server: &EtcdServer, password: &str) {
    let login = json!({"name": "root", "password": "top"});
    let answer = server.call("auth/authenticate", &login).await;
    let root = answer["token"].as_str().unwrap();
    let user = json!({"name": "shop", "password": password});
    server
        .call_as(Some(root), "auth/user/changepw", &user)
        .await;
}

#[tokio::test]
async fn another_password_ends_leases_at_their_deadlines_and_is_named() {
    let server = server().await;
    let manager = connect(&url(&server, "shop:p%40ss")).await;
    let guard = manager.holds("order:42", Duration::from_secs(4)).await;
    set_password(&server, "next").await;
    eventually(DEADLINE, "the lease is lost", async || guard.is_lost()).await;
    // The connection of a request may be given up while the request is on its way.
    eventually(DEADLINE, "the login is named as the reason", async || {
        let error = manager.lock("order:43").try_acquire().await.unwrap_err();
        unavailable(&error) == StoreErrorKind::Unauthenticated
    })
    .await;
    let next = connect(&url(&server, "shop:next")).await;
    next.works("order:42").await;
}

#[tokio::test]
async fn requests_that_come_during_a_login_wait_for_it() {
    let server = server().await;
    eventually(DEADLINE, "one login is for both", async || {
        logins_of_two(&server).await == 1
    })
    .await;
}

/// Returns the number of logins for two requests over one connection, and for any that the other connection of the store
/// needed meanwhile.
async fn logins_of_two(server: &EtcdServer) -> u64 {
    let proxy = Proxy::start(server.port());
    let url = format!("etcd://shop:p%40ss@127.0.0.1:{}", proxy.port());
    let mut options = StoreOptions::default();
    // The connection outlasts the test.
    options.response_timeout = 2 * DEADLINE;
    let store = EtcdStore::open(&url, &options).unwrap();
    let client = ClientId::new(&SystemRandom);
    let [one, other] = ["order:1", "order:2"].map(|key| LockKey::new(key).unwrap());
    let owner = OwnerId::new(client, 1);
    for key in [&one, &other] {
        let request = AcquireRequest::new(key, owner, TTL);
        store.acquire(request).await.unwrap();
    }
    has_both(&proxy).await;
    end_tokens(server).await;
    let sent = async |name: &str| server.messages().await.get(name).copied().unwrap_or(0);
    let logins = sent("Authenticate").await;
    proxy.hold_replies_from("p@ss");
    let release = async |key: &LockKey| store.release(ReleaseRequest::new(key, owner)).await;
    let second = async {
        eventually(DEADLINE, "the first logs in", async || !proxy.is_trap_set()).await;
        let before = sent("Txn").await;
        let arrives = async {
            eventually(DEADLINE, "the second has arrived", async || {
                sent("Txn").await > before
            })
            .await;
            proxy.thaw();
        };
        tokio::join!(release(&other), arrives).0
    };
    let answers = tokio::join!(release(&one), second);
    assert_eq!(answers, (Ok(Released::WasHeld), Ok(Released::WasHeld)));
    sent("Authenticate").await - logins
}

#[tokio::test]
async fn a_login_at_a_server_without_users_is_named() {
    let server = EtcdServer::start().await;
    let (found, text) = refusal(&url(&server, "shop:p%40ss")).await;
    assert_eq!(found, StoreErrorKind::Unauthenticated, "{text}");
    assert!(text.contains("enable authentication"), "{text}");
}

#[tokio::test]
async fn the_server_is_verified_and_may_ask_for_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, client) = (authority.issue(&["127.0.0.1"]), authority.issue(&["shop"]));
    let options = EtcdOptions::new().tls(&server, Some(&authority));
    let server = EtcdServer::start_with(options).await;
    let files = |authority: &Authority, own: Option<&Identity>| {
        format!("{}?{}", server.url(), authority.ssl_options(own))
    };
    let manager = connect(&files(&authority, Some(&client))).await;
    manager.works("order:42").await;
    let (found, text) = refusal(&files(&stranger, Some(&client))).await;
    assert_eq!(found, StoreErrorKind::Tls, "{text}");
    // The server names the reason, or dlock does where that was lost with the connection.
    let (_, text) = refusal(&files(&authority, None)).await;
    assert!(text.contains("ertificate"), "{text}");
    let (found, text) = refusal(&server.url()).await;
    let kinds = [
        StoreErrorKind::Disconnected,
        StoreErrorKind::Unreachable,
        StoreErrorKind::TimedOut,
    ];
    assert!(kinds.contains(&found), "{text}");
}

#[tokio::test]
async fn certificates_are_replaced_while_a_program_runs() {
    let [first, second] = [(); 2].map(|()| Authority::new());
    let [identity, next] = [&first, &second].map(|it| it.issue(&["127.0.0.1"]));
    let server = EtcdServer::start_with(EtcdOptions::new().tls(&identity, None)).await;
    let url = format!("{}?{}", server.url(), first.ssl_options(None));
    let manager = connect(&url).await;
    manager.works("order:42").await;
    fs::write(identity.cert_file(), next.cert_pem()).unwrap();
    fs::write(identity.key_file(), next.key_pem()).unwrap();
    fs::write(first.ca_file(), second.ca_pem()).unwrap();
    server.kill();
    server.restart().await;
    // Before files are loaded again without a reason.
    let soon = Duration::from_secs(40);
    timeout(soon, manager.works("order:42")).await.unwrap();
}
