//! The URL of a store, and the two ways to the server that it names.

use std::{fmt, time::Duration};

use dlock_runtime::{
    ConnectError,
    store::{Reloaded, StoreOptions},
};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

use crate::{
    hosts,
    schema::{Schema, VERSION},
    tls,
};

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
#[derive(Default)]
struct Own {
    schema: Option<String>,
    listen: Option<String>,
    ssl_mode: Option<String>,
    files: tls::Files,
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
        let shown = shown(url);
        let refused = |reason: String| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        let (rest, own) = split(url).map_err(refused)?;
        let mut hosts = hosts::each(&rest).map_err(refused)?;
        let config = &hosts[0];
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(refused(
                "it names no host; write `postgres://user@host/database`".to_owned(),
            ));
        }
        let Some(role) = config.get_user().map(str::to_owned) else {
            return Err(refused(
                "it names no user; write `postgres://user@host/database`".to_owned(),
            ));
        };
        let schema = own.schema.unwrap_or_else(|| options.namespace.clone());
        let schema = Schema::new(schema).map_err(|error| refused(format!("`schema`: {error}")))?;
        let is_direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        let tls = match own.ssl_mode.as_deref() {
            None | Some("disable") => {
                if own.files.are_named() || is_direct {
                    return Err(refused(
                        "certificates and `sslnegotiation=direct` need `sslmode=require`; write it, or remove them"
                            .to_owned(),
                    ));
                }
                None
            }
            Some("require" | "verify-ca" | "verify-full") => Some(tls::connector(own.files)?),
            // With `allow` and `prefer` of libpq, an unverified connection would look like a safe one.
            Some(_) => {
                return Err(refused(
                    "`sslmode` is `disable` or `require`, which verifies the server's certificate; write one of them"
                        .to_owned(),
                ));
            }
        };
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
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port
                    .parse()
                    .map_err(|_| format!("`listen`: `{port}` is not a port"))?;
                (host, port)
            }
            _ => (address, 5432),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(
                "`listen` names no host; write `listen=host:5432`, or `listen=off`".to_owned(),
            );
        }
        let from = &self.hosts[0];
        let mut config = tokio_postgres::Config::new();
        config.host(host).port(port).ssl_mode(from.get_ssl_mode());
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

/// Takes dlock's own options from the URL.
fn split(url: &str) -> Result<(String, Own), String> {
    let mut own = Own::default();
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    if query.contains('@') {
        let reason = "write `%3F` for a `?` in a password, and `%40` for an `@` in an option";
        return Err(reason.to_owned());
    }
    let place = match base.split_once('@') {
        // The end of the password would be taken for a host.
        Some((_, place)) if place.contains('@') => {
            return Err("write `%40` for an `@` in a user, a password or a database".to_owned());
        }
        Some((_, place)) => place,
        None => base,
    };
    // Otherwise the connection would be plain although the URL asks for TLS.
    let one_query = || "options follow one `?`, with `&` between them".to_owned();
    if place.contains("sslmode=") {
        return Err(one_query());
    }
    let mut rest = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if value.contains("sslmode=") {
            return Err(one_query());
        }
        let slot = match &*name {
            "schema" => &mut own.schema,
            "listen" => &mut own.listen,
            "sslmode" => &mut own.ssl_mode,
            "sslrootcert" => &mut own.files.root,
            "sslcert" => &mut own.files.cert,
            "sslkey" => &mut own.files.key,
            _ => {
                rest.append_pair(&name, &value);
                continue;
            }
        };
        if slot.replace(value.into_owned()).is_some() {
            return Err(format!("`{name}` is there twice; remove one"));
        }
    }
    if own.files.cert.is_some() != own.files.key.is_some() {
        return Err("`sslcert` and `sslkey` belong together; write both".to_owned());
    }
    // tokio-postgres reads `%20` and not `+`.
    let rest = rest.finish().replace('+', "%20");
    let all = if rest.is_empty() {
        base.to_owned()
    } else {
        format!("{base}?{rest}")
    };
    Ok((all, own))
}

/// The URL with its scheme, hosts and database only, or less where it is not certain that a part is no password.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "postgres://…".to_owned();
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let hosts = place.split('/').next().unwrap_or_default();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let mut ports = hosts.split(',').filter(|host| !host.ends_with(']'));
    let are_ports = ports.all(|host| host.rsplit_once(':').is_none_or(|(_, port)| is_port(port)));
    if query.contains('@') || !are_ports {
        return format!("{scheme}://…");
    }
    format!("{scheme}://{place}")
}

#[cfg(test)]
mod tests;
