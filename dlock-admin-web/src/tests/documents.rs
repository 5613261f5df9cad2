//! The documents of a page whose store answers.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::{Duration, SystemTime},
};

use axum::{body::Body, http::StatusCode};
use dlock_admin::{ProcessInfo, view};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use url::form_urlencoded::byte_serialize;

use super::{
    super::{Page, router},
    fake::{Fake, held, owner, waiter},
    get, request,
};

fn encoded(key: &str) -> String {
    byte_serialize(key.as_bytes()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_list_has_the_store_its_totals_and_the_locks() {
    let mut lock = held("job:a", 7, "cron@host/1");
    lock.add_waiter(waiter(8, Duration::from_secs(3)));
    let router = Page::new(Fake::with(vec![lock]))
        .namespace("shop")
        .interval(Duration::from_secs(4))
        .into_router();
    let told = get(&router, "/api/picture").await;
    assert_eq!(told.headers["content-type"], "application/json");
    let told = told.json();
    let server =
        json!({"name": "fake:6379", "product": "Redis", "version": "7.2.4", "namespace": "shop"});
    assert_eq!(told["server"], server);
    assert_eq!(told["picture"]["state"], "live");
    assert_eq!(told["picture"]["interval_ms"], 4000);
    for unset in ["progress", "reason", "since"] {
        assert_eq!(told["picture"][unset], Value::Null, "{unset}");
    }
    assert!(told["picture"]["taken"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        told["list"],
        json!({"matching": 1, "page": 1, "pages": 1, "per": 50})
    );
    assert_eq!(told["totals"]["locks"], 1);
    assert_eq!(told["totals"]["waiters"], 1);
    assert_eq!(told["totals"]["longest_wait_ms"], 3000);
    assert_eq!(told["can_unlock"], false);
    assert_eq!(told["cannot"], json!([]));
    let mut lock = told["locks"][0].clone();
    assert!(lock["held_ms"].as_u64().unwrap() < 30_000, "{lock}");
    lock["held_ms"] = 0.into();
    assert!(lock["since"].take().is_string());
    assert_eq!(
        lock,
        json!({
            "key": "job:a", "mode": "exclusive", "holder": "cron@host/1", "function": null, "holders": 1, "held_ms": 0,
            "since": null, "ttl_ms": 30000, "waiters": 1, "longest_wait_ms": 3000, "held_at": 1, "servers": 1
        })
    );
    let wrong = get(&router, "/api/picture?per=0").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.json()["error"].as_str().unwrap().contains("per"));
}

#[tokio::test(start_paused = true)]
async fn a_lock_has_its_holders_and_its_queue() {
    let mut lock = held("job:a", 7, "cron@host/1");
    lock.add_waiter(waiter(8, Duration::from_secs(3)));
    lock.last_fence = 8;
    let router = router(Fake::with(vec![lock]));
    let told = get(&router, "/api/lock?key=job%3Aa").await.json();
    let lock = &told["lock"];
    let token = |fence| json!(view::token(fence).unwrap());
    assert_eq!(lock["last_token"], token(8));
    assert_eq!(lock["holders"][0]["handle"], owner(7).handle().to_string());
    assert_eq!(lock["holders"][0]["token"], token(7));
    assert_eq!(lock["waiters"][0]["waiting_ms"], 3000);
    assert_eq!(lock["waiters"][0]["mode"], "exclusive");
    assert_eq!(
        (&lock["holder_count"], &lock["waiter_count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(told["picture"]["state"], "live");
    assert!(told["history"]["gaps"].is_array());
    let free = get(&router, "/api/lock?key=free").await.json();
    assert_eq!(free["lock"], Value::Null);
    assert_eq!(free["picture"]["state"], "live");
    for query in ["", "?key=", "?other=1"] {
        let wrong = get(&router, &format!("/api/lock{query}")).await;
        assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{query}");
    }
    let long = get(&router, &format!("/api/lock?key={}", "k".repeat(513))).await;
    assert_eq!(long.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn any_key_is_found_by_its_name_in_a_url() {
    let keys = [
        ".".to_owned(),
        "..".to_owned(),
        "../../etc/passwd".to_owned(),
        "a/b//c".to_owned(),
        "100%2F&key=b#x?y=z +".to_owned(),
        "<script>alert(1)</script>".to_owned(),
        "\u{202e}evil\u{2066}\u{e0001}".to_owned(),
        "\"'\\`".to_owned(),
        "\u{1f512}".repeat(128),
        "k".repeat(512),
    ];
    let locks = (1..).zip(&keys).map(|(number, key)| held(key, number, key));
    let router = router(Fake::with(locks.collect()));
    let listed = get(&router, "/api/picture").await.json();
    assert_eq!(listed["totals"]["locks"], keys.len());
    for (number, key) in (1..).zip(&keys) {
        let told = get(&router, &format!("/api/lock?key={}", encoded(key))).await;
        let told = told.json();
        assert_eq!(told["lock"]["key"], **key);
        assert_eq!(
            told["lock"]["holders"][0]["token"],
            json!(view::token(number)),
            "{key}"
        );
        let found = get(&router, &format!("/api/picture?filter={}", encoded(key))).await;
        let found = found.json();
        let mut found = found["locks"].as_array().unwrap().iter();
        assert!(found.any(|it| it["key"] == **key), "{key}");
    }
    let document = get(&router, &format!("/lock?key={}", encoded(&keys[5]))).await;
    assert!(
        !document.text.contains("alert("),
        "no key is in the document"
    );
}

#[tokio::test(start_paused = true)]
async fn processes_have_the_numbers_of_their_locks() {
    let fake = Fake::with(vec![
        held("a", 1, "cron@host/1"),
        held("b", 2, "cron@host/1"),
    ]);
    fake.locks.lock().unwrap()[1].add_waiter(waiter(3, Duration::ZERO));
    let label = "cron@host/4711";
    let process = ProcessInfo::new(owner(1).client(), label, SystemTime::UNIX_EPOCH, "0.1.0");
    fake.processes.lock().unwrap().push(process);
    let told = get(&router(fake), "/api/processes").await.json();
    assert_eq!(
        told["processes"],
        json!([{
            "client": owner(1).client().handle().to_string(), "label": label, "application": "cron", "host": "host", "pid": 4711,
            "started": "1970-01-01T00:00:00.000Z", "version": "0.1.0", "holds": 2, "waits": 1
        }])
    );
}

#[tokio::test(start_paused = true)]
async fn findings_are_those_of_the_doctor_for_a_while() {
    let fake = Fake::with(Vec::new());
    let router = router(fake.clone());
    let told = get(&router, "/api/doctor").await.json();
    let servers = told["servers"].as_array().unwrap();
    let of_server = servers
        .iter()
        .find(|it| it["server"] == "redis://fake:6379");
    let findings = of_server.unwrap()["findings"].as_array().unwrap();
    let version = findings.iter().find(|it| it["topic"] == "version").unwrap();
    assert_eq!(version["grade"], "ok");
    assert!(
        version["text"].as_str().unwrap().contains("7.2.4"),
        "{version}"
    );
    assert!(
        findings.iter().any(|it| it["grade"] == "unknown"),
        "{findings:#?}"
    );
    // The worst come first.
    assert_ne!(findings[0]["grade"], "ok");
}

#[tokio::test(start_paused = true)]
async fn what_a_store_cannot_tell_is_said() {
    let mut of_quorum = held("a", 1, "cron@host/1");
    of_quorum.servers = 3;
    let told = get(&router(Fake::with(vec![of_quorum])), "/api/picture").await;
    let told = told.json();
    let cannot = told["cannot"].as_array().unwrap();
    assert_eq!(cannot.len(), 1, "{told:#}");
    assert!(cannot[0].as_str().unwrap().contains("queue of its own"));
    let timeless = Fake::with(Vec::new());
    timeless.has_no_clock.store(true, SeqCst);
    let told = get(&router(timeless), "/api/picture").await.json();
    let cannot = told["cannot"].to_string();
    assert!(
        cannot.contains("clock of the store is not read"),
        "{cannot}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_read_once_for_all_that_look_at_it() {
    let fake = Fake::with(vec![held("a", 1, "cron@host/1")]);
    let router = router(fake.clone());
    for _ in 0..10 {
        get(&router, "/api/lock?key=a").await;
    }
    assert_eq!(fake.looks_at_one.load(SeqCst), 1);
    assert_eq!(fake.looks(), 1);
    assert!(Arc::strong_count(&fake) > 1);
    // Those that are read only for a while after the last has left make place.
    for number in 0..80 {
        let told = get(&router, &format!("/api/lock?key=k{number}")).await;
        assert_eq!(told.status, StatusCode::OK, "{number}");
    }
    let mut open = Vec::new();
    for number in 0..80 {
        let path = format!("/api/lock/events?key=k{number}");
        let asked = request("GET", &path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(asked).await.unwrap();
        let expected = if number < 64 {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        assert_eq!(response.status(), expected, "{number}");
        open.push(response);
    }
}
