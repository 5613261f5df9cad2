//! The socket to a server, and the errors that the server sends before the first answer.

use std::{io, net::SocketAddr, pin::Pin, time::Duration};

use tokio::time::Instant;

#[cfg(feature = "tls")]
use super::handshake::Verdict;
#[cfg(not(feature = "tls"))]
use super::no_tls::Verdict;
use super::{
    activity::{Activity, ActivityStream},
    early_error::{EarlyError, EarlyErrorStream},
    stream::Stream,
    tcp,
};
use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        config::url::{Address, Endpoint},
        protocol::errors,
    },
};

/// The bytes of a connection.
pub(crate) type Bytes = ActivityStream<Pin<Box<dyn Stream>>>;

/// A connection on which nothing was sent yet.
pub(crate) struct Socket {
    stream: Bytes,
    activity: Activity,
    kind: Kind,
}

enum Kind {
    /// TCP without TLS, to this address.
    Plain(EarlyError, Option<SocketAddr>),
    Secured(Verdict),
    /// A Unix socket.
    #[cfg(unix)]
    Local(EarlyError),
}

/// The reason for a connection that breaks before the first answer.
pub(crate) struct Omen(Kind);

impl Omen {
    /// Returns a more specific error for a failed login: TLS is the cause, or a proxy, or the server sent a reason
    /// before it closed the connection. Takes up to `limit`.
    pub(crate) async fn explain(&self, error: StoreError, limit: Duration) -> StoreError {
        const HINT: &str = "; if the server uses TLS on this port, write `rediss://`";
        let no_answer = matches!(
            error.kind(),
            StoreErrorKind::Disconnected | StoreErrorKind::BadAnswer
        );
        match &self.0 {
            Kind::Secured(verdict) if no_answer => verdict.of_broken().unwrap_or(error),
            Kind::Plain(early_error, peer) if no_answer => {
                if let Some(refusal) = early_error.refusal() {
                    return refusal;
                }
                if error.kind() == StoreErrorKind::Disconnected
                    && let Some(peer) = *peer
                    && tcp::closes_at_commands(peer, limit).await
                {
                    return errors::closed_by_a_proxy();
                }
                error.reworded(|message| format!("{message}{HINT}"))
            }
            #[cfg(unix)]
            Kind::Local(early_error) if no_answer => early_error.refusal().unwrap_or(error),
            _ => error,
        }
    }
}

impl Socket {
    pub(crate) fn parts(self) -> (Bytes, Activity, Omen) {
        (self.stream, self.activity, Omen(self.kind))
    }

    /// Connects within about `limit`.
    pub(crate) async fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Self, StoreError> {
        let begin = Instant::now();
        let failed = |error: io::Error| errors::of_connect(endpoint, &error);
        // Before any connection is opened that would lack TLS.
        let connector = endpoint.connector()?;
        match endpoint.address() {
            Address::Tcp(host, port) => {
                let stream = tcp::connect(endpoint.resolver(), (host, *port), limit)
                    .await
                    .map_err(failed)?;
                let Some(connector) = connector else {
                    let peer = stream.peer_addr().ok();
                    let (stream, early_error) = EarlyErrorStream::new(stream);
                    return Ok(Self::of(stream, Kind::Plain(early_error, peer)));
                };
                let left = limit.saturating_sub(begin.elapsed());
                let (stream, verdict) = connector.connect(endpoint, host, stream, left).await?;
                Ok(Self::of(stream, Kind::Secured(verdict)))
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                let (stream, early_error) = EarlyErrorStream::new(stream.map_err(failed)?);
                Ok(Self::of(stream, Kind::Local(early_error)))
            }
        }
    }

    fn of(stream: impl Stream + 'static, kind: Kind) -> Self {
        let stream: Pin<Box<dyn Stream>> = Box::pin(stream);
        let (stream, activity) = ActivityStream::new(stream);
        Self {
            stream,
            activity,
            kind,
        }
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use crate::store::redis::config::url::Location;

    #[tokio::test]
    async fn nothing_goes_in_plain_text_where_tls_is_missing() {
        // No certificates were loaded for it.
        let location = Location::parse("rediss://127.0.0.1:1").unwrap();
        let endpoint = location.endpoint(location.addresses()[0].clone());
        let refused = Socket::connect(&endpoint, Duration::from_secs(5)).await;
        let error = refused.err().expect("it is refused");
        assert_eq!(error.kind(), StoreErrorKind::Tls, "{error}");
    }
}
