//! Servers that are told to be of no use.

use std::time::Duration;

use dlock_testkit::RedisServer;
use futures_util::future::join_all;
use tokio::time::sleep;

use super::Nemesis;
use crate::{
    fault::{Kind, Topology},
    world::{tell, tell_all},
};

/// A port at which nobody is.
const NOWHERE: &str = "1";

impl Nemesis<'_> {
    pub(super) async fn order(&mut self, kind: Kind) {
        let world = self.world;
        let servers = world.some(&mut self.random).await;
        match kind {
            Kind::ScriptsFlushed => self.often(&servers, &[&["SCRIPT", "FLUSH"]]).await,
            Kind::ClientsKilled => {
                let orders: [&[&str]; 2] = [
                    &["CLIENT", "KILL", "TYPE", "normal"],
                    &["CLIENT", "KILL", "TYPE", "pubsub"],
                ];
                self.often(&servers, &orders).await;
            }
            Kind::DataFlushed => tell_all(&servers, &["FLUSHALL"]).await,
            Kind::ClientsPaused => {
                let time = self.some_time();
                let millis = time.as_millis().to_string();
                // Who waits for a ping takes a server that is silent for dead.
                let is_alone = matches!(world.topology, Topology::Single | Topology::Quorum);
                let whom = ["WRITE", "ALL"][usize::from(is_alone && self.random.one_in(2))];
                tell_all(&servers, &["CLIENT", "PAUSE", &millis, whom]).await;
                sleep(time).await;
            }
            Kind::ScriptHangs => self.hang(&servers).await,
            _ => {
                let [broken, mended]: [&[&str]; 2] = match kind {
                    Kind::MemoryFull => [
                        &["CONFIG", "SET", "maxmemory", "1"],
                        &["CONFIG", "SET", "maxmemory", "0"],
                    ],
                    Kind::ReadOnly => [
                        &["REPLICAOF", "127.0.0.1", NOWHERE],
                        &["REPLICAOF", "NO", "ONE"],
                    ],
                    _ => [
                        &["CONFIG", "SET", "min-replicas-to-write", "9"],
                        &["CONFIG", "SET", "min-replicas-to-write", "0"],
                    ],
                };
                tell_all(&servers, broken).await;
                self.keep().await;
                tell_all(&servers, mended).await;
            }
        }
    }

    async fn often(&mut self, servers: &[&RedisServer], orders: &[&[&str]]) {
        for _ in 0..=self.random.below(6) {
            for order in orders {
                tell_all(servers, order).await;
            }
            sleep(self.random.millis(150)).await;
        }
    }

    async fn hang(&mut self, servers: &[&RedisServer]) {
        tell_all(servers, &["CONFIG", "SET", "lua-time-limit", "20"]).await;
        let time = self.some_time();
        let hangs = servers.iter().map(async |server| {
            let script = ["EVAL", "while true do end", "0"];
            // It answers an error when it is killed.
            let hung = async { tell(server, &script).await.err() };
            let kill = async {
                sleep(time).await;
                let mut killed = tell(server, &["SCRIPT", "KILL"]).await;
                while killed.is_err() {
                    sleep(Duration::from_millis(5)).await;
                    killed = tell(server, &["SCRIPT", "KILL"]).await;
                }
            };
            tokio::join!(hung, kill);
        });
        join_all(hangs).await;
    }
}
