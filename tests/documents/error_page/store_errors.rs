//! The kinds of a store's failure.

use std::{
    fmt::Display,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use dlock::{
    ConnectError, LockError, LockManager, LockManagerBuilder, StoreErrorKind, Wait,
    store::StoreError,
};
use dlock_testkit::{Proxy, RedisServer, Sentinels, eventually};
use futures_util::{StreamExt as _, stream};

use crate::common::{LIMIT, builder, no_redis, soon};
use crate::error_page::{KEY, OF_FORKS, PATIENCE, page::Page, refused, run};

/// An error as a user gets it.
enum Provoked {
    Lock(LockError),
    /// With what of the configuration it has to name.
    Connect(ConnectError, String),
}

impl Provoked {
    fn reason(&self) -> &StoreError {
        match self {
            Self::Lock(LockError::Unavailable { reason, .. })
            | Self::Connect(ConnectError::Unavailable { reason, .. }, _) => reason,
            Self::Lock(other) => panic!("the store has told: {other}"),
            Self::Connect(other, _) => panic!("the store was not asked: {other}"),
        }
    }

    fn text(&self) -> &dyn Display {
        match self {
            Self::Lock(error) => error,
            Self::Connect(error, _) => error,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Lock(error) => error.code(),
            Self::Connect(error, _) => error.code(),
        }
    }

    fn named(&self) -> String {
        match self {
            Self::Lock(_) => format!("`{KEY}`"),
            Self::Connect(_, named) => named.clone(),
        }
    }
}

/// Gives a server that answers the time to do so, on a machine that stands still for a second as well.
fn brief() -> LockManagerBuilder {
    builder().connect_timeout(Duration::from_secs(4))
}

/// What a manager that is connected is refused with, if it asks once.
async fn refusal(manager: &LockManager) -> LockError {
    let asked = manager.lock(KEY).wait(Wait::Never).acquire();
    asked.await.expect_err("there is no lease to be had")
}

async fn connected(url: &str) -> LockManager {
    brief().connect(url).await.unwrap()
}

/// A server that is told `words`, and then asked for a lock.
async fn after(words: &[&str]) -> LockError {
    let server = RedisServer::start().await;
    let manager = connected(&server.url()).await;
    run(&server, words).await;
    // Not once: the server may end the connection under the first question.
    let lock = manager.lock(KEY).wait(Duration::from_secs(3));
    lock.acquire()
        .await
        .expect_err("there is no lease to be had")
}

pub(crate) async fn unreachable() -> LockError {
    let (_proxy, url) = refused();
    let manager = brief().connect_lazy(&url).unwrap();
    let lock = manager.lock(KEY).wait(Duration::from_secs(2));
    lock.acquire().await.expect_err("nobody is there")
}

/// Its reply is cut off.
async fn disconnected() -> LockError {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let manager = connected(&proxy.url()).await;
    // The script is known to the server after this.
    let first = manager.lock(KEY).acquire().await.unwrap();
    first.release().await.unwrap();
    // Not the next one of all: the connection may be asked for something else before.
    proxy.cut_before_reply_to(KEY);
    refusal(&manager).await
}

async fn timed_out() -> LockError {
    let server = RedisServer::start().await;
    let manager = brief().response_timeout(PATIENCE);
    let manager = manager.connect(&server.url()).await.unwrap();
    server.pause();
    let error = refusal(&manager).await;
    server.resume();
    error
}

/// Keys of which each takes some time to load: three seconds together.
async fn loading() -> LockError {
    let server = RedisServer::start_with(&[
        "--rdbcompression",
        "no",
        "--loading-process-events-interval-bytes",
        "1024",
        "--key-load-delay",
        "20000",
    ])
    .await;
    for number in 0..150 {
        let (name, filler) = (format!("filler:{number}"), "x".repeat(4096));
        run(&server, &["SET", &name, &filler]).await;
    }
    run(&server, &["SAVE"]).await;
    server.kill();
    let manager = brief().connect_lazy(server.url()).unwrap();
    let found = std::sync::Mutex::new(None);
    let loads = eventually(LIMIT, "it says that it loads", async || {
        let error = refusal(&manager).await;
        let LockError::Unavailable { reason, .. } = &error else {
            panic!("{error}");
        };
        let is_loading = reason.kind() == StoreErrorKind::Loading;
        *found.lock().unwrap() = Some(error);
        is_loading
    });
    tokio::join!(server.restart(), loads);
    found.into_inner().unwrap().expect("it was asked")
}

/// Polled where no runtime is.
fn no_runtime() -> LockError {
    let acquiring = std::thread::spawn(|| {
        let manager = LockManager::memory();
        let acquiring = pin!(manager.lock(KEY).acquire());
        match acquiring.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome.expect_err("there is no runtime"),
            Poll::Pending => panic!("nobody would wake it"),
        }
    });
    acquiring.join().unwrap()
}

