//! The files with certificates for TLS. Servers are always verified, with their host.
//!
//! The client of ZooKeeper takes the default provider of the process, and panics without one: two are compiled in, as it enables
//! aws-lc-rs itself. This crate does not choose for the program, and refuses the URL then.
//!
//! No error contains that of a parser, which quotes the lines that it cannot read: a key with wrong line breaks is one line.

use std::{fmt, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use dlock_runtime::{
    ConnectError,
    store::{StoreError, StoreErrorKind, read_option_file},
};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, pem::PemObject,
    },
};
use zookeeper_client::{TlsCa, TlsCerts, TlsIdentity};

use super::Own;

const NO_PEM: &str = "it contains no certificate in PEM format, or a part of one";

/// In both forms of keys with a passphrase.
const ENCRYPTED: &str = "ENCRYPTED";

/// The files that a URL names.
#[derive(Clone)]
pub(crate) struct Files {
    root: Option<String>,
    /// The certificate of the client, and its key.
    own: Option<(String, String)>,
}

/// The texts that they contain, in PEM format.
#[derive(Clone, PartialEq)]
pub(crate) struct Texts {
    roots: String,
    own: Option<(String, String)>,
}

/// The certificates in such texts.
pub(crate) struct Certificates {
    /// For the client of ZooKeeper.
    pub(crate) certs: TlsCerts,
    /// For connections beside those of the client.
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
    /// [`ConnectError::InvalidOption`] if a file cannot be read.
    pub(crate) fn read(&self) -> Result<Texts, ConnectError> {
        let roots = match &self.root {
            Some(path) => read("sslrootcert", path)?,
            None => roots_of_the_machine()?,
        };
        let own = match &self.own {
            Some((cert, key)) => Some((read("sslcert", cert)?, read("sslkey", key)?)),
            None => None,
        };
        Ok(Texts { roots, own })
    }

    /// Returns the certificates that the files contain.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if a text cannot be used.
    pub(crate) fn certificates(
        &self,
        texts: &Texts,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Certificates, ConnectError> {
        let (roots, own) = (&texts.roots, texts.own.as_ref());
        let config = Arc::new(self.config(roots, own, provider)?);
        let certs = certs(roots, own).map_err(|_| {
            refused("the client of ZooKeeper cannot use the certificates".to_owned())
        })?;
        Ok(Certificates { certs, config })
    }

    fn config(
        &self,
        roots: &str,
        own: Option<&(String, String)>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientConfig, ConnectError> {
        let root = self.root.as_deref().unwrap_or("this machine");
        let mut store = RootCertStore::empty();
        let revoked: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(roots.as_bytes()).collect();
        let revoked = revoked.map_err(|_| invalid("sslrootcert", root, NO_PEM))?;
        let trusted = certificates("sslrootcert", root, roots)?;
        // Some machines have an invalid certificate among hundreds.
        let (added, _) = store.add_parsable_certificates(trusted);
        if added == 0 {
            return Err(invalid("sslrootcert", root, "its certificates are invalid"));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone())
            .with_crls(revoked)
            .build()
            .map_err(|error| invalid("sslrootcert", root, error))?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(error.to_string()))?
            .with_webpki_verifier(verifier);
        let (Some((cert, key)), Some((cert_path, key_path))) = (own, &self.own) else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates("sslcert", cert_path, cert)?;
        let secret = secret(key_path, key)?;
        let config = builder.with_client_auth_cert(chain, secret);
        config.map_err(|error| {
            let reason = format!("it is no key of the certificate `{cert_path}`: {error}");
            invalid("sslkey", key_path, reason)
        })
    }
}

fn certs(roots: &str, own: Option<&(String, String)>) -> Result<TlsCerts, zookeeper_client::Error> {
    let builder = TlsCerts::builder().with_ca(TlsCa::from_pem(roots)?);
    let builder = match own {
        Some((cert, key)) => builder.with_identity(TlsIdentity::from_pem(cert, key)?),
        None => builder,
    };
    builder.build()
}

fn secret(path: &str, text: &str) -> Result<PrivateKeyDer<'static>, ConnectError> {
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| {
        let is_encrypted = text.contains(ENCRYPTED);
        let reason = if is_encrypted {
            "the key is encrypted; use a key without a passphrase"
        } else {
            "it contains no private key in PEM format"
        };
        invalid("sslkey", path, reason)
    })
}

/// Returns the name that the certificate of a server must have.
pub(crate) fn name_of(host: &str) -> Option<ServerName<'static>> {
    // Exactly what the client makes of it, which panics if that is no name.
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    ServerName::try_from(inner.unwrap_or(host).to_owned()).ok()
}

pub(crate) fn provider(
    default: Option<&Arc<CryptoProvider>>,
) -> Result<Arc<CryptoProvider>, ConnectError> {
    default.cloned().ok_or_else(|| {
        let reason = "the process has no default TLS provider; call \
                      `rustls::crypto::ring::default_provider().install_default()` at its start";
        refused(reason.to_owned())
    })
}

