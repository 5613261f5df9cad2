//! The faults of servers of ZooKeeper, and their leader.

use tokio::time::sleep;

use super::{PAUSE, SERVERS, START_DEADLINE, ZooKeepers};
use crate::ensemble::Ensemble;
use dlock_waiting::within;

impl Ensemble for ZooKeepers {
    fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|it| it.port).collect()
    }

    async fn leader(&self) -> usize {
        self.leader_but(SERVERS).await
    }

    async fn leader_but(&self, old: usize) -> usize {
        let found = within(START_DEADLINE, async {
            loop {
                for server in (0..SERVERS).filter(|server| *server != old) {
                    if self.mode(server).await.as_deref() == Some("leader") {
                        return server;
                    }
                }
                sleep(PAUSE).await;
            }
        });
        found.await.expect("the servers choose a leader")
    }

    fn kill(&self, server: usize) {
        self.servers[server].process().kill();
    }

    async fn restart(&self, server: usize) {
        let started = within(START_DEADLINE, async {
            loop {
                if self.servers[server].process().exited().is_some() {
                    self.servers[server].spawn();
                }
                let answers = self.mode(server).await.is_some();
                // What answers in the place of one that has ended is another server.
                if answers && self.servers[server].process().exited().is_none() {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        assert!(started.await.is_some(), "the server does not start again");
    }

    async fn restart_all(&self) {
        (0..SERVERS).for_each(|server| self.kill(server));
        // None of them serves clients before a majority is there.
        for server in &self.servers {
            server.spawn();
        }
        for server in 0..SERVERS {
            self.restart(server).await;
        }
    }

    fn pause(&self, server: usize) {
        self.servers[server].process().pause();
    }

    fn resume(&self, server: usize) {
        self.servers[server].process().resume();
    }

    /// Elections may still reach it: servers tell each other their own addresses, and a server with a greater number connects to
    /// one of them without a proxy. Then the others may choose it in vain, for two minutes or more.
    async fn isolate(&self, server: usize) {
        self.between.isolate(server);
    }

    fn rejoin(&self) {
        self.between.rejoin();
    }
}
