//! Sentinels that are down, know nothing, want a password or name an address that cannot be reached.

use std::time::Duration;

use dlock::{ConnectError, LockError, LockManager, store::StoreErrorKind};
use dlock_testkit::{SentinelShape, Sentinels, eventually};

use crate::common::{LIMIT, Log, shown, soon};
use crate::sentinel::manager;

const SECRET: &str = "s3cr3t-p4ssw0rd";

async fn refused(url: &str) -> ConnectError {
    // An attempt, of which a Sentinel has a half, ends on a machine that stands still for a second, too.
    let builder = LockManager::builder().connect_timeout(Duration::from_secs(6));
    soon(builder.connect(url)).await.unwrap_err()
}

#[track_caller]
fn assert_says(error: &ConnectError, kind: StoreErrorKind, words: &[&str]) {
    let ConnectError::Unavailable { reason, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), kind, "{error}");
    let text = shown(error);
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    assert!(!text.contains(SECRET), "{text}");
}

async fn works(manager: &LockManager) {
    let guard = soon(manager.lock("order:42").acquire()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

#[tokio::test]
async fn one_of_three_is_enough_and_none_are_needed_for_a_known_master() {
    let all = Sentinels::start().await;
    let known = manager(&all).await;
    works(&known).await;
    all.pause_sentinel(0);
    works(&manager(&all).await).await;
    all.kill_sentinel(1);
    works(&manager(&all).await).await;
    works(&known).await;
    all.kill_sentinel(2);
    works(&known).await;
    let service = all.service();
    assert_says(
        &refused(&all.url()).await,
        StoreErrorKind::Unreachable,
        &[
            "no Sentinel returned a master of",
            service,
            "the Sentinel at 127.0.0.1:",
        ],
    );
    all.resume_sentinel(0);
    works(&manager(&all).await).await;
}

#[tokio::test]
async fn a_wrong_service_is_told_at_once() {
    let all = Sentinels::start_small().await;
    let url = all.url_of("no-such-service");
    let words = [
        "no Sentinel knows the service `no-such-service`",
        "check the service name",
    ];
    assert_says(&refused(&url).await, StoreErrorKind::UnknownService, &words);

    let lazy = LockManager::builder().connect_lazy(&url).unwrap();
    let error = soon(lazy.lock("order:42").acquire()).await.unwrap_err();
    let LockError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(reason.kind(), StoreErrorKind::UnknownService, "{error}");
    assert_eq!(lazy.active_keys(), 0, "there is nothing to be given back");
}

#[tokio::test]
async fn the_servers_want_a_password_and_the_sentinels_another() {
    let (log, _capturing) = Log::capture();
    let all = Sentinels::start_with(SentinelShape {
        replicas: 1,
        sentinels: 1,
        password: Some(SECRET),
        sentinel_password: Some("s3cr3t-p4ssw0rd-of-sentinels"),
        ..SentinelShape::default()
    })
    .await;
    let url = all.url();
    assert_says(
        &refused(&url).await,
        StoreErrorKind::Unauthenticated,
        &["the Sentinel at", "requires a password", "sentinel_pass"],
    );
    let wrong = format!("{url}?sentinel_pass={SECRET}");
    assert_says(
        &refused(&wrong).await,
        StoreErrorKind::Unauthenticated,
        &["the Sentinel at", "invalid username-password pair"],
    );
    let both = format!("{url}?sentinel_user=default&sentinel_pass={SECRET}-of-sentinels");
    works(&soon(LockManager::connect(&both)).await.unwrap()).await;
    let server_wrong = both.replace(&format!(":{SECRET}@"), &format!(":{SECRET}x@"));
    assert_says(
        &refused(&server_wrong).await,
        StoreErrorKind::Unauthenticated,
        &["invalid username-password pair"],
    );
    assert!(!log.text().contains(SECRET), "{}", log.text());
}

/// Those that the documents name, and without the one that tells epochs.
#[tokio::test]
async fn few_rights_are_enough_for_a_user_of_the_sentinels() {
    let all = Sentinels::start_small().await;
    let mut connection = all.sentinel_connection(0).await;
    let rights = "on >secret resetchannels &+switch-master -@all +subscribe \
                  +sentinel|master +sentinel|get-master-addr-by-name";
    for (user, rights) in [
        ("app", rights.to_owned()),
        ("blind", rights.replace("+sentinel|master ", "")),
    ] {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(user);
        set.arg(rights.split_whitespace().collect::<Vec<_>>());
        set.query_async::<()>(&mut connection).await.unwrap();
        let url = format!("{}?sentinel_user={user}&sentinel_pass=secret", all.url());
        let manager = soon(LockManager::connect(&url)).await.unwrap();
        works(&manager).await;
        eventually(LIMIT, "it listens", async || {
            let clients = redis::cmd("CLIENT").arg("LIST").to_owned();
            let clients: String = clients.query_async(&mut connection).await.unwrap();
            let mut clients = clients.lines();
            let user = format!(" user={user} ");
            clients.any(|it| it.contains(" sub=1 ") && it.contains(&user))
        })
        .await;
    }
    redis::cmd("ACL")
        .arg(&["SETUSER", "app", "-sentinel|get-master-addr-by-name"])
        .query_async::<()>(&mut connection)
        .await
        .unwrap();
    let url = format!("{}?sentinel_user=app&sentinel_pass=secret", all.url());
    assert_says(
        &refused(&url).await,
        StoreErrorKind::Denied,
        &["the Sentinel at", "no permissions"],
    );
}

/// As behind a translation of addresses: the Sentinels can be reached, and what they name cannot.
#[tokio::test]
async fn an_announced_address_that_cannot_be_reached_is_named() {
    let all = Sentinels::start_small().await;
    let mut connection = all.sentinel_connection(0).await;
    redis::cmd("SENTINEL")
        .arg(&["MONITOR", "elsewhere", "127.0.0.1", "1", "1"])
        .query_async::<()>(&mut connection)
        .await
        .unwrap();
    assert_says(
        &refused(&all.url_of("elsewhere")).await,
        StoreErrorKind::Unreachable,
        &[
            "cannot connect to redis://127.0.0.1:1, which the Sentinels name as the master of",
            "`elsewhere`",
            "connection refused",
        ],
    );
}

#[tokio::test]
async fn a_server_is_no_sentinel() {
    let all = Sentinels::start_small().await;
    let port = all.servers()[0].port();
    let url = format!("redis-sentinel://127.0.0.1:{port}/{}", all.service());
    assert_says(
        &refused(&url).await,
        StoreErrorKind::Unsupported,
        &[&format!(
            "the Sentinel at 127.0.0.1:{port} is not a Sentinel"
        )],
    );
}
