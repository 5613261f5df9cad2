//! One node of a cluster: its process, its identity and its commands.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

use crate::{Proxy, RedisServer, port};

/// How long a node may be silent until the others take it for dead, in ms.
const NODE_TIMEOUT: &str = "1500";

/// One process, and how the others and clients reach it.
pub(super) struct Node {
    pub(super) server: RedisServer,
    bus_port: u16,
    pub(super) id: String,
    /// The proxy whose address clients take for the node.
    pub(super) proxy: Option<Proxy>,
}

impl Node {
    pub(super) async fn start(arguments: &[&str], with_proxy: bool) -> Self {
        let server = RedisServer::start_with_changing(|| {
            let bus = port::free().to_string();
            let fixed = [
                ["--cluster-enabled", "yes"],
                ["--cluster-config-file", "nodes.conf"],
                ["--cluster-node-timeout", NODE_TIMEOUT],
                ["--cluster-port", &bus],
                // A replica that was just made may take over, however long it was without a master.
                ["--cluster-replica-validity-factor", "0"],
                ["--cluster-allow-replica-migration", "no"],
                ["--repl-diskless-sync-delay", "0"],
            ];
            let arguments = arguments.iter().map(|&it| it.to_owned());
            let fixed = fixed.into_iter().flatten().map(ToOwned::to_owned);
            fixed.chain(arguments).collect()
        })
        .await;
        let proxy = with_proxy.then(|| Proxy::start(server.port()));
        let mut node = Self {
            server,
            bus_port: 0,
            id: String::new(),
            proxy,
        };
        let ports: Vec<String> = node.order(&["CONFIG", "GET", "cluster-port"]).await;
        node.bus_port = ports[1].parse().expect("a port is a number");
        node.id = node.order(&["CLUSTER", "MYID"]).await;
        if let Some(proxy) = &node.proxy {
            let port = proxy.port().to_string();
            node.order::<()>(&["CONFIG", "SET", "cluster-announce-port", &port])
                .await;
        }
        node
    }

    pub(super) async fn meet(&self, other: &Self) {
        let (port, bus) = (other.server.port().to_string(), other.bus_port.to_string());
        self.order::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
            .await;
    }

    pub(super) async fn order<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.query(&command).await
    }

    /// `CLUSTER INFO` and `CLUSTER NODES`.
    pub(super) async fn reports(&self) -> (String, String) {
        let mut both = redis::pipe();
        both.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("NODES");
        let mut connection = self.server.connection().await;
        let reports = both.query_async(&mut connection).await;
        reports.expect("a running node knows its cluster")
    }

    /// Gives an order; `true` if the node has accepted it.
    pub(super) async fn try_order(&self, words: &[&str]) -> bool {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let mut connection = self.server.connection().await;
        command.exec_async(&mut connection).await.is_ok()
    }

    pub(super) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> T {
        let mut connection: MultiplexedConnection = self.server.connection().await;
        let answer = command.query_async(&mut connection).await;
        answer.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}
