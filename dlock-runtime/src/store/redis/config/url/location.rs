//! The servers of a URL, which is shown without its secrets.
//!
//! The shown form consists of parts that were parsed. Of any other text, only the scheme is shown, because any part
//! of it may be the password.

use std::fmt;

use redis::RedisConnectionInfo;

use super::endpoint::{Address, Endpoint, Security, joined};
#[cfg(feature = "tls")]
use crate::store::redis::net::tls::Tls;
use crate::{
    error::ConnectError,
    store::redis::{
        config::{credentials::CredentialsProvider, options::UrlOptions},
        net::resolver::Resolver,
    },
};

/// The servers of a URL, their relation to each other, and the login there.
#[derive(Clone)]
pub(crate) struct Location {
    pub(super) layout: UrlLayout,
    pub(super) addresses: Vec<Address>,
    pub(super) login: RedisConnectionInfo,
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "it names certificates")
    )]
    pub(super) options: UrlOptions,
    /// The host names that all connections of the store know.
    pub(super) resolver: Resolver,
    pub(super) security: Security,
    /// The login for Sentinels, which have separate users.
    pub(super) sentinel_login: RedisConnectionInfo,
    pub(super) min_replicas: u32,
    /// The scheme of the URL of each single server.
    pub(super) scheme: &'static str,
    pub(super) shown: String,
}

/// The relation of several servers to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UrlLayout {
    /// There is one server.
    Single,
    /// They are Sentinels, which know the master of this service.
    Sentinel(String),
    /// They are some nodes of a cluster.
    Cluster,
    /// They are independent of each other.
    Independent,
}

impl Location {
    /// Adds the credentials that are set in addition to the URL.
    pub(crate) fn set_credentials(
        &mut self,
        credentials: Option<&CredentialsProvider>,
    ) -> Result<(), ConnectError> {
        if credentials.is_some() && self.has_password() {
            return Err(ConnectError::InvalidOption {
                option: "credentials",
                reason: "the URL has a password too; set it in one place".into(),
            });
        }
        self.security.credentials = credentials.cloned();
        Ok(())
    }

    /// Adds the certificates that are set in addition to the URL, and reads the files of both.
    #[cfg(feature = "tls")]
    pub(crate) fn set_tls(&mut self, tls: Option<&Tls>) -> Result<(), ConnectError> {
        if !self.security.over_tls {
            return match tls {
                None => Ok(()),
                Some(_) => Err(ConnectError::InvalidOption {
                    option: "tls",
                    reason: "the URL does not use TLS; write `rediss://` instead of `redis://`"
                        .into(),
                }),
            };
        }
        let [ca, cert, key] = ["ca", "cert", "key"].map(|name| self.options.text(name));
        let tls = tls.cloned().unwrap_or_default();
        let tls = tls.merged(Tls::from_paths(ca, cert, key))?;
        self.security.connector = Some(tls.connector()?);
        Ok(())
    }

    pub(crate) fn has_password(&self) -> bool {
        self.login.password().is_some()
    }

    /// Returns the user of the URL's login. It is the server's default user if the URL has only a password.
    #[cfg(feature = "admin")]
    pub(crate) fn user(&self) -> Option<&str> {
        let default = || self.has_password().then_some("default");
        self.login.username().or_else(default)
    }

    pub(crate) fn layout(&self) -> &UrlLayout {
        &self.layout
    }

    /// Returns the servers of the URL, at least one.
    pub(crate) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the number of replicas that have to confirm a lease.
    pub(crate) fn min_replicas(&self) -> u32 {
        self.min_replicas
    }

    /// Returns the servers of the URL, if they are Sentinels.
    pub(crate) fn sentinels(&self) -> Vec<Endpoint> {
        let sentinel = |address: &Address| Endpoint {
            address: address.clone(),
            login: self.sentinel_login.clone(),
            // The separate credentials are for the servers, not for Sentinels.
            security: Security {
                credentials: None,
                ..self.security.clone()
            },
            resolver: self.resolver.clone(),
            in_cluster: false,
            shown: format!("the Sentinel at {address}"),
        };
        self.addresses.iter().map(sentinel).collect()
    }

    /// Returns one of these servers, or another one that belongs to them.
    pub(crate) fn endpoint(&self, address: Address) -> Endpoint {
        let shown = match (&address, &self.layout) {
            (_, UrlLayout::Single) => self.shown.clone(),
            (Address::Tcp(host, port), _) => format!("{}://{}", self.scheme, joined(host, *port)),
            #[cfg(unix)]
            (Address::Unix(path), _) => path.display().to_string(),
        };
        Endpoint {
            address,
            login: self.login.clone(),
            security: self.security.clone(),
            resolver: self.resolver.clone(),
            in_cluster: self.layout == UrlLayout::Cluster,
            shown,
        }
    }
}

/// Writes the URL without user and password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({})", self.shown)
    }
}
