//! Ports that stay free while a server is down.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use tokio::net::TcpSocket;

/// Below the ports that the system gives to outgoing connections. From there, a client that
/// retries while the server is down could be given the server's own port: the connection
/// would then be to itself, and the server could not come back.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// From one port to the next, having no factor in common with their number. Neighbours would not do: a node of a
/// cluster has a second port ten thousand above, where the system gives outgoing connections many in a row.
const STRIDE: u64 = 7_919;

/// Ports that belong to one process while it lives. Otherwise another process, which starts a server of its own, could be given
/// the port of one that is down for a moment, and its server would answer in the place of that one.
const BLOCK: u16 = 100;

/// The ports of a process.
struct Ports {
    /// A block belongs to the process that listens on its first port.
    marks: Vec<TcpListener>,
    block: u16,
    used: u16,
}

impl Ports {
    const fn new() -> Self {
        Self {
            marks: Vec::new(),
            block: 0,
            used: BLOCK,
        }
    }

    fn next(&mut self) -> u16 {
        if self.used == BLOCK {
            self.claim();
        }
        let port = at(self.block * BLOCK + self.used);
        self.used += 1;
        port
    }

    fn claim(&mut self) {
        const BLOCKS: u16 = COUNT / BLOCK;
        let from = if self.marks.is_empty() {
            let random = RandomState::new().hash_one(std::process::id()) % u64::from(BLOCKS);
            u16::try_from(random).expect("the remainder is a u16")
        } else {
            self.block + 1
        };
        let blocks = (0..BLOCKS).map(|it| (from + it) % BLOCKS);
        let mut marked = blocks.filter_map(|block| Some((block, bind(at(block * BLOCK)).ok()?)));
        let found = marked.next();
        // If all are taken, they are shared.
        self.block = found.as_ref().map_or(from % BLOCKS, |(block, _)| *block);
        self.used = 1;
        self.marks.extend(found.map(|(_, mark)| mark));
    }
}

fn at(place: u16) -> u16 {
    let step = u64::from(place) * STRIDE % u64::from(COUNT);
    FIRST + u16::try_from(step).expect("the remainder is a u16")
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// Listens on a free port of the loopback interface.
///
/// A port that this process has used before comes last: its server may be down, and be expected to be.
pub(crate) fn listen() -> TcpListener {
    static PORTS: Mutex<Ports> = Mutex::new(Ports::new());
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    (0..COUNT)
        .find_map(|_| bind(ports.next()).ok())
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
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let taken = TcpListener::bind(address).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
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
    fn two_processes_have_no_port_in_common() {
        let (mut one, mut other) = (Ports::new(), Ports::new());
        let ports: HashSet<_> = (0..250).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(ports.len(), 500);
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
