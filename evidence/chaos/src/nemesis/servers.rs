//! Servers that are killed, stand still, and give their places away.

use std::time::Duration;

use dlock_testkit::{Cluster, RedisServer, Sentinels};
use tokio::time::{sleep, timeout};

use super::Nemesis;
use crate::{
    fault::Kind,
    worker::{KEYS, TTL},
    world::{SENTINELS, Servers, World, has_leases},
};

/// For how long a server that has forgotten stays out, if it is to do no harm.
const OUT: Duration = TTL.saturating_add(Duration::from_millis(100));

/// A failover without a result by then is asked for again.
const GIVEN_UP: Duration = Duration::from_secs(8);

impl Nemesis<'_> {
    /// Servers are felt to be away, as everything that is asked here waits for its effect. Only what is
    /// lost with them may be nothing.
    pub(super) async fn break_servers(&mut self, kind: Kind) -> bool {
        let world: &World = self.world;
        match &world.servers {
            Servers::Independent(servers) => {
                return self.break_independent(kind, servers).await;
            }
            Servers::Postgres(database) => return self.break_postgres(kind, database).await,
            Servers::Ensemble(ensemble) => return self.break_ensemble(kind, ensemble).await,
            Servers::Sentinels(all) => self.break_sentinels(kind, all).await,
            Servers::Cluster(cluster) => self.break_cluster(kind, cluster).await,
        }
        true
    }

    async fn break_independent(&mut self, kind: Kind, servers: &[RedisServer]) -> bool {
        let count = match kind {
            // A minority, if there is one.
            Kind::ServersOut => 1 + self.random.below(servers.len() / 2),
            _ => 1 + self.random.below(servers.len()),
        };
        let servers = self.random.some(servers.iter().collect(), count);
        if kind == Kind::ServerStopped {
            for server in &servers {
                server.pause();
            }
            self.keep().await;
            for server in &servers {
                server.resume();
            }
            return true;
        }
        let loses = kind == Kind::ServersOut || has_leases(&servers).await;
        for server in &servers {
            server.kill();
        }
        if kind == Kind::ServersOut {
            sleep(OUT).await;
        }
        for server in servers {
            server.restart().await;
        }
        loses
    }

    async fn break_sentinels(&mut self, kind: Kind, all: &Sentinels) {
        let master = all.master().await;
        let sentinel = self.random.below(SENTINELS);
        match kind {
            Kind::ReplicaKilled => {
                let others = self.random.some(all.others(master).collect(), 1);
                others[0].kill();
                self.keep().await;
                others[0].restart().await;
            }
            Kind::SentinelKilled => {
                all.kill_sentinel(sentinel);
                self.keep().await;
                all.restart_sentinel(sentinel).await;
            }
            Kind::SentinelStopped => {
                all.pause_sentinel(sentinel);
                self.keep().await;
                all.resume_sentinel(sentinel);
            }
            Kind::MasterKilled => {
                master.kill();
                all.master_after(master).await;
                // Any sooner, and its replicas would take its emptiness for their master's data.
                master.restart().await;
            }
            Kind::MasterStopped => {
                master.pause();
                all.master_after(master).await;
                master.resume();
            }
            _ => {
                // A Sentinel gives up when it finds no good replica at that moment.
                let mut new = None;
                while new.is_none() {
                    let mut connection = all.sentinel_connection(sentinel).await;
                    let mut order = redis::cmd("SENTINEL");
                    order.arg("FAILOVER").arg(all.service());
                    order.exec_async(&mut connection).await.ok();
                    new = timeout(GIVEN_UP, all.master_after(master)).await.ok();
                }
            }
        }
    }

    async fn break_cluster(&mut self, kind: Kind, cluster: &Cluster) {
        let world = self.world;
        let master = world.home(cluster, &mut self.random).await;
        match kind {
            Kind::ReplicaKilled => {
                let replica = cluster.replica_of(master).await;
                cluster.kill(replica);
                self.keep().await;
                cluster.restart(replica).await;
            }
            Kind::SlotMoved => {
                let key = KEYS[self.random.below(KEYS.len())];
                let slot = cluster.slot_of(key).await;
                let from = cluster.master_of_slot(slot).await;
                let mut others = Vec::new();
                for slot in [0, 6000, 12_000] {
                    let other = cluster.master_of_slot(slot).await;
                    if other != from && !others.contains(&other) {
                        others.push(other);
                    }
                }
                let to = self.random.some(others, 1);
                cluster.migrate(slot, to[0]).await;
            }
            Kind::FailOverAsked => {
                let replica = cluster.replica_of(master).await;
                cluster.fail_over_to(replica).await;
            }
            Kind::MasterKilled => {
                cluster.kill(master);
                cluster.until_ok().await;
                cluster.restart(master).await;
            }
            _ => {
                cluster.pause(master);
                cluster.until_ok().await;
                cluster.resume(master);
            }
        }
    }
}
