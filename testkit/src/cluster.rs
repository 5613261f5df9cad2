//! A Redis Cluster for tests: real processes, real failovers.

mod migration;
mod node;
mod view;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::pool::{Pool, Pooled};
use crate::{Proxy, RedisServer};
use dlock_waiting::eventually;
use node::Node;
use view::View;

/// Longer than a cluster takes to agree on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(40);

const SLOTS: usize = 16_384;

/// Masters and replicas on free ports of 127.0.0.1, each a process of its own.
///
/// Nodes are named by their index: first the masters in the order of their slots, then the replicas
/// of the first master, of the second, and so on; nodes that are added come last. A failover changes
/// roles, not indices. Dropping the cluster ends all of it.
pub struct Cluster {
    nodes: Vec<Node>,
    /// Killed or stopped at the moment.
    down: Mutex<HashSet<usize>>,
    /// A test has moved a slot, or given a master's place away.
    is_rearranged: AtomicBool,
}

/// Idle clusters of three masters.
static POOL: Pool<Cluster> = Pool::new();

impl Cluster {
    /// Starts `masters` that share all slots evenly, with so many replicas for each, and waits
    /// until all of them agree and replicas have their master's data.
    pub async fn start(masters: usize, replicas_each: usize) -> Self {
        Self::start_with(masters, replicas_each, &[]).await
    }

    /// A cluster of three masters that ran for another test before, or a new one.
    pub async fn pooled() -> Pooled<Self> {
        while let Some(idle) = POOL.take().await {
            if idle.is_reset().await {
                return Pooled::new(idle, give_back);
            }
        }
        let new = Self::start(3, 0).await;
        for node in &new.nodes {
            node.server.remember().await;
        }
        Pooled::new(new, give_back)
    }

    /// Empties the cluster. Returns `false` if it is not as after its start.
    async fn is_reset(&self) -> bool {
        for node in &self.nodes {
            if !node.server.is_reset().await {
                return false;
            }
        }
        self.all_see(View::is_ok).await && self.agree().await
    }

    fn is_undisturbed(&self) -> bool {
        let mut nodes = self.nodes.iter();
        !self.is_rearranged.load(Ordering::Relaxed) && nodes.all(|it| it.server.is_undisturbed())
    }

    /// The same with additional arguments for each node, such as `["--requirepass", "secret"]`.
    pub async fn start_with(masters: usize, replicas_each: usize, arguments: &[&str]) -> Self {
        Self::launch(masters, replicas_each, arguments, false).await
    }

    /// Masters that clients reach through a [`Proxy`] each: the cluster announces the proxy's address.
    /// The nodes themselves talk past it.
    pub async fn behind_proxies(masters: usize) -> Self {
        Self::launch(masters, 0, &[], true).await
    }

