//! The configuration of a store in Redis.

use std::{fmt, time::Duration};

use super::{credentials::CredentialsProvider, url::Location};
#[cfg(feature = "tls")]
use crate::store::redis::net::tls::Tls;
use crate::{error::ConnectError, label::label, options::fault_of_limit, store::StoreOptions};

const LONGEST_NAMESPACE: usize = 64;

/// The servers of a store, and the options of its connections and requests.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::store::redis::RedisConfig;
///
/// let config = RedisConfig::new("redis-sentinel://one,two,three/mymaster")
///     .namespace("billing")
///     .response_timeout(Duration::from_millis(500))
///     .min_replicas(1);
/// assert_eq!(config.namespace, "billing");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisConfig {
    /// The URL of the server or servers:
    ///
    /// - `redis://[user:password@]host[:port][/database]`
    /// - `redis+unix:///path[?db=0&user=...&pass=...]`
    /// - `redis-sentinel://[user:password@]host[:port],.../service[/database]`, with
    ///   `?sentinel_user=...&sentinel_pass=...` if the Sentinels require a separate login
    /// - `redis-cluster://[user:password@]host[:port],...`, with some nodes of a cluster
    /// - `redlock://[user:password@]host[:port],...`, only for an `Inspector`; to lock on these servers use a
    ///   [`Quorum`](crate::store::quorum::Quorum)
    ///
    /// URLs with TLS begin with `rediss`; `valkey` is a synonym of `redis`. Options follow: `?protocol=resp2`
    /// for all URLs, `?ca=/path.pem` and `?cert=/path.pem&key=/path.pem` with TLS, `?min_replicas=1` for one
    /// server and Sentinels.
    pub url: String,
    /// The user and the password, if the URL has none.
    pub credentials: Option<CredentialsProvider>,
    /// Certificates for a URL with TLS, in addition to those in the URL.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
    /// The name of the process in the server's list of connections. A connection is named `dlock:` and this
    /// name, with `_` for each character that is not printable ASCII.
    pub name: String,
    /// The prefix of all keys and channels: 1 to 64 printable ASCII characters without spaces and braces, not
    /// ending in `:fence` or `:process`.
    pub namespace: String,
    /// The maximum time of one request, including redirections in a cluster; at most one hour.
    pub response_timeout: Duration,
    /// The maximum time of [`RedisStore::connect`](crate::store::redis::RedisStore::connect); at most one hour.
    pub connect_timeout: Duration,
    /// `true` if a lock is stored under the key's own text, where it conflicts with the
    /// `SET key token NX PX ms` of other clients: see
    /// [`LockManagerBuilder::raw_keys`](crate::LockManagerBuilder::raw_keys).
    pub raw_keys: bool,
    /// The number of replicas that must confirm a lease and each of its renewals; a greater `?min_replicas=n`
    /// in the URL takes precedence. 0 for none.
    pub min_replicas: u32,
}

