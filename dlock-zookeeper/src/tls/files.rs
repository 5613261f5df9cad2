//! The certificates of TLS connections, which are always verified, with the host.
//!
//! The client of ZooKeeper takes the default provider of the process, and panics without one: two are compiled in, as it enables
//! aws-lc-rs itself. This crate does not choose for the program, and refuses the URL then.

use std::{fmt, fs, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use dlock_runtime::{
    ConnectError,
    store::{StoreError, StoreErrorKind},
};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, pem::PemObject,
    },
};
use zookeeper_client::TlsOptions;

use super::Own;

/// The files that a URL names.
#[derive(Clone)]
pub(crate) struct Files {
    root: Option<String>,
    /// The certificate of the client, and its key.
    own: Option<(String, String)>,
}

/// The certificates that they contain.
pub(crate) struct Certificates {
    /// In PEM format, as the client of ZooKeeper takes it.
    roots: String,
    own: Option<(String, String)>,
    /// The same for connections beside those of the client.
    pub(crate) config: Arc<ClientConfig>,
}

impl Files {
    pub(crate) fn new(own: Own) -> Self {
        Self {
            root: own.root,
            own: own.cert.zip(own.key),
        }
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if a file cannot be used, or the process has no default provider.
    pub(crate) fn read(&self) -> Result<Certificates, ConnectError> {
        let roots = match &self.root {
            Some(path) => read("sslrootcert", path)?,
            None => roots_of_the_machine()?,
        };
        let own = match &self.own {
            Some((cert, key)) => Some((read("sslcert", cert)?, read("sslkey", key)?)),
            None => None,
        };
        let config = Arc::new(self.config(&roots, own.as_ref())?);
        Ok(Certificates { roots, own, config })
    }

    fn config(
        &self,
        roots: &str,
        own: Option<&(String, String)>,
    ) -> Result<ClientConfig, ConnectError> {
        let root = self.root.as_deref().unwrap_or("this machine");
        let mut store = RootCertStore::empty();
        let revoked: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(roots.as_bytes()).collect();
        let revoked = revoked.map_err(|error| invalid("sslrootcert", root, error))?;
        let trusted = certificates("sslrootcert", root, roots)?;
        // Some machines have an invalid certificate among hundreds.
        let (added, _) = store.add_parsable_certificates(trusted);
        if added == 0 {
            return Err(invalid("sslrootcert", root, "its certificates are invalid"));
        }
        let provider = provider(CryptoProvider::get_default())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone())
            .with_crls(revoked)
            .build()
            .map_err(|error| invalid("sslrootcert", root, error))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(error.to_string()))?
            .with_webpki_verifier(verifier);
        let (Some((cert, key)), Some((cert_path, key_path))) = (own, &self.own) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates("sslcert", cert_path, cert)?;
        let secret = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let secret = secret.map_err(|error| invalid("sslkey", key_path, error))?;
        let config = builder.with_client_auth_cert(chain, secret);
        config.map_err(|error| invalid("sslcert", cert_path, error))
    }
}

impl Certificates {
    /// Returns them for the client of ZooKeeper, which verifies hosts by default.
    pub(crate) fn options(&self) -> Result<TlsOptions, zookeeper_client::Error> {
        let options = TlsOptions::new().with_pem_ca(&self.roots)?;
        match &self.own {
            Some((cert, key)) => options.with_pem_identity(cert, key),
            None => Ok(options),
        }
    }
}

/// Returns the name that the certificate of a server must have.
pub(crate) fn name_of(host: &str) -> Option<ServerName<'static>> {
    // Exactly what the client makes of it, which panics if that is no name.
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    ServerName::try_from(inner.unwrap_or(host).to_owned()).ok()
}

fn provider(default: Option<&Arc<CryptoProvider>>) -> Result<Arc<CryptoProvider>, ConnectError> {
    default.cloned().ok_or_else(|| {
        let reason = "the process has no default TLS provider; call \
                      `rustls::crypto::ring::default_provider().install_default()` at its start";
        refused(reason.to_owned())
    })
}

fn roots_of_the_machine() -> Result<String, ConnectError> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        let reason = "this machine has no trusted certificate authorities; install `ca-certificates`, or set `sslrootcert`";
        return Err(ConnectError::InvalidOption {
            option: "sslrootcert",
            reason: reason.into(),
        });
    }
    Ok(found.iter().map(pem).collect())
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

