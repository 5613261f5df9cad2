//! The URL of a store: its members, the login, TLS, and the prefix of its keys.

use std::{fmt, time::Duration};

use dlock_net::{
    Host, Login, Reloaded, TlsPaths, UrlText,
    tls::{ClientCertificate, TlsFiles, server_name},
};
use dlock_runtime::{
    ConnectError,
    store::{StoreError, StoreOptions},
};
use tokio_rustls::rustls::ClientConfig;
use tonic::transport::Endpoint;

/// The port of an address without one.
const PORT: u16 = 2379;

const STRANGE: &str = "a host has a character that host names do not have";

const FORM: &str = "write `etcd://host-1:2379,host-2:2379,host-3:2379`";

/// The settings of a store.
pub(crate) struct Config {
    /// The members, in the order of the URL.
    pub(crate) members: Vec<Member>,
    pub(crate) login: Option<Login>,
    /// How connections are encrypted.
    pub(crate) tls: Option<Tls>,
    /// The prefix of all keys.
    pub(crate) namespace: String,
    pub(crate) response_limit: Duration,
    pub(crate) connect_limit: Duration,
    /// The URL without its password.
    pub(crate) shown: String,
}

/// The certificates of connections.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Reloaded<ClientConfig>,
    pub(crate) client: ClientCertificate,
}

/// One server of the ensemble.
pub(crate) struct Member {
    /// `host:port`.
    pub(crate) place: String,
    pub(crate) host: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Tls>,
}

impl Member {
    /// Notes that a connection has failed: its certificates may have been replaced. Returns the error for callers.
    pub(crate) fn failed(&self, error: StoreError) -> StoreError {
        match &self.tls {
            Some(tls) => tls.config.failed(error),
            None => error,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Reads the URL.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] with the reason, without the password.
    pub(crate) fn parse(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let url = UrlText::split(url);
        let shown = url.shown("etcd");
        let refused = |reason| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        let (hosts, login, paths) = read(&url).map_err(refused)?;
        let tls = match paths {
            Some(paths) => Some(Tls::open(&paths)?),
            None => None,
        };
        let members = hosts
            .iter()
            .map(|host| Member::new(host, tls.clone()).map_err(refused));
        Ok(Self {
            members: members.collect::<Result<_, _>>()?,
            login,
            tls,
            namespace: options.namespace.clone(),
            response_limit: options.response_timeout,
            connect_limit: options.connect_timeout,
            shown: shown.clone(),
        })
    }
}

type Parts = (Vec<Host>, Option<Login>, Option<TlsPaths>);

fn read(url: &UrlText<'_>) -> Result<Parts, String> {
    url.check()?;
    let login = url.login_with_password("etcd://user:password@host")?;
    let hosts = url
        .hosts(PORT)
        .map_err(|reason| format!("{reason}; {FORM}"))?;
    if !url.path.is_empty() {
        return Err("nothing may follow the hosts but options; remove the path".to_owned());
    }
    let tls = url.options(&[], &[])?.tls()?;
    Ok((hosts, login, tls))
}

impl Tls {
    fn open(paths: &TlsPaths) -> Result<Self, ConnectError> {
        let files = TlsFiles::of_paths(paths)?;
        let client = ClientCertificate::of(files.has_identity());
        let config = files.load("etcd", |mut config| {
            config.alpn_protocols = vec![b"h2".to_vec()];
            config
        })?;
        Ok(Self { config, client })
    }
}

impl Member {
    fn new(host: &Host, tls: Option<Tls>) -> Result<Self, String> {
        let place = host.to_string();
        // A channel of tonic would add TLS of its own to an endpoint with `https`. Requests say what is true.
        let endpoint = Endpoint::from_shared(format!("http://{place}")).map_err(|_| STRANGE)?;
        let endpoint = match tls {
            // No certificate can have its name.
            Some(_) if server_name(&host.name).is_none() => return Err(STRANGE.to_owned()),
            Some(_) => {
                let origin = format!("https://{place}").parse();
                endpoint.origin(origin.map_err(|_| STRANGE)?)
            }
            None => endpoint,
        };
        Ok(Self {
            place,
            host: host.name.clone(),
            endpoint,
            tls,
        })
    }
}

#[cfg(test)]
mod tests {
    use dlock_testkit::Authority;

