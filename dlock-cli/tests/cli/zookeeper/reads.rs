//! `ls`, `inspect` and `top` over ZooKeeper.

use serde_json::json;

use super::{Namespace, builder};
use crate::{
    call,
    cases::{self, Claim, Place, at, json},
    reads::is_harmless,
    until_answered,
};

#[tokio::test]
async fn holders_and_waiters_are_shown_in_order() {
    cases::holders_and_waiters_are_shown_in_order(Namespace::new("reads").await).await;
}

#[tokio::test]
async fn those_who_share_a_lock_or_have_its_permits_are_shown_together() {
    cases::those_who_share_or_have_permits_are_shown_together(Namespace::new("modes").await).await;
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
    let label = Claim::Holds("a\u{1b}[2J{b}\u{9b}31m");
    namespace.put("labelled", 1, "exclusive", label).await;
    for path in [
        "/hostile/lock:a\u{1b}[2J",
        "/hostile/lock:%1B[2J",
        "/hostile/other",
    ] {
        // The server refuses some of these names itself.
        drop(namespace.client.create(path, b"", &super::staying()).await);
    }
    let listed = json(&namespace.call(&["ls", "--json"]).await.with(0).stdout);
    let keys = listed.as_array().unwrap().iter();
    let keys: Vec<_> = keys.map(|it| it["key"].as_str().unwrap()).collect();
    let mut expected = [&good[..], &["labelled"]].concat();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    for words in [&["ls"][..], &["inspect", "labelled"], &["top", "--once"]] {
        let shown = namespace.call(words).await.with(0);
        let text = shown.stdout.replace('\n', "");
        assert!(
            is_harmless(&shown.stdout) || !text.contains(|c: char| c.is_control()),
            "{text:?}"
        );
    }
    drop(guards);
}

#[tokio::test]
async fn a_login_of_the_environment_gets_to_the_nodes_of_its_user_alone() {
    let namespace = Namespace::new("users").await;
    let url = namespace.url();
    let login = url.replace("://", "://shop:p%40ss@");
    let shop = builder("shop").namespace("users").connect(&login).await;
    let shop = shop.unwrap();
    let guard = shop.lock("order:1").acquire().await.unwrap();
    let call_as = async |user: &str, words: &[&str]| {
        until_answered(async || {
            let mut command = at(&url, "users", words);
            command
                .env("DLOCK_USER", user)
                .env("DLOCK_PASSWORD", "p@ss");
            call(&mut command).await
        })
        .await
    };
    let shown = call_as("shop", &["ls"]).await.with(0);
    assert!(shown.stdout.contains("shop@"), "{}", shown.stdout);
    let refused = call_as("guest", &["ls"]).await.with(69);
    assert!(
        refused.stderr.contains("permission denied; use the login"),
        "{}",
        refused.stderr
    );
    guard.ensure_held().unwrap();
    let ended = call_as("shop", &["unlock", "-y", "order:1"]).await.with(0);
    assert!(ended.stdout.contains("it is free"), "{}", ended.stdout);
    let listed = call_as("shop", &["ls", "--json"]).await.with(0);
    assert_eq!(json(&listed.stdout), json!([]));
}
