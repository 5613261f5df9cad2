//! Connections to the servers, with TLS if the URL asks for it.

use dlock_runtime::store::StoreError;
use zookeeper_client::{Client, Connector};

use crate::{config::Config, errors::Failure};

/// Makes a session at one of these servers. With TLS, the certificates are read for each session.
#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, reason = "all connections are plain")
)]
pub(crate) async fn connect(
    config: &Config,
    connector: Connector,
    hosts: &str,
) -> Result<Client, Failure> {
    #[cfg(feature = "tls")]
    if let Some(files) = &config.tls {
        let options = files.read().map_err(|error| unusable(&error))?.options()?;
        return Ok(connector.with_tls(options).secure_connect(hosts).await?);
    }
    Ok(connector.connect(hosts).await?)
}

/// Returns why no session was made. The client does not tell of TLS, so a connection beside it finds that out.
pub(crate) async fn explained(config: &Config, hosts: &str, failure: Failure) -> Failure {
    match fault(config, hosts, &failure).await {
        Some(error) => Failure::Store(error),
        None => failure,
    }
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "it connects with the feature")]
async fn fault(_: &Config, _: &str, _: &Failure) -> Option<StoreError> {
    None
}

#[cfg(feature = "tls")]
async fn fault(config: &Config, hosts: &str, failure: &Failure) -> Option<StoreError> {
    use dlock_runtime::store::StoreErrorKind;
    use futures_util::future::join_all;
    use tokio::time::timeout;
    use zookeeper_client::Error;

    if config.tls.is_none() || !matches!(failure, Failure::Client(Error::NoHosts | Error::Timeout))
    {
        return None;
    }
    let asked = hosts.split(',').map(async |host| {
        let asked = timeout(config.response_limit, word::ask(config, host)).await;
        asked.ok()?.err()
    });
    let mut faults = join_all(asked).await.into_iter().flatten();
    faults.find(|fault| fault.kind() == StoreErrorKind::Tls)
}

#[cfg(feature = "tls")]
fn unusable(error: &dlock_runtime::ConnectError) -> StoreError {
    use dlock_runtime::store::StoreErrorKind;

    StoreError::new(StoreErrorKind::Tls, error.to_string()).with_advice()
}

/// The word `srvr`, by which servers tell their version and their mode. It is one of the "four letter words". By default, servers
/// answer only this one.
#[cfg(any(feature = "admin", feature = "tls"))]
pub(crate) mod word {
    use std::io;

    use dlock_runtime::store::{StoreError, StoreErrorKind};
    use tokio::{
        io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
        net::TcpStream,
    };

    use crate::config::{Config, place};

    /// The longest answer that is read.
    const LONGEST: u64 = 64 * 1024;

    /// Asks a server over a connection of its own.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "all connections are plain")
    )]
    pub(crate) async fn ask(config: &Config, host: &str) -> Result<String, StoreError> {
        #[cfg(feature = "tls")]
        if let Some(files) = &config.tls {
            return encrypted(files, host).await;
        }
        let stream = open(host).await?;
        said(stream).await.map_err(|error| broken(&error))
    }

    #[cfg(feature = "tls")]
    async fn encrypted(files: &crate::tls::Files, host: &str) -> Result<String, StoreError> {
        use crate::tls::{advised, name_of};
        use tokio_rustls::{TlsConnector, rustls};

        let certificates = files.read().map_err(|error| super::unusable(&error))?;
        let (server, _) = place(host);
        let Some(name) = name_of(server) else {
            let text = format!("`{server}` is not a host");
            return Err(StoreError::new(StoreErrorKind::Unreachable, text));
        };
        let of_tls = |error: &io::Error| {
            let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
            Some(advised(host, cause))
        };
        let stream = open(host).await?;
        let connector = TlsConnector::from(certificates.config);
        let stream = connector.connect(name, stream).await.map_err(|error| {
            of_tls(&error).unwrap_or_else(|| {
                let text = format!(
                    "no TLS connection to `{host}`: {error}; check that its port is the `secureClientPort`"
                );
                StoreError::new(StoreErrorKind::Tls, text).with_advice()
            })
        })?;
        // With TLS 1.3, a server refuses the client's certificate only now.
        let said = said(stream).await;
        said.map_err(|error| of_tls(&error).unwrap_or_else(|| broken(&error)))
    }

    async fn open(host: &str) -> Result<TcpStream, StoreError> {
        let (server, port) = place(host);
        let server = server.trim_matches(['[', ']']);
        TcpStream::connect((server, port)).await.map_err(|error| {
            StoreError::new(StoreErrorKind::Unreachable, format!("`{host}`: {error}"))
        })
    }

    async fn said(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<String> {
        stream.write_all(b"srvr").await?;
        let mut said = Vec::new();
        let read = stream.take(LONGEST).read_to_end(&mut said).await;
        // A server may break the connection behind its answer.
        if said.is_empty() {
            read?;
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn broken(error: &io::Error) -> StoreError {
        StoreError::new(StoreErrorKind::Disconnected, error.to_string())
    }
}
