//! The URL of a store: its members, the login, TLS, and the prefix of its keys.

use std::{fmt, time::Duration};

use dlock_runtime::{
    ConnectError,
    store::{Reloaded, StoreError, StoreOptions, read_option_file},
};
use tokio_rustls::rustls::{
    RootCertStore,
    pki_types::{CertificateDer, TrustAnchor, pem::PemObject},
};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use url::form_urlencoded;

/// The port of an address without one.
const PORT: u16 = 2379;

/// The settings of a store.
pub(crate) struct Config {
    /// The members, in the order of the URL.
    pub(crate) members: Vec<Member>,
    pub(crate) login: Option<Login>,
    #[cfg(feature = "admin")]
    pub(crate) is_tls: bool,
    /// `true` for TLS without a certificate of the client.
    pub(crate) is_nameless: bool,
    /// The prefix of all keys.
    pub(crate) namespace: String,
    pub(crate) response_limit: Duration,
    pub(crate) connect_limit: Duration,
    /// The URL without its password.
    pub(crate) shown: String,
}

/// One server of the ensemble.
pub(crate) struct Member {
    /// `host:port`.
    pub(crate) place: String,
    /// Those of all members, by their numbers.
    endpoints: Reloaded<Vec<Endpoint>>,
    number: usize,
}

impl Member {
    /// Returns how to connect, with the certificates as they are now.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoints.get()[self.number].clone()
    }

    /// Notes that a connection has failed: its certificates may have been replaced. Returns the error for callers.
    pub(crate) fn failed(&self, error: StoreError) -> StoreError {
        self.endpoints.failed(error)
    }
}

pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// The options after the `?`.
#[derive(Default)]
struct Own {
    ssl_mode: Option<String>,
    root: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl Config {
    /// Reads the URL.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] with the reason, without the password.
    pub(crate) fn parse(url: &str, options: &StoreOptions) -> Result<Self, ConnectError> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let place = place.split_once("://").map_or("", |(_, place)| place);
        let (login, hosts) = place
            .rsplit_once('@')
            .map_or((None, place), |(login, hosts)| (Some(login), hosts));
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        let shown = if query.contains('@') {
            HIDDEN.to_owned()
        } else {
            shown(hosts)
        };
        let refused = |reason: String| ConnectError::InvalidUrl {
            url: shown.clone(),
            reason,
        };
        if query.contains('@') {
            let reason = "write `%3F` for a `?` in a password, and `%40` for an `@` in an option";
            return Err(refused(reason.to_owned()));
        }
        let login = login.map(login_of).transpose().map_err(refused)?;
        let places = places(hosts).map_err(refused)?;
        let own = own(query).map_err(refused)?;
        let is_tls = match own.ssl_mode.as_deref() {
            None | Some("disable") => false,
            Some("require") => true,
            Some(_) => {
                let reason =
                    "`sslmode` is `disable` or `require`, which verifies the server's certificate";
                return Err(refused(reason.to_owned()));
            }
        };
        let is_nameless = is_tls && own.cert.is_none();
        let scheme = if is_tls { "https" } else { "http" };
        let plain = places.iter().map(|place| {
            Endpoint::from_shared(format!("{scheme}://{place}")).map_err(|_| {
                refused("a host has a character that host names do not have".to_owned())
            })
        });
        let plain = plain.collect::<Result<Vec<_>, _>>()?;
        let endpoints = if is_tls {
            let machine = match own.root {
                None => authorities_of_the_machine()?,
                Some(_) => Vec::new(),
            };
            if own.names_files() {
                Reloaded::new("etcd", move || own.with_tls(&plain, &machine))?
            } else {
                Reloaded::fixed(own.with_tls(&plain, &machine)?)
            }
        } else {
            Reloaded::fixed(plain)
        };
        let members = places
            .into_iter()
            .enumerate()
            .map(|(number, place)| Member {
                place,
                endpoints: endpoints.clone(),
                number,
            });
        Ok(Self {
            members: members.collect(),
            login,
            #[cfg(feature = "admin")]
            is_tls,
            is_nameless,
            namespace: options.namespace.clone(),
            response_limit: options.response_timeout,
            connect_limit: options.connect_timeout,
            shown: shown.clone(),
        })
    }
}

