//! `ls`, `inspect` and `top` over etcd.

use std::time::{Duration, SystemTime};

use dlock::Wait;
use dlock_testkit::{EtcdServer, Proxy, eventually};

use super::{Namespace, builder, call_as, json, with_users};
use crate::{
    LIMIT,
    reads::is_harmless,
    top::{left_behind_nothing, terminal_at},
};

/// The number in a JSON document.
fn number(value: &serde_json::Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

#[tokio::test]
async fn holders_and_waiters_are_shown_in_order() {
    let namespace = Namespace::new("reads").await;
    let nothing = namespace.call(&["ls"]).await.with(0);
    assert!(nothing.stderr.contains("no locks"), "{}", nothing.stderr);
    let [billing, mail, cron] = [
        namespace.manager("billing").await,
        namespace.manager("mail").await,
        namespace.manager("cron").await,
    ];
    let began = SystemTime::now();
    let guard = billing.lock("order/1").acquire().await.unwrap();
    let mut waiting = Vec::new();
    // One after the other: each notes the time before its request, so two at once may have another order in the queue.
    for (places, manager) in [(2, &mail), (3, &cron)] {
        let request = manager.lock("order/1").wait(Wait::Forever);
        waiting.push(tokio::spawn(request.acquire()));
        let waits = async || namespace.claims("order%2F1").await.len() == places;
        eventually(LIMIT, "it waits", waits).await;
    }
    let free = namespace.call(&["inspect", "order/2"]).await.with(1);
    assert!(
        free.stdout.contains("holder         none"),
        "{}",
        free.stdout
    );

    // A waiter that this machine does not let go on loses its place for a while.
    let mut found = json!(null);
    eventually(LIMIT, "both wait", async || {
        let before = namespace.claims("order%2F1").await;
        let lock = namespace.call(&["inspect", "--json", "order/1"]).await;
        let lock = json(&lock.with(0).stdout);
        let waiters = lock["waiters"].as_array().unwrap();
        let owners = waiters
            .iter()
            .map(|it| it["owner"].as_str().unwrap().to_owned());
        let names = before
            .iter()
            .skip(1)
            .map(|name| name.rsplit_once('/').unwrap().1.to_owned());
        let is_queue = before.len() == 3 && owners.eq(names);
        found = lock;
        is_queue
    })
    .await;
    let lock = found;
    let elapsed = u64::try_from(began.elapsed().unwrap().as_millis()).unwrap();
    let holder = &lock["holder"];
    assert!(
        holder["label"].as_str().unwrap().starts_with("billing@"),
        "{lock:#}"
    );
    assert_eq!(lock["mode"], "exclusive");
    assert_eq!(holder["token"], guard.fencing_token().to_string());
    assert_eq!(lock["last_fence"], holder["fence"]);
    assert!(
        (1..=60_000).contains(&number(&holder["ttl_ms"])),
        "{lock:#}"
    );
    assert!(number(&holder["held_ms"]) <= elapsed, "{lock:#}");
    let waiters = lock["waiters"].as_array().unwrap();
    let labels = waiters.iter().map(|it| it["label"].as_str().unwrap());
    let mut names: Vec<_> = labels.map(|it| it.split('@').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cron", "mail"]);
    assert_eq!(
        (&lock["waiter_count"], &lock["holder_count"]),
        (&2.into(), &1.into())
    );
    let waits: Vec<_> = waiters.iter().map(|it| number(&it["waiting_ms"])).collect();
    assert!(elapsed >= waits[0] && waits[0] >= waits[1], "{waits:?}");
    assert!(waiters.iter().all(|it| it["is_alive"] == true), "{lock:#}");

    let shown = namespace.call(&["ls"]).await.with(0).stdout;
    assert!(shown.contains("order/1  billing@"), "{shown}");
    let top = namespace.call(&["top", "--once"]).await.with(0).stdout;
    for part in ["1 lock   1 held", "etcd 3."] {
        assert!(top.contains(part), "no `{part}`:\n{top}");
    }
    assert!(!top.contains("process"), "etcd cannot tell:\n{top}");
    let top = json(&namespace.call(&["top", "--json"]).await.with(0).stdout);
    assert_eq!(
        (&top["processes"], &top["namespace"]),
        (&().into(), &"reads".into())
    );
    assert_eq!(top["locks"][0]["key"], "order/1");

    // The next holder has a time and a label of its own, as soon as it has said that it holds the lock.
    guard.release().await.unwrap();
    let (next, _, _) = futures_util::future::select_all(waiting.iter_mut()).await;
    let next = next.unwrap().unwrap();
    eventually(LIMIT, "the next holder is shown", async || {
        let lock = namespace.call(&["inspect", "--json", "order/1"]).await;
        let holder = json(&lock.with(0).stdout)["holder"].clone();
        assert_eq!(holder["token"], next.fencing_token().to_string());
        holder["held_ms"].is_u64() && holder["label"].is_string()
    })
    .await;
    next.release().await.unwrap();
    for waiter in waiting {
        if !waiter.is_finished() {
            waiter.await.unwrap().unwrap().release().await.unwrap();
        }
    }
    let listed = namespace.call(&["ls", "--json"]).await.with(0).stdout;
    assert_eq!(json(&listed), json!([]));
}

#[tokio::test]
async fn those_who_share_a_lock_or_have_its_permits_are_shown_together() {
    let namespace = Namespace::new("modes").await;
    let (one, other) = (
        namespace.manager("one").await,
        namespace.manager("other").await,
    );
    let shared = [
        one.lock("catalog").shared().acquire().await.unwrap(),
        other.lock("catalog").shared().acquire().await.unwrap(),
    ];
    let _permits = [
        one.lock("encoder").permits(2).acquire().await.unwrap(),
        other.lock("encoder").permits(2).acquire().await.unwrap(),
    ];
    let waiter = "permits=2 - - - w1764000000000 third@host/3";
    namespace.put("encoder", 3, waiter).await;
    let listed = json(&namespace.call(&["ls", "--json"]).await.with(0).stdout);
    for (index, key) in [(0, "catalog"), (1, "encoder")] {
        let lock = &listed[index];
        assert_eq!(
            (&lock["key"], &lock["mode"], &lock["holder_count"]),
            (&key.into(), &"shared".into(), &2.into())
        );
        let holders = lock["holders"].as_array().unwrap();
        let labels = holders.iter().map(|it| it["label"].as_str().unwrap());
        let mut names: Vec<_> = labels.map(|it| it.split('@').next().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "other"]);
        assert_eq!(
            holders[0]["fence"], holders[1]["fence"],
            "they share an epoch"
        );
    }
    let token = shared[0].fencing_token().to_string();
    assert_eq!(listed[0]["holder"]["token"], token);
    assert_eq!(listed[1]["waiters"][0]["permits"], 2);
    let shown = namespace.call(&["inspect", "encoder"]).await.with(0).stdout;
    assert!(
        shown.contains("third@") && shown.contains("(one of 2 permits)"),
        "{shown}"
    );
    namespace.delete("encoder", 3).await;
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
    assert_eq!(theirs["holder"]["owner"], serde_json::Value::Null);
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
        r"press:\r",
        "see:owner",
        "see:order:77",
        "press:q",
    ];
    let url = format!("etcd://127.0.0.1:{}", proxy.port());
    let worker = terminal_at(&url, "120x30", &steps);
    worker.line("seen owner", LIMIT).await;
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
