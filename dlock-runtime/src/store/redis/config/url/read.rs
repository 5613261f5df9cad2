//! Parses URLs into a location, or returns the reason why a URL is invalid.
//!
//! No reason quotes text that could not be parsed.

use dlock_net::{Host, Login};
use redis::{ProtocolVersion, RedisConnectionInfo};
use url::Url;

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

const FRAGMENT: &str =
    "it has a fragment after `#`; remove it, or encode `#` in a password as `%23`";
const SOCKET: &str = "the path of its socket is invalid; write it as in `redis+unix:///run/redis`";

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
        return unix(&Url::parse(text).map_err(|_| SOCKET.to_owned())?);
    }
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
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
    // The rest of a host or a login may be in the path.
    let whole = |reason: String| {
        if is_cut_short(text) {
            ENCODE.to_owned()
        } else {
            reason
        }
    };
    let hosts = Host::read_all(hosts, default_port)
        .map_err(|reason| whole(format!("{reason}; write `redis://host:{default_port}`")))?;
    if tail.contains('#') {
        return Err(FRAGMENT.to_owned());
    }
    let (path, query) = match tail.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (tail, None),
    };
    let over_tls = scheme::is_over_tls(text);
    let options = UrlOptions::read(query, names, over_tls)?;
    for name in ["ca", "cert", "key"] {
        options.path(name)?;
    }
    let login = Login::read(login).map_err(str::to_owned)?;
    let user = Some(&*login.user).filter(|user| !user.is_empty());
    let password = login.password.as_deref().filter(|it| !it.is_empty());
    check_user(user.is_some(), password.is_some()).map_err(whole)?;
    let path = path.trim_start_matches('/');
    let (layout, database) = layout(names, path)?;
    let login = RedisConnectionInfo::default()
        .set_protocol(protocol(&options)?)
        .set_db(number_of(&database)?);
    if layout == UrlLayout::Independent && hosts.len() < 3 {
        return Err(
            "it names fewer than three servers, which tolerate no failure; name three or five, or \
                    write `redis://` for one"
                .to_owned(),
        );
    }
    let hidden = if password.is_some() { "***@" } else { "" };
    let question = if query.is_some() { "?***" } else { "" };
    let shown = format!(
        "{scheme}://{hidden}{}{question}",
        joined(&hosts, path.trim_end_matches('/'))
    );
    let addresses = hosts.into_iter();
    let addresses = addresses.map(|host| Address::Tcp(host.name, host.port));
    Ok(Location {
        layout,
        addresses: addresses.collect(),
        login: with_user(login, user, password),
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

/// Returns the relation of the servers, and the text that should be the number of a database.
fn layout(names: Names, path: &str) -> Result<(UrlLayout, String), String> {
    let parts: Vec<_> = path.split('/').collect();
    Ok(match names {
        Names::Sentinels => {
            let service = service(parts[0])?;
            (UrlLayout::Sentinel(service), parts[1..].join("/"))
        }
        Names::Nodes if !matches!(parts.as_slice(), ["" | "0"]) => {
            return Err(
                "a cluster URL has no databases; remove the path after the hosts".to_owned(),
            );
        }
        Names::Nodes => (UrlLayout::Cluster, String::new()),
        Names::Independent => (UrlLayout::Independent, parts.join("/")),
        Names::Server | Names::Socket => (UrlLayout::Single, parts.join("/")),
    })
}

fn joined(hosts: &[Host], path: &str) -> String {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let slash = if path.is_empty() { "" } else { "/" };
    format!("{}{slash}{path}", hosts.join(","))
}

/// Returns `true` if host and port end before an `@`: they were part of a password.
fn is_cut_short(text: &str) -> bool {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    rest.split_once(['/', '?', '#'])
        .is_some_and(|(_, after)| after.contains('@'))
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

/// Returns the number of a database.
fn number_of(database: &str) -> Result<i64, String> {
    let is_number = database.bytes().all(|byte| byte.is_ascii_digit());
    let number = match database {
        "" => Some(0),
        digits => digits.parse().ok().filter(|_| is_number),
    };
    number.ok_or_else(|| {
        "the path after the host is not the number of a database, such as `/0`; in a password, \
         encode `/` as `%2F`"
            .to_owned()
    })
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
    if url.fragment().is_some() {
        return Err(FRAGMENT.to_owned());
    }
    let options = UrlOptions::read(url.query(), Names::Socket, false)?;
    let (user, password) = (options.text("user"), options.text("pass"));
    check_user(user.is_some(), password.is_some())?;
    let path = url.to_file_path().map_err(|()| SOCKET.to_owned())?;
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
