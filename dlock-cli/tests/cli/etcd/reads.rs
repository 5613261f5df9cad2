//! `ls`, `inspect` and `top` over etcd.

use std::time::Duration;

use dlock_testkit::{EtcdMake, EtcdServer, Proxy};

use super::{Namespace, builder, call_as, with_users};
use crate::{
    LIMIT,
    cases::{self, Place, json},
    reads::is_harmless,
    top::{left_behind_nothing, terminal_at},
};

#[tokio::test]
async fn holders_and_waiters_are_shown_in_order() {
    cases::holders_and_waiters_are_shown_in_order(Namespace::new("reads").await).await;
}

#[tokio::test]
async fn those_who_share_a_lock_or_have_its_permits_are_shown_together() {
    cases::those_who_share_or_have_permits_are_shown_together(Namespace::new("modes").await).await;
}

/// etcd 3.5.1 may revoke leases that are alive.
#[tokio::test]
async fn a_version_with_faults_of_leases_is_in_the_log() {
    let namespace = Namespace::on(EtcdMake::Early, "warned").await;
    for command in [&["-v", "run", "order:42", "--", "true"][..], &["-v", "ls"]] {
        let ended = namespace.call(command).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let warns = ended.stderr.contains("can revoke leases that are alive");
        assert!(
            warns && ended.stderr.contains("3.5.13 or later"),
            "{}",
            ended.stderr
        );
    }
}

/// A claim as dlock writes it.
fn claim(namespace: &str, key: &str, attempt: usize) -> (String, String) {
    let name = format!("{namespace}/{key}/{:032x}.{attempt}", 7);
    (name, "1 1000 exclusive - - - h1 -".to_owned())
}

#[tokio::test]
async fn all_pages_are_listed_and_patterns_mean_what_they_mean_in_redis() {
    let namespace = Namespace::new("pages").await;
    let key = |number| format!("k:{number:04}");
    let mut claims: Vec<_> = (0..700).map(|it| claim("pages", &key(it), 1)).collect();
    for odd in ["a.b", "axb", "a%25b", "a_b", r"a\b", "a*b", "a%2Fb", "a"] {
        claims.push(claim("pages", odd, 1));
    }
    // More claims on one key than a page has.
    claims.extend((0..601).map(|it| claim("pages", "crowd", it)));
    namespace.server.put_all(&claims).await;
    let listed = json(
        &namespace
            .call(&["ls", "--json", "--fast"])
            .await
            .with(0)
            .stdout,
    );
    let locks = listed.as_array().unwrap();
    let keys: Vec<_> = locks.iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(keys.len(), 709);
    assert!(keys.is_sorted(), "{:?}", &keys[..12]);
    let crowd = locks.iter().find(|it| it["key"] == "crowd").unwrap();
    assert_eq!(
        (&crowd["holder_count"], &crowd["waiter_count"]),
        (&1.into(), &600.into())
    );
    for (pattern, count) in [
        ("k:*", 700),
        ("k:06[0-4]9", 5),
        ("*42", 7),
        ("k:0042", 1),
        ("k:004", 0),
        ("a?b", 7),
        ("a.b", 1),
        ("a%b", 1),
        ("a/*", 1),
        (r"a\*b", 1),
        ("[]", 0),
        ("crow*", 1),
    ] {
        let listed = namespace
            .call(&["ls", "--json", "--fast", pattern])
            .await
            .with(0);
        let listed = json(&listed.stdout);
        assert_eq!(listed.as_array().unwrap().len(), count, "{pattern}");
    }
    namespace.server.delete("pages/").await;
}