/// What is told when no manager can be made.
async fn not_connected(builder: LockManagerBuilder, url: &str) -> Provoked {
    let error = builder.connect(url).await.expect_err("it cannot be used");
    // The user and the password are left out.
    let shown = url.rsplit(['@', '/']).next().unwrap_or(url);
    Provoked::Connect(error, shown.to_owned())
}

async fn provoke(code: &str) -> Provoked {
    let error = match code {
        "unreachable" => unreachable().await,
        "disconnected" => disconnected().await,
        "timed-out" => timed_out().await,
        "read-only" => after(&["REPLICAOF", "127.0.0.1", "1"]).await,
        "loading" => loading().await,
        "out-of-memory" => after(&["CONFIG", "SET", "maxmemory", "1"]).await,
        "refused" => after(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await,
        "wrong-type" => after(&["HSET", "dlock:{order:42}", "a", "1"]).await,
        "denied" => after(&["ACL", "SETUSER", "default", "-set"]).await,
        "no-runtime" => no_runtime(),
        "too-few-replicas" => {
            let server = RedisServer::start().await;
            let url = format!("{}?min_replicas=1", server.url());
            refusal(&connected(&url).await).await
        }
        "overloaded" => {
            let manager = LockManager::builder().max_waiters_per_key(1);
            let manager = manager.connect("memory://").await.unwrap();
            let held = manager.lock(KEY).acquire().await.unwrap();
            let waiting = manager.lock(KEY).acquire();
            let mut waiting = pin!(waiting);
            let mut context = Context::from_waker(Waker::noop());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            let refused = refusal(&manager).await;
            drop(held);
            refused
        }
        code => return not_made(code).await,
    };
    Provoked::Lock(error)
}

/// Those that are noticed when a manager is made.
async fn not_made(code: &str) -> Provoked {
    let server = RedisServer::start().await;
    let address = format!("127.0.0.1:{}", server.port());
    match code {
        "unauthenticated" => not_connected(brief(), &format!("redis://me:wrong@{address}")).await,
        "no-credentials" => {
            let sealed = || async { Err("the vault is sealed") };
            not_connected(brief().credentials(sealed), &server.url()).await
        }
        "tls" => not_connected(brief(), &format!("rediss://{address}")).await,
        "bad-answer" => not_connected(brief(), &no_redis().await).await,
        "unsupported" => not_connected(brief(), &format!("redis-cluster://{address}")).await,
        "unknown-service" => {
            let all = Sentinels::start_small().await;
            not_connected(brief(), &all.url_of("nobodys")).await
        }
        other => panic!("nobody knows how to provoke `{other}`"),
    }
}

#[tokio::test]
async fn each_is_on_the_page() {
    let page = Page::read();
    let here = |code: &&&str| !OF_FORKS.contains(code);
    let codes = stream::iter(StoreErrorKind::CODES.iter().filter(here));
    // Each on servers of its own, which it mostly waits for.
    let all = codes.for_each_concurrent(4, async |code| {
        let error = soon(provoke(code)).await;
        let (reason, text) = (error.reason(), error.text());
        assert_eq!(reason.kind().code(), *code, "{text}");
        page.assert_shows(code, &text);
        page.assert_shows(error.code(), &text);
        let named = error.named();
        assert!(text.to_string().contains(&named), "no `{named}` in: {text}");
    });
    all.await;
}

/// What a message says is not said again by its kind.
#[tokio::test]
async fn advice_is_given_once() {
    let server = RedisServer::start().await;
    let address = format!("127.0.0.1:{}", server.port());
    let url = format!("redis-cluster://{address}");
    let error = brief().connect(&url).await.unwrap_err().to_string();
    assert!(error.ends_with("write `redis://` in the URL"), "{error}");
    let error = brief().connect(&no_redis().await).await.unwrap_err();
    assert_eq!(error.to_string().matches("; ").count(), 2, "{error}");
}

#[tokio::test]
async fn a_quorum_names_all_servers_that_are_down() {
    let server = RedisServer::start().await;
    let ((_one, first), (_other, second)) = (refused(), refused());
    let [first, second] = [first, second].map(|url| url.replace("redis://", ""));
    let url = format!("redlock://{first},127.0.0.1:{},{second}", server.port());
    let error = soon(brief().connect(&url)).await.unwrap_err();
    let ConnectError::Unavailable { reason, .. } = &error else {
        panic!("{error}");
    };
    for address in [first, second] {
        let address = address.trim_end_matches('/');
        assert!(
            reason.message().contains(address),
            "no {address} in: {error}"
        );
    }
    let manager = brief().connect_lazy(&url).unwrap();
    let error = soon(refusal(&manager)).await.to_string();
    assert!(
        error.contains("store 1:") && error.contains("store 3:"),
        "{error}"
    );
}
