//! The parts that tests of faults share.

use std::time::Duration;

use dlock::{LockManager, LockManagerBuilder};
use dlock_etcd::{Etcd, EtcdStore};
use dlock_faults::{Process, Together};
use dlock_runtime::store::StoreOptions;
use dlock_testkit::{EtcdEnsemble, EtcdMake, EtcdOptions, EtcdServer, Proxy, eventually};

/// Longer than anything takes here, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A lease that outlasts every fault which a test expects it to.
pub(crate) const TTL: Duration = Duration::from_secs(120);

/// A server of a test's own, or three.
pub(crate) struct World<S>(pub(crate) S);

impl World<EtcdEnsemble> {
    pub(crate) async fn of(make: EtcdMake) -> Self {
        Self(EtcdEnsemble::start_with(EtcdOptions::new().make(make)).await)
    }

    /// Members that can be separated from each other.
    pub(crate) async fn apart() -> Self {
        Self(EtcdEnsemble::start_apart(EtcdMake::Usual).await)
    }
}

impl dlock_faults::World for World<EtcdServer> {
    const DEADLINE: Duration = DEADLINE;

    async fn process(&self) -> Process {
        connect(&self.0.url()).await
    }

    async fn claims(&self, key: &str) -> usize {
        self.0.keys(&format!("dlock/{key}/")).await.len()
    }

    /// The answer to a release comes after the key is deleted.
    async fn nothing_is_left(&self, key: &str) {
        assert_eq!(self.claims(key).await, 0);
    }
}

impl dlock_faults::World for World<EtcdEnsemble> {
    const DEADLINE: Duration = DEADLINE;

    async fn process(&self) -> Process {
        connect(&self.0.url()).await
    }

    async fn claims(&self, key: &str) -> usize {
        let member = &self.0.members()[0];
        member.keys(&format!("dlock/{key}/")).await.len()
    }
}

impl Together for World<EtcdEnsemble> {
    type Servers = EtcdEnsemble;
    const TTL: Duration = TTL;

    fn servers(&self) -> &EtcdEnsemble {
        &self.0
    }

    async fn connect(&self, hosts: &str, ttl: Duration) -> Process {
        connect_by(builder().ttl(ttl), &format!("etcd://{hosts}")).await
    }

    async fn describe(&self, key: &str) -> String {
        let mut words = Vec::new();
        for member in self.0.members() {
            let claims = member.keys(&format!("dlock/{key}/")).await;
            let revision = member.revision().await;
            words.push(format!("{claims:?} at revision {revision}"));
        }
        words.join(", ")
    }
}

pub(crate) fn builder() -> LockManagerBuilder {
    LockManager::builder()
        .scheme("etcd", Etcd)
        .connect_timeout(DEADLINE / 3)
}

pub(crate) async fn connect(url: &str) -> Process {
    connect_by(builder(), url).await
}

pub(crate) async fn connect_by(builder: LockManagerBuilder, url: &str) -> Process {
    let connected = builder.connect(url).await;
    let manager = connected.unwrap_or_else(|error| panic!("{url}: {error}"));
    Process::new(manager, DEADLINE)
}

/// A store that gives up a request, and a silent connection, after this time.
pub(crate) fn open(url: &str, response_timeout: Duration) -> EtcdStore {
    let mut options = StoreOptions::default();
    options.response_timeout = response_timeout;
    EtcdStore::open(url, &options).unwrap()
}

/// Loses the answer to the request that creates a key with this prefix, once the server has carried it out.
///
/// A proxy that cuts before the next bytes of the server would come too early: they may be about the connection, and etcd
/// drops a request whose connection has ended.
pub(crate) async fn lose_answer(proxy: &Proxy, server: &EtcdServer, prefix: &str) {
    eventually(DEADLINE, "the request is carried out", async || {
        !server.keys(prefix).await.is_empty()
    })
    .await;
    assert!(!proxy.is_trap_set(), "its answer is held back");
    proxy.cut();
    proxy.thaw();
}
