//! The commands over ZooKeeper.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests may fail as tests do"
)]

mod doctor;
mod reads;
#[cfg(feature = "zookeeper-tls")]
mod tls;

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder, store::StoreOptions};
use dlock_testkit::ZooKeepers;
use dlock_zookeeper::{ZooKeeper, admin::ZooKeeperInspector};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

use super::{
    LIMIT,
    cases::{self, Claim, Place},
};

/// The longest session that the servers allow.
const SESSION: Duration = Duration::from_secs(120);

fn builder(application: &str) -> LockManagerBuilder {
    LockManager::builder()
        .scheme("zookeeper", ZooKeeper)
        .application(application)
        .ttl(Duration::from_secs(60))
        .response_timeout(Duration::from_secs(10))
        .connect_timeout(LIMIT)
}

fn staying() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

/// A namespace of a test's own, on servers that all tests use.
struct Namespace {
    servers: &'static ZooKeepers,
    name: &'static str,
    /// A client beside dlock's own.
    client: Client,
}

impl Namespace {
    async fn new(name: &'static str) -> Self {
        let servers = ZooKeepers::shared().await;
        let host = format!("127.0.0.1:{}", servers.port(0));
        // The machine of the tests is slow at times.
        let client = Client::connector()
            .with_session_timeout(SESSION)
            .with_connection_timeout(2 * LIMIT);
        let client = client.connect(&host).await.unwrap();
        Self {
            servers,
            name,
            client,
        }
    }

    fn directory(&self, key: &str) -> String {
        let key = key.replace('/', "%2F");
        format!("/{}/lock:{key}", self.name)
    }

    /// Creates a node that stays, unless it is there.
    async fn create(&self, path: &str) {
        match self.client.create(path, b"", &staying()).await {
            Ok(_) | Err(Error::NodeExists) => {}
            Err(error) => panic!("{path}: {error}"),
        }
    }

    async fn claim(&self, key: &str, number: u64) -> String {
        let owner = format!("{number:032x}.1");
        let claims = self.claims(key).await;
        let found = claims.into_iter().find(|it| Self::owner(it) == owner);
        format!("{}/{}", self.directory(key), found.unwrap())
    }
}

impl Place for Namespace {
    const STORE: &'static str = "ZooKeeper";
    /// The session lasts longer by a tick and some seconds.
    const LONGEST: Duration = Duration::from_secs(110);

    fn url(&self) -> String {
        // One server, so that what a client has written is read.
        ZooKeepers::url_of(&format!("127.0.0.1:{}", self.servers.port(0)), SESSION)
    }

    fn name(&self) -> &'static str {
        self.name
    }

    async fn manager(&self, application: &str) -> LockManager {
        let builder = builder(application).namespace(self.name);
        builder.connect(&self.url()).await.unwrap()
    }

    async fn claims(&self, key: &str) -> Vec<String> {
        self.client.sync("/").await.unwrap();
        let directory = self.directory(key);
        let names = self.client.list_children(&directory).await;
        let mut names = names.unwrap_or_default();
        names.sort_by_key(|name| name.rsplit_once('-').unwrap().1.parse::<u32>().unwrap());
        names
    }

    fn owner(claim: &str) -> &str {
        claim.split_once('-').unwrap().0
    }

    async fn put(&self, key: &str, number: u64, mode: &str, claim: Claim) {
        let directory = self.directory(key);
        self.create(&format!("/{}", self.name)).await;
        self.create(&directory).await;
        let text = match claim {
            Claim::Holds(label) => format!("1 1000 0 60000 1001 1 {label} - -"),
            Claim::Waits(label) => format!("1 1000 0 60000 - - - - {label}"),
        };
        let path = format!("{directory}/{number:032x}.1-{mode}-");
        let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
        let created = self.client.create(&path, text.as_bytes(), &options);
        created.await.unwrap();
    }

    async fn delete(&self, key: &str, number: u64) {
        let path = self.claim(key, number).await;
        self.client.delete(&path, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_command_runs_under_a_lock_and_a_second_one_is_told_by_whom() {
    cases::a_command_runs_and_a_second_one_is_told_by_whom(Namespace::new("run").await).await;
}

#[tokio::test]
async fn a_command_may_have_a_ttl_for_a_short_session() {
    let namespace = Namespace::new("short").await;
    let host = format!("127.0.0.1:{}", namespace.servers.port(0));
    // Too short for the usual TTL.
    let url = ZooKeepers::url_of(&host, Duration::from_secs(30));
    let words = ["run", "--ttl", "20s", "key", "true"];
    let mut command = cases::at(&url, namespace.name, &words);
    super::call(&mut command).await.with(0);
}

#[tokio::test]
async fn a_benchmark_measures_and_leaves_no_locks() {
    cases::a_benchmark_measures_and_leaves_no_locks(Namespace::new("bench").await).await;
}

#[tokio::test]
async fn the_next_waiter_holds_the_lock_and_the_old_holder_is_notified() {
    let namespace = Namespace::new("unlock").await;
    cases::the_next_waiter_holds_the_lock_and_the_old_holder_is_notified(namespace).await;
}

#[tokio::test]
async fn changes_of_locks_are_printed() {
    cases::changes_of_locks_are_printed(Namespace::new("watched").await).await;
}

#[tokio::test]
async fn grants_to_waiters_are_told_and_nothing_else() {
    let namespace = Namespace::new("grants").await;
    let mut options = StoreOptions::default();
    namespace.name.clone_into(&mut options.namespace);
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    let inspector = ZooKeeperInspector::connect(&namespace.url(), &options).await;
    cases::grants_to_waiters_are_told_and_nothing_else(namespace, &inspector.unwrap()).await;
}

#[tokio::test]
async fn a_browser_shows_holders_and_waiters() {
    cases::a_browser_shows_holders_and_waiters(Namespace::new("browser").await).await;
}
