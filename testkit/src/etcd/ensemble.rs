//! Three servers that decide together.

use futures_util::future::join_all;

use super::{EtcdOptions, EtcdServer, PORTS_TO_TRY, START_DEADLINE};
use crate::eventually::after_a_while;
use crate::port;

const MEMBERS: usize = 3;

/// Three servers of one ensemble.
pub struct EtcdEnsemble(Vec<EtcdServer>);

impl EtcdEnsemble {
    /// Starts three servers and waits until each of them reaches a majority.
    pub async fn start() -> Self {
        Self::start_with(EtcdOptions::new()).await
    }

    /// Starts three servers with options.
    pub async fn start_with(options: EtcdOptions) -> Self {
        for _ in 0..PORTS_TO_TRY {
            let ports = [(); MEMBERS].map(|()| (port::free(), port::free()));
            let members: Vec<_> = ports
                .iter()
                .enumerate()
                .map(|(index, (_, peer))| format!("n{index}=http://127.0.0.1:{peer}"))
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
                return Self(servers);
            }
        }
        panic!("the servers do not start: other processes take their ports");
    }

    /// The servers.
    #[must_use]
    pub fn members(&self) -> &[EtcdServer] {
        &self.0
    }

    /// The URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.0.iter().map(EtcdServer::port))
    }

    /// The index of the leader, as a majority sees it.
    pub async fn leader(&self) -> usize {
        let mut found = None;
        after_a_while(START_DEADLINE, "a majority names one leader", async || {
            let mut seen = Vec::new();
            for server in &self.0 {
                seen.push(
                    crate::within(std::time::Duration::from_secs(1), server.leader())
                        .await
                        .flatten(),
                );
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

    /// Kills all servers at once.
    pub fn kill(&self) {
        self.0.iter().for_each(EtcdServer::kill);
    }

    /// Starts all servers again with their data.
    pub async fn restart(&self) {
        for server in &self.0 {
            server.start_again().await;
        }
        let up = join_all(self.0.iter().map(EtcdServer::is_up)).await;
        assert!(
            up.into_iter().all(|is_up| is_up),
            "the servers do not start again"
        );
    }
}

/// A URL with these ports of 127.0.0.1.
fn url(ports: impl Iterator<Item = u16>) -> String {
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    format!("etcd://{}", hosts.join(","))
}
