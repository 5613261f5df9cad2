//! The responses of both frameworks to lock errors, received over a socket.

use dlock::LockManager;
use dlock_testkit::eventually;

use crate::{
    common::{LIMIT, builder, soon},
    site::{Answer, Framework, Shop, Site},
};

/// Texts that no response may contain: the application's name and the beginnings of keys, errors and URLs.
const SECRETS: [&str; 5] = ["S3CR3T", "order:", "coupon:", "lock `", "redis"];

#[track_caller]
fn assert_problem(answer: &Answer, code: &str, status: u16, retry_after: Option<&str>) {
    answer.assert_tells_nothing(&SECRETS);
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("retry-after"), retry_after, "{answer:?}");
    let length = answer.body.len().to_string();
    assert_eq!(answer.header("content-length"), Some(length.as_str()));
    assert_eq!(answer.member("code"), code);
    assert_eq!(answer.member("status"), status);
    assert_eq!(answer.member("type"), "about:blank");
    assert!(answer.member("title").is_string());
}

/// A manager that the server takes for another process.
async fn stranger(site: &Site) -> LockManager {
    let builder = builder().application("S3CR3T");
    builder.connect(&site.redis.url()).await.unwrap()
}

/// One test for each framework.
macro_rules! in_both {
    ($($name:ident),* $(,)?) => {
        mod axum {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Site::start(super::Framework::BOTH[0]).await).await;
            })*
        }

        mod actix {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Site::start(super::Framework::BOTH[1]).await).await;
            })*
        }
    };
}

in_both! {
    a_handler_runs_under_its_lock,
    busy,
    a_failure_of_ones_own_is_no_problem,
    the_lock_errors_own_answer,
    unavailable,
    a_store_that_refuses,
    lost,
    mistakes_of_the_server,
    values_that_make_no_key,
    a_server_that_is_about_to_end,
}

async fn a_handler_runs_under_its_lock(site: Site) {
    let answer = site.post("/pay/nord/42").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.member("order"), 42);
    assert_eq!(answer.member("shop"), "nord");
    assert_eq!(site.post("/ship/nord/42").await.status, 200);
    assert_eq!(site.get("/plain/nord/42").await.body, "paid");
    assert_eq!(site.get("/problem/nord/42").await.body, "paid");
    assert_eq!(site.get("/redeem?coupon=a%0D%0Ab").await.body, "redeemed");
    assert_eq!(site.shop.diary(), ["began", "ended"].repeat(5));
}

async fn busy(site: Site) {
    let stranger = stranger(&site).await;
    let guard = soon(stranger.lock("order:nord/42").acquire())
        .await
        .unwrap();
    for path in ["/pay/nord/42", "/ship/nord/42"] {
        let answer = site.post(path).await;
        assert_problem(&answer, "busy", 409, Some("1"));
        assert_eq!(answer.member("support"), "https://shop.example/help");
        answer.assert_tells_nothing(&["nord", "42"]);
    }
    assert!(site.shop.diary().is_empty(), "{:?}", site.shop.diary());
    assert_eq!(site.post("/pay/nord/43").await.status, 201);
    soon(guard.release()).await.unwrap();
    assert_eq!(site.post("/pay/nord/42").await.status, 201);
}

async fn a_failure_of_ones_own_is_no_problem(site: Site) {
    let request = reqwest::Client::new().post(site.url("/pay/nord/42"));
    let request = request.json(&serde_json::json!({ "cents": 0 }));
    let response = soon(request.send()).await.unwrap();
    assert_eq!(response.status(), 410);
    assert!(site.locks().await.is_empty());
}

