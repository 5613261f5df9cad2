//! The URL of a store.

use std::{fmt, sync::Arc, time::Duration};

use dlock_runtime::{ConnectError, store::StoreOptions};
use url::form_urlencoded;
use zookeeper_client::{Acl, Acls};

use crate::{names, readers, tls};

/// The port of an address without one.
#[cfg(any(feature = "admin", feature = "tls", test))]
const PORT: u16 = 2181;

const FORM: &str = "write `zookeeper://host:2181,host:2181`";

/// The settings of a store.
#[derive(Clone)]
pub(crate) struct Config {
    /// The servers, as the client wants them: `host:2181,host:2181`.
    pub(crate) hosts: String,
    /// `user:password`.
    pub(crate) login: Option<String>,
    /// The certificates, if connections are encrypted.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<tls::Files>,
    /// The directory of the locks.
    pub(crate) root: String,
    /// The permissions of all nodes: those of the user, and then those of readers.
    pub(crate) acls: Arc<[Acl]>,
    pub(crate) session: Duration,
    /// The time between two pings of the leader to its followers, or more.
    pub(crate) tick: Duration,
    pub(crate) response_limit: Duration,
    /// The URL without its password.
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
    /// [`ConnectError::InvalidUrl`] with the reason, without the password.
    pub(crate) fn parse(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let (shown, rest) = shown(url);
        let refused = |reason: String| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(decoded(login)), rest),
            None => (None, rest),
        };
        if login.as_ref().is_some_and(|login| !login.contains(':')) {
            return Err(refused(
                "a user needs a password: `user:password@`".to_owned(),
            ));
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        for host in hosts.split(',') {
            let (name, port) = host.rsplit_once(':').unwrap_or((host, "2181"));
            // In the brackets of an address there are colons too.
            let is_port = port.parse::<u16>().is_ok_and(|port| port > 0) || host.ends_with(']');
            if name.is_empty() || !is_port {
                return Err(refused(format!("invalid server `{host}`; {FORM}")));
            }
        }
        let mut config = Self {
            hosts: hosts.to_owned(),
            login,
            #[cfg(feature = "tls")]
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
            let time = duration(&value).filter(|time| !time.is_zero());
            let time = time.ok_or_else(|| {
                format!("invalid {name} `{value}`: write for example `40s` or `500ms`")
            });
            match &*name {
                "session" => config.session = time.map_err(refused)?,
                "tick" => config.tick = time.map_err(refused)?,
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
        #[cfg(not(feature = "tls"))]
        own_tls.is_required().map_err(refused)?;
        #[cfg(feature = "tls")]
        if own_tls.is_required().map_err(refused)? {
            let mut hosts = hosts.split(',').map(|host| place(host).0);
            if hosts.any(|host| tls::name_of(host).is_none()) {
                let reason = "a host has a character that host names do not have";
                return Err(refused(reason.to_owned()));
            }
            let files = tls::Files::new(own_tls);
            files.read()?;
            config.tls = Some(files);
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
#[cfg(any(feature = "admin", feature = "tls", test))]
pub(crate) fn place(address: &str) -> (&str, u16) {
    match address.rsplit_once(':') {
        // In the brackets of an address there are colons too.
        Some((host, port)) if !address.ends_with(']') => (host, port.parse().unwrap_or(PORT)),
        _ => (address, PORT),
    }
}

/// Returns the URL without its password, and what follows the scheme.
fn shown(url: &str) -> (String, &str) {
    let (scheme, rest) = url.split_once(':').unwrap_or(("zookeeper", url));
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    // The password may contain any of these characters, if it is written wrongly.
    let shown = match rest.rsplit_once('@') {
        Some((login, hosts)) => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{hosts}")
        }
        None => format!("{scheme}://{rest}"),
    };
    (shown, rest)
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
        assert!(parsed("zookeeper://[::1]:2181,[::2]").is_ok());
    }

    #[test]
    fn a_refused_url_says_why_and_does_not_show_the_password() {
        for (url, reason) in [
            ("zookeeper://", "invalid server ``"),
            ("zookeeper://a,,b", "invalid server ``"),
            ("zookeeper://a:x", "invalid server `a:x`"),
            ("zookeeper://u:secret@a:0", "invalid server `a:0`"),
            ("zookeeper://secret@a", "a user needs a password"),
            ("zookeeper://u:secret@a?session=40", "invalid session `40`"),
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
            assert!(!error.contains(":secret"), "{error}");
        }
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
        assert!(!error.contains(":secret"), "{error}");
        assert!(parsed("zookeeper://a?sslmode=disable").is_ok());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_needs_files_and_hosts_that_can_be_used() {
        for (url, reason) in [
            (
                "zookeeper://u:secret@a?sslmode=require&sslrootcert=/none",
                "cannot use `/none`",
            ),
            (
                "zookeeper://u:secret@a,b%20c?sslmode=require",
                "a host has a character",
            ),
            (
                "zookeeper://a,[fe80::1%25eth0]?sslmode=require",
                "a host has a character",
            ),
        ] {
            let error = parsed(url).unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains(":secret"), "{error}");
        }
        assert!(
            parsed("zookeeper://a?sslmode=disable")
                .unwrap()
                .tls
                .is_none()
        );
    }
}