impl Own {
    fn names_files(&self) -> bool {
        self.root.is_some() || self.cert.is_some()
    }

    /// Returns these with the certificates as they are now.
    fn with_tls(
        &self,
        endpoints: &[Endpoint],
        machine: &[TrustAnchor<'static>],
    ) -> Result<Vec<Endpoint>, ConnectError> {
        let tls = self.tls(machine)?;
        let endpoints = endpoints.iter().map(|endpoint| {
            let secured = endpoint.clone().tls_config(tls.clone());
            secured.map_err(|error| self.invalid(&error))
        });
        endpoints.collect()
    }

    fn tls(&self, machine: &[TrustAnchor<'static>]) -> Result<ClientTlsConfig, ConnectError> {
        let config = match &self.root {
            Some(path) => {
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities(path)?))
            }
            None => ClientTlsConfig::new().trust_anchors(machine.to_vec()),
        };
        Ok(match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let (cert, key) = (read("sslcert", cert)?, read("sslkey", key)?);
                config.identity(Identity::from_pem(cert, key))
            }
            _ => config,
        })
    }

    /// The error of files that were read, but do not contain what they should.
    fn invalid(&self, error: &dyn std::error::Error) -> ConnectError {
        let files: Vec<_> = [&self.root, &self.cert, &self.key]
            .into_iter()
            .flatten()
            .map(|path| format!("`{path}`"))
            .collect();
        ConnectError::InvalidOption {
            option: "sslmode",
            reason: format!("cannot use {}: {}", files.join(", "), cause(error)).into(),
        }
    }
}

fn read(option: &'static str, path: &str) -> Result<Vec<u8>, ConnectError> {
    let pem = read_option_file(option, path)?;
    if !pem.windows(5).any(|bytes| bytes == b"-----") {
        let reason =
            format!("cannot use `{path}`: it contains no certificate or key in PEM format");
        return Err(ConnectError::InvalidOption {
            option,
            reason: reason.into(),
        });
    }
    Ok(pem)
}

/// Reads the authorities of this machine. They are many, and are read once.
fn authorities_of_the_machine() -> Result<Vec<TrustAnchor<'static>>, ConnectError> {
    let mut roots = RootCertStore::empty();
    // Some machines have an unreadable certificate among hundreds.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(ConnectError::InvalidOption {
            option: "sslrootcert",
            reason: "this machine has no authorities; install `ca-certificates`, or name a file"
                .into(),
        });
    }
    Ok(roots.roots)
}

/// Reads a file with certificates of authorities. tonic would take one without any, and trust no server.
fn authorities(path: &str) -> Result<Vec<u8>, ConnectError> {
    let pem = read("sslrootcert", path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let usable = all.map(|all| RootCertStore::empty().add_parsable_certificates(all).0);
    if usable.is_ok_and(|usable| usable > 0) {
        return Ok(pem);
    }
    // The parser's error might quote its input.
    Err(ConnectError::InvalidOption {
        option: "sslrootcert",
        reason: format!("cannot use `{path}`: it contains no certificate of an authority").into(),
    })
}

/// The text of an error and of its causes.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

fn own(query: &str) -> Result<Own, String> {
    let mut own = Own::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let slot = match &*name {
            "sslmode" => &mut own.ssl_mode,
            "sslrootcert" => &mut own.root,
            "sslcert" => &mut own.cert,
            "sslkey" => &mut own.key,
            _ => {
                return Err(format!(
                    "unknown option `{name}`; use `sslmode`, `sslrootcert`, `sslcert` or `sslkey`"
                ));
            }
        };
        if slot.replace(value.into_owned()).is_some() {
            return Err(format!("`{name}` is there twice; remove one"));
        }
    }
    if own.cert.is_some() != own.key.is_some() {
        return Err("`sslcert` and `sslkey` belong together; write both".to_owned());
    }
    let has_files = own.root.is_some() || own.cert.is_some();
    if has_files && own.ssl_mode.as_deref() != Some("require") {
        // Otherwise the connection would be plain although the URL names certificates.
        return Err("certificates need `sslmode=require`; add it".to_owned());
    }
    Ok(own)
}

