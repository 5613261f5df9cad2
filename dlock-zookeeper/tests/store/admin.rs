//! The inspector of operators, against real servers.

mod grants;
mod look;
mod report;
mod requests;
mod rights;
mod unlock;

use std::time::Duration;

use dlock::{LockKey, LockManager};
use dlock_admin::{Inspect, LockInfo};
use dlock_runtime::store::StoreOptions;
use dlock_testkit::ZooKeepers;
use dlock_zookeeper::{ZooKeeper, admin::ZooKeeperInspector};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

use crate::world::LIMIT;

/// The longest session that the servers allow, so that the first renewal is far away.
const SESSION: Duration = Duration::from_secs(120);

/// A holder renews after a third of it: if it knows of a loss earlier, it was told.
const TTL: Duration = Duration::from_secs(110);

/// Less than the time until the first renewal.
const SOON: Duration = Duration::from_secs(30);

/// A directory of a test's own.
struct Place {
    servers: &'static ZooKeepers,
    name: &'static str,
    /// A client beside dlock's own.
    client: Client,
}

impl Place {
    async fn new(name: &'static str) -> Self {
        let servers = ZooKeepers::shared().await;
        // The machine of the tests is slow at times.
        let client = Client::connector()
            .with_session_timeout(SESSION)
            .with_connection_timeout(LIMIT);
        let host = format!("127.0.0.1:{}", servers.port(0));
        let client = client.connect(&host).await.unwrap();
        Self {
            servers,
            name,
            client,
        }
    }

    /// The URL for a user, such as `shop:hush@`.
    fn url_of(&self, login: &str) -> String {
        // One server, so that what a client has written is read.
        let hosts = format!("{login}127.0.0.1:{}/{}", self.servers.port(0), self.name);
        ZooKeepers::url_of(&hosts, SESSION)
    }

    /// A manager, which stands for a process.
    async fn manager_of(&self, application: &str, login: &str) -> LockManager {
        self.manager_at(application, &self.url_of(login)).await
    }

    async fn manager_at(&self, application: &str, url: &str) -> LockManager {
        let builder = LockManager::builder()
            .scheme("zookeeper", ZooKeeper)
            .application(application)
            .ttl(TTL)
            .response_timeout(Duration::from_secs(10))
            .connect_timeout(LIMIT);
        builder.connect(url).await.unwrap()
    }

    async fn manager(&self, application: &str) -> LockManager {
        self.manager_of(application, "").await
    }

    async fn inspector_of(&self, login: &str) -> ZooKeeperInspector {
        inspector(&self.url_of(login)).await
    }

    async fn inspector(&self) -> ZooKeeperInspector {
        self.inspector_of("").await
    }

    fn path(&self, rest: &str) -> String {
        format!("/{}{rest}", self.name)
    }

    /// Creates a node that stays until it is deleted.
    async fn create(&self, rest: &str, text: &str) {
        let (path, options) = (self.path(rest), staying());
        let created = self.client.create(&path, text.as_bytes(), &options);
        created.await.unwrap();
    }

    /// Creates a claim that stays until it is deleted, however slow the machine is.
    async fn put(&self, key: &str, place: u64, mode: &str) {
        let name = format!("/lock:{key}/{}", claim(place, mode));
        self.create(&name, "1 1000 0 60000 - - - - next@host/2")
            .await;
    }

    async fn children(&self, rest: &str) -> Vec<String> {
        self.client.sync("/").await.unwrap();
        let path = self.path(rest);
        let mut names = self.client.list_children(&path).await.unwrap_or_default();
        names.sort_unstable();
        names
    }
}

async fn inspector(url: &str) -> ZooKeeperInspector {
    let mut options = StoreOptions::default();
    options.response_timeout = LIMIT;
    options.connect_timeout = LIMIT;
    ZooKeeperInspector::connect(url, &options).await.unwrap()
}

fn staying() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

/// The name of a claim as dlock writes it.
fn claim(place: u64, mode: &str) -> String {
    format!("{place:032x}.1-{mode}-{place:010}")
}

fn key(text: &str) -> LockKey {
    LockKey::new(text).unwrap()
}

async fn seen(inspector: &ZooKeeperInspector, text: &str) -> LockInfo {
    let lock = inspector.lock(&key(text)).await.unwrap();
    lock.expect("it has a holder or waiters")
}

/// The applications that these labels name.
fn applications<'a>(labels: impl Iterator<Item = &'a Option<String>>) -> Vec<&'a str> {
    let labels = labels.map(|label| label.as_deref().expect("it has a label"));
    labels.map(|it| it.split('@').next().unwrap()).collect()
}
