//! A store goes on when what it runs on does not: its runtime ends, or what it calls panics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dlock_runtime::{
    LockManager,
    store::{
        LockStore, ReleaseRequest, RenewBatch,
        redis::{Credentials, CredentialsProvider, RedisConfig, RedisStore},
    },
};
use dlock_testkit::{Cluster, RedisServer, Sentinels, eventually};
use tokio::runtime::{Builder, Runtime};
use tracing::{
    Event, Level, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

use crate::{DEADLINE, key, owner, renewal, run, take, try_take};

/// As a test that is run by `#[tokio::test]` has it.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// What becomes of a store at `url` whose runtime ends again and again.
fn outlives_its_runtimes(url: impl Into<String>) {
    let config = RedisConfig::new(url).response_timeout(DEADLINE);
    let (lock, me) = (key("k"), owner());
    let first = runtime();
    let (store, fence) = first.block_on(async {
        let store = RedisStore::connect(config).await.unwrap();
        let fence = take(&store, &lock, me).await;
        (store, fence)
    });
    drop(first);
    for round in 0..3 {
        let next = runtime();
        next.block_on(async {
            // At the first attempt: whoever asks waits for the connection.
            let renewed = store.renew_one(renewal(&lock, me)).await;
            assert!(renewed.is_ok(), "round {round}: {renewed:?}");
            assert_eq!(
                take(&store, &lock, me).await,
                fence,
                "broken promise: the owner has another lease: round {round}"
            );
            let renewals = [renewal(&lock, me), renewal(&lock, me)];
            let answers = store
                .renew(RenewBatch::new(&renewals).limit(DEADLINE))
                .await;
            assert!(answers.iter().all(Result::is_ok), "{round}: {answers:?}");
        });
    }
    runtime().block_on(async { store.release(ReleaseRequest::new(&lock, me)).await.unwrap() });
}

#[test]
fn a_store_goes_on_on_the_runtime_of_who_asks() {
    let home = runtime();
    let server = home.block_on(RedisServer::start());
    for protocol in ["resp3", "resp2"] {
        outlives_its_runtimes(format!("{}?protocol={protocol}", server.url()));
    }
}

#[test]
fn a_store_that_waits_for_replicas_goes_on_on_the_runtime_of_who_asks() {
    let home = runtime();
    let all = home.block_on(Sentinels::start_small());
    outlives_its_runtimes(format!("{}?min_replicas=1", all.url()));
}

#[test]
fn a_cluster_goes_on_on_the_runtime_of_who_asks() {
    let home = runtime();
    let cluster = home.block_on(Cluster::start(2, 0));
    outlives_its_runtimes(cluster.url());
}

/// As one static manager is shared by many tests, each with a runtime of its own.
#[test]
fn a_manager_is_shared_by_runtimes_that_come_and_go() {
    let home = runtime();
    let server = home.block_on(RedisServer::start());
    let first = runtime();
    let connected = first.block_on(LockManager::builder().connect(&server.url()));
    let manager = connected.unwrap();
    drop(first);
    let introductions = async || {
        let mut behind = server.connection().await;
        let keys = redis::cmd("KEYS").arg("dlock:process:*").to_owned();
        keys.query_async::<Vec<String>>(&mut behind).await.unwrap()
    };
    for _ in 0..3 {
        runtime().block_on(async {
            for key in introductions().await {
                run(&mut server.connection().await, &format!("DEL {key}")).await;
            }
            let guard = manager.lock("k").acquire().await.unwrap();
            let waits = tokio::spawn({
                let manager = manager.clone();
                async move { manager.lock("k").acquire().await.unwrap().release().await }
            });
            guard.release().await.unwrap();
            waits.await.unwrap().unwrap();
            eventually(DEADLINE, "operators are told again", async || {
                introductions().await.len() == 1
            })
            .await;
        });
    }
}

/// Panics at every event that is no detail, as `println!` does when its output is closed.
#[derive(Clone, Default)]
struct Panics(Arc<AtomicUsize>);

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "dlock" && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("nobody reads `{}`", event.metadata().name());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_log_that_panics_costs_no_connection() {
    let server = RedisServer::start().await;
    let (_quiet, _capturing) = crate::log::Log::capture();
    let panics = Panics::default();
    let _panicking = tracing::subscriber::set_default(panics.clone());
    let store = crate::connect(&server.url()).await;
    let (lock, me) = (key("k"), owner());
    let mut behind = server.connection().await;
    for round in 1..4 {
        run(&mut behind, "CLIENT KILL TYPE pubsub").await;
        eventually(DEADLINE, "somebody wants to tell of it", async || {
            // That it was lost, and that it is there again.
            panics.0.load(Ordering::Relaxed) >= 2 * round
        })
        .await;
        eventually(DEADLINE, "it works again", async || {
            try_take(&store, &lock, me).await.is_ok()
        })
        .await;
    }
}

/// Panics when it is dropped.
struct Fragile(Arc<AtomicUsize>);

impl Drop for Fragile {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("dropped");
    }
}

#[tokio::test]
async fn a_provider_of_credentials_that_panics_costs_no_connection() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]).await;
    let (asked, panics) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = panics.clone();
    let provider = CredentialsProvider::new(move || {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        assert!(number != 1, "at once");
        let fragile = (number == 2).then(|| Fragile(counted.clone()));
        async move {
            if fragile.is_some() {
                // It panics when its time is up.
                std::future::pending::<()>().await;
            }
            Ok::<_, String>(Credentials::of_default_user("s3cret"))
        }
    });
    let config = RedisConfig::new(format!("redis://127.0.0.1:{}", server.port()))
        .credentials(provider)
        .connect_timeout(Duration::from_secs(3));
    let store = RedisStore::connect(config).await.unwrap();
    let (lock, me) = (key("k"), owner());
    let fence = take(&store, &lock, me).await;
    let mut behind = server.connection().await;
    run(&mut behind, "CLIENT KILL TYPE pubsub").await;
    eventually(DEADLINE, "it has panicked", async || {
        panics.load(Ordering::Relaxed) > 0
    })
    .await;
    eventually(DEADLINE, "it works again", async || {
        try_take(&store, &lock, me).await.is_ok()
    })
    .await;
    assert_eq!(
        take(&store, &lock, me).await,
        fence,
        "broken promise: the owner has another lease"
    );
}
