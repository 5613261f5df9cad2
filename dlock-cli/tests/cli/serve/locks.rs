//! The locks that the page shows, and releases.

use std::fs;

use dlock::LockError;
use dlock_testkit::{RedisServer, eventually};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::{
        LIMIT,
        reads::{manager, scene, set},
    },
    client::{Answer, Site},
    serve, start,
};

const TOKEN: &str = "a-token-of-this-test";

fn is_live(told: &Value) -> bool {
    told["picture"]["state"] == "live"
}

#[tokio::test]
async fn locks_are_listed_and_followed() {
    let server = RedisServer::start().await;
    let _scene = scene(&server).await;
    set(&server, b"dlock:{<b>..%2F\xe2\x80\xae}", b"foreign").await;
    let site = start(&mut serve(&server, &["--namespace", "dlock"])).await;
    let mut events = site
        .events("api/picture/events?sort=waiters&order=desc")
        .await;
    let told = events
        .until("the waiter", |told| told["locks"][0]["waiters"] == 1)
        .await;
    let first = &told["locks"][0];
    assert_eq!(first["key"], "order:1");
    assert!(
        first["holder"].as_str().unwrap().starts_with("billing@"),
        "{first}"
    );
    assert!(
        first["function"].as_str().unwrap().ends_with("settle"),
        "{first}"
    );
    assert_eq!(told["locks"][1]["holder"], "(third-party client)");
    assert_eq!(told["locks"][1]["ttl_ms"], Value::Null);
    assert_eq!(told["totals"]["locks"], 2);
    assert_eq!(told["totals"]["processes"], 2);
    assert_eq!(told["server"]["namespace"], "dlock");
    assert_eq!(
        told["server"]["name"],
        format!("127.0.0.1:{}", server.port())
    );
    assert!(told["server"]["version"].is_string());
    assert_eq!(told["can_unlock"], false);
    assert_eq!(told["cannot"], json!([]));

    let hostile = "%3Cb%3E..%252F%E2%80%AE";
    let found = site.json(&format!("api/picture?filter={hostile}")).await;
    assert_eq!(found["list"]["matching"], 1, "{found:#}");
    assert_eq!(found["locks"][0]["key"], "<b>..%2F\u{202e}");
    let lock = site.json(&format!("api/lock?key={hostile}")).await;
    assert_eq!(lock["lock"]["holders"][0]["handle"], Value::Null);
    let paged = site.json("api/picture?per=1&page=2&filter=*").await;
    assert_eq!(paged["locks"][0]["key"], "order:1");

    let lock = site.json("api/lock?key=order%3A1").await;
    let (holder, waiter) = (&lock["lock"]["holders"][0], &lock["lock"]["waiters"][0]);
    assert_eq!(holder["process"]["application"], "billing");
    assert_eq!(waiter["process"]["application"], "mail");
    assert_eq!(waiter["is_alive"], true);
    assert!(holder["ttl_ms"].as_u64().unwrap() <= 60_000);

    let processes = site.json("api/processes").await;
    let processes = processes["processes"].as_array().unwrap();
    let counts = processes
        .iter()
        .map(|it| (&it["application"], &it["holds"], &it["waits"]));
    let (zero, one) = (json!(0), json!(1));
    let (billing, mail) = (json!("billing"), json!("mail"));
    // Third-party clients have no names: they are one row.
    let expected = [
        (&billing, &one, &zero),
        (&mail, &zero, &one),
        (&Value::Null, &one, &zero),
    ];
    assert_eq!(counts.collect::<Vec<_>>(), expected);

    let doctor = site.json("api/doctor").await;
    let groups = doctor["servers"].as_array().unwrap();
    let findings = groups
        .iter()
        .flat_map(|it| it["findings"].as_array().unwrap());
    let remedies = findings.filter(|it| it["remedy"].is_string()).count();
    assert!(remedies > 0, "a server of a test keeps no data: {doctor:#}");

    // A lock that comes is there with the next picture.
    let manager = manager(&server, "cron").await;
    let mut one = site.events("api/lock/events?key=new").await;
    one.until("the free lock", |told| {
        is_live(told) && told["lock"].is_null()
    })
    .await;
    let guard = manager.lock("new").acquire().await.unwrap();
    let held = |told: &Value| !told["lock"].is_null();
    let told = one.until("the holder", held).await;
    assert_eq!(
        told["lock"]["holders"][0]["token"],
        guard.fencing_token().to_string()
    );
    let listed = |told: &Value| told["totals"]["locks"] == 3;
    events.until("the new lock", listed).await;
    guard.release().await.unwrap();
    let ended =
        |told: &Value| told["lock"].is_null() && told["history"]["holds"][0]["end"] == "released";
    let told = one.until("the end", ended).await;
    let label = &told["history"]["holds"][0]["label"];
    assert!(label.as_str().unwrap().starts_with("cron@"), "{told:#}");
}

