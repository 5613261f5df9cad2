//! The certificate authorities that a TLS connection trusts, and its own certificate, as configured and as
//! read.

use std::{fmt, fs, path::PathBuf, sync::Arc};

use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

use super::handshake::{Certificates, Connector};
use crate::{error::ConnectError, store::Reloaded};

/// Certificates for TLS connections, such as those of `rediss://` URLs.
///
/// The server's certificate is always verified: its chain, its dates, and its name, which must be the host of the
/// URL. For a Sentinel's master or a cluster's node, it must be the announced host. Files are read when the manager is
/// created, again each minute, and when a connection has failed. If one cannot be used then, the certificates from before
/// stay in use, and the log says why.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockManager, store::redis::Tls};
///
/// let tls = Tls::new()
///     .ca_file("/etc/redis/ca.pem")
///     .identity_files("/etc/redis/client.pem", "/etc/redis/client.key");
/// let builder = LockManager::builder().tls(tls);
/// # drop(builder);
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Pem>,
    cert: Option<Pem>,
    key: Option<Pem>,
}

#[derive(Clone)]
enum Pem {
    File(PathBuf),
    Text(Arc<[u8]>),
}

impl Tls {
    /// Trusts the certificate authorities of this machine, and presents no client certificate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only the authorities in this PEM file.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::redis::Tls;
    ///
    /// let tls = Tls::new().ca_file("/etc/redis/ca.pem");
    /// # drop(tls);
    /// ```
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(Pem::File(path.into()));
        self
    }

    /// Trusts only the authorities in this PEM text.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::redis::Tls;
    ///
    /// fn trusted(ca: &str, cert: &str, key: &str) -> Tls {
    ///     Tls::new().ca_pem(ca).identity_pem(cert, key)
    /// }
    /// # let _: fn(&str, &str, &str) -> Tls = trusted;
    /// ```
    #[must_use]
    pub fn ca_pem(mut self, text: impl AsRef<[u8]>) -> Self {
        self.ca = Some(Pem::Text(text.as_ref().into()));
        self
    }

    /// Presents the certificate in the first PEM file, with its chain, if the server requests one. The other file has
    /// its private key.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::store::redis::Tls;
    ///
    /// let tls = Tls::new().identity_files("/etc/redis/client.pem", "/etc/redis/client.key");
    /// # drop(tls);
    /// ```
    #[must_use]
    pub fn identity_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.cert = Some(Pem::File(cert.into()));
        self.key = Some(Pem::File(key.into()));
        self
    }

    /// Like [`identity_files`](Self::identity_files), with PEM texts.
    #[must_use]
    pub fn identity_pem(mut self, cert: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.cert = Some(Pem::Text(cert.as_ref().into()));
        self.key = Some(Pem::Text(key.as_ref().into()));
        self
    }

    /// Returns the configuration with the files that the options of a URL name.
    pub(crate) fn from_paths(ca: Option<&str>, cert: Option<&str>, key: Option<&str>) -> Self {
        let file = |path: &str| Pem::File(path.into());
        Self {
            ca: ca.map(file),
            cert: cert.map(file),
            key: key.map(file),
        }
    }

    /// Merges this configuration with `others`. A setting must not be in both.
    pub(crate) fn merged(self, others: Self) -> Result<Self, ConnectError> {
        const TWICE: &str = "the URL sets it too; set it in one place";
        let one = |option, one: Option<Pem>, other: Option<Pem>| match (one, other) {
            (Some(_), Some(_)) => Err(ConnectError::InvalidOption {
                option,
                reason: TWICE.into(),
            }),
            (one, other) => Ok(one.or(other)),
        };
        Ok(Self {
            ca: one("ca", self.ca, others.ca)?,
            cert: one("cert", self.cert, others.cert)?,
            key: one("key", self.key, others.key)?,
        })
    }

    /// Reads all files, and reads them again from time to time.
    pub(crate) fn connector(&self) -> Result<Connector, ConnectError> {
        // Those of the machine are many. They are read once.
        let machine = Arc::new(match self.ca {
            None => roots_of_the_machine()?,
            Some(_) => RootCertStore::empty(),
        });
        let given = [&self.ca, &self.cert, &self.key];
        let mut files = given
            .into_iter()
            .flatten()
            .filter(|it| matches!(it, Pem::File(_)))
            .peekable();
        let are_read_again = files.peek().is_some() && files.all(Pem::is_lasting);
        let tls = self.clone();
        let read = move || tls.read(&machine);
        let certificates = if are_read_again {
            Reloaded::new("redis", read)?
        } else {
            Reloaded::fixed(read()?)
        };
        Ok(Connector::new(certificates))
    }

    fn read(&self, machine: &Arc<RootCertStore>) -> Result<Certificates, ConnectError> {
        let roots = match &self.ca {
            Some(pem) => Arc::new(given_roots(pem)?),
            None => machine.clone(),
        };
        // The process-wide provider may be another one, or missing.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the safe versions")
            .with_root_certificates(roots);
        let (mut config, has_identity) = match (&self.cert, &self.key) {
            (None, None) => (config.with_no_client_auth(), false),
            (Some(cert), Some(key)) => {
                let chain = certificates("cert", cert)?;
                let private = private_key(key)?;
                let config = config.with_client_auth_cert(chain, private);
                let config = config.map_err(|error| key.refused("key", error))?;
                (config, true)
            }
            (one, _) => {
                let reason = "a client certificate needs both `cert` and `key`; set both";
                let option = if one.is_some() { "cert" } else { "key" };
                let reason = reason.into();
                return Err(ConnectError::InvalidOption { option, reason });
            }
        };
        // A connection lasts for days. Each new one verifies the certificate that is valid then.
        config.resumption = Resumption::disabled();
        Ok(Certificates {
            config,
            has_identity,
        })
    }
}

