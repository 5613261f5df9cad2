//! The URL of a store.

use std::{fmt, sync::Arc, time::Duration};

use dlock_net::{Host, TlsPaths, UrlText};
use dlock_runtime::{ConnectError, store::StoreOptions};
use zookeeper_client::{Acl, Acls};

use crate::{names, readers, tls};

/// The port of an address without one.
pub(crate) const PORT: u16 = 2181;

/// The longest session: enough for the longest lease, a day, and within what the protocol can express, 24 days.
const LONGEST_SESSION: Duration = Duration::from_secs(48 * 60 * 60);

/// The longest tick. A session of a few ticks is then still allowed.
const LONGEST_TICK: Duration = Duration::from_secs(60 * 60);

const FORM: &str = "write `zookeeper://host:2181,host:2181`";

/// The settings of a store.
#[derive(Clone)]
pub(crate) struct Config {
    /// The servers, as the client wants them: `host:2181,[::1]:2181`.
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
        let url = UrlText::split(url);
        let shown = url.shown("zookeeper");
        let refused = |reason: String| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        let (mut config, hosts, tls) = read(&url, options, &shown).map_err(refused)?;
        if let Some(paths) = tls {
            let trust = tls::Trust::open(&paths)?;
            if !hosts.iter().all(|host| trust.can_verify(&host.name)) {
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

    /// Returns the time after which a silent server is left for another one, before leases end.
    pub(crate) fn connection_limit(&self) -> Duration {
        (self.response_limit * 2).min(self.session * 2 / 5)
    }

    /// Returns the longest lease that a session of this time-out keeps, see [`crate::proof`].
    pub(crate) fn longest_ttl(&self) -> Duration {
        let late = self.tick + self.beat() * 2 + self.response_limit.min(self.session / 20);
        self.session.saturating_sub(late)
    }
}

/// Reads the parts of the URL. The files with certificates are not read yet.
fn read(
    url: &UrlText<'_>,
    options: &StoreOptions,
    shown: &str,
) -> Result<(Config, Vec<Host>, Option<TlsPaths>), String> {
    url.check()?;
    let login = url.login_with_password("zookeeper://user:password@host")?;
    let hosts = url
        .hosts(PORT)
        .map_err(|reason| format!("{reason}; {FORM}"))?;
    let places: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let mut own = url.options(&["session", "tick"], &["readers"])?;
    let readers = own.take_all("readers");
    let readers = readers.iter().map(|value| {
        readers::read(value).ok_or_else(|| {
            let form =
                "write a scheme and an identity, for example `digest:ops:hash`; readers must be trusted, so `world` is none";
            format!("invalid readers `{value}`: {form}")
        })
    });
    let readers = readers.collect::<Result<Vec<_>, _>>()?;
    if login.is_none() && !readers.is_empty() {
        let reason = "`readers` needs a user, `user:password@`: without one, every client may read and write the nodes";
        return Err(reason.to_owned());
    }
    let rights = match login {
        Some(_) => Acls::creator_all(),
        None => Acls::anyone_all(),
    };
    let mut time = |name: &str, usual: Duration, longest: Duration| {
        let Some(value) = own.take(name) else {
            return Ok(usual);
        };
        match duration(&value) {
            Some(time) if !time.is_zero() && time <= longest => Ok(time),
            _ => Err(format!(
                "invalid {name} `{value}`: write a duration from `1ms` to `{longest:?}`, for example `40s` or `500ms`"
            )),
        }
    };
    let config = Config {
        hosts: places.join(","),
        login: login.map(|it| format!("{}:{}", it.user, it.password.unwrap_or_default())),
        tls: None,
        root: root(url.path, &options.namespace),
        acls: rights.iter().cloned().chain(readers).collect(),
        session: time("session", Duration::from_secs(40), LONGEST_SESSION)?,
        tick: time("tick", Duration::from_secs(2), LONGEST_TICK)?,
        response_limit: options.response_timeout,
        shown: shown.to_owned(),
    };
    if config.longest_ttl() < Duration::from_secs(1) {
        let Config { session, tick, .. } = config;
        return Err(format!(
            "the session of {session:?} is too short for a lease; write for example `session={:?}`",
            tick * 4 + Duration::from_secs(2)
        ));
    }
    Ok((config, hosts, own.tls()?))
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
        assert_eq!(config.hosts, "a:2181,b:2182");
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
        let addresses = parsed("zookeeper://[::1]:2181,[::2]").unwrap();
        assert_eq!(addresses.hosts, "[::1]:2181,[::2]:2181");
    }

    #[test]
    fn a_refused_url_says_why_and_does_not_show_the_password() {
        for (url, reason) in [
            ("zookeeper://", "no host"),
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
            (
                "zookeeper://u:secret@a?sslrootcert=ca.pem",
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
    fn times_follow_the_session_and_the_limit_of_an_answer() {
        for (url, answer, connection, beat, longest) in [
            ("zookeeper://a", 1000, 2000, 1000, 35_000),
            ("zookeeper://a?session=80s", 3000, 6000, 1000, 73_000),
            (
                "zookeeper://a?session=10s&tick=500ms",
                5000,
                4000,
                250,
                8500,
            ),
        ] {
            let mut options = StoreOptions::default();
            options.response_timeout = Duration::from_millis(answer);
            let config = Config::parse(url, &options).unwrap();
            let times = [
                config.connection_limit(),
                config.beat(),
                config.longest_ttl(),
            ];
            let expected = [connection, beat, longest].map(Duration::from_millis);
            assert_eq!(times, expected, "{url}");
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
