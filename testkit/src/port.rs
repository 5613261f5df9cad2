//! Ports that stay free while a server is down.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below the ports that the system gives to outgoing connections. From there, a client that
/// retries while the server is down could be given the server's own port: the connection
/// would then be to itself, and the server could not come back.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Listens on a free port of the loopback interface.
pub(crate) fn listen() -> TcpListener {
    let random = RandomState::new().hash_one(std::process::id());
    let start = u16::try_from(random % u64::from(COUNT)).expect("the remainder is a u16");
    (0..COUNT)
        .map(|step| FIRST + (start + step) % COUNT)
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
