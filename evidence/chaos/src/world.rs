//! The servers of a run, and the connections to them.

use std::{collections::HashMap, path::Path, time::Duration};

use dlock_testkit::{Cluster, Proxy, RedisServer, Sentinels};
use redis::{RedisError, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    books::Books,
    ensemble::Ensemble,
    fault::Topology,
    postgres::Database,
    random::Random,
    worker::{Cheat, KEYS},
};

const QUORUM: usize = 5;

/// How many Sentinels there are.
pub(crate) const SENTINELS: usize = 3;

/// A master, once it has its place, is followed by all within this.
const WELL: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct World {
    pub(crate) topology: Topology,
    pub(crate) servers: Servers,
    /// For each process, those to each server; none where servers name each other.
    proxies: Vec<Vec<Proxy>>,
    processes: usize,
}

pub(crate) enum Servers {
    Independent(Vec<RedisServer>),
    Sentinels(Sentinels),
    Cluster(Cluster),
    Postgres(Box<Database>),
    Ensemble(Ensemble),
}

/// A master, and the change of masters that made it one: a failover and another one back leave no
/// other trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    port: u16,
    epoch: u64,
}

impl World {
    pub(crate) async fn start(topology: Topology, cheat: Option<Cheat>, processes: usize) -> Self {
        let servers = match topology {
            Topology::Single => Servers::Independent(vec![RedisServer::start().await]),
            Topology::Quorum => {
                let servers = (0..QUORUM).map(|_| RedisServer::start());
                Servers::Independent(futures_util::future::join_all(servers).await)
            }
            Topology::Sentinel | Topology::Replicas => Servers::Sentinels(Sentinels::start().await),
            Topology::Cluster => Servers::Cluster(Cluster::start(3, 1).await),
            Topology::Postgres
            | Topology::PostgresPooled
            | Topology::PostgresStandby
            | Topology::PostgresStandbyPooled => {
                Servers::Postgres(Box::new(Database::start(topology, cheat).await))
            }
            Topology::Etcd => Servers::Ensemble(Ensemble::etcd().await),
            Topology::ZooKeeper => Servers::Ensemble(Ensemble::zookeeper().await),
        };
        let proxies = match &servers {
            Servers::Independent(servers) => {
                let to = |server: &RedisServer| Proxy::start(server.port());
                let of = |_| servers.iter().map(to).collect();
                (0..processes).map(of).collect()
            }
            Servers::Postgres(database) => {
                let of = |_| database.ports().into_iter().map(Proxy::start).collect();
                (0..processes).map(of).collect()
            }
            Servers::Ensemble(ensemble) => {
                let of = |_| ensemble.ports().into_iter().map(Proxy::start).collect();
                (0..processes).map(of).collect()
            }
            Servers::Sentinels(_) | Servers::Cluster(_) => Vec::new(),
        };
        Self {
            topology,
            servers,
            proxies,
            processes,
        }
    }

    pub(crate) fn is_ensemble(&self) -> bool {
        matches!(self.servers, Servers::Ensemble(_))
    }

    /// By which URL each process connects.
    pub(crate) fn urls(&self) -> Vec<String> {
        let same = |url: String| vec![url; self.processes];
        match &self.servers {
            Servers::Independent(_) => self.proxies.iter().map(|its| url(its)).collect(),
            Servers::Sentinels(all) if self.topology == Topology::Replicas => {
                same(format!("{}?min_replicas=2", all.url()))
            }
            Servers::Sentinels(all) => same(all.url()),
            Servers::Cluster(cluster) => same(cluster.url()),
            Servers::Postgres(database) => {
                let its = self.proxies.iter().enumerate();
                its.map(|(process, its)| database.url(process, its))
                    .collect()
            }
            Servers::Ensemble(ensemble) => {
                let its = self.proxies.iter().enumerate();
                its.map(|(process, its)| ensemble.url(process, its))
                    .collect()
            }
        }
    }

