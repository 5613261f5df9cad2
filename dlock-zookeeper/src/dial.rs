//! Connections to the servers, with TLS if the URL asks for it.

use std::time::Duration;

use dlock_runtime::store::StoreError;
use tokio::time::timeout;
use zookeeper_client::{Client, Connector, SessionState};

use crate::{config::Config, errors::Failure};

/// The time between two looks at the certificates while there is no connection.
const LOOK: Duration = Duration::from_secs(1);

/// The same while there is one. Its successor begins with the certificates that were read last.
const CALM_LOOK: Duration = Duration::from_secs(60);

/// Makes a session at one of these servers. With TLS, the certificates are read for each session.
pub(crate) async fn connect(
    config: &Config,
    connector: Connector,
    hosts: &str,
) -> Result<Client, Failure> {
    if let Some(trust) = &config.tls {
        trust.refresh().await;
    }
    // Boxed: the connector would be in this future twice.
    Box::pin(connect_at_once(config, connector, hosts)).await
}

/// The same with the certificates that were read last.
pub(crate) async fn connect_at_once(
    config: &Config,
    connector: Connector,
    hosts: &str,
) -> Result<Client, Failure> {
    match &config.tls {
        Some(trust) => trust.connect(connector, hosts).await,
        None => Ok(connector.connect(hosts).await?),
    }
}

/// Reads the certificates again from time to time, and often while the session has lost its connection. Does not end before the
/// session.
pub(crate) async fn keep_trusted(config: &Config, client: &Client) {
    let Some(trust) = &config.tls else {
        return std::future::pending().await;
    };
    let mut watched = client.state_watcher();
    let mut state = watched.state();
    while !state.is_terminated() {
        let is_connected = state == SessionState::SyncConnected;
        let pause = if is_connected { CALM_LOOK } else { LOOK };
        let changed = timeout(pause, watched.changed()).await;
        trust.refresh().await;
        state = changed.unwrap_or(state);
    }
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
    use zookeeper_client::Error;

    if config.tls.is_none() || !matches!(failure, Failure::Client(Error::NoHosts | Error::Timeout))
    {
        return None;
    }
    let asked = hosts.split(',').map(async |host| {
        let asked = timeout(config.response_limit, word::ask(config, host)).await;
        asked.ok()?.err()
    });
    let asked = join_all(asked).await;
    let is_about_tls = |fault: &StoreError| fault.kind() == StoreErrorKind::Tls;
    let are_all = asked
        .iter()
        .all(|fault| fault.as_ref().is_some_and(is_about_tls));
    let mut faults: Vec<_> = asked.into_iter().flatten().collect();
    // The client has found out all about servers that are not there.
    faults.retain(|fault| fault.kind() != StoreErrorKind::Unreachable);
    faults.sort_by_key(|fault| !is_about_tls(fault));
    let fault = faults.into_iter().next()?;
    if are_all || !is_about_tls(&fault) {
        return Some(fault);
    }
    // Another server may let this client in soon, so callers go on waiting.
    let fault = StoreError::new(StoreErrorKind::Disconnected, fault.message());
    Some(fault.with_advice())
}

/// The word `srvr`, by which servers tell their version and their mode. It is one of the "four letter words". By default, servers
/// answer only this one.
#[cfg(any(feature = "admin", feature = "tls"))]
pub(crate) mod word {
    use std::io;

    use dlock_net::Host;
    use dlock_runtime::store::{StoreError, StoreErrorKind};
    use tokio::{
        io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
        net::TcpStream,
    };

    use crate::config::{Config, PORT};

    /// The longest answer that is read.
    const LONGEST: u64 = 64 * 1024;

    /// Asks a server over a connection of its own.
    pub(crate) async fn ask(config: &Config, host: &str) -> Result<String, StoreError> {
        if let Some(trust) = &config.tls {
            return encrypted(trust, host).await;
        }
        let stream = open(host).await?;
        said(stream).await.map_err(|error| broken(&error))
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_async, reason = "it connects with the feature")]
    async fn encrypted(trust: &crate::tls::Trust, _: &str) -> Result<String, StoreError> {
        match *trust {}
    }

    #[cfg(feature = "tls")]
    async fn encrypted(trust: &crate::tls::Trust, host: &str) -> Result<String, StoreError> {
        use crate::tls::advised;
        use dlock_net::tls::{server_name, tls_error};
        use tokio_rustls::TlsConnector;

        let server = place(host)?.name;
        let Some(name) = server_name(&server) else {
            let text = format!("no certificate can have the name `{server}`");
            return Err(StoreError::new(StoreErrorKind::Unreachable, text));
        };
        let of_tls =
            |error: &io::Error| Some(advised(host, &server, trust.client(), tls_error(error)?));
        // Also a server that has reached its limit of connections closes the next one.
        let closed = |why: &str| {
            let text = format!(
                "no TLS connection to `{host}`: {why}; check that its port is the `secureClientPort`, and its log"
            );
            StoreError::new(StoreErrorKind::Disconnected, text).with_advice()
        };
        let failed = |error: &io::Error| {
            let error = of_tls(error).unwrap_or_else(|| closed(&error.to_string()));
            match trust.fault() {
                // The old ones may be the reason.
                Some(fault) => {
                    let text = format!(
                        "{}; certificates were not replaced: {fault}",
                        error.message()
                    );
                    StoreError::new(error.kind(), text).with_advice()
                }
                None => error,
            }
        };
        let stream = open(host).await?;
        let connector = TlsConnector::from(trust.config());
        let stream = connector.connect(name, stream).await;
        // With TLS 1.3, a server refuses the client's certificate only behind the handshake.
        let said = said(stream.map_err(|error| failed(&error))?).await;
        let said = said.map_err(|error| failed(&error))?;
        if said.is_empty() {
            return Err(closed("it was closed without an answer"));
        }
        Ok(said)
    }

    async fn open(host: &str) -> Result<TcpStream, StoreError> {
        let Host { name, port } = place(host)?;
        TcpStream::connect((name, port)).await.map_err(|error| {
            StoreError::new(StoreErrorKind::Unreachable, format!("`{host}`: {error}"))
        })
    }

    fn place(host: &str) -> Result<Host, StoreError> {
        Host::read(host, PORT).map_err(|reason| {
            StoreError::new(StoreErrorKind::Unreachable, format!("`{host}`: {reason}"))
        })
    }

    async fn said(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<String> {
        let written = stream.write_all(b"srvr").await;
        let mut said = Vec::new();
        // The reason of a refusal may be there to be read.
        let read = stream.take(LONGEST).read_to_end(&mut said).await;
        // A server may break the connection behind its answer.
        if said.is_empty() {
            read?;
            written?;
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn broken(error: &io::Error) -> StoreError {
        StoreError::new(StoreErrorKind::Disconnected, error.to_string())
    }
}
