//! The URL of a store, and the two ways to the server that it names.

use std::{fmt, net::Ipv6Addr, time::Duration};

use dlock_net::{Host, Login, Reloaded, TlsPaths, UrlText, tls::ClientCertificate};
use dlock_runtime::{ConnectError, store::StoreOptions};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

use crate::{
    hosts,
    schema::{Schema, VERSION},
    tls,
};

/// The port of an address without one.
const PORT: u16 = 5432;

const FORM: &str = "write `postgres://user@host/database`";

/// The longest name of a connection in PostgreSQL.
const LONGEST_NAME: usize = 63;

/// The settings of a store: its server, its schema, and its limits.
#[derive(Clone)]
pub(crate) struct Config {
    /// The way of all requests.
    pub(crate) requests: Route,
    /// The way of renewals, and of messages if the URL names it.
    pub(crate) messages: Route,
    /// Whether messages are to be had on that way, as far as the URL says.
    pub(crate) listen: Listen,
    pub(crate) schema: Schema,
    /// The user of the connections.
    pub(crate) role: String,
    /// The certificate of the client.
    pub(crate) client: ClientCertificate,
    pub(crate) response_limit: Duration,
    pub(crate) connect_limit: Duration,
    /// The URL without its password.
    pub(crate) shown: String,
}

/// Whether a manager listens for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Unless a pooler is found on the way.
    Direct,
    /// The URL names a server for it.
    Always,
    /// `listen=off`.
    Never,
}

/// The way to a server.
#[derive(Clone)]
pub(crate) struct Route {
    /// One configuration for each host, which are tried in this order.
    pub(crate) hosts: Vec<tokio_postgres::Config>,
    /// `None` for a connection without TLS.
    pub(crate) tls: Option<Reloaded<MakeRustlsConnect>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("schema", &self.schema)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// The options of the URL that are dlock's, or that tokio-postgres does not know.
struct Own {
    schema: Option<String>,
    listen: Option<String>,
    tls: Option<TlsPaths>,
}

impl Config {
    /// How long a request waits for rows that other sessions have locked. It is undone before its caller gives the connection
    /// up: otherwise a process of the server would wait on for each such connection.
    pub(crate) fn lock_limit(&self) -> Duration {
        self.response_limit * 2 / 3
    }

    /// Reads the URL.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] with the reason, without the password.
    pub(crate) fn parse(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let shown = UrlText::split(url).shown("postgres");
        let refused = |reason: String| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        let (rest, own) = split(url).map_err(refused)?;
        let mut hosts = hosts::each(&rest).map_err(refused)?;
        let config = &hosts[0];
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refused(format!("it names no host; {FORM}")));
        }
        let Some(role) = config.get_user().map(str::to_owned) else {
            return Err(refused(format!("it names no user; {FORM}")));
        };
        let schema = own.schema.unwrap_or_else(|| options.namespace.clone());
        let schema = Schema::new(schema).map_err(|error| refused(format!("`schema`: {error}")))?;
        let is_direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        let tls = match &own.tls {
            None if is_direct => {
                let reason =
                    "connections with `sslnegotiation=direct` need `sslmode=require`; add it";
                return Err(refused(reason.to_owned()));
            }
            None => None,
            Some(paths) => Some(tls::connector(paths)?),
        };
        let has_identity = own.tls.is_some_and(|paths| paths.own.is_some());
        let client = ClientCertificate::of(has_identity);
        let ssl_mode = if tls.is_some() {
            SslMode::Require
        } else {
            SslMode::Disable
        };
        for config in &mut hosts {
            if config.get_application_name().is_none() && !options.label.is_empty() {
                config.application_name(connection_name(&options.label));
            }
            config
                .ssl_mode(ssl_mode)
                .connect_timeout(options.connect_timeout)
                .keepalives_idle(Duration::from_secs(15))
                .keepalives_interval(Duration::from_secs(5))
                .keepalives_retries(3);
        }
        let requests = Route { hosts, tls };
        let (listen, messages) = match own.listen.as_deref() {
            None => (Listen::Direct, requests.clone()),
            Some("off") => (Listen::Never, requests.clone()),
            Some(address) => (Listen::Always, requests.to(address).map_err(refused)?),
        };
        Ok(Self {
            requests,
            messages,
            listen,
            schema,
            role,
            client,
            response_limit: options.response_timeout,
            connect_limit: options.connect_timeout,
            shown: shown.clone(),
        })
    }
}