    /// Some servers that take writes, to give them an order.
    pub(crate) async fn some(&self, random: &mut Random) -> Vec<&RedisServer> {
        match &self.servers {
            Servers::Independent(servers) => {
                let count = 1 + random.below(servers.len());
                random.some(servers.iter().collect(), count)
            }
            Servers::Sentinels(all) => vec![all.master().await],
            Servers::Cluster(cluster) => {
                let node = self.home(cluster, random).await;
                vec![cluster.node(node)]
            }
            Servers::Postgres(_) | Servers::Ensemble(_) => panic!("it takes no orders of Redis"),
        }
    }

    /// The node that has one of the locks.
    pub(crate) async fn home(&self, cluster: &Cluster, random: &mut Random) -> usize {
        cluster.master_of(KEYS[random.below(KEYS.len())]).await
    }

    /// The connections of one process, those to one server, or all.
    pub(crate) fn some_connections(&self, random: &mut Random) -> Vec<&Proxy> {
        let servers = self.proxies[0].len();
        match random.below(3) {
            0 => self.proxies[random.below(self.proxies.len())]
                .iter()
                .collect(),
            1 => {
                let server = random.below(servers);
                self.proxies.iter().map(|its| &its[server]).collect()
            }
            _ => self.proxies.iter().flatten().collect(),
        }
    }

    /// The connections of the crowd to one server.
    pub(crate) fn connections_to(&self, server: usize) -> usize {
        let its = self
            .proxies
            .iter()
            .map(|its| its[server].open_connections());
        its.sum()
    }

    /// Refuses the connections of the crowd to a server, if it has all of them, until another server has one.
    pub(crate) async fn drive_away_from(&self, server: usize) {
        let is_left = || {
            let others = (0..self.proxies[0].len()).filter(|it| *it != server);
            others.map(|it| self.connections_to(it)).sum::<usize>() > 0
        };
        let its = || self.proxies.iter().map(|its| &its[server]);
        let end = Instant::now() + LOOK;
        while !is_left() && Instant::now() < end {
            for proxy in its() {
                proxy.refuse();
                proxy.cut();
            }
            sleep(PAUSE).await;
        }
        its().for_each(Proxy::accept);
    }

    /// Waits until nothing is left to be mended.
    pub(crate) async fn until_well(&self) {
        match &self.servers {
            Servers::Independent(_) => {}
            Servers::Postgres(database) => database.until_replicated(WELL).await,
            Servers::Sentinels(all) => {
                let others = all.servers().len() - 1;
                let end = Instant::now() + WELL;
                while Instant::now() < end {
                    // Asked each time: Sentinels may think of another master yet.
                    let master = all.master().await;
                    let replicated = all.until_replicated(master, others);
                    if timeout(LOOK, replicated).await.is_ok()
                        && all.master().await.port() == master.port()
                    {
                        return;
                    }
                }
                panic!("the replicas do not follow a master within {WELL:?}");
            }
            Servers::Cluster(cluster) => cluster.until_ok().await,
            Servers::Ensemble(ensemble) => drop(ensemble.leader().await),
        }
    }

    /// The masters: a change that was not ordered may lose data as well as one that was.
    pub(crate) async fn in_charge(&self) -> Vec<Charge> {
        match &self.servers {
            // None of their changes of leaders loses anything.
            Servers::Independent(_) | Servers::Postgres(_) | Servers::Ensemble(_) => Vec::new(),
            Servers::Sentinels(all) => vec![Charge {
                port: all.master().await.port(),
                epoch: epoch_of_sentinels(all).await,
            }],
            Servers::Cluster(cluster) => {
                let mut all = Vec::new();
                for key in KEYS {
                    let node = cluster.master_of(key).await;
                    all.push(Charge {
                        port: cluster.port(node),
                        epoch: epoch_of_node(cluster.node(node)).await,
                    });
                }
                all
            }
        }
    }

