//! The permissions that the page needs, and the secrets that it keeps.

use dlock_testkit::RedisServer;
use serde_json::{Value, json};

use super::{
    super::reads::{manager, scene},
    serve, start,
};

/// The user that only looks, as documented.
const VIEWER: &str = include_str!("../../../../dlock-admin/src/redis/permissions_look.txt");

async fn order(server: &RedisServer, words: &str) {
    let mut words = words.split_whitespace();
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    server.read::<()>(&command).await;
}

#[tokio::test]
async fn a_user_that_may_only_read_is_enough_and_its_password_is_nowhere() {
    let server = RedisServer::start().await;
    order(&server, VIEWER).await;
    let scene = scene(&server).await;
    let url = format!("redis://viewer:change-me@127.0.0.1:{}", server.port());
    let mut command = serve(&server, &["--allow-unlock"]);
    command.env("DLOCK_URL", &url);
    let site = start(command.env("DLOCK_SERVE_TOKEN", "a-token-of-this-test")).await;
    let mut events = site.events("api/picture/events").await;
    let told = events
        .until("the waiter", |told| told["locks"][0]["waiters"] == 1)
        .await;
    assert_eq!(
        told["cannot"],
        json!([]),
        "grants, processes and the version are told"
    );
    assert_eq!(told["totals"]["processes"], 2);
    assert!(told["server"]["version"].is_string());
    let shown = site.json("api/lock?key=order:1").await;
    assert_eq!(
        shown["lock"]["holders"][0]["process"]["application"],
        "billing"
    );
    // The rate is known after a second.
    let known = |told: &Value| told["totals"]["grants_per_s"] == 0;
    events.until("the rate of grants", known).await;

    let holder = &shown["lock"]["holders"][0];
    let wanted = json!({
        "key": "order:1", "typed": "order:1", "handle": holder["handle"], "token": holder["token"]
    });
    let headers = format!(
        "Host: {}\r\nContent-Type: application/json\r\nAuthorization: Bearer a-token-of-this-test\r\n",
        site.address
    );
    let refused = site
        .ask("POST /api/unlock", &headers, &wanted.to_string())
        .await;
    assert_eq!(refused.status, 503, "it may not write: {}", refused.body);
    assert!(!scene.holder.is_finished());

    for path in [
        "api/picture",
        "api/lock?key=order:1",
        "api/processes",
        "api/doctor",
        "locks",
    ] {
        let told = site.get(path).await;
        assert_eq!(told.status, 200, "{path}");
        assert!(!told.body.contains("change-me"), "{path}: {}", told.body);
    }
    server.kill();
    let away = events
        .until("the outage", |told| told["picture"]["state"] == "away")
        .await;
    assert!(!away.to_string().contains("change-me"), "{away:#}");
    let output = site.worker.stdout() + &site.worker.stderr();
    assert!(!output.contains("change-me"), "{output}");
}

#[tokio::test]
async fn names_of_other_sites_are_not_answered() {
    let server = RedisServer::start().await;
    let _guard = manager(&server, "cron").await;
    let site = start(&mut serve(&server, &["--host", "locks.example"])).await;
    for (headers, status) in [
        (format!("Host: {}\r\n", site.address), 200),
        (format!("Host: localhost:{}\r\n", site.address.port()), 200),
        ("Host: locks.example\r\n".to_owned(), 200),
        ("Host: evil.example\r\n".to_owned(), 403),
        (String::new(), 403),
        (
            format!("Host: {}\r\nSec-Fetch-Site: cross-site\r\n", site.address),
            403,
        ),
    ] {
        let told = site.ask("GET /api/picture", &headers, "").await;
        assert_eq!(told.status, status, "{headers}: {}", told.body);
        let head = told.head.to_ascii_lowercase();
        for part in [
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(part), "no `{part}`: {head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
}