    async fn launch(
        masters: usize,
        replicas_each: usize,
        arguments: &[&str],
        with_proxies: bool,
    ) -> Self {
        assert!(masters > 0, "somebody must have the slots");
        let mut nodes = Vec::new();
        for _ in 0..masters * (1 + replicas_each) {
            nodes.push(Node::start(arguments, with_proxies).await);
        }
        let cluster = Self {
            nodes,
            down: Mutex::default(),
            is_rearranged: AtomicBool::new(false),
        };
        for (index, node) in cluster.nodes.iter().enumerate() {
            // Without this, nodes agree on their order one by one, each a second later.
            let epoch = (index + 1).to_string();
            node.order::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])
                .await;
        }
        cluster.meet().await;
        for (index, node) in cluster.nodes[..masters].iter().enumerate() {
            let slots = index * SLOTS / masters..(index + 1) * SLOTS / masters;
            let mut order = redis::cmd("CLUSTER");
            order.arg("ADDSLOTS").arg(slots.collect::<Vec<_>>());
            node.query::<()>(&order).await;
        }
        cluster.until_acquainted().await;
        for (index, replica) in cluster.nodes[masters..].iter().enumerate() {
            let master = &cluster.nodes[index / replicas_each];
            replica
                .order::<()>(&["CLUSTER", "REPLICATE", &master.id])
                .await;
        }
        cluster.until_ok().await;
        cluster
    }

    /// The URL of all nodes, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// The URL that names only some nodes.
    #[must_use]
    pub fn url_of(&self, nodes: &[usize]) -> String {
        let one = self.nodes[nodes[0]].server.url();
        let (_, rest) = one.split_once("://").expect("a URL has a scheme");
        let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
        let at = if login.is_empty() { "" } else { "@" };
        let hosts = nodes
            .iter()
            .map(|&it| format!("127.0.0.1:{}", self.port(it)));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("redis-cluster://{login}{at}{hosts}")
    }

    /// The number of nodes, killed ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a cluster has nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// One of the nodes as a server of its own. Kill and stop it through the cluster.
    #[must_use]
    pub fn node(&self, node: usize) -> &RedisServer {
        &self.nodes[node].server
    }

    /// The port that is announced to clients.
    #[must_use]
    pub fn port(&self, node: usize) -> u16 {
        let node = &self.nodes[node];
        node.proxy
            .as_ref()
            .map_or_else(|| node.server.port(), Proxy::port)
    }

    /// The proxy in front of a node of a cluster [`behind_proxies`](Self::behind_proxies).
    #[must_use]
    pub fn proxy(&self, node: usize) -> &Proxy {
        let proxy = self.nodes[node].proxy.as_ref();
        proxy.expect("the cluster was started behind proxies")
    }

    /// Kills a node as a power cut would.
    pub fn kill(&self, node: usize) {
        self.down().insert(node);
        self.nodes[node].server.kill();
    }

    /// Starts a node again that was killed. It is empty, and has its place in the cluster.
    pub async fn restart(&self, node: usize) {
        self.nodes[node].server.restart().await;
        self.down().remove(&node);
    }

    /// Stops a node: connections stay open, nothing is answered.
    pub fn pause(&self, node: usize) {
        self.down().insert(node);
        self.nodes[node].server.pause();
    }

    /// Lets a stopped node go on.
    pub fn resume(&self, node: usize) {
        self.nodes[node].server.resume();
        self.down().remove(&node);
    }

    /// Starts another node without slots, and waits until it belongs to the cluster; its index.
    pub async fn add(&mut self) -> usize {
        let new = Node::start(&[], self.nodes[0].proxy.is_some()).await;
        for node in self.up() {
            new.meet(&self.nodes[node]).await;
        }
        self.nodes.push(new);
        self.until_ok().await;
        self.nodes.len() - 1
    }

    /// Removes a node that has no slots, and kills it.
    pub async fn remove(&self, node: usize) {
        self.kill(node);
        let id = &self.nodes[node].id;
        for other in self.up() {
            self.nodes[other]
                .order::<()>(&["CLUSTER", "FORGET", id])
                .await;
        }
    }

    /// Makes a replica the master in its master's place, without losing anything, and waits until
    /// all agree.
    pub async fn fail_over_to(&self, replica: usize) {
        self.rearrange();
        let id = &self.nodes[replica].id;
        let mut asked: Option<Instant> = None;
        eventually(DEADLINE, "the replica is the master", async || {
            // It gives up after five seconds: masters vote for one of a kind only so often.
            if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(6)) {
                asked = Some(Instant::now());
                let words = ["CLUSTER", "FAILOVER"];
                self.nodes[replica].try_order(&words).await;
            }
            let sound = |view: &View| view.is_master(id) && view.covers_all();
            self.all_see(sound).await
        })
        .await;
    }

    /// The node that is the master of a key's slot, as the nodes that are up see it.
    pub async fn master_of(&self, key: &str) -> usize {
        self.master_of_slot(self.slot_of(key).await).await
    }

    /// The node that is the master of a slot, once all nodes that are up say the same.
    pub async fn master_of_slot(&self, slot: u16) -> usize {
        let mut found = None;
        eventually(DEADLINE, "the nodes agree on a master", async || {
            let views = self.views().await;
            let mut masters = views.iter().map(|view| view.master_of(slot));
            let first = masters.next().flatten();
            found = first.and_then(|id| self.nodes.iter().position(|node| node.id == id));
            found.is_some() && masters.all(|other| other == first)
        })
        .await;
        found.expect("it was waited for")
    }

    /// A replica of `master`, as the nodes that are up see it.
    pub async fn replica_of(&self, master: usize) -> usize {
        let views = self.views().await;
        let id = views[0].replica_of(&self.nodes[master].id);
        let node = self.nodes.iter().position(|node| Some(&*node.id) == id);
        node.expect("the master has a replica")
    }

    /// The slot of a key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        let node = self.up()[0];
        self.nodes[node].order(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// Waits until all nodes that are up agree: every slot has a master that is up, and replicas
    /// have their master's data.
    pub async fn until_ok(&self) {
        eventually(DEADLINE, "the cluster is well", async || {
            let up: HashSet<_> = self.up().into_iter().collect();
            let dead: Vec<_> = (0..self.nodes.len())
                .filter(|node| !up.contains(node))
                .map(|node| &self.nodes[node].id)
                .collect();
            let sound = |view: &View| {
                view.is_ok() && view.knows(up.len()) && !dead.iter().any(|id| view.has_slots(id))
            };
            if !self.all_see(sound).await || !self.agree().await {
                return false;
            }
            for node in up {
                let report: String = self.nodes[node].order(&["INFO", "replication"]).await;
                if report.contains("master_link_status:down")
                    || report.contains("master_sync_in_progress:1")
                {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// The keys of all masters that are up and match a pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        for node in self.up() {
            let report: String = self.nodes[node].order(&["INFO", "replication"]).await;
            if report.contains("role:master") {
                keys.extend(self.nodes[node].server.keys(pattern).await);
            }
        }
        keys.sort();
        keys
    }

    /// The number of times that the nodes that are up have run a command since they started.
    pub async fn command_count(&self, name: &str) -> u64 {
        let mut count = 0;
        for node in self.up() {
            count += self.nodes[node].server.command_count(name).await;
        }
        count
    }

    /// The same without the times that it has failed: a connection is opened with an `EVALSHA` of no script.
    pub async fn success_count(&self, name: &str) -> u64 {
        let mut count = 0;
        for node in self.up() {
            count += self.nodes[node].server.success_count(name).await;
        }
        count
    }

    /// Runs a command on every node that is up.
    pub async fn everywhere(&self, command: &str) {
        let words: Vec<_> = command.split(' ').collect();
        for node in self.up() {
            self.nodes[node].order::<redis::Value>(&words).await;
        }
    }

    /// The nodes that are neither killed nor stopped.
    #[must_use]
    pub fn up(&self) -> Vec<usize> {
        let down = self.down();
        (0..self.nodes.len())
            .filter(|node| !down.contains(node))
            .collect()
    }

    /// Has every node meet every other.
    async fn meet(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[..index] {
                node.meet(other).await;
            }
        }
    }

    /// Every node knows every other.
    async fn until_acquainted(&self) {
        /// Many seconds, in which nodes have met unless the machine has paused.
        const PATIENCE: u32 = 100;

        let count = self.nodes.len();
        let mut asked = 0_u32;
        eventually(DEADLINE, "the nodes know each other", async || {
            asked += 1;
            // A node forgets one that it was to meet and that was silent for its time-out.
            if asked.is_multiple_of(PATIENCE) {
                self.meet().await;
            }
            self.all_see(|view| view.knows(count)).await
        })
        .await;
    }

    async fn all_see(&self, condition: impl Fn(&View) -> bool) -> bool {
        self.views().await.iter().all(condition)
    }

    /// `true` if all have the same masters for the same slots.
    async fn agree(&self) -> bool {
        let views = self.views().await;
        views.windows(2).all(|pair| pair[0].agrees_with(&pair[1]))
    }

    async fn views(&self) -> Vec<View> {
        let mut views = Vec::new();
        for node in self.up() {
            let (info, nodes) = self.nodes[node].reports().await;
            views.push(View::parse(&info, &nodes));
        }
        views
    }

    fn rearrange(&self) {
        self.is_rearranged.store(true, Ordering::Relaxed);
    }

    fn down(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.down.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give_back(cluster: Cluster) {
    if cluster.is_undisturbed() {
        POOL.put(cluster);
    }
}