/// Handlers that return `LockError` or `Problem` itself, and a `HEAD` request.
async fn the_lock_errors_own_answer(site: Site) {
    let stranger = stranger(&site).await;
    let guard = soon(stranger.lock("order:nord/42").acquire())
        .await
        .unwrap();
    for path in ["/plain/nord/42", "/problem/nord/42"] {
        let answer = site.get(path).await;
        assert_problem(&answer, "busy", 409, Some("1"));
        assert!(answer.member("support").is_null());
    }
    let full = site.get("/plain/nord/42").await;
    let head = site.head("/plain/nord/42").await;
    assert_eq!(head.status, 409);
    assert_eq!(head.body, "");
    for name in [
        "content-type",
        "content-length",
        "cache-control",
        "retry-after",
    ] {
        assert_eq!(head.header(name), full.header(name), "{name}");
    }
    drop(guard);
}

async fn unavailable(site: Site) {
    site.redis.kill();
    for path in ["/plain/nord/42", "/problem/nord/42"] {
        let answer = site.get(path).await;
        assert_problem(&answer, "unavailable", 503, Some("1"));
        answer.assert_tells_nothing(&["127.0.0.1", &site.redis.port().to_string()]);
    }
    assert!(site.shop.diary().is_empty(), "{:?}", site.shop.diary());
}

async fn a_store_that_refuses(site: Site) {
    let mut connection = site.redis.connection().await;
    let () = redis::cmd("HSET")
        .arg(&["dlock:{order:nord/42}", "a", "1"])
        .query_async(&mut connection)
        .await
        .unwrap();
    let answer = site.get("/plain/nord/42").await;
    assert_problem(&answer, "unavailable", 503, Some("30"));
}

/// The lease is revoked while the body runs.
async fn lost(site: Site) {
    let asking = site.post("/pay/nord/42?pause=true");
    let (answer, ()) = tokio::join!(asking, async {
        site.shop.until("began").await;
        let mut connection = site.redis.connection().await;
        let () = redis::cmd("DEL")
            .arg("dlock:{order:nord/42}")
            .query_async(&mut connection)
            .await
            .unwrap();
    });
    assert_problem(&answer, "lost", 503, None);
    assert_eq!(site.shop.diary(), ["began", "cancelled"]);
}

async fn mistakes_of_the_server(site: Site) {
    for (path, code) in [
        ("/again/42", "would-deadlock"),
        ("/brief/0", "invalid-option"),
        ("/nobodys/42", "not-installed"),
    ] {
        let answer = site.get(path).await;
        assert_problem(&answer, code, 500, None);
    }
    assert!(site.shop.diary().is_empty(), "{:?}", site.shop.diary());
}

async fn values_that_make_no_key(site: Site) {
    let long = format!("/redeem?coupon={}", "%C3%A4".repeat(300));
    for path in ["/redeem?coupon=", "/redeem", long.as_str()] {
        let answer = site.get(path).await;
        assert_problem(&answer, "invalid-key", 400, None);
        answer.assert_tells_nothing(&["ä", "<wish"]);
    }
    assert!(site.shop.diary().is_empty(), "{:?}", site.shop.diary());
}

async fn a_server_that_is_about_to_end(site: Site) {
    assert_eq!(site.post("/pay/nord/42").await.status, 201);
    site.shop.locks.shutdown(LIMIT).await;
    let answer = site.post("/pay/nord/42").await;
    assert_problem(&answer, "closed", 503, Some("5"));
    let idle = async || site.locks().await.is_empty();
    eventually(LIMIT, "no lock is left", idle).await;
}

/// A refused request waits no longer than `wait`, and no request delays another.
#[tokio::test]
async fn requests_for_one_order_run_one_by_one() {
    for framework in Framework::BOTH {
        let site = Site::start(framework).await;
        let all = (0..20).map(|_| site.post("/pay/nord/42"));
        let answers = soon(futures_util::future::join_all(all)).await;
        let paid = answers.iter().filter(|it| it.status == 201).count();
        let others = answers.iter().filter(|it| it.status != 201);
        for answer in others {
            assert_problem(answer, "busy", 409, Some("1"));
        }
        assert_one_by_one(&site.shop, paid);
    }
}

#[track_caller]
fn assert_one_by_one(shop: &Shop, bodies: usize) {
    assert!(bodies > 0);
    assert_eq!(shop.diary(), ["began", "ended"].repeat(bodies));
}
