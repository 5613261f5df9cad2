//! Reads the URL of one or several servers, and shows it without its secrets.
//!
//! What is shown is put together from parts that were understood. Of anything else nothing but
//! the scheme is shown, since one cannot know which part of it was meant to be the password.

mod endpoint;
#[cfg(test)]
mod tests;

use std::fmt;

use redis::{IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};
use url::{ParseError, Url};

pub(super) use self::endpoint::{Address, Endpoint};
use self::endpoint::{Security, joined, with_user};
use super::{
    RedisConfig,
    options::Options,
    scheme::{self, Names},
};
use crate::error::ConnectError;

const ENCODE: &str = "host or port cannot be read; in a password, encode `/` as `%2F`, `?` as \
                      `%3F`, `#` as `%23` and `@` as `%40`";
const NO_PORT: &str = "its port is not a number from 1 to 65535";
const NO_HOST: &str = "it names no host";

/// Which servers a URL names, how they belong together, and who we are there.
#[derive(Clone)]
pub(super) struct Location {
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
pub(super) enum Layout {
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
    pub(super) fn parse(text: &str) -> Result<Self, ConnectError> {
        read(text).map_err(|reason| ConnectError::InvalidUrl {
            url: scheme::only(text),
            reason,
        })
    }

    /// Adds what is set beside the URL, and reads the files of both.
    pub(super) fn prepare(&mut self, config: &RedisConfig) -> Result<(), ConnectError> {
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
        use super::tls::Tls;

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

    pub(super) fn has_password(&self) -> bool {
        self.login.password().is_some()
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The servers it names, at least one.
    pub(super) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How many replicas have to confirm a lease.
    pub(super) fn min_replicas(&self) -> u32 {
        self.min_replicas
    }

    /// The servers it names, where these are Sentinels.
    pub(super) fn sentinels(&self) -> Vec<Endpoint> {
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
    pub(super) fn endpoint(&self, address: Address) -> Endpoint {
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

fn read(text: &str) -> Result<Location, String> {
    // The parser would drop them silently, and then the URL is not what was written.
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return Err("it holds white space; remove it, or encode it as `%20`".to_owned());
    }
    let names = scheme::check(text)?;
    if names == Names::Socket {
        return unix(&parsed(text, text)?);
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    if names == Names::Server && hosts.contains(',') {
        return Err(
            "it names several servers; write `redis-sentinel://` or `redis-cluster://` \
                    for those that belong together, and `redlock://` for independent ones"
                .to_owned(),
        );
    }
    let default_port = if names == Names::Sentinels {
        26379
    } else {
        6379
    };
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        // Each as if it stood alone: the rest of the URL holds for all of them.
        let url = parsed(text, &format!("redis://{login}{host}{tail}"))?;
        servers.push(server(url, default_port)?);
    }
    let (url, _) = &servers[0];
    let over_tls = scheme::is_over_tls(text);
    let options = Options::read(url.query(), names, over_tls)?;
    for name in ["ca", "cert", "key"] {
        options.path(name)?;
    }
    check_user(!url.username().is_empty(), url.password().is_some()).map_err(|reason| {
        // What is missing may have been taken for a path.
        if is_cut_short(text) {
            ENCODE.to_owned()
        } else {
            reason
        }
    })?;
    let path: Vec<_> = url.path().trim_start_matches('/').split('/').collect();
    let (layout, database) = match names {
        Names::Sentinels => {
            let service = service(path[0])?;
            (Layout::Sentinel(service), path[1..].join("/"))
        }
        Names::Nodes if !matches!(path.as_slice(), ["" | "0"]) => {
            return Err("a cluster has no databases: nothing follows the hosts".to_owned());
        }
        Names::Nodes => (Layout::Cluster, String::new()),
        Names::Independent => (Layout::Independent, path.join("/")),
        Names::Server | Names::Socket => (Layout::Single, path.join("/")),
    };
    let login = who(url, &database)?.set_protocol(protocol(&options)?);

    let addresses: Vec<_> = servers.iter().map(|(_, address)| address.clone()).collect();
    if let Some(twice) = twice(&addresses) {
        return Err(format!("it names {twice} twice"));
    }
    if layout == Layout::Independent && addresses.len() < 3 {
        return Err("it names fewer than three servers, of which none could be away: name three or five, or \
                    write `redis://` for one".to_owned());
    }
    let hosts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let user = if url.password().is_some() { "***@" } else { "" };
    let path = url.path().trim_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    let query = if url.query().is_some() { "?***" } else { "" };
    let shown = format!("{scheme}://{user}{}{slash}{path}{query}", hosts.join(","));
    Ok(Location {
        layout,
        addresses,
        login,
        sentinel_login: sentinel_login(&options)?,
        min_replicas: options.number("min_replicas")?.unwrap_or(0),
        options,
        security: Security {
            over_tls,
            ..Security::default()
        },
        scheme: match (scheme.starts_with("valkey"), over_tls) {
            (false, false) => "redis",
            (false, true) => "rediss",
            (true, false) => "valkey",
            (true, true) => "valkeys",
        },
        shown,
    })
}

/// `url` as the parser reads it, which is the whole `text` or a part of it.
fn parsed(text: &str, url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| match error {
        _ if is_cut_short(text) => ENCODE.to_owned(),
        ParseError::InvalidPort => NO_PORT.to_owned(),
        ParseError::EmptyHost => NO_HOST.to_owned(),
        // The texts of the parser quote nothing.
        error => error.to_string(),
    })?;
    if url.fragment().is_some() {
        return Err("it has a part after `#`; in a password, encode it as `%23`".to_owned());
    }
    Ok(url)
}

/// Whether host and port have ended before an `@`: then they were part of a password.
fn is_cut_short(text: &str) -> bool {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    rest.split_once(['/', '?', '#'])
        .is_some_and(|(_, after)| after.contains('@'))
}

fn server(url: Url, default_port: u16) -> Result<(Url, Address), String> {
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return Err(NO_HOST.to_owned());
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    let port = url.port().unwrap_or(default_port);
    if port == 0 {
        return Err(NO_PORT.to_owned());
    }
    Ok((url, Address::Tcp(host, port)))
}

/// The name of what Sentinels watch over.
fn service(path: &str) -> Result<String, String> {
    // Those that a Sentinel takes in its configuration.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if path.is_empty() || !path.bytes().all(plain) {
        return Err(
            "it names no service: write `redis-sentinel://host1,host2/mymaster`, with the name \
             that the Sentinels know the master by"
                .to_owned(),
        );
    }
    Ok(path.to_owned())
}

fn sentinel_login(options: &Options) -> Result<RedisConnectionInfo, String> {
    let (user, password) = (options.text("sentinel_user"), options.text("sentinel_pass"));
    if user.is_some() && password.is_none() {
        return Err("its `sentinel_user` has no `sentinel_pass`".to_owned());
    }
    let login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    Ok(with_user(login, user, password))
}

fn who(url: &Url, database: &str) -> Result<RedisConnectionInfo, String> {
    if !database.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            "what follows the host must be the number of a database, as in `/0`; \
                    in a password, encode `/` as `%2F`"
                .to_owned(),
        );
    }
    let mut url = url.clone();
    url.set_path(database);
    // The library would read them as its own.
    url.set_query(None);
    login(url)
}

fn twice(addresses: &[Address]) -> Option<&Address> {
    let mut rest = addresses.iter();
    std::iter::from_fn(|| rest.next().map(|first| (first, rest.as_slice())))
        .find(|(first, others)| others.contains(first))
        .map(|(first, _)| first)
}

#[cfg(unix)]
fn unix(url: &Url) -> Result<Location, String> {
    if url.host_str().is_some_and(|host| !host.is_empty()) || !url.username().is_empty() {
        return Err(
            "the path of a socket follows three slashes, as in `redis+unix:///run/redis`; \
                    user and password go to the end, as `?user=...&pass=...`"
                .to_owned(),
        );
    }
    let options = Options::read(url.query(), Names::Socket, false)?;
    let (user, password) = (options.text("user"), options.text("pass"));
    check_user(user.is_some(), password.is_some())?;
    let path = url
        .to_file_path()
        .map_err(|()| "the path of its socket cannot be read".to_owned())?;
    let login = RedisConnectionInfo::default()
        .set_protocol(protocol(&options)?)
        .set_db(options.number("db")?.unwrap_or_default());
    let login = with_user(login, user, password);
    let hidden = if url.query().is_some() { "?***" } else { "" };
    Ok(Location {
        layout: Layout::Single,
        addresses: vec![Address::Unix(path)],
        login,
        options,
        security: Security::default(),
        sentinel_login: RedisConnectionInfo::default(),
        min_replicas: 0,
        scheme: "redis+unix",
        shown: format!("{}://{}{hidden}", url.scheme(), url.path()),
    })
}

#[cfg(not(unix))]
fn unix(_: &Url) -> Result<Location, String> {
    Err("Unix sockets are not available on this platform".to_owned())
}

fn check_user(user: bool, password: bool) -> Result<(), String> {
    // The client library would log in as nobody, and say nothing.
    if user && !password {
        return Err(
            "it has a user without a password; a password alone is written \
                    `redis://:password@host`"
                .to_owned(),
        );
    }
    Ok(())
}

/// How to speak with the server. With RESP3 hints come over the connection of the requests.
fn protocol(options: &Options) -> Result<ProtocolVersion, String> {
    match options.text("protocol") {
        None | Some("resp3") => Ok(ProtocolVersion::RESP3),
        Some("resp2") => Ok(ProtocolVersion::RESP2),
        Some(_) => Err("its `protocol` must be `resp2` or `resp3`".to_owned()),
    }
}

fn login(url: Url) -> Result<RedisConnectionInfo, String> {
    // What the library says is not passed on: it might quote what it could not read.
    let info = url
        .into_connection_info()
        .map_err(|_| "its address, user, password or database cannot be read".to_owned())?;
    Ok(info.redis_settings().clone())
}
