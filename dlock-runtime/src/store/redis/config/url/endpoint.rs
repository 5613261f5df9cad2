//! One server: its address, the login and the security of the connection.

use std::{fmt, time::Duration};

use redis::{ProtocolVersion, RedisConnectionInfo};

#[cfg(feature = "tls")]
use crate::store::redis::net::handshake::Connector;
#[cfg(not(feature = "tls"))]
use crate::store::redis::net::no_tls::Connector;
use crate::store::{
    StoreError, StoreErrorKind,
    redis::{
        config::credentials::{Credentials, CredentialsProvider},
        net::resolver::Resolver,
        protocol::errors,
    },
};

/// One server: its address and the login there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) address: Address,
    pub(super) login: RedisConnectionInfo,
    pub(super) security: Security,
    pub(super) resolver: Resolver,
    pub(super) in_cluster: bool,
    pub(super) shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp(String, u16),
    #[cfg(unix)]
    Unix(std::path::PathBuf),
}

/// The requirements of connections besides the login of the URL.
#[derive(Clone, Default)]
pub(super) struct Security {
    pub(super) over_tls: bool,
    pub(super) connector: Option<Connector>,
    pub(super) credentials: Option<CredentialsProvider>,
}

impl Endpoint {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Returns what resolves its host name.
    pub(crate) fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Returns `true` if it should be a node of a cluster.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Returns `true` if the server may push messages over the connection for requests, as RESP3 permits.
    pub(crate) fn pushes(&self) -> bool {
        self.login.protocol() == ProtocolVersion::RESP3
    }

    /// Returns the user, password, database and protocol. Credentials that are not in the URL are available within
    /// `limit`.
    pub(crate) async fn login_now(
        &self,
        limit: Duration,
    ) -> Result<RedisConnectionInfo, StoreError> {
        let login = self.login.clone();
        match &self.security.credentials {
            None => Ok(login),
            Some(provider) => Ok(as_user(login, &provider.ask(limit).await?)),
        }
    }

    /// Returns the connector for TLS, if the connection requires it.
    ///
    /// # Errors
    ///
    /// Returns an error if TLS is required and impossible: nothing may then be sent in plain text.
    pub(crate) fn connector(&self) -> Result<Option<&Connector>, StoreError> {
        let connector = self.security.connector.as_ref();
        if self.security.over_tls && connector.is_none() {
            let message = errors::cannot_connect(self, "TLS is required but not available");
            return Err(StoreError::new(StoreErrorKind::Tls, message));
        }
        Ok(connector)
    }

    /// Returns another server, with the same login and security.
    #[cfg(feature = "admin")]
    pub(crate) fn moved_to(&self, address: Address) -> Self {
        let shown = address.to_string();
        Self {
            address,
            shown,
            ..self.clone()
        }
    }

    /// Returns the same server under another name.
    pub(crate) fn shown_as(mut self, shown: String) -> Self {
        self.shown = shown;
        self
    }
}

/// Writes the URL without user and password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.shown)
    }
}

fn as_user(login: RedisConnectionInfo, credentials: &Credentials) -> RedisConnectionInfo {
    with_user(login, credentials.user(), Some(credentials.password()))
}

pub(super) fn with_user(
    mut login: RedisConnectionInfo,
    user: Option<&str>,
    password: Option<&str>,
) -> RedisConnectionInfo {
    if let Some(user) = user {
        login = login.set_username(user);
    }
    if let Some(password) = password {
        login = login.set_password(password);
    }
    login
}

/// Joins a host and a port in the form of a URL.
pub(super) fn joined(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => f.write_str(&joined(host, *port)),
            #[cfg(unix)]
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}