/// Shows nothing of the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |pem: &Option<Pem>| pem.as_ref().map(Pem::origin);
        f.debug_struct("Tls")
            .field("ca", &shown(&self.ca))
            .field("cert", &shown(&self.cert))
            .field("key", &shown(&self.key))
            .finish()
    }
}

impl Pem {
    fn origin(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Text(_) => "the given text".to_owned(),
        }
    }

    /// Returns `true` if it can be read again. A pipe cannot.
    fn is_lasting(&self) -> bool {
        match self {
            Self::File(path) => fs::metadata(path).is_ok_and(|found| found.is_file()),
            Self::Text(_) => false,
        }
    }

    fn read(&self, option: &'static str) -> Result<Vec<u8>, ConnectError> {
        match self {
            Self::Text(text) => Ok(text.to_vec()),
            Self::File(path) => fs::read(path).map_err(|error| {
                let text = error.to_string();
                let words = text.split(" (os error").next().unwrap_or_default();
                self.refused(option, words)
            }),
        }
    }

    fn refused(&self, option: &'static str, reason: impl fmt::Display) -> ConnectError {
        ConnectError::InvalidCertificate {
            option,
            origin: self.origin(),
            reason: reason.to_string(),
        }
    }
}

fn given_roots(pem: &Pem) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    for root in certificates("ca", pem)? {
        let added = roots.add(root);
        added.map_err(|_| pem.refused("ca", "it contains an invalid certificate"))?;
    }
    Ok(roots)
}

fn roots_of_the_machine() -> Result<RootCertStore, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some machines have an unreadable certificate among hundreds.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(ConnectError::InvalidCertificate {
            option: "ca",
            origin: "this machine".to_owned(),
            reason: "it has no trusted certificate authorities; install `ca-certificates`, or \
                     set `ca`"
                .to_owned(),
        });
    }
    Ok(roots)
}

fn certificates(
    option: &'static str,
    pem: &Pem,
) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let text = pem.read(option)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match read {
        Ok(all) if !all.is_empty() => Ok(all),
        // The parser's error might quote its input.
        _ => Err(pem.refused(option, "it contains no certificate in PEM format")),
    }
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, ConnectError> {
    let text = pem.read("key")?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let encrypted = text
            .windows(b"ENCRYPTED".len())
            .any(|part| part == b"ENCRYPTED");
        let reason = match error {
            pem::Error::NoItemsFound if encrypted => {
                "the key is encrypted; use a key without a passphrase"
            }
            _ => "it contains no private key in PEM format",
        };
        pem.refused("key", reason)
    })
}