    /// The writes of the crowd beside its locks, where the store has any: as each server has them that answers by itself.
    pub(crate) async fn books(&self) -> Vec<Books> {
        match &self.servers {
            Servers::Postgres(database) => vec![database.books().await],
            Servers::Ensemble(ensemble) => ensemble.books().await,
            _ => Vec::new(),
        }
    }

    /// The difference between servers that must have the same data.
    pub(crate) async fn difference(&self) -> Option<String> {
        match &self.servers {
            Servers::Ensemble(ensemble) => ensemble.difference().await,
            _ => None,
        }
    }

    /// Keeps the data of servers that differ from each other only in it. It may end them. Returns what their own faults
    /// explain.
    pub(crate) fn keep(&self, there: &Path) -> Option<String> {
        match &self.servers {
            Servers::Ensemble(ensemble) => ensemble.keep(there),
            _ => None,
        }
    }

    /// The keys on the servers, except for fences.
    pub(crate) async fn left_over(&self) -> Vec<String> {
        let mut keys = Vec::new();
        match &self.servers {
            Servers::Independent(servers) => {
                for server in servers {
                    keys.extend(server.keys("*").await);
                }
            }
            Servers::Sentinels(all) => keys = all.master().await.keys("*").await,
            Servers::Cluster(cluster) => keys = cluster.keys("*").await,
            Servers::Postgres(database) => return database.left_over().await,
            Servers::Ensemble(ensemble) => return ensemble.left_over().await,
        }
        keys.retain(|key| is_passing(key));
        keys
    }
}

/// Whether a key ends by itself: all but fences do.
fn is_passing(key: &str) -> bool {
    !key.starts_with("dlock:fence:")
}

/// Whether any of these servers has something to forget.
pub(crate) async fn has_leases(servers: &[&RedisServer]) -> bool {
    for server in servers {
        if server.keys("*").await.iter().any(|key| is_passing(key)) {
            return true;
        }
    }
    false
}

/// The latest that one of the Sentinels knows of.
async fn epoch_of_sentinels(all: &Sentinels) -> u64 {
    let mut latest = None;
    for sentinel in 0..SENTINELS {
        let mut connection = all.sentinel_connection(sentinel).await;
        let mut order = redis::cmd("SENTINEL");
        order.arg("MASTER").arg(all.service());
        let known: Result<HashMap<String, String>, _> = order.query_async(&mut connection).await;
        let epoch = known.ok().and_then(|it| it["config-epoch"].parse().ok());
        latest = latest.max(epoch);
    }
    latest.expect("a Sentinel that is up knows its master")
}

/// That of the node's own claim to be a master.
async fn epoch_of_node(node: &RedisServer) -> u64 {
    let answer = tell(node, &["CLUSTER", "NODES"]).await;
    let nodes: String = redis::from_redis_value(answer.expect("a node that is up answers"))
        .expect("it answers text");
    let own = nodes.lines().find(|line| line.contains("myself"));
    let words = own.expect("a node knows itself").split(' ').nth(6);
    let epoch = words.expect("there are eight words at least");
    epoch.parse().expect("it is a number")
}

fn url(proxies: &[Proxy]) -> String {
    let [one] = proxies else {
        let hosts = proxies.iter().map(|it| format!("127.0.0.1:{}", it.port()));
        return format!("redlock://{}", hosts.collect::<Vec<_>>().join(","));
    };
    one.url()
}

/// Tells a server something; its answer.
pub(crate) async fn tell(server: &RedisServer, words: &[&str]) -> Result<Value, RedisError> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let mut connection = server.connection().await;
    command.query_async(&mut connection).await
}

/// Tells all of them something that none of them may refuse.
pub(crate) async fn tell_all(servers: &[&RedisServer], words: &[&str]) {
    for server in servers {
        if let Err(error) = tell(server, words).await {
            panic!("{words:?} on port {}: {error}", server.port());
        }
    }
}
