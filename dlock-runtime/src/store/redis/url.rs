//! Reads the URL of a server, and shows it without its secrets.
//!
//! What is shown is put together from parts that were understood. Of anything else nothing but
//! the scheme is shown, since one cannot know which part of it was meant to be the password.

use std::fmt;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};
use url::{ParseError, Url};

use super::scheme::{self, Transport};
use crate::error::ConnectError;

const ENCODE: &str = "host or port cannot be read; in a password, encode `/` as `%2F`, `?` as \
                      `%3F`, `#` as `%23` and `@` as `%40`";
const NO_PORT: &str = "its port is not a number from 1 to 65535";
const NO_HOST: &str = "it names no host";

/// Where a server is, and who we are there.
#[derive(Clone)]
pub(super) struct Endpoint {
    address: Address,
    login: RedisConnectionInfo,
    shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(String, u16),
    #[cfg(unix)]
    Unix(std::path::PathBuf),
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Self, ConnectError> {
        read(text).map_err(|reason| ConnectError::InvalidUrl {
            url: scheme::only(text),
            reason,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// User, password, database and protocol.
    pub(super) fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }
}

/// The URL without user and password.
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

fn read(text: &str) -> Result<Endpoint, String> {
    // The parser would drop them silently, and then the URL is not what was written.
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return Err("it holds white space; remove it, or encode it as `%20`".to_owned());
    }
    let transport = scheme::check(text)?;
    let url = Url::parse(text).map_err(|error| match error {
        _ if is_cut_short(text) => ENCODE.to_owned(),
        ParseError::InvalidPort => NO_PORT.to_owned(),
        ParseError::EmptyHost => NO_HOST.to_owned(),
        // The texts of the parser quote nothing.
        error => error.to_string(),
    })?;
    if url.fragment().is_some() {
        return Err("it has a part after `#`; in a password, encode it as `%23`".to_owned());
    }
    match transport {
        Transport::Tcp => tcp(url),
        Transport::Unix => unix(url),
    }
}

/// Whether host and port have ended before an `@`: then they were part of a password.
fn is_cut_short(text: &str) -> bool {
    let (_, rest) = text.split_once("://").unwrap_or_default();
    rest.split_once(['/', '?', '#'])
        .is_some_and(|(_, after)| after.contains('@'))
}

fn tcp(url: Url) -> Result<Endpoint, String> {
    if url.query().is_some() {
        return Err("it has options after `?`, and there are none".to_owned());
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(NO_HOST.to_owned());
    }
    if url.port() == Some(0) {
        return Err(NO_PORT.to_owned());
    }
    let database = url.path().trim_start_matches('/');
    if !database.is_empty() && !database.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(
            "what follows the host must be the number of a database, as in `/0`; \
                    in a password, encode `/` as `%2F`"
                .to_owned(),
        );
    }
    check_user(!url.username().is_empty(), url.password().is_some())?;

    let host = url.host_str().unwrap_or_default().to_owned();
    let login = if url.password().is_some() { "***@" } else { "" };
    let port = url.port().unwrap_or(6379);
    let path = if database.is_empty() {
        String::new()
    } else {
        format!("/{database}")
    };
    let shown = format!("{}://{login}{host}:{port}{path}", url.scheme());
    endpoint(url, shown)
}

#[cfg(unix)]
fn unix(url: Url) -> Result<Endpoint, String> {
    if url.host_str().is_some_and(|host| !host.is_empty()) || !url.username().is_empty() {
        return Err(
            "the path of a socket follows three slashes, as in `redis+unix:///run/redis`; \
                    user and password go to the end, as `?user=...&pass=...`"
                .to_owned(),
        );
    }
    let (mut user, mut pass) = (false, false);
    for (name, _) in url.query_pairs() {
        match &*name {
            "db" => {}
            "user" => user = true,
            "pass" => pass = true,
            _ => return Err("its options can only be `db`, `user` and `pass`".to_owned()),
        }
    }
    check_user(user, pass)?;
    let options = if url.query().is_some() { "?***" } else { "" };
    let shown = format!("{}://{}{options}", url.scheme(), url.path());
    endpoint(url, shown)
}