fn certificates(
    option: &'static str,
    path: &str,
    text: &str,
) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let all = read.map_err(|error| invalid(option, path, error))?;
    if all.is_empty() {
        let reason = "it contains no certificate in PEM format";
        return Err(invalid(option, path, reason));
    }
    Ok(all)
}

fn read(option: &'static str, path: &str) -> Result<String, ConnectError> {
    let bytes = fs::read(path).map_err(|error| invalid(option, path, error))?;
    // Comments between certificates may be in any encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn invalid(option: &'static str, path: &str, reason: impl fmt::Display) -> ConnectError {
    ConnectError::InvalidOption {
        option,
        reason: format!("cannot use `{path}`: {reason}").into(),
    }
}

fn refused(reason: String) -> ConnectError {
    ConnectError::InvalidOption {
        option: "sslmode",
        reason: reason.into(),
    }
}

/// Returns the error of a handshake, with what to do.
pub(crate) fn advised(host: &str, error: &Error) -> StoreError {
    let remedy = match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "name the authority of its certificate in `sslrootcert`"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "write the host in the URL as its certificate names it",
        Error::InvalidCertificate(_) => "check the server's certificate",
        Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "allow TLS 1.2 or 1.3 at the server"
        }
        // Servers do not agree on the alert for a client without a certificate.
        Error::AlertReceived(_) => {
            "name a client certificate that the server trusts in `sslcert` and `sslkey`"
        }
        _ => "check that its port is the `secureClientPort`",
    };
    let text = format!("no TLS connection to `{host}`: {error}; {remedy}");
    StoreError::new(StoreErrorKind::Tls, text).with_advice()
}

#[cfg(test)]
mod tests {
    use dlock_testkit::Authority;
    use tokio_rustls::rustls::crypto::ring;

    use super::*;

    fn files(root: &Authority, cert: Option<(&str, &str)>) -> Files {
        Files {
            root: Some(root.ca_file().display().to_string()),
            own: cert.map(|(cert, key)| (cert.to_owned(), key.to_owned())),
        }
    }

    // No test of this executable installs a provider.
    #[test]
    fn a_process_without_a_provider_gets_an_error() {
        let error = files(&Authority::new(), None).read().err().unwrap();
        let text = error.to_string();
        assert!(text.contains("no default TLS provider"), "{text}");
        assert!(text.contains("ring::default_provider()"), "{text}");
        let own = Arc::new(ring::default_provider());
        assert!(provider(Some(&own)).is_ok());
    }

    #[test]
    fn an_unusable_file_is_named() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        let identity = authority.issue(&["shop"]);
        let key = identity.key_file().display().to_string();
        let missing = Files {
            root: Some("/none".to_owned()),
            own: None,
        };
        let empty = Files {
            root: Some(key.clone()),
            own: None,
        };
        for (files, option, path) in [
            (missing, "sslrootcert", "/none"),
            (empty, "sslrootcert", &*key),
            (files(&authority, Some(("/none", &key))), "sslcert", "/none"),
            (files(&authority, Some((&ca, "/none"))), "sslkey", "/none"),
        ] {
            let error = files.read().err().unwrap().to_string();
            assert!(error.contains(option) && error.contains(path), "{error}");
        }
    }

    #[test]
    fn certificates_of_the_machine_become_text_that_the_client_reads() {
        let authority = Authority::new();
        let given = fs::read_to_string(authority.ca_file()).unwrap();
        let all = certificates("sslrootcert", "it", &given).unwrap();
        let text: String = all.iter().map(pem).collect();
        assert_eq!(certificates("sslrootcert", "it", &text).unwrap(), all);
        assert!(TlsOptions::new().with_pem_ca(&text).is_ok());
    }

    #[test]
    fn hosts_are_names_that_certificates_can_have() {
        for host in ["zk-1", "zk_1.internal", "10.0.0.1", "[::1]", "::1"] {
            assert!(name_of(host).is_some(), "{host}");
        }
        for host in ["", "a b", "[fe80::1%eth0]", "a]", "[a", "ü"] {
            assert!(name_of(host).is_none(), "{host}");
        }
    }
}
