//! Ports that stay free while a server is down.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpSocket;

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

/// Keeps a port from every other process, and refuses connections to it.
///
/// `None` if it is not free.
pub(crate) fn hold(port: u16) -> Option<TcpSocket> {
    let socket = TcpSocket::new_v4().ok()?;
    // Connections of the server that had the port may still be closing.
    socket.set_reuseaddr(true).ok()?;
    socket
        .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .ok()?;
    // From here on, no other socket shares it.
    socket.set_reuseaddr(false).ok()?;
    Some(socket)
}

/// Listens on a port that was held.
///
/// # Panics
///
/// If the socket has no port.
pub(crate) fn listen_again(held: TcpSocket) -> tokio::net::TcpListener {
    const BACKLOG: u32 = 1024;
    held.set_reuseaddr(true)
        .and_then(|()| held.listen(BACKLOG))
        .expect("connections of the former listener are shared, and nobody else has the port")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_port_that_is_held_refuses_everyone() {
        let port = free();
        let held = hold(port).expect("it was free a moment ago");
        let address = (Ipv4Addr::LOCALHOST, port);
        let refused = std::net::TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let taken = TcpListener::bind(address).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
        drop(held);
        drop(TcpListener::bind(address).unwrap());
    }

    #[tokio::test]
    async fn a_port_that_was_held_is_listened_on_beside_old_connections_and_copies_of_its_socket() {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        drop(listener);
        let held = hold(address.port()).expect("nobody listens there");
        // As a process that is being started has one.
        let copy = held.as_fd().try_clone_to_owned().unwrap();
        let listener = listen_again(held);
        let (second, _) = tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        second.unwrap();
        drop((client, accepted, copy));
    }

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
