//! Three servers that decide together.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;

use super::{EtcdOptions, EtcdServer, PORTS_TO_TRY, START_DEADLINE, copy_all};
use crate::ensemble::{Ensemble, hosts};
use crate::{EtcdMake, Proxy, port};
use dlock_waiting::{eventually, within};

const MEMBERS: usize = 3;

/// A member that does not answer for so long has no vote.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Three servers of one ensemble.
pub struct EtcdEnsemble {
    members: Vec<EtcdServer>,
    /// The networks before the members, if they can be separated from each other.
    between: Vec<Proxy>,
}

impl EtcdEnsemble {
    /// Starts three servers and waits until each of them reaches a majority.
    pub async fn start() -> Self {
        Self::start_with(EtcdOptions::new()).await
    }

    /// Starts three servers with options.
    pub async fn start_with(options: EtcdOptions) -> Self {
        Self::launch(options, false).await
    }

    /// Starts three servers that [`isolate`](Ensemble::isolate) can separate from each other.
    pub async fn start_apart(make: EtcdMake) -> Self {
        Self::launch(EtcdOptions::new().make(make), true).await
    }

    async fn launch(options: EtcdOptions, is_apart: bool) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let ports = [(); MEMBERS].map(|()| (port::free(), port::free()));
            let to_proxy = |(_, peer): &(u16, u16)| Proxy::start(*peer);
            let between: Vec<_> = ports.iter().filter(|_| is_apart).map(to_proxy).collect();
            let ports: Vec<_> = ports
                .into_iter()
                .enumerate()
                .map(|(index, (port, peer))| {
                    let known = between.get(index).map_or(peer, Proxy::port);
                    (port, peer, known)
                })
                .collect();
            let members: Vec<_> = ports
                .iter()
                .enumerate()
                .map(|(index, (_, _, known))| format!("n{index}=http://127.0.0.1:{known}"))
                .collect();
            let members = members.join(",");
            let servers: Vec<_> = ports
                .into_iter()
                .enumerate()
                .map(|(index, ports)| {
                    EtcdServer::launch(options.clone(), &format!("n{index}"), ports, &members)
                })
                .collect();
            let up = join_all(servers.iter().map(EtcdServer::is_up)).await;
            if up.into_iter().all(|is_up| is_up) {
                return Self {
                    members: servers,
                    between,
                };
            }
        }
        panic!("the servers do not start: other processes take their ports");
    }

    /// The servers.
    #[must_use]
    pub fn members(&self) -> &[EtcdServer] {
        &self.members
    }

    /// The URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://{}", hosts(self.ports()))
    }

    /// Kills all servers and copies their data and their logs there: for people who look for a fault.
    pub fn keep(&self, there: &Path) {
        self.members.iter().for_each(EtcdServer::kill);
        for server in &self.members {
            copy_all(server.directory.path(), &there.join(&server.name));
        }
    }
}

impl Ensemble for EtcdEnsemble {
    fn ports(&self) -> Vec<u16> {
        self.members.iter().map(EtcdServer::port).collect()
    }

    /// As a majority sees it.
    async fn leader(&self) -> usize {
        let mut found = None;
        eventually(START_DEADLINE, "a majority names one leader", async || {
            let mut seen = Vec::new();
            for server in &self.members {
                seen.push(within(ANSWER_LIMIT, server.leader()).await.flatten());
            }
            found = seen.iter().enumerate().find_map(|(index, answer)| {
                let (id, _) = answer.as_ref()?;
                let votes = seen
                    .iter()
                    .flatten()
                    .filter(|(_, leader)| leader == id)
                    .count();
                (votes > MEMBERS / 2).then_some(index)
            });
            found.is_some()
        })
        .await;
        found.expect("it was found")
    }

    async fn leader_but(&self, old: usize) -> usize {
        let mut leader = old;
        let is_another = async || {
            leader = self.leader().await;
            leader != old
        };
        eventually(2 * START_DEADLINE, "another server leads", is_another).await;
        leader
    }

    fn kill(&self, server: usize) {
        self.members[server].kill();
    }

    async fn restart(&self, server: usize) {
        self.members[server].restart().await;
    }

    async fn restart_all(&self) {
        self.members.iter().for_each(EtcdServer::kill);
        for server in &self.members {
            server.start_again().await;
        }
        let up = join_all(self.members.iter().map(EtcdServer::is_up)).await;
        assert!(
            up.into_iter().all(|is_up| is_up),
            "the servers do not start again"
        );
    }

    fn pause(&self, server: usize) {
        self.members[server].pause();
    }

    fn resume(&self, server: usize) {
        self.members[server].resume();
    }

    async fn isolate(&self, server: usize) {
        let id = self.members[server].id().await;
        // A member says so at the beginning of each connection by which it sends or receives messages.
        let from = format!("X-Server-From: {id:x}\r\n");
        for (number, proxy) in self.between.iter().enumerate() {
            if number == server {
                proxy.freeze();
            } else {
                proxy.isolate(Some(&from));
            }
        }
    }

    fn rejoin(&self) {
        for proxy in &self.between {
            proxy.isolate(None);
            proxy.thaw();
        }
    }
}
