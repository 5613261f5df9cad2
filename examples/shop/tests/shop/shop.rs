//! A running copy of the shop, with helpers for tests.

use std::{path::Path, process::Command, time::Duration};

use dlock_testkit::{RedisServer, Worker, eventually};
use reqwest::{Client, Response};
use serde_json::{Value, json};

/// Much longer than any step takes, also on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

pub(crate) struct Shop {
    pub(crate) process: Worker,
    pub(crate) address: String,
    client: Client,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<u64>,
    pub(crate) text: String,
}

impl Shop {
    /// Starts a copy with locks in `server`, or in its memory, and waits until it serves.
    pub(crate) async fn start(
        server: Option<&RedisServer>,
        database: &Path,
        arguments: &[&str],
    ) -> Self {
        let url = server.map(RedisServer::url);
        Self::start_at(url.as_deref(), database, arguments).await
    }

    /// The same with locks at the servers of a URL.
    pub(crate) async fn start_at(url: Option<&str>, database: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command.args(["--listen", "127.0.0.1:0", "--database"]);
        command.arg(database).args(arguments);
        // The environment of the tests may name another server.
        command.env_remove("DLOCK_URL").env_remove("RUST_LOG");
        command.envs(url.map(|url| ("DLOCK_URL", url)));
        let process = Worker::spawn(&mut command);
        let line = process.line(" is at http://", LIMIT).await;
        let (_, address) = line.split_once(" is at ").unwrap();
        Self {
            address: address.to_owned(),
            process,
            client: Client::new(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = self.client.get(format!("{}{path}", self.address));
        Answer::of(request.send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        let request = self.client.post(format!("{}{path}", self.address));
        Answer::of(request.send().await.unwrap()).await
    }

    /// Sends a new order and returns the response.
    pub(crate) async fn try_order(&self, item: &str, cents: i64) -> Answer {
        let request = self.client.post(format!("{}/api/orders", self.address));
        let request = request.json(&json!({ "item": item, "cents": cents }));
        Answer::of(request.send().await.unwrap()).await
    }

    pub(crate) async fn order(&self, item: &str) -> i64 {
        let answer = self.try_order(item, 1250).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_i64().unwrap()
    }

    pub(crate) async fn state(&self) -> Value {
        let answer = self.get("/api/state").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// An order as the page shows it.
    pub(crate) async fn look(&self, order: i64) -> Value {
        let state = self.state().await;
        let mut orders = state["orders"].as_array().unwrap().iter();
        orders.find(|it| it["id"] == order).unwrap().clone()
    }

    pub(crate) async fn is_paid(&self, order: i64) -> bool {
        self.look(order).await["paid_by"].is_string()
    }

    /// Waits until the log has a line with all of these parts.
    pub(crate) async fn logs(&self, parts: &[&str]) {
        eventually(LIMIT, &format!("the log says {parts:?}"), async || {
            let log = self.process.stderr();
            log.lines()
                .any(|line| parts.iter().all(|part| line.contains(part)))
        })
        .await;
    }

    /// Waits until a charge of the order has been requested from the provider.
    pub(crate) async fn asks_the_provider(&self, order: i64) {
        let order = format!("order={order}");
        self.logs(&["charge requested", &order]).await;
    }
}

impl Answer {
    async fn of(response: Response) -> Self {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        Self {
            status: response.status().as_u16(),
            content_type: header("content-type").unwrap_or_default(),
            retry_after: header("retry-after").map(|seconds| seconds.parse().unwrap()),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// Returns `true` if the server of the locks has not answered in time: nothing was paid.
    pub(crate) fn has_no_lock(&self) -> bool {
        self.status == 503 && self.json()["code"] == "unavailable"
    }

    /// `paid`, `already-paid`, or `busy` if the order was being paid. Other responses fail the test.
    #[track_caller]
    pub(crate) fn outcome(&self) -> String {
        if self.status == 200 {
            return self.json()["outcome"].as_str().unwrap().to_owned();
        }
        assert_eq!(self.status, 409, "{self:?}");
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        assert!(
            self.retry_after.is_some_and(|seconds| seconds >= 1),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["status"], 409, "{self:?}");
        // The response must contain neither the key nor its holder.
        for secret in ["shop:", "order:", "shop-", "127.0.0.1"] {
            assert!(!self.text.contains(secret), "{self:?}");
        }
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// The keys in the server, without fences and process entries.
pub(crate) async fn left_in(server: &RedisServer) -> Vec<String> {
    let mut keys = server.keys("*").await;
    keys.retain(|key| !key.contains(":fence:") && !key.contains(":process:"));
    keys
}

pub(crate) async fn nothing_is_left_in(server: &RedisServer) {
    eventually(LIMIT, "no lock and no queue is left", async || {
        left_in(server).await.is_empty()
    })
    .await;
    assert!(!server.keys("*").await.is_empty(), "there were locks");
}
