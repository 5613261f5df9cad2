//! Three servers of etcd or ZooKeeper, with the locks and what these protect.

use std::{path::Path, time::Duration};

use dlock_testkit::{Ensemble as _, EtcdEnsemble, EtcdMake, Proxy, ZooKeepers, eventually, hosts};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use zookeeper_client::Error;

use crate::{books::Books, etcd, worker::KEYS, zookeeper};

/// How many servers there are.
pub(crate) const MEMBERS: usize = 3;

/// Another one leads by then, and every request has an answer.
const WELL: Duration = Duration::from_secs(120);

/// A member that is behind the others has caught up by then.
const CAUGHT_UP: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(200);

pub(crate) enum Ensemble {
    Etcd(EtcdEnsemble),
    ZooKeeper(ZooKeepers),
}

impl Ensemble {
    pub(crate) async fn etcd() -> Self {
        let servers = EtcdEnsemble::start_apart(EtcdMake::that_survives_kills()).await;
        let port = servers.members()[0].port();
        let open = async || etcd::open(port, &KEYS).await;
        repeated("there are accounts", open).await;
        Self::Etcd(servers)
    }

    pub(crate) async fn zookeeper() -> Self {
        let ensemble = Self::ZooKeeper(ZooKeepers::start_apart().await);
        let hosts = ensemble.hosts();
        let open = async || zookeeper::open(&zookeeper::connect(&hosts).await?, &KEYS).await;
        repeated("there are accounts", answered(open)).await;
        ensemble
    }

    /// The ports of the servers for clients.
    pub(crate) fn ports(&self) -> Vec<u16> {
        match self {
            Self::Etcd(all) => all.ports(),
            Self::ZooKeeper(all) => all.ports(),
        }
    }

    fn hosts(&self) -> String {
        hosts(self.ports())
    }

    /// The URL for one of the processes. A manager connects to the first member that answers: each process begins with
    /// another one.
    pub(crate) fn url(&self, process: usize, proxies: &[Proxy]) -> String {
        let mut ports: Vec<_> = proxies.iter().map(Proxy::port).collect();
        ports.rotate_left(process % MEMBERS);
        match self {
            Self::Etcd(_) => format!("etcd://{}", hosts(ports)),
            Self::ZooKeeper(_) => ZooKeepers::url_of(&hosts(ports), zookeeper::SESSION),
        }
    }

    pub(crate) async fn leader(&self) -> usize {
        match self {
            Self::Etcd(all) => all.leader().await,
            Self::ZooKeeper(all) => all.leader().await,
        }
    }

    /// Waits until another server leads than this one, of which it does not matter what it believes.
    pub(crate) async fn until_replaced(&self, old: usize) {
        match self {
            Self::Etcd(all) => all.leader_but(old).await,
            Self::ZooKeeper(all) => all.leader_but(old).await,
        };
    }

    pub(crate) fn kill(&self, member: usize) {
        match self {
            Self::Etcd(all) => all.kill(member),
            Self::ZooKeeper(all) => all.kill(member),
        }
    }

    /// Starts killed servers again with their data, and waits until they answer.
    pub(crate) async fn restart(&self, members: &[usize]) {
        // Side by side: none of them may have a majority before.
        let restarts = members.iter().map(async |member| match self {
            Self::Etcd(all) => all.restart(*member).await,
            Self::ZooKeeper(all) => all.restart(*member).await,
        });
        join_all(restarts).await;
    }

    pub(crate) fn pause(&self, member: usize) {
        match self {
            Self::Etcd(all) => all.pause(member),
            Self::ZooKeeper(all) => all.pause(member),
        }
    }

    pub(crate) fn resume(&self, member: usize) {
        match self {
            Self::Etcd(all) => all.resume(member),
            Self::ZooKeeper(all) => all.resume(member),
        }
    }

    /// Separates a member from the others. Clients still reach it.
    pub(crate) async fn isolate(&self, member: usize) {
        match self {
            Self::Etcd(all) => all.isolate(member).await,
            Self::ZooKeeper(all) => all.isolate(member).await,
        }
    }

    pub(crate) fn rejoin(&self) {
        match self {
            Self::Etcd(all) => all.rejoin(),
            Self::ZooKeeper(all) => all.rejoin(),
        }
    }

    /// The writes of the crowd beside its locks. A server of ZooKeeper answers reads by itself: each has its copy.
    pub(crate) async fn books(&self) -> Vec<Books> {
        let mut all = Vec::new();
        match self {
            Self::Etcd(servers) => {
                let port = servers.members()[0].port();
                let read = async || etcd::read(port, &KEYS).await;
                all.push(repeated("the books are read", read).await);
            }
            Self::ZooKeeper(_) => {
                for port in self.ports() {
                    let host = hosts([port]);
                    let read =
                        async || zookeeper::read(&zookeeper::connect(&host).await?, &KEYS).await;
                    all.push(repeated("the books are read", answered(read)).await);
                }
            }
        }
        all.iter_mut().for_each(Books::sort);
        all
    }

    /// The difference between the members of etcd, at the end of a run. That of ZooKeeper's servers is in [`books`](Self::books).
    pub(crate) async fn difference(&self) -> Option<String> {
        let Self::Etcd(servers) = self else {
            return None;
        };
        let end = Instant::now() + CAUGHT_UP;
        loop {
            let mut all = Vec::new();
            for server in servers.members() {
                let read = async || etcd::Data::of(server.port()).await;
                all.push(repeated("the data is read", read).await);
            }
            if etcd::Data::agree(&all) {
                return None;
            }
            if Instant::now() > end {
                return Some(etcd::Data::difference(&all));
            }
            sleep(PAUSE).await;
        }
    }

    /// Keeps the data and the logs of the servers, after a run in which something was wrong. It ends the servers. Returns
    /// the sign of a fault of their own, if their logs have one.
    pub(crate) fn keep(&self, there: &Path) -> Option<String> {
        let servers = match self {
            Self::Etcd(servers) => {
                servers.keep(there);
                return None;
            }
            Self::ZooKeeper(servers) => servers,
        };
        servers.keep(there);
        let repeated = servers.repeated();
        (!repeated.is_empty()).then(|| {
            format!(
                "the servers {repeated:?} have written transactions to their logs twice: different data is then a fault \
                 of ZooKeeper (ZOOKEEPER-4394)"
            )
        })
    }

    /// The leases and places in queues that have not ended.
    pub(crate) async fn left_over(&self) -> Vec<String> {
        match self {
            Self::Etcd(all) => {
                let read = async || etcd::left_over(all.members()[0].port()).await;
                repeated("the queues are read", read).await
            }
            Self::ZooKeeper(_) => {
                let hosts = self.hosts();
                let read = async || zookeeper::left_over(&zookeeper::connect(&hosts).await?).await;
                repeated("the queues are read", answered(read)).await
            }
        }
    }
}

fn answered<T>(read: impl AsyncFn() -> Result<T, Error>) -> impl AsyncFn() -> Option<T> {
    async move || read().await.ok()
}

/// Reads until there is an answer: on a busy machine, another server may be about to lead.
async fn repeated<T>(what: &str, read: impl AsyncFn() -> Option<T>) -> T {
    let mut answer = None;
    eventually(WELL, what, async || {
        answer = read().await;
        answer.is_some()
    })
    .await;
    answer.expect("it was waited for")
}
