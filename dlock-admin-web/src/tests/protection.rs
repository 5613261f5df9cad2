//! Which requests are answered, and what a browser may do with the responses.

use std::{future::pending, sync::Arc};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use dlock_admin::Inspect;
use dlock_runtime::store::StoreError;

use super::{
    super::{Page, router},
    fake::{Fake, held},
    get, request, send,
};

fn page() -> Page {
    Page::new(Fake::with(vec![held("job:a", 1, "cron@host/1")]))
}

/// A restart of the page would not help if the store is away.
#[tokio::test(start_paused = true)]
async fn a_probe_is_answered_without_the_store() {
    let connecting = Page::connecting(pending::<Result<Arc<dyn Inspect>, StoreError>>);
    let router = connecting.into_router();
    let answer = get(&router, "/healthz").await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (StatusCode::OK, "ok\n")
    );
}

#[tokio::test(start_paused = true)]
async fn all_responses_are_protected() {
    let router = page().into_router();
    for (path, cache) in [
        ("/locks", "no-store"),
        ("/assets/app.js", "no-cache"),
        ("/assets/none.js", "no-store"),
        ("/api/picture", "no-store"),
        ("/api/picture?per=0", "no-store"),
        ("/api/lock?key=job:a", "no-store"),
        ("/api/processes", "no-store"),
        ("/api/doctor", "no-store"),
        ("/healthz", "no-store"),
    ] {
        let headers = get(&router, path).await.headers;
        let of = |name: &str| headers.get(name).map_or("", |it| it.to_str().unwrap());
        let policy = of("content-security-policy");
        for rule in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "connect-src 'self'",
            "base-uri 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-embedder-policy", "require-corp"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", cache),
        ] {
            assert_eq!(of(name), value, "{path}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_answers_no_name_that_another_site_may_have() {
    let plain = router(Fake::with(vec![held("job:a", 1, "cron@host/1")]));
    let named = page()
        .hosts(["locks.example", "other.example"])
        .into_router();
    let anyone = page().any_host().into_router();
    for (host, by_default, by_name) in [
        ("127.0.0.1:8330", true, true),
        ("10.0.0.7:8330", true, true),
        ("localhost:8330", true, true),
        ("[::1]:8330", true, true),
        ("locks.example", false, true),
        ("OTHER.example:8330", false, true),
        ("evil.example", false, false),
        ("localhost.evil.example:8330", false, false),
    ] {
        for path in ["/locks", "/api/picture", "/assets/app.js"] {
            let ask = async |router: &Router| {
                let request = Request::get(path).header("host", host);
                let asked = send(router, request.body(Body::empty()).unwrap()).await;
                asked.status
            };
            let expected = |is_answered| {
                if is_answered {
                    StatusCode::OK
                } else {
                    StatusCode::FORBIDDEN
                }
            };
            assert_eq!(ask(&plain).await, expected(by_default), "{host} {path}");
            assert_eq!(ask(&named).await, expected(by_name), "{host} {path}");
            assert_eq!(ask(&anyone).await, StatusCode::OK, "{host} {path}");
        }
    }
    let nameless = Request::get("/locks").body(Body::empty());
    let refused = send(&plain, nameless.unwrap()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text.contains("--host"), "{}", refused.text);
    let twice = request("GET", "/locks").header("host", "evil.example");
    let refused = send(&plain, twice.body(Body::empty()).unwrap()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn another_site_reads_no_data_but_may_link_to_the_page() {
    let router = page().into_router();
    for (path, site, status) in [
        ("/api/picture", "cross-site", StatusCode::FORBIDDEN),
        ("/api/picture/events", "same-site", StatusCode::FORBIDDEN),
        ("/api/lock?key=job:a", "cross-site", StatusCode::FORBIDDEN),
        ("/api/picture", "same-origin", StatusCode::OK),
        ("/api/picture", "none", StatusCode::OK),
        ("/locks?filter=a", "cross-site", StatusCode::OK),
    ] {
        let asked = request("GET", path).header("sec-fetch-site", site);
        let told = send(&router, asked.body(Body::empty()).unwrap()).await;
        assert_eq!(told.status, status, "{path} {site}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_lies_below_any_prefix() {
    let inner = router(Fake::with(vec![held("job:a", 1, "cron@host/1")]));
    let outer = Router::new()
        .route("/", axum::routing::get(async || "the service"))
        .nest("/ops/locks", inner.clone());
    assert_eq!(get(&outer, "/").await.text, "the service");
    for (router, path, place) in [
        (&inner, "/", "locks"),
        (&outer, "/ops/locks", "locks/locks"),
    ] {
        let home = get(router, path).await;
        assert_eq!(home.status, StatusCode::TEMPORARY_REDIRECT, "{path}");
        assert_eq!(home.headers["location"], place, "{path}");
    }
    let document = get(&outer, "/ops/locks/locks?filter=a").await;
    assert!(
        document.text.contains("<base href=\"./\">"),
        "{}",
        document.text
    );
    assert_eq!(document.headers["content-type"], "text/html; charset=utf-8");
    for view in ["lock?key=job%3Aa", "processes", "doctor"] {
        let same = get(&outer, &format!("/ops/locks/{view}")).await;
        assert_eq!(same.text, document.text, "{view}");
    }
    let script = get(&outer, "/ops/locks/assets/app.js").await;
    assert_eq!(
        script.headers["content-type"],
        "text/javascript; charset=utf-8"
    );
    let picture = get(&outer, "/ops/locks/api/picture").await.json();
    assert_eq!(picture["locks"][0]["key"], "job:a");
    let foreign = request("GET", "/ops/locks/api/picture").header("sec-fetch-site", "cross-site");
    let refused = send(&outer, foreign.body(Body::empty()).unwrap()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "below a prefix, too");
}