#[cfg(not(unix))]
fn unix(_: Url) -> Result<Endpoint, String> {
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

fn endpoint(url: Url, shown: String) -> Result<Endpoint, String> {
    // What the library says is not passed on: it might quote what it could not read.
    let info = url
        .into_connection_info()
        .map_err(|_| "its address, user, password or database cannot be read".to_owned())?;
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Address::Tcp(host.clone(), *port),
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
        _ => return Err("its kind of address is not supported".to_owned()),
    };
    // Hints come over the connection of the requests, which only RESP3 can do.
    let login = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3);
    Ok(Endpoint {
        address,
        login,
        shown,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        Endpoint::parse(text).expect("the URL is valid").to_string()
    }

    fn refused(text: &str) -> String {
        Endpoint::parse(text)
            .expect_err("the URL is invalid")
            .to_string()
    }

    #[test]
    fn addresses_are_read() {
        let endpoint = Endpoint::parse("redis://me:p%40ss@db.example:7000/3").unwrap();
        assert_eq!(endpoint.address(), &Address::Tcp("db.example".into(), 7000));
        assert_eq!(endpoint.login().username(), Some("me"));
        assert_eq!(endpoint.login().password(), Some("p@ss"));
        assert_eq!(endpoint.login().db(), 3);
        assert_eq!(endpoint.to_string(), "redis://***@db.example:7000/3");
        assert_eq!(shown("valkey://localhost"), "valkey://localhost:6379");
        assert_eq!(shown("redis://:pw@[::1]/"), "redis://***@[::1]:6379");
        let v6 = Endpoint::parse("redis://[::1]").unwrap();
        assert_eq!(v6.address(), &Address::Tcp("::1".into(), 6379));
    }

    #[cfg(unix)]
    #[test]
    fn sockets_are_read() {
        let endpoint = Endpoint::parse("redis+unix:///run/redis.sock?db=1&pass=secret").unwrap();
        assert_eq!(endpoint.address(), &Address::Unix("/run/redis.sock".into()));
        assert_eq!(endpoint.login().password(), Some("secret"));
        assert_eq!(endpoint.to_string(), "redis+unix:///run/redis.sock?***");
        assert!(refused("unix:///run/redis.sock?timeout=1").contains("`db`, `user` and `pass`"));
    }

    #[test]
    fn refusals_say_what_would_do() {
        assert_eq!(
            refused("localhost:6379"),
            "`…` is no URL of a lock store: it has no scheme; write `redis://host:6379`"
        );
        assert!(refused("rediss://:pw@h").starts_with("`rediss://…` is no URL of a lock store"));
        for port in [
            "0",
            "65536",
            "99999",
            "-1",
            "x",
            "6379x",
            "9".repeat(30).as_str(),
        ] {
            for login in ["", "me:pw@", ":p@ss@"] {
                let text = refused(&format!("redis://{login}h:{port}/0"));
                assert!(text.ends_with(NO_PORT), "{port}: {text}");
            }
        }
        assert!(refused("redis://me:pa/ss@h:1").contains("encode `/` as `%2F`"));
        assert!(refused("redis://:pa?ss@h:1").contains("`?` as `%3F`"));
        assert!(refused("redis://:6379").contains("no host"));
        assert!(refused("redis://me:pw@").contains("no host"));
        assert!(refused(" redis://h").contains("white space"));
        assert!(refused("redis://localhost?timeout=1").contains("options after `?`"));
        assert!(refused("redis://localhost/db").contains("number of a database"));
        assert!(refused("redis://user@localhost").contains("user without a password"));
        assert!(refused("redis://").contains("no host"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn the_password_never_appears(
            before in r"[a-z0-9:/?#@%&=. \\\[\]\n-]{0,6}",
            after in r"[a-z0-9:/?#@%&=. \\\[\]\n-]{0,6}",
            template in prop::sample::select(vec![
                "redis://:PASS@localhost/0", "redis://me:PASS@localhost:6379", "redis://PASS@localhost",
                "rediss://me:PASS@localhost", "redis+unix:///sock?pass=PASS", "unix://me:PASS@/sock",
                "redis-cluster://:PASS@a,b", "redis:me:PASS@localhost", "me:PASS@localhost",
                "redis//:PASS@localhost", "PASS", "redis://:PASS@", "redis://:PASS@host:x/1",
                "PASS://localhost", "redis+PASS://localhost", "memory://PASS", "http://PASS@h",
                "redis-sentinel://:PASS@a:1,b:2", "redis://:PASS@h:0",
            ]),
        ) {
            let text = template.replace("PASS", &format!("{before}S3cret{after}"));
            match Endpoint::parse(&text) {
                Ok(endpoint) => {
                    let seen = format!("{endpoint} {endpoint:?}").to_lowercase();
                    prop_assert!(!seen.contains("s3cret"), "{text:?} is shown as {seen}");
                }
                Err(error) => {
                    let seen = format!("{error} {error:?}").to_lowercase();
                    prop_assert!(!seen.contains("s3cret"), "{text:?} is shown as {seen}");
                }
            }
        }
    }
}
