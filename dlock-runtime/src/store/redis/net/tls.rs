//! The certificate authorities that a TLS connection trusts, and its own certificate, as configured and as
//! read.

use std::{fmt, path::PathBuf};

use dlock_net::{
    OptionError,
    tls::{Pem, TlsFiles},
};

use super::handshake::{Certificates, Connector, OPTIONS};
use crate::error::ConnectError;

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
        self.ca = Some(Pem::AnyFile(path.into()));
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
        self.cert = Some(Pem::AnyFile(cert.into()));
        self.key = Some(Pem::AnyFile(key.into()));
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
        let file = |path: &str| Pem::AnyFile(path.into());
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
        let Self { ca, cert, key } = self.clone();
        let files = TlsFiles::new(OPTIONS, ca, cert, key).map_err(refused)?;
        let has_identity = files.has_identity();
        let certificates = files.load("redis", move |config| Certificates {
            config,
            has_identity,
        });
        Ok(Connector::new(certificates.map_err(refused)?))
    }
}

fn refused(error: OptionError) -> ConnectError {
    let OptionError {
        option,
        origin,
        reason,
    } = error;
    match origin {
        Some(origin) => ConnectError::InvalidCertificate {
            option,
            origin,
            reason,
        },
        None => ConnectError::InvalidOption {
            option,
            reason: reason.into(),
        },
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