#[tokio::test]
async fn all_browsers_cause_one_reading() {
    let server = RedisServer::start().await;
    let site = start(&mut serve(&server, &[])).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut events = site.events("api/picture/events").await;
        events.until("a picture", is_live).await;
        streams.push(events);
    }
    let before = server.command_count("scan").await;
    let mut taken = String::new();
    let mut pictures = 0;
    while pictures < 10 {
        let told = streams[0].next().await.unwrap();
        let now = told["picture"]["taken"].as_str().unwrap().to_owned();
        pictures += u64::from(now != taken);
        taken = now;
    }
    let asked = server.command_count("scan").await - before;
    // A reader that is late does not see each picture, so the machine may be as slow as it wants with these two:
    let read = site.json("api/picture").await;
    assert!(is_live(&read));
    // A picture of the known locks alone, during a scan that a late server prolongs, has no scan.
    assert!(asked > 0, "{asked} for {pictures}");
    assert!(
        asked <= 4 * pictures,
        "each browser reads by itself: {asked} for {pictures}"
    );
    drop(streams);
    eventually(LIMIT, "nothing is read without a browser", async || {
        let before = server.command_count("scan").await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        server.command_count("scan").await == before
    })
    .await;
}

async fn release(site: &Site, headers: &str, wanted: &Value) -> Answer {
    let address = site.address;
    let headers = format!("Host: {address}\r\nContent-Type: application/json\r\n{headers}");
    site.ask("POST /api/unlock", &headers, &wanted.to_string())
        .await
}

#[tokio::test]
async fn a_lock_is_released_with_the_token_and_the_key_and_it_is_logged() {
    let server = RedisServer::start().await;
    let billing = manager(&server, "billing").await;
    let guard = billing.lock("job/\u{202e}1").acquire().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let file = file.to_str().unwrap();
    let site = start(&mut serve(
        &server,
        &["--allow-unlock", "--token-file", file],
    ))
    .await;
    assert!(!site.worker.stdout().contains(TOKEN));
    assert_eq!(site.json("api/picture").await["can_unlock"], true);
    let shown = site.json("api/lock?key=job%2F%E2%80%AE1").await;
    let holder = &shown["lock"]["holders"][0];
    let wanted = json!({
        "key": "job/\u{202e}1", "typed": "job/\u{202e}1", "handle": holder["handle"], "token": holder["token"]
    });
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    let mut mistyped = wanted.clone();
    mistyped["typed"] = "job/1".into();
    for (headers, wanted, status) in [
        ("", &wanted, 401),
        ("Authorization: Bearer a-token-of-another\r\n", &wanted, 401),
        (
            &format!("{right}Origin: http://evil.example\r\n"),
            &wanted,
            403,
        ),
        (
            &format!("{right}Sec-Fetch-Site: cross-site\r\n"),
            &wanted,
            403,
        ),
        (&right, &mistyped, 409),
    ] {
        let refused = release(&site, headers, wanted).await;
        assert_eq!(refused.status, status, "{}", refused.body);
        assert!(refused.json()["error"].is_string());
    }
    guard.ensure_held().expect("nothing was released");
    let origin = format!(
        "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n",
        site.address
    );
    // As a proxy with a login sends it, with what it claims of the client.
    let proxied = format!(
        "Authorization: Basic b3A6c2VjcmV0\r\nX-Dlock-Token: {TOKEN}\r\nX-Forwarded-For: 10.0.0.9\r\n\
         X-Forwarded-User: op\" outcome=x\r\n"
    );
    let done = release(&site, &format!("{proxied}{origin}"), &wanted).await;
    assert_eq!(done.json()["outcome"], "freed", "{}", done.body);
    let lost = timeout(LIMIT, guard.lost()).await.expect("it is notified");
    assert!(matches!(lost, LockError::Lost { .. }));
    let again = release(&site, &right, &wanted).await;
    assert_eq!(again.json()["outcome"], "changed");
    eventually(LIMIT, "it is logged", async || {
        site.worker.stderr().contains("outcome=\"freed\"")
    })
    .await;
    let log = site.worker.stderr();
    let line = log.lines().find(|line| line.contains("freed")).unwrap();
    for part in [
        "WARN",
        "force-release",
        "peer=127.0.0.1:",
        "billing@",
        "job/\\u{202e}1",
        r#"claimed="10.0.0.9 op\" outcome=x""#,
    ] {
        assert!(line.contains(part), "no `{part}`: {line}");
    }
    assert!(!log.contains(TOKEN) && !log.contains('\u{202e}'), "{log:?}");
    assert!(log.contains("wrong token"), "{log}");
}

