//! Adds TLS to a socket, and explains a failure.
//!
//! rustls gets its provider explicitly, and nothing is installed for the whole process. Without the feature
//! `tls`, `no_tls.rs` replaces this module. A server checks a client's certificate only after the handshake, so
//! its refusal is read during the login. Redis without TLS does not answer a handshake. It then receives a
//! `PING` in plain text, and if it answers, the error names the right scheme.

use std::{
    fmt::{self, Display},
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use dlock_net::{
    Reloaded,
    tls::{ClientCertificate, TlsOptionNames, explained, server_name, tls_error},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        AlertDescription, ClientConfig, Error, SignatureScheme, client::ResolvesClientCert,
        sign::CertifiedKey,
    },
};

use super::tcp;
use crate::store::{StoreError, StoreErrorKind, redis::protocol::errors};

const NOT_TLS: &str = "the server does not use TLS on this port; write `redis://`, or the \
                       server's TLS port";

/// The options of a URL that name certificates.
pub(crate) const OPTIONS: TlsOptionNames = TlsOptionNames {
    root: "ca",
    cert: "cert",
    key: "key",
};

/// Turns connections into TLS connections.
#[derive(Clone)]
pub(crate) struct Connector(Reloaded<Certificates>);

/// The certificates that a connection trusts and shows.
pub(crate) struct Certificates {
    pub(crate) config: ClientConfig,
    pub(crate) has_identity: bool,
}

impl Connector {
    pub(crate) fn new(certificates: Reloaded<Certificates>) -> Self {
        Self(certificates)
    }

    /// Performs the handshake within about `limit`. The server must prove that it is `host`.
    pub(crate) async fn connect(
        &self,
        server: impl Display + Copy,
        host: &str,
        socket: TcpStream,
        limit: Duration,
    ) -> Result<(Secured, Verdict), StoreError> {
        // A Redis server without TLS waits silently for the end of a line. The rest of the time is reserved for a
        // test with a plain `PING`, and for its error.
        let rest = limit / 8;
        let share = limit.saturating_sub(2 * rest);
        let refused =
            |fault: &StoreError| fault.reworded(|message| errors::cannot_connect(server, message));
        let peer = socket.peer_addr();
        let error = match timeout(share, self.shake_hands(host, socket)).await {
            Ok(Ok(secured)) => return Ok(secured),
            Ok(Err(Failure::Tls(fault))) => self.0.failed(refused(&fault)),
            Ok(Err(Failure::NotTls)) => refused(&advice(NOT_TLS)),
            Ok(Err(Failure::Io(error))) => self.0.failed(errors::of_connect(server, &error)),
            Err(_) if tcp::speaks_plainly(peer, rest).await => refused(&advice(NOT_TLS)),
            Err(_) => {
                let message = format!("no answer to the TLS handshake within {share:.0?}");
                let message = errors::cannot_connect(server, message);
                StoreError::new(StoreErrorKind::Unreachable, message)
            }
        };
        Err(error)
    }

    async fn shake_hands(
        &self,
        host: &str,
        socket: TcpStream,
    ) -> Result<(Secured, Verdict), Failure> {
        let name = server_name(host).ok_or_else(|| {
            Failure::Tls(fault(format!(
                "no certificate can be issued for the name `{host}`"
            )))
        })?;
        let certificates = self.0.get();
        let verdict = Verdict {
            host: host.to_owned(),
            certificates: self.0.clone(),
            has_identity: certificates.has_identity,
            was_asked: Arc::default(),
            fault: Arc::default(),
        };
        let mut config = certificates.config.clone();
        config.client_auth_cert_resolver = Arc::new(NotingResolver {
            resolver: config.client_auth_cert_resolver,
            was_asked: verdict.was_asked.clone(),
        });
        let connector = TlsConnector::from(Arc::new(config));
        match connector.connect(name, socket).await {
            Ok(stream) => {
                let fault = verdict.fault.clone();
                Ok((Secured { stream, fault }, verdict))
            }
            Err(error) => match tls_error(&error) {
                Some(Error::InvalidMessage(_)) => Err(Failure::NotTls),
                Some(error) => Err(Failure::Tls(verdict.in_words(error))),
                None => Err(Failure::Io(error)),
            },
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// The reason why there is no TLS connection.
enum Failure {
    /// One side rejects the other, for this reason.
    Tls(StoreError),
    /// The server's answer is not TLS.
    NotTls,
    Io(io::Error),
}

/// The events of a connection after the handshake. A server checks the client's certificate only after the client has
/// completed the handshake.
pub(crate) struct Verdict {
    host: String,
    certificates: Reloaded<Certificates>,
    has_identity: bool,
    was_asked: Arc<AtomicBool>,
    fault: Arc<OnceLock<Error>>,
}

impl Verdict {
    /// Returns the reason why a connection broke before the first answer, if TLS is the cause.
    pub(crate) fn of_broken(&self) -> Option<StoreError> {
        let fault = match self.fault.get() {
            Some(error) => self.in_words(error),
            // The alert may be lost when the server closes the connection at once.
            None if self.is_asked_in_vain() => {
                let alert = Error::AlertReceived(AlertDescription::CertificateRequired);
                self.in_words(&alert)
            }
            None => {
                // The refusal of a certificate may be lost, too.
                self.certificates.load_soon();
                return None;
            }
        };
        Some(self.certificates.failed(fault))
    }

    fn is_asked_in_vain(&self) -> bool {
        self.client() == ClientCertificate::Missing
    }

    fn client(&self) -> ClientCertificate {
        match (self.was_asked.load(Ordering::Relaxed), self.has_identity) {
            (false, _) => ClientCertificate::NotAsked,
            (true, false) => ClientCertificate::Missing,
            (true, true) => ClientCertificate::Shown,
        }
    }

    fn in_words(&self, error: &Error) -> StoreError {
        match explained(error, &self.host, self.client(), OPTIONS) {
            Some(text) => advice(&text),
            None => fault(format!("the TLS handshake failed: {error}")),
        }
    }
}

fn fault(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Tls, message)
}

/// Returns an error whose text says what to do.
fn advice(message: &str) -> StoreError {
    fault(message).with_advice()
}

/// Records that the server has requested a certificate.
struct NotingResolver {
    resolver: Arc<dyn ResolvesClientCert>,
    was_asked: Arc<AtomicBool>,
}

impl ResolvesClientCert for NotingResolver {
    fn resolve(
        &self,
        authorities: &[&[u8]],
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.resolver.resolve(authorities, schemes)
    }

    fn has_certs(&self) -> bool {
        // Otherwise rustls would not call it for a request.
        true
    }
}

/// Shows nothing of the key.
impl fmt::Debug for NotingResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NotingResolver")
    }
}

/// A TLS connection that records why the peer has closed it.
pub(crate) struct Secured {
    stream: TlsStream<TcpStream>,
    fault: Arc<OnceLock<Error>>,
}

impl Secured {
    fn note(&self, error: &io::Error) {
        if let Some(error) = tls_error(error) {
            self.fault.set(error.clone()).ok();
        }
    }

    /// After the peer has closed, a write fails. The peer's alert can still be read.
    fn last_words(&mut self, cx: &mut Context<'_>) {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
            self.note(&error);
        }
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.note(error);
        }
        read
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if matches!(written, Poll::Ready(Err(_))) {
            self.last_words(cx);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Err(_))) {
            self.last_words(cx);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
