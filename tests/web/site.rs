//! A shop that either framework serves: the shared state of its handlers, and a client for the tests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dlock::{LockError, LockManager, web::Problem};
use dlock_testkit::{RedisServer, eventually};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{actix_site, axum_site, common::LIMIT};

/// The framework that serves the shop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framework {
    Axum,
    /// Whether the handler continues after the client has closed its half of the connection. This is the default of
    /// actix-web.
    Actix {
        half_closed: bool,
    },
}

impl Framework {
    pub(crate) const BOTH: [Self; 2] = [Self::Axum, Self::Actix { half_closed: false }];
}

/// The shared state of the handlers: `State` of axum, `web::Data` of actix-web.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) locks: LockManager,
    /// The events of the bodies, in order.
    diary: Arc<Mutex<Vec<&'static str>>>,
    /// Bodies with `pause` wait here.
    gate: Arc<Semaphore>,
}

impl Shop {
    /// The work of a handler. A cancelled body writes `cancelled` to the diary when it is dropped.
    pub(crate) async fn work(&self, pause: bool) {
        let mut end = End {
            shop: self.clone(),
            what: "cancelled",
        };
        self.note("began");
        if pause {
            self.gate
                .acquire()
                .await
                .expect("it is never closed")
                .forget();
        }
        end.what = "ended";
    }

    fn note(&self, what: &'static str) {
        self.diary.lock().unwrap().push(what);
    }

    pub(crate) fn diary(&self) -> Vec<&'static str> {
        self.diary.lock().unwrap().clone()
    }

    pub(crate) async fn until(&self, what: &'static str) {
        eventually(LIMIT, what, async || self.diary().contains(&what)).await;
    }

    pub(crate) fn let_one_go_on(&self) {
        self.gate.add_permits(1);
    }
}

struct End {
    shop: Shop,
    what: &'static str,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shop.note(self.what);
    }
}

#[derive(Deserialize)]
pub(crate) struct Wish {
    #[serde(default)]
    pub(crate) coupon: String,
    #[serde(default)]
    pub(crate) pause: bool,
}

#[derive(Deserialize)]
pub(crate) struct Payment {
    pub(crate) cents: u64,
}

#[derive(Serialize)]
pub(crate) struct Receipt {
    pub(crate) shop: String,
    pub(crate) order: u64,
    pub(crate) cents: u64,
}

/// The error of an application; one of its variants is a lock error.
#[derive(Debug)]
pub(crate) enum AppError {
    Lock(LockError),
    SoldOut,
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl std::fmt::Display for AppError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::SoldOut => f.write_str("sold out"),
        }
    }
}

/// Adds an application's member to every response for a lock error.
pub(crate) fn problem(error: &LockError) -> Problem {
    Problem::of(error).with_member("support", "https://shop.example/help")
}

/// A shop with its own Redis server, behind a socket.
pub(crate) struct Site {
    pub(crate) redis: RedisServer,
    pub(crate) shop: Shop,
    pub(crate) port: u16,
    client: reqwest::Client,
    /// When it is dropped, the HTTP server ends.
    _server: tokio::task::JoinSet<()>,
}

impl Site {
    pub(crate) async fn start(framework: Framework) -> Self {
        let redis = RedisServer::start().await;
        let locks = LockManager::builder()
            .application("S3CR3T")
            .response_timeout(Duration::from_secs(5))
            .connect(&redis.url())
            .await
            .unwrap();
        let shop = Shop {
            locks,
            diary: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut server = tokio::task::JoinSet::new();
        match framework {
            Framework::Axum => axum_site::serve(&mut server, listener, shop.clone()),
            Framework::Actix { half_closed } => {
                actix_site::serve(&mut server, listener, shop.clone(), half_closed);
            }
        }
        Self {
            redis,
            shop,
            port,
            client: reqwest::Client::new(),
            _server: server,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.client.get(self.url(path))).await
    }

    pub(crate) async fn head(&self, path: &str) -> Answer {
        self.send(self.client.head(self.url(path))).await
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        let request = self.client.post(self.url(path));
        self.send(request.json(&serde_json::json!({ "cents": 900 })))
            .await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = crate::common::soon(request.send()).await.unwrap();
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }

    /// The locks on the server, without their queues and fences.
    pub(crate) async fn locks(&self) -> Vec<String> {
        let mut keys = self.redis.keys("dlock:{*}").await;
        keys.retain(|key| key.ends_with('}'));
        keys
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn member(&self, name: &str) -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        body[name].clone()
    }

    /// Asserts that the response contains none of `secrets`.
    #[track_caller]
    pub(crate) fn assert_tells_nothing(&self, secrets: &[&str]) {
        // A time of day may contain the digits of a secret.
        let mut headers = self.headers.clone();
        headers.remove("date");
        let all = format!("{headers:?} {}", self.body);
        for secret in secrets {
            assert!(!all.contains(secret), "`{secret}` in {all}");
        }
    }
}