    use super::*;

    fn parsed(url: &str) -> Result<Config, ConnectError> {
        Config::parse(url, &StoreOptions::default())
    }

    #[test]
    fn hosts_ports_and_the_login_are_read() {
        let config = parsed("etcd://shop:p%40ss+1@a,b:2380,[::1]:2379/").unwrap();
        let places: Vec<_> = config.members.iter().map(|it| &*it.place).collect();
        assert_eq!(places, ["a:2379", "b:2380", "[::1]:2379"]);
        let login = config.login.unwrap();
        let found = (&*login.user, login.password.as_deref());
        assert_eq!(found, ("shop", Some("p@ss+1")));
        assert_eq!(config.shown, "etcd://a,b:2380,[::1]:2379");
        assert!(parsed("etcd://a").unwrap().login.is_none());
    }

    /// The rules that all stores share are those of `dlock-net`.
    #[test]
    fn a_url_that_cannot_be_used_says_why_and_hides_its_password() {
        for (url, why) in [
            ("etcd://shop:hush@", "no host"),
            ("etcd://shop@a", "needs a password"),
            ("etcd://shop:hush@a:x", "a port is not a number"),
            ("etcd://shop:hush/x@a,b:99999", "a port is not a number"),
            ("etcd://shop:hush", "a port is not a number"),
            ("etcd://shop:2379?hush@a", "for a `?` in a password"),
            ("etcd://shop:hush@a/locks", "remove the path"),
            ("etcd://shop:hush@a?colour=red", "unknown option `colour`"),
            ("etcd://shop:hush@a?sslcert=a", "belong together"),
            ("etcd://shop:%zzhush@a", "percent-encoded"),
            (
                "etcd://shop:hush@a?sslmode=require&sslrootcert=/none",
                "`/none`",
            ),
            (
                "etcd://a?sslmode=require&sslrootcert=-----BEGIN%20hush",
                "the name of a file",
            ),
            ("etcd://shop:a?hush", "a port is not a number"),
        ] {
            let error = parsed(url).expect_err(url).to_string();
            assert!(
                error.contains(why) && !error.contains("hush"),
                "{url}: {error}"
            );
        }
    }

    #[test]
    fn a_connection_is_encrypted_if_the_url_says_so() {
        let authority = Authority::new();
        let own = authority.issue(&["shop"]);
        let [ca, both] = [None, Some(&own)].map(|own| format!("?{}", authority.ssl_options(own)));
        for (query, client) in [
            ("", None),
            ("?sslmode=disable", None),
            (&*ca, Some(ClientCertificate::Missing)),
            (&both, Some(ClientCertificate::Shown)),
        ] {
            let config = parsed(&format!("etcd://a{query}")).unwrap();
            for tls in [&config.tls, &config.members[0].tls] {
                let found = tls.as_ref().map(|tls| tls.client);
                assert_eq!(found, client, "{query}");
            }
        }
        let error = parsed(&format!("etcd://[fe80::1%eth0]{ca}")).unwrap_err();
        assert!(error.to_string().contains(STRANGE), "{error}");
    }

    #[test]
    fn odd_parts_of_a_url_are_read_and_shown() {
        for (url, place) in [
            ("etcd://a", "a:2379"),
            ("etcd://a/", "a:2379"),
            ("etcd://[::1]", "[::1]:2379"),
            ("etcd://[::1]:2380", "[::1]:2380"),
            ("etcd://shop:@a", "a:2379"),
        ] {
            let config = parsed(url).unwrap();
            assert_eq!(config.members[0].place, place, "{url}");
        }
        let hidden = parsed("etcd://shop:hush/x@a,b:99999").unwrap_err();
        assert!(hidden.to_string().contains("etcd://…"), "{hidden}");
        let shown = parsed("etcd://shop:hush@a,b?colour=red").unwrap_err();
        assert!(shown.to_string().contains("etcd://a,b"), "{shown}");
        let shown = format!("{:?}", parsed("etcd://shop:hush@a").unwrap());
        assert!(shown.contains("etcd://a") && !shown.contains("hush"));
    }
}
