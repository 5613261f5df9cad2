//! The socket to the server, set up so that a dead peer is noticed.

use std::{io, pin::Pin, time::Duration};

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use super::url::Address;

/// How long the peer may leave bytes unacknowledged, or keep-alive probes unanswered.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// A stream of bytes, over whatever address.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// Connects within about `limit`.
pub(super) async fn connect(
    address: &Address,
    limit: Duration,
) -> io::Result<Pin<Box<dyn Stream>>> {
    match address {
        Address::Tcp(host, port) => Ok(Box::pin(tcp(host, *port, limit).await?)),
        #[cfg(unix)]
        Address::Unix(path) => Ok(Box::pin(tokio::net::UnixStream::connect(path).await?)),
    }
}

async fn tcp(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    // One address that swallows everything must leave time for the next.
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                set_up(&stream)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "no answer"),
        }
    }
    Err(last)
}

fn set_up(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let probe = DEAD_AFTER / 2;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe).with_interval(probe))?;
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
    // Closing means that we have given up: what is still unsent must not arrive minutes later,
    // when the network has healed, and take a lock nobody wants any more.
    socket.set_linger(Some(Duration::ZERO))
}
