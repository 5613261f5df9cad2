//! Opens TCP connections, and configures them so that a dead peer is detected.

use std::{io, net::SocketAddr, time::Duration};

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::resolver::Resolver;

/// The time for which the peer may leave bytes unacknowledged, or keep-alive probes unanswered.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// Returns `true` if a Redis server without TLS answers at the address. No secret is sent.
#[cfg(feature = "tls")]
pub(crate) async fn speaks_plainly(address: io::Result<SocketAddr>, limit: Duration) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(address?).await?;
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    // `+PONG`, or an error instead.
    matches!(timeout(limit, asked).await, Ok(Ok(b'+' | b'-')))
}

/// Returns `true` if the peer answers a `PING`, and closes the same connection at a command that every Redis server
/// answers. twemproxy does so: it cannot forward the command. No secret is sent.
pub(crate) async fn closes_at_commands(peer: SocketAddr, limit: Duration) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(peer).await?;
        // Not in one line, which twemproxy does not read.
        stream.write_all(b"*1\r\n$4\r\nPING\r\n").await?;
        let first = stream.read_u8().await?;
        // Up to the end of the answer, possibly of an error.
        while stream.read_u8().await? != b'\n' {}
        if !matches!(first, b'+' | b'-') {
            return Ok(false);
        }
        let command = b"*2\r\n$6\r\nCLIENT\r\n$7\r\nGETNAME\r\n";
        stream.write_all(command).await?;
        // The end, or the error of a connection that was reset.
        Ok::<_, io::Error>(!matches!(stream.read(&mut [0]).await, Ok(1..)))
    };
    matches!(timeout(limit, asked).await, Ok(Ok(true)))
}

/// Connects within about `limit`, to the first address of the host that answers.
pub(crate) async fn connect(
    resolver: &Resolver,
    (host, port): (&str, u16),
    limit: Duration,
) -> io::Result<TcpStream> {
    let begun = Instant::now();
    let addresses = resolver.addresses(host, port, limit).await?;
    // An address that does not answer must leave time for the next one.
    let left = limit.saturating_sub(begun.elapsed());
    let share = left / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
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
    // A closed connection was given up. Unsent requests must not arrive minutes later, when the network works again,
    // and acquire an unwanted lock.
    socket.set_linger(Some(Duration::ZERO))
}