/// Returns the name of the connections of a process: which it is, and which version of the tables it knows.
fn connection_name(label: &str) -> String {
    let version = format!(" dlock/{VERSION}");
    let label: String = label.chars().take(LONGEST_NAME - version.len()).collect();
    label + &version
}

impl Route {
    /// The same login on another host, `host` or `host:port`.
    fn to(&self, address: &str) -> Result<Self, String> {
        let end = address.find(':').unwrap_or(address.len());
        let (directory, host) = if address.starts_with('/') {
            (Some(&address[..end]), format!("socket{}", &address[end..]))
        } else if address.parse::<Ipv6Addr>().is_ok() {
            // It needs no brackets here.
            (None, format!("[{address}]"))
        } else {
            (None, address.to_owned())
        };
        let Host { name, port } = Host::read(&host, PORT).map_err(|reason| {
            format!("`listen`: {reason}; write `listen=host:5432`, or `listen=off`")
        })?;
        let name = directory.unwrap_or(&name);
        let from = &self.hosts[0];
        let mut config = tokio_postgres::Config::new();
        config.host(name).port(port).ssl_mode(from.get_ssl_mode());
        config
            .ssl_negotiation(from.get_ssl_negotiation())
            .keepalives(from.get_keepalives())
            .keepalives_idle(from.get_keepalives_idle())
            .channel_binding(from.get_channel_binding());
        if let Some(interval) = from.get_keepalives_interval() {
            config.keepalives_interval(interval);
        }
        if let Some(retries) = from.get_keepalives_retries() {
            config.keepalives_retries(retries);
        }
        if let Some(silence) = from.get_tcp_user_timeout() {
            config.tcp_user_timeout(*silence);
        }
        if let Some(user) = from.get_user() {
            config.user(user);
        }
        if let Some(password) = from.get_password() {
            config.password(password);
        }
        if let Some(name) = from.get_dbname() {
            config.dbname(name);
        }
        if let Some(name) = from.get_application_name() {
            config.application_name(name);
        }
        if let Some(options) = from.get_options() {
            config.options(options);
        }
        if let Some(limit) = from.get_connect_timeout() {
            config.connect_timeout(*limit);
        }
        Ok(Self {
            hosts: vec![config],
            tls: self.tls.clone(),
        })
    }
}

/// Takes dlock's own options from the URL, and checks the parts that all stores have.
fn split(url: &str) -> Result<(String, Own), String> {
    let parts = UrlText::split(url);
    parts.check()?;
    if let Some(login) = parts.login {
        // tokio-postgres would take the end of the password for a host.
        if login.contains('@') {
            return Err("write `%40` for an `@` in a user, a password or a database".to_owned());
        }
        Login::read(login)?;
    }
    // Options may name the hosts, and the path of a socket is percent-encoded.
    if !parts.hosts.is_empty() && !parts.hosts.contains('%') {
        parts
            .hosts(PORT)
            .map_err(|reason| format!("{reason}; {FORM}"))?;
    }
    let mut options = parts.options_and_others(&["schema", "listen"])?;
    let own = Own {
        schema: options.take("schema"),
        listen: options.take("listen"),
        tls: options.tls()?,
    };
    let mut rest = form_urlencoded::Serializer::new(String::new());
    rest.extend_pairs(options.rest());
    // tokio-postgres reads `%20` and not `+`.
    let rest = rest.finish().replace('+', "%20");
    let (base, _) = url.split_once('?').unwrap_or((url, ""));
    let all = if rest.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{rest}")
    };
    Ok((all, own))
}

#[cfg(test)]
mod tests;