fn roots_of_the_machine() -> Result<String, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|error| match &error.kind {
            rustls_native_certs::ErrorKind::Io { inner, path } => {
                format!(" (`{}`: {inner})", path.display())
            }
            _ => format!(" ({})", error.context),
        });
        let reason = format!(
            "this machine has no trusted certificate authorities{}; install `ca-certificates`, or set `sslrootcert`",
            why.unwrap_or_default()
        );
        return Err(ConnectError::InvalidOption {
            option: "sslrootcert",
            reason: reason.into(),
        });
    }
    Ok(found.certs.iter().map(pem).collect())
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
    match read {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(invalid(option, path, NO_PEM)),
    }
}

fn read(option: &'static str, path: &str) -> Result<String, ConnectError> {
    let bytes = read_option_file(option, path)?;
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
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "add the revocation list of its authority to the file of `sslrootcert`, or remove all lists from it"
        }
        Error::InvalidCertificate(_) => "check the server's certificate",
        Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
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
    use std::fs;

    use dlock_testkit::Authority;
    use tokio_rustls::rustls::crypto::ring;

    use super::*;

    fn files(root: &str, cert: Option<(&str, &str)>) -> Files {
        Files {
            root: Some(root.to_owned()),
            own: cert.map(|(cert, key)| (cert.to_owned(), key.to_owned())),
        }
    }

    fn fault(files: &Files) -> String {
        let used = files
            .read()
            .and_then(|texts| files.certificates(&texts, &Arc::new(ring::default_provider())));
        used.err().expect("a file cannot be used").to_string()
    }

    // No test of this executable installs a provider.
    #[test]
    fn a_process_without_a_provider_gets_an_error() {
        let error = super::super::Trust::open(Own::default()).err().unwrap();
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
        let (one, other) = (authority.issue(&["shop"]), authority.issue(&["shop"]));
        let cert = one.cert_file().display().to_string();
        let [key, foreign] = [&one, &other].map(|it| it.key_file().display().to_string());
        for (files, option, path) in [
            (files("/none", None), "sslrootcert", "/none"),
            (files(&key, None), "sslrootcert", &*key),
            (files(&ca, Some(("/none", &key))), "sslcert", "/none"),
            (files(&ca, Some((&key, &key))), "sslcert", &key),
            (files(&ca, Some((&cert, "/none"))), "sslkey", "/none"),
            (files(&ca, Some((&cert, &cert))), "sslkey", &cert),
            (files(&ca, Some((&cert, &foreign))), "sslkey", &foreign),
        ] {
            let error = fault(&files);
            let named = format!("`{option}`: cannot use `{path}`");
            assert!(error.contains(&named), "{error}");
        }
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
        fs::write(one.key_file(), encrypted).unwrap();
        let error = fault(&files(&ca, Some((&cert, &key))));
        assert!(error.contains("without a passphrase"), "{error}");
    }

    /// A parser quotes the line that it cannot read, and a key from a variable may be one line.
    #[test]
    fn no_error_shows_a_key() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        let identity = authority.issue(&["shop"]);
        let cert = identity.cert_file().display().to_string();
        let key = identity.key_file().display().to_string();
        let error = fault(&files(&ca, Some((&cert, identity.key_pem()))));
        assert!(
            error.contains("the name of a file") && error.len() < 200,
            "{error}"
        );
        for lines in [" ", "\\n"] {
            let text = identity.key_pem().replace('\n', lines);
            fs::write(identity.key_file(), &text).unwrap();
            for files in [
                files(&ca, Some((&cert, &key))),
                files(&ca, Some((&key, &key))),
                files(&key, None),
            ] {
                let error = fault(&files);
                let middle = text.len() / 2;
                let secret = &text[middle..middle + 8];
                let numbers = format!("{:?}", secret.as_bytes());
                assert!(!error.contains(secret), "{error}");
                assert!(!error.contains(numbers.trim_matches(['[', ']'])), "{error}");
            }
        }
    }

    #[test]
    fn the_authorities_of_a_file_are_the_only_ones() {
        let authority = Authority::new();
        let texts = files(&authority.ca_file().display().to_string(), None).read();
        assert_eq!(texts.unwrap().roots, authority.ca_pem());
    }

    #[test]
    fn certificates_of_the_machine_become_text_that_the_client_reads() {
        let authority = Authority::new();
        let given = fs::read_to_string(authority.ca_file()).unwrap();
        let all = certificates("sslrootcert", "it", &given).unwrap();
        let text: String = all.iter().map(pem).collect();
        assert_eq!(certificates("sslrootcert", "it", &text).unwrap(), all);
        assert!(TlsCa::from_pem(&text).is_ok());
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
