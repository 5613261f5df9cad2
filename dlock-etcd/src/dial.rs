//! A channel of tonic over one socket, which is never made again in place, with TLS if the URL asks for it.
//!
//! # Rules
//!
//! - **Safety.** A forked child has a copy of the socket and of the tasks that use it. It would read the answers of its parent,
//!   so there the socket is never ready.
//! - **Safety.** A child that runs the runtime of its parent makes no connection there. Its socket would be one in the selector
//!   that both have, and an event of it could reach the parent, with a value that only the child knows.
//!   (`a_child_makes_no_connection_to_etcd_on_the_runtime_of_its_parent`)

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use dlock_net::tls::server_name;
use dlock_runtime::store::StoreError;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tonic::{codegen::http::Uri, transport::Channel};

use crate::{
    config::{Member, Tls},
    errors,
};

/// A socket, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Makes one connection for this process, whose tasks are on the runtime of the returned future. A channel of tonic would make
/// the next one by itself.
pub(crate) fn dial(member: &Member) -> impl Future<Output = Result<Channel, StoreError>> + use<> {
    let (endpoint, name, tls) = (
        member.endpoint.clone(),
        member.host.clone(),
        member.tls.clone(),
    );
    let process = process::id();
    let is_used = Arc::new(AtomicBool::new(false));
    let (host, encryption) = (name.clone(), tls.clone());
    let connector = tower::service_fn(move |uri: Uri| {
        let (is_used, host, tls) = (is_used.clone(), host.clone(), encryption.clone());
        async move {
            if is_used.swap(true, Ordering::AcqRel) {
                return Err(io::Error::other("the connection was closed"));
            }
            let address = (&*host, uri.port_u16().unwrap_or_default());
            let mut connecting = pin!(TcpStream::connect(address));
            // Each time: it may go on after the lookup, or with the next address.
            let connected = poll_fn(|context| {
                if process == process::id() {
                    connecting.as_mut().poll(context)
                } else {
                    Poll::Pending
                }
            });
            let stream = connected.await?;
            stream.set_nodelay(true)?;
            let own = Own { stream, process };
            let stream: Box<dyn Stream> = match tls {
                // Boxed: it is larger than the rest.
                Some(tls) => Box::pin(encrypted(tls, &host, own)).await?,
                None => Box::new(own),
            };
            Ok(TokioIo::new(stream))
        }
    });
    async move {
        let connected = endpoint.connect_with_connector(connector).await;
        let client = tls.map(|tls| tls.client);
        connected.map_err(|error| errors::of_connecting(&error, &name, client))
    }
}

async fn encrypted(tls: Tls, host: &str, socket: Own) -> io::Result<Box<dyn Stream>> {
    let name = server_name(host)
        .ok_or_else(|| io::Error::other(format!("no certificate can have the name `{host}`")))?;
    let connector = TlsConnector::from(tls.config.get());
    let stream = connector.connect(name, socket).await?;
    // Otherwise the answer to a request would be one that no client of gRPC understands.
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(io::Error::other(
            "the server has no HTTP/2 over TLS; check the port",
        ));
    }
    Ok(Box::new(stream))
}

/// A socket of the process that has made it.
struct Own {
    stream: TcpStream,
    process: u32,
}

impl Own {
    /// The socket; pending in a forked child.
    fn stream(self: Pin<&mut Self>) -> Poll<Pin<&mut TcpStream>> {
        if self.process == process::id() {
            Poll::Ready(Pin::new(&mut self.get_mut().stream))
        } else {
            Poll::Pending
        }
    }
}

impl AsyncRead for Own {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.stream()).poll_read(context, buffer)
    }
}

