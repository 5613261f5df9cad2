//! `dlock serve` before a server of the test's own.

use std::process::Command;

use dlock::LockManager;
use dlock_testkit::{Browser, Page, RedisServer, Worker, eventually};
use serde_json::{Value, json};

use super::{LIMIT, state};

/// The arguments of a program that lets its page unlock.
pub(super) const UNLOCKS: &[&str] = &["--allow-unlock"];

pub(super) struct Site {
    pub(super) server: RedisServer,
    pub(super) serve: Worker,
    /// The address of the page, with a slash at its end.
    pub(super) url: String,
    /// The token to unlock with, if the program has drawn one.
    pub(super) token: Option<String>,
}

impl Site {
    /// Starts both.
    pub(super) async fn start(arguments: &[&str]) -> Self {
        Self::before(RedisServer::start().await, arguments).await
    }

    /// Starts the program before this server.
    pub(super) async fn before(server: RedisServer, arguments: &[&str]) -> Self {
        let (serve, told) = serve(&server, "127.0.0.1:0", arguments).await;
        let url = told["url"]
            .as_str()
            .expect("it says its address")
            .to_owned();
        let url = if url.ends_with('/') { url } else { url + "/" };
        let token = told["token"].as_str().map(str::to_owned);
        Self {
            server,
            serve,
            url,
            token,
        }
    }

    /// Starts the program again at the same address, after it was killed.
    pub(super) async fn serve_again(&mut self) {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        (self.serve, _) = serve(&self.server, address, &[]).await;
    }

    /// Opens a view in a page of its own, and waits until it shows the store.
    pub(super) async fn open(&self, view: &str) -> Page {
        let page = Browser::shared().await.open().await;
        page.go(&format!("{}{view}", self.url)).await;
        state(&page, "live").await;
        page
    }

    /// Opens a view in a page where a script runs before those of the view.
    pub(super) async fn open_with(&self, script: &str, view: &str) -> Page {
        let page = Browser::shared().await.open().await;
        page.call(
            "Page.addScriptToEvaluateOnNewDocument",
            json!({"source": script}),
        )
        .await;
        page.go(&format!("{}{view}", self.url)).await;
        page
    }

    /// A manager of an application, whose leases outlive the test.
    pub(super) async fn manager(&self, application: &str) -> LockManager {
        let builder = LockManager::builder()
            .application(application)
            .ttl(LIMIT)
            .response_timeout(LIMIT / 6)
            .connect_timeout(LIMIT);
        let connected = builder.connect(&self.server.url()).await;
        connected.expect("the server runs")
    }

    /// Writes exclusive locks of another client, whose leases outlive the test. Each has a key, a label and the number of its fence.
    pub(super) async fn write(&self, locks: impl IntoIterator<Item = (String, String)>) {
        let mut connection = self.server.connection().await;
        let mut pipe = redis::pipe();
        for (number, (key, label)) in locks.into_iter().enumerate() {
            let value = format!(
                "0123456789abcdef0123456789abcdef.{number} {} {label}",
                number + 1
            );
            pipe.cmd("SET")
                .arg(format!("dlock:{{{key}}}"))
                .arg(value)
                .arg("PX")
                .arg(900_000)
                .ignore();
        }
        pipe.exec_async(&mut connection)
            .await
            .expect("the server writes");
    }

    /// Asserts that a page has loaded nothing from elsewhere, and that the browser has not complained about it.
    pub(super) fn assert_clean(&self, page: &Page) {
        let elsewhere: Vec<_> = page
            .requests()
            .into_iter()
            .filter(|it| !it.starts_with(&self.url))
            .collect();
        assert_eq!(elsewhere, [""; 0]);
        assert_eq!(page.complaints(), [""; 0]);
    }
}

async fn serve(server: &RedisServer, address: &str, arguments: &[&str]) -> (Worker, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
    for name in [
        "DLOCK_URL",
        "DLOCK_NAMESPACE",
        "DLOCK_USER",
        "DLOCK_PASSWORD",
        "DLOCK_SERVE_TOKEN",
        "PGUSER",
        "PGPASSWORD",
    ] {
        command.env_remove(name);
    }
    command
        .env("DLOCK_URL", server.url())
        .args([
            "--json",
            "serve",
            "--interval",
            "200ms",
            "--listen",
            address,
        ])
        .args(arguments);
    let worker = Worker::spawn(&mut command);
    let mut told = Value::Null;
    eventually(LIMIT, "the program says its address", async || {
        assert!(worker.ended().is_none(), "{}", worker.stderr());
        told = serde_json::from_str(&worker.stdout()).unwrap_or_default();
        told != Value::Null
    })
    .await;
    (worker, told)
}
