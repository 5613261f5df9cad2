//! Ports that stay free while a server is down.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Below the ports that the system gives to outgoing connections. From there, a client that
/// retries while the server is down could be given the server's own port: the connection
/// would then be to itself, and the server could not come back.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// From one port to the next, having no factor in common with their number. Neighbours would not do: a node of a
/// cluster has a second port ten thousand above, where the system gives outgoing connections many in a row.
const STRIDE: u64 = 7_919;

/// Listens on a free port of the loopback interface.
///
/// A port that this process has used before comes last: its server may be down, and be expected to be.
pub(crate) fn listen() -> TcpListener {
    static START: OnceLock<u64> = OnceLock::new();
    static USED: AtomicU64 = AtomicU64::new(0);
    let start =
        *START.get_or_init(|| RandomState::new().hash_one(std::process::id()) % u64::from(COUNT));
    (0..COUNT)
        .map(|_| {
            let used = USED.fetch_add(1, Ordering::Relaxed);
            let place = start.wrapping_add(used.wrapping_mul(STRIDE));
            FIRST + u16::try_from(place % u64::from(COUNT)).expect("the remainder is a u16")
        })
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("one of twelve thousand ports is free")
}

/// A port that was free a moment ago.
pub(crate) fn free() -> u16 {
    listen()
        .local_addr()
        .expect("a listener has an address")
        .port()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_port_is_not_given_out_twice() {
        let ports: HashSet<_> = (0..500).map(|_| free()).collect();
        assert_eq!(ports.len(), 500);
        assert!(
            ports
                .iter()
                .all(|port| (FIRST..FIRST + COUNT).contains(port))
        );
        let neighbours = ports.iter().filter(|&port| ports.contains(&(port + 1)));
        assert!(neighbours.count() < 100, "they are spread");
    }
}
