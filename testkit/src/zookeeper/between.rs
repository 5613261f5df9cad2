//! The networks between the servers of an ensemble, of which one can be separated from the others.

use std::time::Duration;

use crate::Proxy;

/// A follower repeats a refused connection to its new leader, which begins to listen later; one that is closed sends it
/// back to an election.
const PATIENCE: Duration = Duration::from_secs(3);

/// A proxy for each port of a server, for each server that connects to it.
#[derive(Default)]
pub(super) struct Between(Vec<Way>);

struct Way {
    from: usize,
    to: usize,
    /// Before the port of the quorum, and that of elections.
    proxies: [Proxy; 2],
}

impl Between {
    /// Starts the proxies before these ports.
    pub(super) fn start(ports: &[[u16; 2]]) -> Self {
        let servers = 0..ports.len();
        let pairs = servers
            .clone()
            .flat_map(|from| servers.clone().map(move |to| (from, to)));
        let ways = pairs.filter(|(from, to)| from != to);
        let ways = ways.map(|(from, to)| Way {
            from,
            to,
            proxies: ports[to].map(|port| Proxy::start_patient(port, PATIENCE)),
        });
        Self(ways.collect())
    }

    /// The ports by which one server reaches another one, or itself; `None` if they are its own.
    pub(super) fn ports(&self, from: usize, to: usize) -> Option<[u16; 2]> {
        let way = self.0.iter().find(|it| it.from == from && it.to == to)?;
        Some([way.proxies[0].port(), way.proxies[1].port()])
    }

    pub(super) fn isolate(&self, server: usize) {
        for way in &self.0 {
            if way.from == server || way.to == server {
                way.proxies.iter().for_each(Proxy::freeze);
            }
        }
    }

    pub(super) fn rejoin(&self) {
        let proxies = self.0.iter().flat_map(|it| &it.proxies);
        proxies.for_each(Proxy::thaw);
    }
}
