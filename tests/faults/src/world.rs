//! The servers of a store that a test breaks, how processes reach them, and the time that everything has there.

use std::time::Duration;

use dlock_testkit::{Ensemble, Proxy, eventually, hosts};

use crate::Process;

/// Servers with locks that a test may break.
pub trait World {
    /// Longer than anything takes, also on a busy machine.
    const DEADLINE: Duration;

    /// Connects a process.
    async fn process(&self) -> Process;

    /// The number of claims that the servers have for a key: the holder and those that wait.
    async fn claims(&self, key: &str) -> usize;

    /// Waits until no claim for a key is left.
    async fn nothing_is_left(&self, key: &str) {
        let is_free = async || self.claims(key).await == 0;
        eventually(Self::DEADLINE, "no claim is left", is_free).await;
    }

    /// Waits until the servers have carried out all requests of a process that was killed, while so many others are connected.
    async fn carries_out(&self, _others: usize) {}
}

/// A world with an ensemble of servers.
pub trait Together: World {
    /// The servers.
    type Servers: Ensemble;

    /// A lease that outlasts every fault which a test expects it to.
    const TTL: Duration;

    /// The servers.
    fn servers(&self) -> &Self::Servers;

    /// Connects a process to these hosts, for leases of this TTL.
    async fn connect(&self, hosts: &str, ttl: Duration) -> Process;

    /// The knowledge of the servers about a key, for the message about a broken promise.
    async fn describe(&self, _key: &str) -> String {
        String::new()
    }

    /// A network before each server.
    fn proxies(&self) -> Vec<Proxy> {
        let ports = self.servers().ports();
        ports.into_iter().map(Proxy::start).collect()
    }

    /// Connects a process that knows these servers alone, and begins with the first of them.
    async fn process_at(&self, servers: &[usize], ttl: Duration) -> Process {
        let ports = self.servers().ports();
        let known = servers.iter().map(|server| ports[*server]);
        self.connect(&hosts(known), ttl).await
    }

    /// Connects two processes that know all servers, and begin with this one.
    async fn two_at(&self, first: usize) -> [Process; 2] {
        let mut servers: Vec<_> = (0..self.servers().ports().len()).collect();
        servers.rotate_left(first);
        let process = async || self.process_at(&servers, Self::TTL).await;
        tokio::join!(process(), process()).into()
    }
}