#[tokio::test]
async fn hostile_keys_and_those_of_other_programs_drive_no_terminal() {
    let namespace = Namespace::new("hostile").await;
    let manager = namespace.manager("one").await;
    let long = "k".repeat(512);
    let good = ["\u{202e}evil\u{2066}", "<script>alert(1)</script>", &long];
    let mut guards = Vec::new();
    for key in good {
        guards.push(manager.lock(key).acquire().await.unwrap());
    }
    let bad = "a\u{1b}[2J{b}\u{9b}31m";
    let server = namespace.server;
    for name in [
        "hostile/theirs/\u{1b}[2J",
        "hostile/theirs/deep/er",
        "hostile/nothing",
    ] {
        server.put(name, "\u{7}mine").await;
    }
    let (name, value) = claim("hostile", bad, 1);
    server
        .put(
            &name,
            &value.replace("- - h1", &format!("{bad} - h99999999999999999999")),
        )
        .await;
    let listed = json(&namespace.call(&["ls", "--json"]).await.with(0).stdout);
    let keys = listed.as_array().unwrap().iter();
    let keys: Vec<_> = keys.map(|it| it["key"].as_str().unwrap()).collect();
    let mut expected = [&good[..], &[bad, "theirs"]].concat();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    let theirs = json(
        &namespace
            .call(&["inspect", "--json", "theirs"])
            .await
            .with(0)
            .stdout,
    );
    assert_eq!(theirs["holder"]["handle"], serde_json::Value::Null);
    assert_eq!(theirs["holder"]["ttl_ms"], serde_json::Value::Null);
    for words in [&["ls"][..], &["ls", "--json"], &["top", "--once"]] {
        let shown = namespace.call(words).await.with(0);
        let text = shown.stdout.replace('\n', "");
        assert!(
            is_harmless(&shown.stdout) || !text.contains(|c: char| c.is_control()),
            "{text:?}"
        );
    }
    for key in good {
        let shown = namespace.call(&["inspect", "--", key]).await.with(0);
        assert!(is_harmless(&shown.stdout), "{:?}", shown.stdout);
    }
    drop(guards);
}

#[tokio::test]
async fn a_user_who_may_only_read_sees_all_and_releases_nothing() {
    let server = with_users().await;
    let shop = builder("shop")
        .connect(&format!("etcd://shop:p%40ss@127.0.0.1:{}", server.port()))
        .await
        .unwrap();
    let guard = shop.lock("order:1").acquire().await.unwrap();
    for words in [&["ls"][..], &["inspect", "order:1"], &["top", "--once"]] {
        let shown = call_as(&server, "looker", words).await.with(0);
        assert!(shown.stdout.contains("shop@"), "{}", shown.stdout);
    }
    let refused = call_as(&server, "looker", &["unlock", "-y", "order:1"])
        .await
        .with(69);
    assert!(
        refused.stderr.contains("permission denied")
            && refused.stderr.contains("readwrite dlock/ --prefix"),
        "{}",
        refused.stderr
    );
    guard.ensure_held().unwrap();
    let refused = call_as(&server, "guest", &["ls"]).await.with(69);
    assert!(
        refused
            .stderr
            .contains("etcdctl role grant-permission ROLE read dlock/ --prefix"),
        "{}",
        refused.stderr
    );
    let refused = call_as(&server, "nobody", &["ls"]).await.with(69);
    assert!(
        refused.stderr.contains("check the user and the password"),
        "{}",
        refused.stderr
    );
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_screen_shows_locks_and_survives_an_end_of_its_connection() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::start(server.port());
    let billing = builder("billing").connect(&server.url()).await.unwrap();
    let guard = billing.lock("order:42").acquire().await.unwrap();
    let steps = [
        "see:order:42",
        // All of it is drawn again.
        "size:110x28",
        // A key that arrives together with a new size may be read only with the next key.
        "see:HOLDER",
        r"press:\r",
        "see:handle",
        "see:order:77",
        "press:q",
    ];
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let worker = terminal_at(&url, "120x30", &steps);
    worker.line("seen handle", LIMIT).await;
    proxy.cut();
    let later = billing
        .lock("order:77")
        .ttl(Duration::from_secs(60))
        .acquire()
        .await
        .unwrap();
    left_behind_nothing(&worker, 0).await;
    drop((guard, later));
}
