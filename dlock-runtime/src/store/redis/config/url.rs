//! Reads the URL of one or several servers, and shows it without its secrets.
//!
//! What is shown is put together from parts that were understood. Of anything else nothing but
//! the scheme is shown, since one cannot know which part of it was meant to be the password.

mod endpoint;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;

use redis::RedisConnectionInfo;

pub(in crate::store::redis) use self::endpoint::{Address, Endpoint};
use self::{
    endpoint::{Security, joined},
    read::read,
};
use super::{options::Options, scheme};
use crate::{error::ConnectError, store::redis::RedisConfig};

/// Which servers a URL names, how they belong together, and who we are there.
#[derive(Clone)]
pub(in crate::store::redis) struct Location {
    layout: Layout,
    addresses: Vec<Address>,
    login: RedisConnectionInfo,
    #[cfg_attr(
        not(feature = "tls"),
        expect(dead_code, reason = "it names certificates")
    )]
    options: Options,
    security: Security,
    /// Who we are for Sentinels, which have users of their own.
    sentinel_login: RedisConnectionInfo,
    min_replicas: u32,
    /// What the URL of each of the servers begins with.
    scheme: &'static str,
    shown: String,
}

/// How several servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Layout {
    /// There is one.
    Single,
    /// They are Sentinels, which know the master of this service.
    Sentinel(String),
    /// They are some nodes of a cluster.
    Cluster,
    /// They know nothing of each other.
    Independent,
}

impl Location {
    pub(in crate::store::redis) fn parse(text: &str) -> Result<Self, ConnectError> {
        read(text).map_err(|reason| ConnectError::InvalidUrl {
            url: scheme::only(text),
            reason,
        })
    }

    /// Adds what is set beside the URL, and reads the files of both.
    pub(in crate::store::redis) fn prepare(
        &mut self,
        config: &RedisConfig,
    ) -> Result<(), ConnectError> {
        if config.credentials.is_some() && self.has_password() {
            return Err(ConnectError::InvalidOption {
                option: "credentials",
                reason: "the URL has a password as well: give it in one place",
            });
        }
        self.security.credentials.clone_from(&config.credentials);
        self.prepare_tls(config)
    }

    #[cfg(feature = "tls")]
    fn prepare_tls(&mut self, config: &RedisConfig) -> Result<(), ConnectError> {
        use crate::store::redis::net::tls::Tls;

        if !self.security.over_tls {
            return match config.tls {
                None => Ok(()),
                Some(_) => Err(ConnectError::InvalidOption {
                    option: "tls",
                    reason: "the URL asks for none: write `rediss://` in place of `redis://`",
                }),
            };
        }
        let [ca, cert, key] = ["ca", "cert", "key"].map(|name| self.options.text(name));
        let tls = config.tls.clone().unwrap_or_default();
        let tls = tls.merged(Tls::from_paths(ca, cert, key))?;
        self.security.connector = Some(tls.connector()?);
        Ok(())
    }

    #[cfg(not(feature = "tls"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "it is used where there is TLS"
    )]
    fn prepare_tls(&mut self, _: &RedisConfig) -> Result<(), ConnectError> {
        Ok(())
    }

    pub(in crate::store::redis) fn has_password(&self) -> bool {
        self.login.password().is_some()
    }

    pub(in crate::store::redis) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The servers it names, at least one.
    pub(in crate::store::redis) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How many replicas have to confirm a lease.
    pub(in crate::store::redis) fn min_replicas(&self) -> u32 {
        self.min_replicas
    }

    /// The servers it names, where these are Sentinels.
    pub(in crate::store::redis) fn sentinels(&self) -> Vec<Endpoint> {
        let sentinel = |address: &Address| Endpoint {
            address: address.clone(),
            login: self.sentinel_login.clone(),
            // The credentials are those of the servers.
            security: Security {
                credentials: None,
                ..self.security.clone()
            },
            in_cluster: false,
            shown: format!("the Sentinel at {address}"),
        };
        self.addresses.iter().map(sentinel).collect()
    }

    /// One of these servers, or another one that belongs to them.
    pub(in crate::store::redis) fn endpoint(&self, address: Address) -> Endpoint {
        let shown = match (&address, &self.layout) {
            (_, Layout::Single) => self.shown.clone(),
            (Address::Tcp(host, port), _) => format!("{}://{}", self.scheme, joined(host, *port)),
            #[cfg(unix)]
            (Address::Unix(path), _) => path.display().to_string(),
        };
        Endpoint {
            address,
            login: self.login.clone(),
            security: self.security.clone(),
            in_cluster: self.layout == Layout::Cluster,
            shown,
        }
    }
}

/// The URL without user and password.
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