impl AsyncWrite for Own {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.stream()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.stream()).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It sends nothing: a socket has no buffer of its own.
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.stream()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        time::timeout,
    };

    use dlock_runtime::store::{StoreErrorKind, StoreOptions};
    use dlock_testkit::Authority;
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            ServerConfig,
            crypto::ring,
            pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        },
    };

    use super::*;
    use crate::{
        config::Config,
        conn::{Conn, Ties, Tried},
    };

    #[tokio::test]
    async fn a_connection_that_is_closed_in_its_handshake_is_no_fault_of_certificates() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        let authority = Authority::new();
        let url = format!("etcd://{place}?{}", authority.ssl_options(None));
        let config = Config::parse(&url, &StoreOptions::default()).unwrap();
        let answer = async |bytes: &'static [u8]| {
            let (mut other, _) = listener.accept().await.unwrap();
            other.read_u8().await.ok();
            other.write_all(bytes).await.ok();
        };
        for (bytes, expected) in [
            (&b""[..], StoreErrorKind::Unreachable),
            (&b"This is no TLS at all"[..], StoreErrorKind::Tls),
        ] {
            let dialled = dial(&config.members[0]);
            let (dialled, ()) = tokio::join!(dialled, answer(bytes));
            let error = dialled.unwrap_err();
            assert_eq!(error.kind(), expected, "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_without_http_2_over_tls_is_named() {
        let authority = Authority::new();
        let own = authority.issue(&["127.0.0.1"]);
        let chain = CertificateDer::pem_slice_iter(own.cert_pem().as_bytes());
        let key = PrivateKeyDer::from_pem_slice(own.key_pem().as_bytes());
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key.unwrap())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        let url = format!("etcd://{place}?{}", authority.ssl_options(None));
        let config = Config::parse(&url, &StoreOptions::default()).unwrap();
        for (protocols, is_accepted) in [(Vec::new(), false), (vec![b"h2".to_vec()], true)] {
            let mut server = server.clone();
            server.alpn_protocols = protocols;
            let acceptor = TlsAcceptor::from(Arc::new(server));
            let accept = async {
                let (stream, _) = listener.accept().await.unwrap();
                acceptor.accept(stream).await
            };
            let (dialled, accepted) = tokio::join!(dial(&config.members[0]), accept);
            let refusal = dialled.err().map(|error| error.to_string());
            assert_eq!(refusal.is_none(), is_accepted, "{refusal:?}");
            if let Some(text) = refusal {
                let words = "the server has no HTTP/2 over TLS; check the port";
                assert!(text.contains(words), "{text}");
            }
            drop(accepted);
        }
    }

    #[tokio::test]
    async fn a_socket_is_not_used_by_a_child() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (stream, process) = (stream.unwrap(), process::id());
        let mut own = Own { stream, process };
        let (mut other, _) = listener.accept().await.unwrap();
        other.write_all(b"answer").await.unwrap();
        let mut bytes = [0; 3];
        own.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ans");
        // As the copy in a child sees it.
        own.process += 1;
        let brief = Duration::from_millis(50);
        let read = timeout(brief, own.read_exact(&mut bytes)).await;
        assert!(read.is_err(), "the rest is for the parent");
        assert!(timeout(brief, own.write_all(b"request")).await.is_err());
    }

    /// The next one has to read the base of fences again.
    #[tokio::test]
    async fn a_channel_makes_one_connection_and_no_other_in_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        let mut options = StoreOptions::default();
        options.response_timeout = Duration::from_secs(60);
        let config = Config::parse(&format!("etcd://{place}"), &options).unwrap();
        let dialled = dial(&config.members[0]);
        let (channel, accepted) = tokio::join!(dialled, listener.accept());
        let (_give_up, given_up) = tokio::sync::watch::channel(());
        let ties = Ties {
            doubt: Arc::default(),
            given_up,
            is_full: Arc::default(),
            number: 1,
        };
        let place = place.to_string();
        let opened = Conn::open(Arc::new(config), place, channel.unwrap(), ties).await;
        let conn = opened.unwrap();
        drop(accepted);
        for _ in 0..3 {
            assert_eq!(conn.try_out().await, Tried::Fails);
        }
        let again = timeout(Duration::from_millis(50), listener.accept());
        assert!(again.await.is_err());
    }
}
