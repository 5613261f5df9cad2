//! The URL of a store.

use std::{fmt, sync::Arc, time::Duration};

use dlock_runtime::{ConnectError, store::StoreOptions};
use url::form_urlencoded;
use zookeeper_client::{Acl, Acls};

use crate::{names, readers, tls};

/// The port of an address without one.
const PORT: u16 = 2181;

/// The longest session: enough for the longest lease, a day, and within what the protocol can express, 24 days.
const LONGEST_SESSION: Duration = Duration::from_secs(48 * 60 * 60);

/// The longest tick. A session of a few ticks is then still allowed.
const LONGEST_TICK: Duration = Duration::from_secs(60 * 60);

const FORM: &str = "write `zookeeper://host:2181,host:2181`";

const ONE_QUERY: &str = "options follow one `?`, with `&` between them";

/// The settings of a store.
#[derive(Clone)]
pub(crate) struct Config {
    /// The servers, as the client wants them: `host:2181,host:2181`.
    pub(crate) hosts: String,
    /// `user:password`.
    pub(crate) login: Option<String>,
    /// The certificates, if connections are encrypted.
    pub(crate) tls: Option<tls::Trust>,
    /// The directory of the locks.
    pub(crate) root: String,
    /// The permissions of all nodes: those of the user, and then those of readers.
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) session: Duration,
    /// The time between two pings of the leader to its followers, or more.
    pub(crate) tick: Duration,
    pub(crate) response_limit: Duration,
    /// The URL without its login and its options.
    pub(crate) shown: String,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Reads the URL.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidUrl`] with the reason, and [`ConnectError::InvalidOption`] for a file with certificates that cannot
    /// be used; without the password.
    pub(crate) fn parse(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let (rest, query) = url.split_once('?').unwrap_or((url, ""));
        let rest = rest.split_once("://").map_or("", |(_, rest)| rest);
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(decoded(login)), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Less where a part may be that of a password.
        let shown = if query.contains('@') || are_places(hosts).is_err() {
            "zookeeper://…".to_owned()
        } else {
            format!("zookeeper://{rest}")
        };
        let refused = |reason: String| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        if query.contains('@') {
            let reason = "write `%3F` for a `?` in a password, and `%40` for an `@` in an option";
            return Err(refused(reason.to_owned()));
        }
        if login.as_ref().is_some_and(|login| !login.contains(':')) {
            return Err(refused(
                "a user needs a password: `user:password@`".to_owned(),
            ));
        }
        are_places(hosts).map_err(|reason| refused(format!("{reason}; {FORM}")))?;
        // Otherwise the connection would be plain although the URL asks for TLS.
        if rest.contains("sslmode=") || query.contains('?') {
            return Err(refused(ONE_QUERY.to_owned()));
        }
        let mut config = Self {
            hosts: hosts.to_owned(),
            login,
            tls: None,
            root: root(path, &options.namespace),
            acls: Arc::default(),
            session: Duration::from_secs(40),
            tick: Duration::from_secs(2),
            response_limit: options.response_timeout,
            shown: shown.clone(),
        };
        let mut readers = Vec::new();
        let mut own_tls = tls::Own::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if value.contains("sslmode=") {
                return Err(refused(ONE_QUERY.to_owned()));
            }
            if own_tls.note(&name, &value).map_err(refused)? {
                continue;
            }
            if name == "readers" {
                let reader = readers::read(&value).ok_or_else(|| {
                    let form =
                        "write a scheme and an identity, for example `digest:ops:hash`; readers must be trusted, so `world` is none";
                    refused(format!("invalid readers `{value}`: {form}"))
                })?;
                readers.push(reader);
                continue;
            }
            let at_most = |longest: Duration| match duration(&value) {
                Some(time) if !time.is_zero() && time <= longest => Ok(time),
                _ => Err(refused(format!(
                    "invalid {name} `{value}`: write a duration from `1ms` to `{longest:?}`, for example `40s` or `500ms`"
                ))),
            };
            match &*name {
                "session" => config.session = at_most(LONGEST_SESSION)?,
                "tick" => config.tick = at_most(LONGEST_TICK)?,
                _ => {
                    let known = "the options are `session`, `tick`, `readers`, `sslmode`, `sslrootcert`, `sslcert` and `sslkey`";
                    return Err(refused(format!("unknown option `{name}`; {known}")));
                }
            }
        }
        if config.login.is_none() && !readers.is_empty() {
            let reason = "`readers` needs a user, `user:password@`: without one, every client may read and write the nodes";
            return Err(refused(reason.to_owned()));
        }
        let own = match config.login {
            Some(_) => Acls::creator_all(),
            None => Acls::anyone_all(),
        };
        config.acls = own.iter().cloned().chain(readers).collect();
        if config.longest_ttl() < Duration::from_secs(1) {
            let Self { session, tick, .. } = config;
            return Err(refused(format!(
                "the session of {session:?} is too short for a lease; write for example `session={:?}`",
                tick * 4 + Duration::from_secs(2)
            )));
        }
        if own_tls.is_required().map_err(refused)? {
            let trust = tls::Trust::open(own_tls)?;
            let mut hosts = hosts.split(',').map(|host| place(host).0);
            if !hosts.all(|host| trust.can_verify(host)) {
                let reason = "a host has a character that host names do not have";
                return Err(refused(reason.to_owned()));
            }
            config.tls = Some(trust);
        }
        Ok(config)
    }

    /// Returns the permissions of new nodes.
    pub(crate) fn acls(&self) -> Acls<'_> {
        Acls::new(&self.acls)
    }

    /// Returns those who may only read.
    pub(crate) fn readers(&self) -> &[Acl] {
        self.acls.get(1..).unwrap_or_default()
    }

    /// Returns the time between two requests that prove the session to be alive.
    pub(crate) fn beat(&self) -> Duration {
        (self.session / 40).min(Duration::from_secs(1))
    }

    /// Returns the longest lease that a session of this time-out keeps, see [`crate::proof`].
    pub(crate) fn longest_ttl(&self) -> Duration {
        let late = self.tick + self.beat() * 2 + self.response_limit.min(self.session / 20);
        self.session.saturating_sub(late)
    }
}

/// Returns the host of an address, and its port.
pub(crate) fn place(address: &str) -> (&str, u16) {
    match address.rsplit_once(':') {
        // In the brackets of an address there are colons too.
        Some((host, port)) if !address.ends_with(']') => (host, port.parse().unwrap_or(PORT)),
        _ => (address, PORT),
    }
}

/// Checks the hosts. A reason does not contain their text, which may be a part of a password.
fn are_places(hosts: &str) -> Result<(), &'static str> {
    for host in hosts.split(',') {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "2181"));
        // In the brackets of an address there are colons too.
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0) || host.ends_with(']');
        if !is_port {
            return Err("a port is not a number from 1 to 65535");
        }
        if name.is_empty() {
            return Err("a host is empty");
        }
    }
    Ok(())
}

fn decoded(login: &str) -> String {
    // A plus sign is a space in a query alone.
    let login = login
        .replace('+', "%2B")
        .replace('&', "%26")
        .replace('=', "%3D");
    let mut pairs = form_urlencoded::parse(login.as_bytes());
    pairs
        .next()
        .map(|(login, _)| login.into_owned())
        .unwrap_or_default()
}

fn root(path: &str, namespace: &str) -> String {
    let path = path.trim_matches('/');
    if path.is_empty() {
        format!("/{}", names::escaped(namespace))
    } else {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.map(names::escaped).collect();
        format!("/{}", parts.join("/"))
    }
}

fn duration(text: &str) -> Option<Duration> {
    if let Some(number) = text.strip_suffix("ms") {
        return number.parse().ok().map(Duration::from_millis);
    }
    let number = text.strip_suffix('s')?;
    number.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<Config, String> {
        Config::parse(url, &StoreOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_names_servers_a_user_a_path_and_options() {
        let config =
            parsed("zookeeper://shop:p%40ss+1@a,b:2182/my/locks?session=90s&tick=500ms").unwrap();
        assert_eq!(config.hosts, "a,b:2182");
        assert_eq!(config.login.as_deref(), Some("shop:p@ss+1"));
        assert_eq!(config.root, "/my/locks");
        assert_eq!(
            (config.session, config.tick),
            (Duration::from_secs(90), Duration::from_millis(500))
        );
        assert_eq!(config.readers(), []);
        let config = parsed("zookeeper://u:p@a?readers=ip%3A10.0.0.1&readers=digest:o:h").unwrap();
        let readers = config.readers().iter().map(Acl::scheme);
        assert_eq!(readers.collect::<Vec<_>>(), ["ip", "digest"]);
        assert_eq!(parsed("zookeeper://a").unwrap().root, "/dlock");
        let longest = parsed("zookeeper://a?session=172800s&tick=3600s").unwrap();
        assert!(
            longest.longest_ttl() > Duration::from_secs(24 * 60 * 60),
            "the longest lease"
        );
        assert!(parsed("zookeeper://a?session=14402s&tick=3600s").is_ok());
        assert!(parsed("zookeeper://[::1]:2181,[::2]").is_ok());
    }

    #[test]
    fn a_refused_url_says_why_and_does_not_show_the_password() {
        for (url, reason) in [
            ("zookeeper://", "a host is empty"),
            ("zookeeper://a,,b", "a host is empty"),
            ("zookeeper://u:secret@a:0", "a port is not a number"),
            // A URL without its host, and passwords with characters that have a meaning.
            ("zookeeper://u:secret", "a port is not a number"),
            ("zookeeper://u:2181?secret@a", "for a `?` in a password"),
            (
                "zookeeper://u:secret?x@a?sslmode=require",
                "for a `?` in a password",
            ),
            ("zookeeper://u:secret/x@y:z@a:b", "a port is not a number"),
            (
                "zookeeper://u:secret@a?readers=digest:o:h;sslmode=require",
                "options follow one `?`",
            ),
            (
                "zookeeper://u:secret@a/locks&sslmode=require",
                "options follow one `?`",
            ),
            (
                "zookeeper://u:secret@a&sslmode=require",
                "options follow one `?`",
            ),
            (
                "zookeeper://a?tick=2s?sslmode=require",
                "options follow one `?`",
            ),
            ("zookeeper://secret@a", "a user needs a password"),
            ("zookeeper://u:secret@a?session=40", "invalid session `40`"),
            (
                "zookeeper://u:secret@a?session=10000000000000000000s",
                "from `1ms` to `172800s`",
            ),
            ("zookeeper://a?session=172801s", "from `1ms` to `172800s`"),
            (
                "zookeeper://a?session=18446744073709551616s",
                "from `1ms` to `172800s`",
            ),
            ("zookeeper://a?session=0s", "from `1ms` to `172800s`"),
            (
                "zookeeper://a?tick=18446744073709551615s",
                "from `1ms` to `3600s`",
            ),
            (
                "zookeeper://a?tick=4611686018427387904s",
                "from `1ms` to `3600s`",
            ),
            (
                "zookeeper://a?tick=18446744073709551615ms",
                "from `1ms` to `3600s`",
            ),
            ("zookeeper://a?tick=3601s", "from `1ms` to `3600s`"),
            // The session that the error names is allowed.
            (
                "zookeeper://a?tick=3600s",
                "write for example `session=14402s`",
            ),
            (
                "zookeeper://u:secret@a?timeout=4s",
                "unknown option `timeout`",
            ),
            (
                "zookeeper://u:secret@a?readers=ops",
                "invalid readers `ops`",
            ),
            ("zookeeper://u:secret@a?readers=world", "must be trusted"),
            (
                "zookeeper://a?readers=ip:10.0.0.1",
                "`readers` needs a user",
            ),
            ("zookeeper://a?session=3s", "too short for a lease"),
            (
                "zookeeper://u:secret@a?sslmode=sometimes",
                "`sslmode` is `disable` or `require`",
            ),
            ("zookeeper://a?sslmode=disable&sslmode=require", "twice"),
            (
                "zookeeper://u:secret@a?sslmode=require&sslcert=a",
                "belong together",
            ),
            (
                "zookeeper://u:secret@a?sslrootcert=ca.pem",
                "need `sslmode=require`",
            ),
            (
                "zookeeper://u:secret@a?sslcert=a&sslkey=b&sslmode=disable",
                "need `sslmode=require`",
            ),
        ] {
            let error = parsed(url).unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert_eq!(
            parsed("zookeeper://u:secret@a/locks?session=9s")
                .unwrap()
                .shown,
            "zookeeper://a/locks"
        );
    }

    #[test]
    fn an_address_has_a_port_or_that_of_zookeeper() {
        for (address, found) in [
            ("a:2281", ("a", 2281)),
            ("a", ("a", 2181)),
            ("[::1]", ("[::1]", 2181)),
            ("[::1]:2281", ("[::1]", 2281)),
        ] {
            assert_eq!(place(address), found);
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_needs_its_feature() {
        let error = parsed("zookeeper://u:secret@a?sslmode=require").unwrap_err();
        assert!(error.contains("feature `tls`"), "{error}");
        assert!(parsed("zookeeper://a?sslmode=disable").is_ok());
    }
}