fn login_of(text: &str) -> Result<Login, String> {
    let decode = |part: &str| {
        let decoded = percent_decode(part);
        decoded.ok_or_else(|| "the user or the password is not percent-encoded UTF-8".to_owned())
    };
    let (user, password) = text
        .split_once(':')
        .ok_or("a user needs a password; write `etcd://user:password@host`")?;
    if user.is_empty() {
        return Err("the user is empty; write `etcd://user:password@host`".to_owned());
    }
    Ok(Login {
        user: decode(user)?,
        password: decode(password)?,
    })
}

/// `form_urlencoded` reads `+` as a space, which a password must not become.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

/// Each host with its port.
fn places(hosts: &str) -> Result<Vec<String>, String> {
    if hosts.is_empty() {
        return Err(
            "it names no host; write `etcd://host-1:2379,host-2:2379,host-3:2379`".to_owned(),
        );
    }
    if hosts.contains('/') {
        return Err("nothing may follow the hosts but options; remove the path".to_owned());
    }
    hosts.split(',').map(place_of).collect()
}

fn place_of(host: &str) -> Result<String, String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port = match port {
        // Without its text, which may be a part of a password.
        Some(port) => port
            .parse()
            .map_err(|_| "a port is not a number from 1 to 65535".to_owned())?,
        None => PORT,
    };
    if name.is_empty() || (name.contains(':') && !name.starts_with('[')) {
        return Err("a host is empty, or an IPv6 address without brackets".to_owned());
    }
    Ok(format!("{name}:{port}"))
}

/// The URL whose hosts may be a part of a password.
const HIDDEN: &str = "etcd://…";

