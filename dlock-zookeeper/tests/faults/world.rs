//! The parts that tests of faults share.

use std::{ops::Deref, time::Duration};

use dlock::{LockManager, LockManagerBuilder};
use dlock_faults::{Process, Together};
use dlock_testkit::{Pooled, ZooKeepers};
use dlock_zookeeper::ZooKeeper;
use tokio::sync::OnceCell;
use zookeeper_client::{Client, Error};

pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// On a busy machine, the servers need half a minute to choose a leader.
pub(crate) const SESSION: Duration = Duration::from_secs(110);
pub(crate) const TTL: Duration = Duration::from_secs(90);

/// Servers with a directory that no other test uses.
pub(crate) struct World<S = Pooled<ZooKeepers>> {
    pub(crate) servers: S,
    directory: &'static str,
    client: OnceCell<Client>,
}

impl World {
    /// Servers that this test alone uses, and may break.
    pub(crate) async fn lent(directory: &'static str) -> Self {
        Self::new(ZooKeepers::lent().await, directory)
    }
}

impl World<&'static ZooKeepers> {
    /// Servers that other tests use as well.
    pub(crate) async fn shared(directory: &'static str) -> Self {
        Self::new(ZooKeepers::shared().await, directory)
    }
}

impl<S: Deref<Target = ZooKeepers>> World<S> {
    pub(crate) fn new(servers: S, directory: &'static str) -> Self {
        Self {
            servers,
            directory,
            client: OnceCell::new(),
        }
    }

    pub(crate) fn url(&self, session: Duration) -> String {
        url(&self.servers, session, self.directory)
    }
}

impl<S: Deref<Target = ZooKeepers>> dlock_faults::World for World<S> {
    const DEADLINE: Duration = LIMIT;

    async fn process(&self) -> Process {
        connect(&self.url(SESSION), TTL).await
    }

    async fn claims(&self, key: &str) -> usize {
        let client = self.client.get_or_init(|| client(&self.servers)).await;
        client.sync("/").await.unwrap();
        let directory = format!("/{}/lock:{key}", self.directory);
        match client.list_children(&directory).await {
            Ok(children) => children.len(),
            Err(Error::NoNode) => 0,
            Err(error) => panic!("{directory}: {error}"),
        }
    }
}

impl<S: Deref<Target = ZooKeepers>> Together for World<S> {
    type Servers = ZooKeepers;
    const TTL: Duration = TTL;

    fn servers(&self) -> &ZooKeepers {
        &self.servers
    }

    async fn connect(&self, hosts: &str, ttl: Duration) -> Process {
        let session = if ttl == TTL { SESSION } else { ttl * 4 / 3 };
        let hosts = format!("{hosts}/{}", self.directory);
        connect(&ZooKeepers::url_of(&hosts, session), ttl).await
    }
}

pub(crate) async fn connect(url: &str, ttl: Duration) -> Process {
    let builder = builder().ttl(ttl).wait(LIMIT);
    let manager = builder.connect(url).await.expect("the servers answer");
    Process::new(manager, LIMIT)
}

/// Silent servers are left after some seconds.
pub(crate) fn builder() -> LockManagerBuilder {
    LockManager::builder()
        .scheme("zookeeper", ZooKeeper)
        .response_timeout(Duration::from_secs(4))
        .connect_timeout(LIMIT)
}

/// A client beside dlock's own. Its session outlasts the test.
pub(crate) async fn client(servers: &ZooKeepers) -> Client {
    let connector = Client::connector()
        .with_session_timeout(SESSION)
        .with_connection_timeout(SESSION / 2);
    let host = format!("127.0.0.1:{}", servers.port(0));
    connector.connect(&host).await.expect("the server answers")
}

/// The URL of all servers, with a directory that no other test uses.
pub(crate) fn url(servers: &ZooKeepers, session: Duration, directory: &str) -> String {
    let url = servers.url(session);
    url.replace('?', &format!("/{directory}?"))
}
