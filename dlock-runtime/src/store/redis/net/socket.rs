//! The socket to the server, set up so that a dead peer is noticed.

use std::{io, pin::Pin, time::Duration};

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{Instant, timeout},
};

#[cfg(feature = "tls")]
use super::handshake::Verdict;
#[cfg(not(feature = "tls"))]
use super::no_tls::Verdict;
use super::{
    early_error::{Greeting, Heard},
    pulse::{Beating, Pulse},
};
use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        config::url::{Address, Endpoint},
        protocol::errors,
    },
};

/// How long the peer may leave bytes unacknowledged, or keep-alive probes unanswered.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// A stream of bytes, over whatever address.
pub(in crate::store::redis) trait Stream:
    AsyncRead + AsyncWrite + Send
{
}
impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// What is sent and received on a connection.
pub(in crate::store::redis) type Bytes = Beating<Pin<Box<dyn Stream>>>;

/// A connection on which nothing has been said yet.
pub(in crate::store::redis) struct Socket {
    stream: Bytes,
    pulse: Pulse,
    kind: Kind,
}

enum Kind {
    /// TCP without TLS.
    Plain(Greeting),
    Secured(Verdict),
    /// Of this machine.
    #[cfg(unix)]
    Local(Greeting),
}

/// What is known of a connection that breaks before the first answer.
pub(in crate::store::redis) struct Omen(Kind);

impl Omen {
    /// The failure of a login, if it has to do with TLS, or the server has said why it hangs up.
    pub(in crate::store::redis) fn explain(&self, error: StoreError) -> StoreError {
        const HINT: &str = "; if it speaks TLS at this port, write `rediss://`";
        let no_answer = matches!(
            error.kind(),
            StoreErrorKind::Disconnected | StoreErrorKind::BadAnswer
        );
        match &self.0 {
            Kind::Secured(verdict) if no_answer => verdict.of_broken().unwrap_or(error),
            Kind::Plain(greeting) if no_answer => greeting
                .refusal()
                .unwrap_or_else(|| error.reworded(|message| format!("{message}{HINT}"))),
            #[cfg(unix)]
            Kind::Local(greeting) if no_answer => greeting.refusal().unwrap_or(error),
            _ => error,
        }
    }
}

impl Socket {
    pub(in crate::store::redis) fn parts(self) -> (Bytes, Pulse, Omen) {
        (self.stream, self.pulse, Omen(self.kind))
    }

    /// Connects within about `limit`.
    pub(in crate::store::redis) async fn connect(
        endpoint: &Endpoint,
        limit: Duration,
    ) -> Result<Self, StoreError> {
        let begin = Instant::now();
        let failed = |error: io::Error| errors::of_connect(endpoint, &error);
        // Before anything is opened that would not be secured.
        let connector = endpoint.connector()?;
        match endpoint.address() {
            Address::Tcp(host, port) => {
                let stream = tcp(host, *port, limit).await.map_err(failed)?;
                let Some(connector) = connector else {
                    let (stream, greeting) = Heard::new(stream);
                    return Ok(Self::of(stream, Kind::Plain(greeting)));
                };
                let left = limit.saturating_sub(begin.elapsed());
                let (stream, verdict) = connector.connect(endpoint, host, stream, left).await?;
                Ok(Self::of(stream, Kind::Secured(verdict)))
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                let (stream, greeting) = Heard::new(stream.map_err(failed)?);
                Ok(Self::of(stream, Kind::Local(greeting)))
            }
        }
    }

    fn of(stream: impl Stream + 'static, kind: Kind) -> Self {
        let stream: Pin<Box<dyn Stream>> = Box::pin(stream);
        let (stream, pulse) = Beating::new(stream);
        Self {
            stream,
            pulse,
            kind,
        }
    }
}

/// Whether a Redis server answers there that does not want TLS. No secret is sent.
#[cfg(feature = "tls")]
pub(in crate::store::redis) async fn speaks_plainly(address: &Address, limit: Duration) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let Address::Tcp(host, port) = address else {
        return false;
    };
    let asked = async {
        let mut stream = tcp(host, *port, limit).await?;
        stream.write_all(b"PING\r\n").await?;
        stream.read_u8().await
    };
    // `+PONG`, or an error in its place.
    matches!(timeout(limit, asked).await, Ok(Ok(b'+' | b'-')))
}

async fn tcp(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    // One address that swallows everything must leave time for the next.
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
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
    // Closing means that we have given up: what is still unsent must not arrive minutes later,
    // when the network has healed, and take a lock nobody wants any more.
    socket.set_linger(Some(Duration::ZERO))
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use crate::store::redis::config::url::Location;

    #[tokio::test]
    async fn nothing_goes_in_plain_text_where_tls_is_missing() {
        // Nobody has prepared certificates for it.
        let location = Location::parse("rediss://127.0.0.1:1").unwrap();
        let endpoint = location.endpoint(location.addresses()[0].clone());
        let refused = Socket::connect(&endpoint, DEAD_AFTER).await;
        let error = refused.err().expect("it is refused");
        assert_eq!(error.kind(), StoreErrorKind::Tls, "{error}");
    }
}
