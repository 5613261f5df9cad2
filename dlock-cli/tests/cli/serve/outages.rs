//! A store that is not there, the end of the program, and addresses that cannot be used.

use std::net::TcpListener;

use dlock_testkit::{RedisServer, Worker};
use rustix::process::Signal;
use serde_json::Value;

use super::{
    super::{LIMIT, call, clean, ended, run_signals::send},
    serve, start,
};

fn is(state: &str) -> impl Fn(&Value) -> bool {
    move |told| told["picture"]["state"] == state
}

#[tokio::test]
async fn the_page_stays_while_the_store_goes_and_comes_back() {
    let server = RedisServer::start().await;
    let site = start(&mut serve(&server, &[])).await;
    let mut events = site.events("api/picture/events").await;
    events.until("a picture", is("live")).await;
    server.kill();
    let away = events.until("the outage", is("away")).await;
    assert!(away["picture"]["since"].is_string() && away["picture"]["age_ms"].is_u64());
    let reason = away["picture"]["reason"].as_str().unwrap();
    assert!(reason.contains(&server.port().to_string()), "{reason}");
    assert_eq!(site.get("locks").await.status, 200);
    let doctor = site.json("api/doctor").await;
    assert!(doctor.to_string().contains("\"broken\""), "{doctor:#}");
    server.restart().await;
    events.until("the return", is("live")).await;
}

#[tokio::test]
async fn the_page_may_start_before_the_store() {
    let server = RedisServer::start().await;
    server.kill();
    let site = start(&mut serve(&server, &[])).await;
    let mut events = site.events("api/picture/events").await;
    let away = events.until("the outage", is("away")).await;
    assert_eq!(away["picture"]["taken"], Value::Null);
    server.restart().await;
    events.until("the first picture", is("live")).await;
}

#[tokio::test]
async fn it_ends_on_a_signal_though_a_browser_looks() {
    let server = RedisServer::start().await;
    for signal in [Signal::TERM, Signal::INT] {
        let site = start(&mut serve(&server, &[])).await;
        let mut events = site.events("api/picture/events").await;
        events.until("a picture", is("live")).await;
        send(&site.worker, signal);
        while events.next().await.is_some() {}
        ended(&site.worker).await.with(0);
    }
}

#[tokio::test]
async fn mistakes_are_named_at_the_start() {
    let server = RedisServer::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (arguments, code, text) in [
        (
            &["--listen", &address][..],
            70,
            "another program listens there",
        ),
        (&["--listen", "8330"], 2, "a host and a port"),
        (&["--host", "https://locks.example"], 2, "the name alone"),
        (&["--interval", "1ms"], 2, "100ms to 1h"),
        (&["--token-file", "x"], 2, "--allow-unlock"),
        (
            &["--allow-unlock", "--token-file", "/does/not/exist"],
            2,
            "/does/not/exist",
        ),
    ] {
        let words = [&["serve"], arguments].concat();
        let failed = call(&mut super::dlock(&server, &words)).await.with(code);
        assert!(failed.stderr.contains(text), "{}", failed.stderr);
    }
    let mut short = serve(&server, &["--allow-unlock"]);
    let failed = call(short.env("DLOCK_SERVE_TOKEN", "short")).await.with(2);
    assert!(failed.stderr.contains("at least 16"), "{}", failed.stderr);
    let mut easy = serve(&server, &["--allow-unlock"]);
    let failed = call(easy.env("DLOCK_SERVE_TOKEN", "1234".repeat(4)));
    let failed = failed.await.with(2);
    assert!(
        failed.stderr.contains("easy to guess") && failed.stderr.contains("32 bits of the 40"),
        "{}",
        failed.stderr
    );
    let mut wrong = serve(&server, &[]);
    let failed = call(wrong.env("DLOCK_URL", "mysql://localhost"))
        .await
        .with(2);
    assert!(failed.stderr.contains("mysql"), "{}", failed.stderr);
}

#[tokio::test]
async fn an_address_that_others_reach_is_no_secret() {
    let server = RedisServer::start().await;
    let mut command = super::dlock(&server, &["serve", "--json", "--listen", "0.0.0.0:0"]);
    clean(&mut command);
    let worker = Worker::spawn(command.env("DLOCK_URL", server.url()));
    let line = worker.line("\"url\"", LIMIT).await;
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    dlock_testkit::eventually(LIMIT, "it says so", async || {
        worker
            .stderr()
            .contains("other machines can reach 0.0.0.0:")
    })
    .await;
    send(&worker, Signal::TERM);
    ended(&worker).await.with(0);
}