/// The URL with its hosts only, or less where a part may be that of a password.
fn shown(hosts: &str) -> String {
    match places(hosts) {
        Ok(_) => format!("etcd://{hosts}"),
        Err(_) => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        assert_eq!((&*login.user, &*login.password), ("shop", "p@ss+1"));
        assert_eq!(config.shown, "etcd://a,b:2380,[::1]:2379");
        assert!(parsed("etcd://a").unwrap().login.is_none());
    }

    #[test]
    fn a_url_that_cannot_be_used_says_why_and_hides_its_password() {
        for (url, why) in [
            ("etcd://", "no host"),
            ("etcd://shop:hush@", "no host"),
            ("etcd://shop@a", "needs a password"),
            ("etcd://:hush@a", "the user is empty"),
            ("etcd://shop:hush@a:x", "a port is not a number"),
            ("etcd://shop:hush/x@a,b:99999", "a port is not a number"),
            ("etcd://shop:hush", "a port is not a number"),
            ("etcd://shop:2379?hush@a", "for a `?` in a password"),
            ("etcd://shop:a?hush=x@a", "for a `?` in a password"),
            ("etcd://shop:hush@a/locks", "remove the path"),
            ("etcd://shop:hush@a,,b", "a host is empty"),
            ("etcd://shop:hush@a?colour=red", "unknown option `colour`"),
            ("etcd://shop:hush@a?sslmode=sometimes", "`sslmode` is"),
            (
                "etcd://shop:hush@a?sslmode=disable&sslmode=require",
                "twice",
            ),
            (
                "etcd://shop:hush@a?sslmode=require&sslcert=a",
                "belong together",
            ),
            (
                "etcd://shop:hush@a?sslrootcert=ca.pem",
                "need `sslmode=require`",
            ),
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

    /// Otherwise no connection could be made, and each try would fail without the reason.
    #[test]
    fn a_file_without_the_certificate_of_an_authority_is_refused() {
        let authority = Authority::new();
        let identity = authority.issue(&["shop"]);
        let url = |ca: &Path| format!("etcd://a?sslmode=require&sslrootcert={}", ca.display());
        let error = parsed(&url(&identity.key_file())).unwrap_err().to_string();
        assert!(error.contains("no certificate of an authority"), "{error}");
        assert!(parsed(&url(&authority.ca_file())).is_ok());
    }

    #[test]
    fn a_certificate_of_the_client_is_read_with_its_key() {
        let authority = Authority::new();
        let identity = authority.issue(&["shop"]);
        let [cert, key] = [identity.cert_file(), identity.key_file()];
        let [cert, key] = [cert.display().to_string(), key.display().to_string()];
        let plain = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
        let ca = authority.ca_file().display().to_string();
        let url = |cert: &str, key: &str| {
            format!("etcd://a?sslmode=require&sslrootcert={ca}&sslcert={cert}&sslkey={key}")
        };
        let config = parsed(&url(&cert, &key)).unwrap();
        assert!(!config.is_nameless);
        for (cert, key, reasons) in [
            (
                &plain,
                &key,
                [
                    "`sslcert`",
                    &format!("`{plain}`: it contains no certificate or key in PEM format"),
                ],
            ),
            (
                &cert,
                &plain,
                [
                    "`sslkey`",
                    &format!("`{plain}`: it contains no certificate or key in PEM format"),
                ],
            ),
            (
                &cert,
                &cert,
                [
                    "`sslmode`",
                    &format!("cannot use `{ca}`, `{cert}`, `{cert}`: "),
                ],
            ),
        ] {
            let error = parsed(&url(cert, key)).unwrap_err().to_string();
            for reason in reasons {
                assert!(error.contains(reason), "{error}");
            }
        }
    }

    #[test]
    fn tls_without_a_certificate_of_the_client_is_nameless() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        for (query, is_nameless) in [
            ("sslmode=disable", false),
            ("", false),
            (&*format!("sslmode=require&sslrootcert={ca}"), true),
        ] {
            let config = parsed(&format!("etcd://a?{query}")).unwrap();
            assert_eq!(config.is_nameless, is_nameless, "{query}");
        }
    }

    #[test]
    fn odd_parts_of_a_url_are_read_or_refused() {
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
        for (url, why) in [
            ("etcd:a", "no host"),
            ("etcd://::1", "an IPv6 address without brackets"),
            ("etcd://:2379", "a host is empty"),
            ("etcd://shop:%4@a", "percent-encoded"),
            ("etcd://shop:%ff@a", "percent-encoded"),
            ("etcd://%zz:hush@a", "percent-encoded"),
            ("etcd://a b", "a character that host names do not have"),
            ("etcd://a?sslkey=k&sslmode=require", "belong together"),
            ("etcd://a?sslcert=c&sslkey=k", "need `sslmode=require`"),
        ] {
            let error = parsed(url).expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
        let hidden = parsed("etcd://shop:hush/x@a,b:99999").unwrap_err();
        assert!(hidden.to_string().contains("etcd://…"), "{hidden}");
        let shown = parsed("etcd://shop:hush@a,b?colour=red").unwrap_err();
        assert!(shown.to_string().contains("etcd://a,b"), "{shown}");
        let shown = format!("{:?}", parsed("etcd://shop:hush@a").unwrap());
        assert!(shown.contains("etcd://a") && !shown.contains("hush"));
    }

    #[test]
    fn each_cause_of_an_error_is_named_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Caused {
            text: &'static str,
            source: Option<Box<Caused>>,
        }

        let caused = |text, source: Option<Caused>| Caused {
            text,
            source: source.map(Box::new),
        };
        let deepest = caused("no route", None);
        let middle = caused("tcp connect error", Some(deepest));
        let repeated = caused("tcp connect error", Some(middle));
        let error = caused("transport error", Some(repeated));
        assert_eq!(
            cause(&error),
            "transport error: tcp connect error: no route"
        );
    }
}