impl RedisConfig {
    /// Creates a configuration for `url` with the namespace `dlock`, a response timeout of 1 s, a connect
    /// timeout of 5 s, no raw keys, and no replicas that must confirm.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::store::redis::RedisConfig;
    ///
    /// let config = RedisConfig::new("redis://localhost");
    /// assert_eq!(config.namespace, "dlock");
    /// assert_eq!(config.response_timeout, Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            credentials: None,
            #[cfg(feature = "tls")]
            tls: None,
            name: label(None),
            namespace: "dlock".to_owned(),
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
            raw_keys: false,
            min_replicas: 0,
        }
    }

    /// Sets the [`credentials`](Self::credentials).
    #[must_use]
    pub fn credentials(mut self, credentials: impl Into<Option<CredentialsProvider>>) -> Self {
        self.credentials = credentials.into();
        self
    }

    /// Sets the [certificates](Self::tls).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<Option<Tls>>) -> Self {
        self.tls = tls.into();
        self
    }

    /// Sets the [`name`](Self::name).
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the [`namespace`](Self::namespace).
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the [`response_timeout`](Self::response_timeout).
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets the [`connect_timeout`](Self::connect_timeout).
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets [`raw_keys`](Self::raw_keys).
    #[must_use]
    pub fn raw_keys(mut self, raw_keys: bool) -> Self {
        self.raw_keys = raw_keys;
        self
    }

    /// Sets [`min_replicas`](Self::min_replicas).
    #[must_use]
    pub fn min_replicas(mut self, min_replicas: u32) -> Self {
        self.min_replicas = min_replicas;
        self
    }

    /// Returns the configuration for a URL and the options of a manager.
    pub(crate) fn with_options(url: &str, options: StoreOptions) -> Self {
        Self {
            name: options.label,
            namespace: options.namespace,
            response_timeout: options.response_timeout,
            connect_timeout: options.connect_timeout,
            ..Self::new(url)
        }
    }

    /// Returns the name of the connections on the server.
    pub(crate) fn connection_name(&self) -> String {
        const LONGEST: usize = 160;
        let plain = |c: char| if c.is_ascii_graphic() { c } else { '_' };
        let name = self.name.chars().map(plain).take(LONGEST);
        "dlock:".chars().chain(name).collect()
    }

    /// Returns the same name as one word, by which processes are listed.
    pub(crate) fn label(&self) -> String {
        const LONGEST: usize = 128;
        let plain = |c: char| if c.is_ascii_graphic() { c } else { '_' };
        let label: String = self.name.chars().map(plain).take(LONGEST).collect();
        if label.is_empty() {
            "-".to_owned()
        } else {
            label
        }
    }

    /// Returns the servers of the URL, with the separately configured credentials and certificates.
    pub(crate) fn location(&self) -> Result<Location, ConnectError> {
        let mut location = Location::parse(&self.url)?;
        self.check()?;
        location.set_credentials(self.credentials.as_ref())?;
        #[cfg(feature = "tls")]
        location.set_tls(self.tls.as_ref())?;
        Ok(location)
    }

    fn check(&self) -> Result<(), ConnectError> {
        let refuse = |option, reason: &'static str| {
            let reason = reason.into();
            Err(ConnectError::InvalidOption { option, reason })
        };
        // A brace would select the slot instead of the lock's name.
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        if !(1..=LONGEST_NAMESPACE).contains(&self.namespace.len())
            || !self.namespace.bytes().all(plain)
        {
            return refuse(
                "namespace",
                "it must be 1 to 64 printable ASCII characters, without spaces and braces",
            );
        }
        // `dlock:fence` would store locks where `dlock` stores its fences.
        if self.namespace.ends_with(":fence") {
            return refuse(
                "namespace",
                "it must not end in `:fence`, which dlock uses for its fence counters",
            );
        }
        if self.namespace.ends_with(":process") {
            return refuse(
                "namespace",
                "it must not end in `:process`, which dlock uses for its process records",
            );
        }
        let limits = [
            ("response_timeout", self.response_timeout),
            ("connect_timeout", self.connect_timeout),
        ];
        let fault = limits
            .into_iter()
            .find_map(|(option, limit)| Some((option, fault_of_limit(limit)?)));
        fault.map_or(Ok(()), |(option, reason)| refuse(option, reason))
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RedisConfig");
        // The URL is not shown as given, because it may contain a password.
        shown
            .field("url", &Location::parse(&self.url).ok())
            .field("credentials", &self.credentials);
        #[cfg(feature = "tls")]
        shown.field("tls", &self.tls);
        shown
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("raw_keys", &self.raw_keys)
            .field("min_replicas", &self.min_replicas)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let config = RedisConfig::new("redis://localhost");
        let named = |namespace: &str| RedisConfig {
            namespace: namespace.into(),
            ..config.clone()
        };
        let longest = "n".repeat(LONGEST_NAMESPACE);
        assert_eq!(named(&longest).check(), Ok(()));
        for namespace in [
            "",
            "a b",
            "a{b",
            "a}b",
            "\u{e9}",
            "a:fence",
            "a:process",
            &(longest + "n"),
        ] {
            let error = named(namespace).check().expect_err("it is refused");
            assert!(error.to_string().contains("`namespace`"), "{error}");
        }
    }

    #[test]
    fn a_process_has_a_short_plain_name_on_the_server() {
        let config = |name: &str| RedisConfig::new("redis://localhost").name(name);
        let odd = config("billing on \u{fc}");
        assert_eq!(odd.connection_name(), "dlock:billing_on__");
        assert_eq!(odd.label(), "billing_on__");
        let long = config(&"n".repeat(1000));
        assert_eq!(long.connection_name().len(), "dlock:".len() + 160);
        assert_eq!(long.label().len(), 128);
        // A list of words cannot have an empty one.
        assert_eq!(config("").label(), "-");
    }

    #[test]
    fn times_that_cannot_be_counted_with_are_refused() {
        let config = RedisConfig::new("redis://localhost");
        let hour = Duration::from_secs(3600);
        let shortest = Duration::from_nanos(1);
        for (limit, is_good) in [
            (Duration::ZERO, false),
            (shortest, true),
            (hour, true),
            (hour + shortest, false),
            (Duration::MAX, false),
        ] {
            let response = RedisConfig {
                response_timeout: limit,
                ..config.clone()
            };
            let connect = RedisConfig {
                connect_timeout: limit,
                ..config.clone()
            };
            for (checked, name) in [
                (response.check(), "response_timeout"),
                (connect.check(), "connect_timeout"),
            ] {
                let refused = matches!(
                    checked,
                    Err(ConnectError::InvalidOption { option, .. }) if option == name
                );
                assert!(
                    is_good && checked.is_ok() || !is_good && refused,
                    "{limit:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_shows_the_password() {
        for url in [
            "redis://me:s3cret@localhost",
            "redis://me:s3cret@localhost/x",
            "s3cret",
        ] {
            let shown = format!("{:?}", RedisConfig::new(url));
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