#[tokio::test]
async fn guesses_of_the_token_are_refused_and_logged_once() {
    let server = RedisServer::start().await;
    let billing = manager(&server, "billing").await;
    let guard = billing.lock("job").acquire().await.unwrap();
    let mut command = serve(&server, &["--allow-unlock"]);
    let site = start(command.env("DLOCK_SERVE_TOKEN", TOKEN)).await;
    let shown = site.json("api/lock?key=job").await;
    let holder = &shown["lock"]["holders"][0];
    let wanted = json!({
        "key": "job", "typed": "job", "handle": holder["handle"], "token": holder["token"]
    });
    let give = async |token: &str| {
        release(
            &site,
            &format!("Authorization: Bearer {token}\r\n"),
            &wanted,
        )
        .await
    };
    for number in 0..5 {
        let refused = give(&format!("a-guess-of-this-test-{number}")).await;
        assert_eq!(refused.status, 401, "{}", refused.body);
    }
    for _ in 0..3 {
        let refused = give("a-guess-of-this-test").await;
        assert_eq!(refused.status, 429, "{}", refused.body);
        let head = refused.head.to_ascii_lowercase();
        assert!(head.contains("retry-after: "), "{head}");
    }
    guard.ensure_held().expect("nothing was released");
    let log = || site.worker.stderr();
    eventually(LIMIT, "it is logged", async || {
        log().contains("too many wrong tokens")
    })
    .await;
    assert_eq!(log().matches("too many wrong tokens").count(), 1);
    assert_eq!(log().matches("WARN").count(), 6, "{}", log());
    let done = give(TOKEN).await;
    assert_eq!(done.json()["outcome"], "freed", "{}", done.body);
}

#[tokio::test]
async fn a_token_is_drawn_or_given() {
    let server = RedisServer::start().await;
    let site = start(&mut serve(&server, &["--allow-unlock"])).await;
    let line = site
        .worker
        .line("The token to release locks: ", LIMIT)
        .await;
    let drawn = line.rsplit(' ').next().unwrap();
    assert_eq!(drawn.len(), 32, "{line}");
    let wanted = json!({"key": "free", "typed": "free", "handle": null, "token": "4096"});
    let done = release(
        &site,
        &format!("Authorization: Bearer {drawn}\r\n"),
        &wanted,
    )
    .await;
    assert_eq!(done.json()["outcome"], "changed");

    let mut command = serve(&server, &["--allow-unlock"]);
    let site = start(command.env("DLOCK_SERVE_TOKEN", TOKEN)).await;
    let done = release(
        &site,
        &format!("Authorization: Bearer {TOKEN}\r\n"),
        &wanted,
    )
    .await;
    assert_eq!(done.json()["outcome"], "changed");
    assert!(
        !site.worker.stdout().contains("token"),
        "{}",
        site.worker.stdout()
    );

    let site = start(&mut serve(&server, &[])).await;
    let refused = release(&site, "", &wanted).await;
    assert_eq!(
        refused.status, 403,
        "the page is read-only without the option"
    );
}
