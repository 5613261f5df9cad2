//! Parses URLs into a location, or returns the reason why a URL is invalid.
//!
//! No reason quotes text that could not be parsed.

use redis::{IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};
use url::{ParseError, Url};

use super::{
    endpoint::{Address, Security, with_user},
    location::{Location, UrlLayout},
};
use crate::{
    error::ConnectError,
    store::{
        redis::{
            config::{
                options::UrlOptions,
                scheme::{self, Names},
            },
            net::resolver::Resolver,
        },
        url::WHITE_SPACE,
    },
};

const ENCODE: &str = "its host or port is invalid; in a password, encode `/` as `%2F`, `?` as \
                      `%3F`, `#` as `%23` and `@` as `%40`";
pub(super) const NO_PORT: &str = "its port is not a number from 1 to 65535";
const NO_HOST: &str = "it has no host, or an empty one; write `redis://host:6379`";

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Self, ConnectError> {
        read(text).map_err(|reason| ConnectError::InvalidUrl {
            url: scheme::only(text),
            reason,
        })
    }
}

pub(super) fn read(text: &str) -> Result<Location, String> {
    // The parser would drop them silently, which would change the URL.
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return Err(WHITE_SPACE.to_owned());
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
                    for servers of one deployment, or `redlock://` for independent servers"
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
        // Parsed as a separate URL, because the rest of the URL applies to each server.
        let url = parsed(text, &format!("redis://{login}{host}{tail}"))?;
        servers.push(server(url, default_port)?);
    }
    let (url, _) = &servers[0];
    let over_tls = scheme::is_over_tls(text);
    let options = UrlOptions::read(url.query(), names, over_tls)?;
    for name in ["ca", "cert", "key"] {
        options.path(name)?;
    }
    check_user(!url.username().is_empty(), url.password().is_some()).map_err(|reason| {
        // The missing part may be in the path.
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
            (UrlLayout::Sentinel(service), path[1..].join("/"))
        }
        Names::Nodes if !matches!(path.as_slice(), ["" | "0"]) => {
            return Err(
                "a cluster URL has no databases; remove the path after the hosts".to_owned(),
            );
        }
        Names::Nodes => (UrlLayout::Cluster, String::new()),
        Names::Independent => (UrlLayout::Independent, path.join("/")),
        Names::Server | Names::Socket => (UrlLayout::Single, path.join("/")),
    };
    let login = who(url, &database)?.set_protocol(protocol(&options)?);

    let addresses: Vec<_> = servers.iter().map(|(_, address)| address.clone()).collect();
    if let Some(twice) = twice(&addresses) {
        return Err(format!("it names {twice} twice; name each server once"));
    }
    if layout == UrlLayout::Independent && addresses.len() < 3 {
        return Err(
            "it names fewer than three servers, which tolerate no failure; name three or five, or \
                    write `redis://` for one"
                .to_owned(),
        );
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
        resolver: Resolver::default(),
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

/// Parses `url`, which is the whole `text` or a part of it.
fn parsed(text: &str, url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| match error {
        _ if is_cut_short(text) => ENCODE.to_owned(),
        ParseError::InvalidPort => NO_PORT.to_owned(),
        ParseError::EmptyHost => NO_HOST.to_owned(),
        // The parser's texts quote nothing.
        error => error.to_string(),
    })?;
    if url.fragment().is_some() {
        return Err(
            "it has a fragment after `#`; remove it, or encode `#` in a password as `%23`"
                .to_owned(),
        );
    }
    Ok(url)
}

/// Returns `true` if host and port end before an `@`: they were part of a password.
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

/// Returns the name of a service that Sentinels monitor.
fn service(path: &str) -> Result<String, String> {
    // The characters that a Sentinel accepts in its configuration.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if path.is_empty() || !path.bytes().all(plain) {
        return Err(
            "it names no service; write `redis-sentinel://host1,host2/mymaster`, with the \
             master's name in the Sentinels' configuration"
                .to_owned(),
        );
    }
    Ok(path.to_owned())
}

fn sentinel_login(options: &UrlOptions) -> Result<RedisConnectionInfo, String> {
    let (user, password) = (options.text("sentinel_user"), options.text("sentinel_pass"));
    if user.is_some() && password.is_none() {
        return Err("it has a `sentinel_user` without a `sentinel_pass`; set both".to_owned());
    }
    let login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    Ok(with_user(login, user, password))
}

fn who(url: &Url, database: &str) -> Result<RedisConnectionInfo, String> {
    if !database.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            "the path after the host is not the number of a database, such as `/0`; \
                    in a password, encode `/` as `%2F`"
                .to_owned(),
        );
    }
    let mut url = url.clone();
    url.set_path(database);
    // Otherwise the library would read them as its own options.
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
            "it has a host or a user; write three slashes before the path of the socket, as in \
                    `redis+unix:///run/redis`, and append a user as `?user=...&pass=...`"
                .to_owned(),
        );
    }
    let options = UrlOptions::read(url.query(), Names::Socket, false)?;
    let (user, password) = (options.text("user"), options.text("pass"));
    check_user(user.is_some(), password.is_some())?;
    let path = url.to_file_path().map_err(|()| {
        "the path of its socket is invalid; write it as in `redis+unix:///run/redis`".to_owned()
    })?;
    let login = RedisConnectionInfo::default()
        .set_protocol(protocol(&options)?)
        .set_db(options.number("db")?.unwrap_or_default());
    let login = with_user(login, user, password);
    let hidden = if url.query().is_some() { "?***" } else { "" };
    Ok(Location {
        layout: UrlLayout::Single,
        addresses: vec![Address::Unix(path)],
        login,
        options,
        resolver: Resolver::default(),
        security: Security::default(),
        sentinel_login: RedisConnectionInfo::default(),
        min_replicas: 0,
        scheme: "redis+unix",
        shown: format!("{}://{}{hidden}", url.scheme(), url.path()),
    })
}

#[cfg(not(unix))]
fn unix(_: &Url) -> Result<Location, String> {
    Err("Unix sockets are not available on this platform; use TCP".to_owned())
}

fn check_user(user: bool, password: bool) -> Result<(), String> {
    // The client library would silently not log in at all.
    if user && !password {
        return Err(
            "it has a user without a password; set both, or write a password alone as in \
                    `redis://:password@host`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the protocol of the connection. With RESP3, hints use the connection for requests.
fn protocol(options: &UrlOptions) -> Result<ProtocolVersion, String> {
    match options.text("protocol") {
        None | Some("resp3") => Ok(ProtocolVersion::RESP3),
        Some("resp2") => Ok(ProtocolVersion::RESP2),
        Some(_) => Err("its `protocol` must be `resp2` or `resp3`".to_owned()),
    }
}

fn login(url: Url) -> Result<RedisConnectionInfo, String> {
    // The error of the library is not included: it might quote its input.
    let info = url
        .into_connection_info()
        .map_err(|_| "its address, user, password or database is invalid".to_owned())?;
    Ok(info.redis_settings().clone())
}
