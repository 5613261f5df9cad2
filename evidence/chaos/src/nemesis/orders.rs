//! Servers with orders that make them useless.

use std::time::Duration;

use dlock_testkit::RedisServer;
use futures_util::future::join_all;
use redis::from_redis_value;
use tokio::time::sleep;

use super::Nemesis;
use crate::{
    fault::{Kind, Topology},
    world::{has_leases, tell, tell_all},
};

/// A port without a listener.
const NOWHERE: &str = "1";

impl Nemesis<'_> {
    /// Gives the order, and returns whether another process has felt it.
    pub(super) async fn order(&mut self, kind: Kind) -> bool {
        let world = self.world;
        let servers = world.some(&mut self.random).await;
        match kind {
            Kind::ScriptsFlushed => {
                let had_any = told(&servers, "number_of_cached_scripts:").await > 0;
                for _ in 0..=self.random.below(6) {
                    tell_all(&servers, &["SCRIPT", "FLUSH"]).await;
                    sleep(self.random.millis(150)).await;
                }
                had_any
            }
            Kind::ClientsKilled => {
                let mut was_felt = false;
                for _ in 0..=self.random.below(6) {
                    for server in &servers {
                        was_felt |= kill_clients(server).await;
                    }
                    sleep(self.random.millis(150)).await;
                }
                was_felt
            }
            Kind::DataFlushed => {
                let loses = has_leases(&servers).await;
                tell_all(&servers, &["FLUSHALL"]).await;
                loses
            }
            Kind::ClientsPaused => {
                let time = self.some_time();
                let millis = time.as_millis().to_string();
                // A Sentinel or node that waits for a ping takes a silent server for dead.
                let is_alone = matches!(world.topology, Topology::Single | Topology::Quorum);
                let whom = ["WRITE", "ALL"][usize::from(is_alone && self.random.one_in(2))];
                let are_there = have_clients(&servers).await;
                tell_all(&servers, &["CLIENT", "PAUSE", &millis, whom]).await;
                sleep(time).await;
                are_there
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
                let refusal = match kind {
                    Kind::MemoryFull => "errorstat_OOM:count=",
                    Kind::ReadOnly => "errorstat_READONLY:count=",
                    _ => "errorstat_NOREPLICAS:count=",
                };
                let before = told(&servers, refusal).await;
                tell_all(&servers, broken).await;
                self.keep().await;
                tell_all(&servers, mended).await;
                told(&servers, refusal).await > before
            }
        }
    }

    async fn hang(&mut self, servers: &[&RedisServer]) -> bool {
        let are_there = have_clients(servers).await;
        tell_all(servers, &["CONFIG", "SET", "lua-time-limit", "20"]).await;
        let time = self.some_time();
        let hangs = servers.iter().map(async |server| {
            let script = ["EVAL", "while true do end", "0"];
            // It answers an error when it is killed.
            let hung = async { tell(server, &script).await.is_err() };
            let kill = async {
                sleep(time).await;
                let mut killed = tell(server, &["SCRIPT", "KILL"]).await;
                while killed.is_err() {
                    sleep(Duration::from_millis(5)).await;
                    killed = tell(server, &["SCRIPT", "KILL"]).await;
                }
            };
            let (has_hung, ()) = tokio::join!(hung, kill);
            has_hung
        });
        let all = join_all(hangs).await;
        are_there && all.contains(&true)
    }
}

/// A number that `INFO` shows after this text, of all the servers together.
async fn told(servers: &[&RedisServer], label: &str) -> u64 {
    let mut sum = 0;
    for server in servers {
        let report = text(server, &["INFO", "everything"]).await;
        let line = report.lines().find_map(|line| line.strip_prefix(label));
        sum += line.map_or(0, |it| it.parse().expect("it is a number"));
    }
    sum
}

/// How many connections of the crowd there are, and how many of Sentinels.
async fn clients(server: &RedisServer) -> [usize; 2] {
    let listed = text(server, &["CLIENT", "LIST"]).await;
    // Neither the one that asks, nor those between masters and replicas.
    let is_client = |line: &&str| {
        let is_server = line.contains(" flags=S") || line.contains(" flags=M");
        !is_server && !line.contains(" cmd=client|list ")
    };
    let clients = listed.lines().filter(is_client);
    let (watching, crowd): (Vec<_>, Vec<_>) =
        clients.partition(|it| it.contains(" name=sentinel-"));
    [crowd.len(), watching.len()]
}

async fn have_clients(servers: &[&RedisServer]) -> bool {
    for server in servers {
        if clients(server).await[0] > 0 {
            return true;
        }
    }
    false
}

/// Ends all connections; whether there were any but those of Sentinels.
async fn kill_clients(server: &RedisServer) -> bool {
    let [_, watching] = clients(server).await;
    let mut killed = 0;
    for sort in ["normal", "pubsub"] {
        let answer = tell(server, &["CLIENT", "KILL", "TYPE", sort]).await;
        let count: usize = from_redis_value(answer.expect("it may be asked")).expect("it counts");
        killed += count;
    }
    killed > watching
}

async fn text(server: &RedisServer, words: &[&str]) -> String {
    let answer = tell(server, words).await;
    from_redis_value(answer.expect("it may be asked")).expect("it answers text")
}
