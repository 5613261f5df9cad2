//! The certificates of connections, as configured and as read.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    client::{Resumption, WebPkiServerVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::CertificateDer,
};

use super::pem::{Pem, TlsOptionNames};
use crate::{file::OptionError, options::TlsPaths, reloaded::Reloaded};

/// The files, or texts, with the certificates that connections trust and show. Clones share the authorities of the machine.
///
/// ```
/// use dlock_net::{TlsPaths, tls::TlsFiles};
///
/// let paths = TlsPaths { root: Some("/none.pem".to_owned()), own: None };
/// let files = TlsFiles::of_paths(&paths).unwrap();
/// let error = files.load("my-store", |config| config).unwrap_err();
/// assert_eq!(error.option, "sslrootcert");
/// ```
#[derive(Clone)]
pub struct TlsFiles {
    names: TlsOptionNames,
    /// Those of the machine if there are none. They are many, and are read once.
    root: Result<Pem, Arc<[CertificateDer<'static>]>>,
    /// The certificate of the client, and its key.
    own: Option<(Pem, Pem)>,
}

/// The texts of [`TlsFiles`] as they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsTexts {
    /// The authorities, or `None` for those of the machine.
    pub root: Option<Vec<u8>>,
    /// The certificate of the client, and its key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

/// The provider of stores whose clients take any. That of the process may be another one, or missing.
#[must_use]
pub fn ring_provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl TlsFiles {
    /// Takes the sources of the authorities, of the client's certificate and of its key. Without authorities, those of the machine
    /// are read.
    ///
    /// # Errors
    ///
    /// [`OptionError`] if the machine has no authorities, or if there is a certificate without a key.
    pub fn new(
        names: TlsOptionNames,
        root: Option<Pem>,
        cert: Option<Pem>,
        key: Option<Pem>,
    ) -> Result<Self, OptionError> {
        let option = if cert.is_some() {
            names.cert
        } else {
            names.key
        };
        let own = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((cert, key)),
            _ => {
                let TlsOptionNames { cert, key, .. } = names;
                let reason =
                    format!("a client certificate needs both `{cert}` and `{key}`; set both");
                return Err(OptionError::new(option, reason));
            }
        };
        let root = match root {
            Some(root) => Ok(root),
            None => Err(authorities_of_the_machine(names.root)?),
        };
        Ok(Self { names, root, own })
    }

    /// Takes the files that a URL names.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn of_paths(paths: &TlsPaths) -> Result<Self, OptionError> {
        let file = |path: &String| Pem::File(path.into());
        let (cert, key) = paths.own.as_ref().map(|(cert, key)| (cert, key)).unzip();
        let [root, cert, key] = [paths.root.as_ref(), cert, key].map(|path| path.map(file));
        Self::new(TlsOptionNames::SSL, root, cert, key)
    }

    /// Returns `true` if the client has a certificate.
    #[must_use]
    pub fn has_identity(&self) -> bool {
        self.own.is_some()
    }

    /// Returns the authorities of the machine if no others are to be trusted.
    #[must_use]
    pub fn machine(&self) -> &[CertificateDer<'static>] {
        self.root.as_ref().err().map_or(&[], |machine| machine)
    }

    /// Reads the files. It blocks its thread.
    ///
    /// # Errors
    ///
    /// [`OptionError`] if a file cannot be read.
    pub fn read(&self) -> Result<TlsTexts, OptionError> {
        let root = match &self.root {
            Ok(root) => Some(root.read(self.names.root)?),
            Err(_) => None,
        };
        let own = match &self.own {
            Some((cert, key)) => Some((cert.read(self.names.cert)?, key.read(self.names.key)?)),
            None => None,
        };
        Ok(TlsTexts { root, own })
    }

    /// Returns the configuration of connections with the certificates in these texts.
    ///
    /// # Errors
    ///
    /// [`OptionError`] if a text cannot be used.
    pub fn config(
        &self,
        texts: &TlsTexts,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientConfig, OptionError> {
        let TlsOptionNames { root, cert, key } = self.names;
        let (trusted, revoked) = match (&self.root, &texts.root) {
            (Ok(pem), Some(text)) => (
                pem.certificates(root, text)?,
                pem.revocation_lists(root, text)?,
            ),
            _ => (self.machine().to_vec(), Vec::new()),
        };
        let refused = |reason: &str| match &self.root {
            Ok(pem) => pem.refused(root, reason),
            Err(_) => OptionError::of(root, MACHINE, reason),
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(
            usable(trusted)
                .ok_or_else(|| refused("its certificates are invalid"))?
                .into(),
            provider.clone(),
        );
        let verifier = verifier
            .with_crls(revoked)
            .build()
            .map_err(|error| refused(&error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&error.to_string()))?
            .with_webpki_verifier(verifier);
        let mut config = match (&self.own, &texts.own) {
            (Some((cert_pem, key_pem)), Some((cert_text, key_text))) => {
                let chain = cert_pem.certificates(cert, cert_text)?;
                let secret = key_pem.private_key(key, key_text)?;
                builder
                    .with_client_auth_cert(chain, secret)
                    .map_err(|error| {
                        let origin = cert_pem.origin();
                        let reason = format!("it is no key of the certificate `{origin}`: {error}");
                        key_pem.refused(key, &reason)
                    })?
            }
            _ => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Makes a value of the configuration with [`ring_provider`], and makes it again when the files are read again. `store` is its
    /// name for the log.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read) and [`config`](Self::config).
    pub fn load<T: Send + Sync + 'static>(
        self,
        store: &'static str,
        make: impl Fn(ClientConfig) -> T + Send + 'static,
    ) -> Result<Reloaded<T>, OptionError> {
        let is_read_again = self.is_read_again();
        let provider = ring_provider();
        let load = move || Ok(make(self.config(&self.read()?, &provider)?));
        if is_read_again {
            Reloaded::new(store, load)
        } else {
            load().map(Reloaded::fixed)
        }
    }

    /// Returns `false` if no file can be read again, or one of them cannot.
    fn is_read_again(&self) -> bool {
        let own = self.own.iter().flat_map(|(cert, key)| [cert, key]);
        let all = own.chain(self.root.as_ref().ok());
        let mut files = all.filter(|pem| !matches!(pem, Pem::Text(_))).peekable();
        files.peek().is_some() && !files.any(Pem::is_read_once)
    }
}

/// The origin of certificates that no option names.
const MACHINE: &str = "the authorities of this machine";

fn authorities_of_the_machine(
    option: &'static str,
) -> Result<Arc<[CertificateDer<'static>]>, OptionError> {
    use rustls_native_certs::ErrorKind;

    let found = rustls_native_certs::load_native_certs();
    if usable(found.certs.clone()).is_some() {
        return Ok(found.certs.into());
    }
    let why = found.errors.first().map(|error| match &error.kind {
        ErrorKind::Io { inner, path } => format!(" (`{}`: {inner})", path.display()),
        _ => format!(" ({})", error.context),
    });
    let why = why.unwrap_or_default();
    let reason = format!("there are none{why}; install `ca-certificates`, or set `{option}`");
    Err(OptionError::of(option, MACHINE, reason))
}

/// Returns those that can be used, if there are any. Some machines have an invalid certificate among hundreds.
fn usable(certificates: Vec<CertificateDer<'static>>) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    (added > 0).then_some(roots)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dlock_testkit::{Authority, Identity};
    use rustls::{
        CertificateError, ClientConnection, Error, HandshakeKind, ServerConfig, ServerConnection,
        pki_types::{PrivateKeyDer, pem::PemObject},
    };

    use super::*;

    fn files(root: &str, own: Option<(&str, &str)>) -> TlsFiles {
        let own = own.map(|(cert, key)| (cert.to_owned(), key.to_owned()));
        let root = Some(root.to_owned());
        TlsFiles::of_paths(&TlsPaths { root, own }).unwrap()
    }

    fn used(files: &TlsFiles) -> Result<ClientConfig, OptionError> {
        files.config(&files.read()?, &ring_provider())
    }

    fn fault(root: &str, own: Option<(&str, &str)>) -> String {
        used(&files(root, own)).unwrap_err().to_string()
    }

    #[test]
    fn an_unusable_file_is_named() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        let (one, other) = (authority.issue(&["shop"]), authority.issue(&["shop"]));
        let cert = one.cert_file().display().to_string();
        let [key, foreign] = [&one, &other].map(|it| it.key_file().display().to_string());
        assert!(used(&files(&ca, Some((&cert, &key)))).is_ok());
        for (root, own, option, path) in [
            ("/none", None, "sslrootcert", "/none"),
            (&key, None, "sslrootcert", &*key),
            (&ca, Some(("/none", &*key)), "sslcert", "/none"),
            (&ca, Some((&key, &key)), "sslcert", &key),
            (&ca, Some((&cert, "/none")), "sslkey", "/none"),
            (&ca, Some((&cert, &cert)), "sslkey", &cert),
            (&ca, Some((&cert, &foreign)), "sslkey", &foreign),
        ] {
            let error = fault(root, own);
            let named = format!("`{option}`: cannot use `{path}`");
            assert!(error.starts_with(&named), "{error}");
        }
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
        fs::write(one.key_file(), encrypted).unwrap();
        let error = fault(&ca, Some((&cert, &key)));
        assert!(error.contains("without a passphrase"), "{error}");
        let hollow = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        fs::write(authority.ca_file(), hollow).unwrap();
        assert!(fault(&ca, None).contains("its certificates are invalid"));
        fs::write(authority.ca_file(), hollow.to_owned() + authority.ca_pem()).unwrap();
        assert!(used(&files(&ca, None)).is_ok());
    }

    /// A parser quotes the line that it cannot read, and a key from a variable may be one line.
    #[test]
    fn no_error_shows_a_key() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        let identity = authority.issue(&["shop"]);
        let cert = identity.cert_file().display().to_string();
        let key = identity.key_file().display().to_string();
        let error = fault(&ca, Some((&cert, identity.key_pem())));
        assert!(
            error.contains("the name of a file") && error.len() < 200,
            "{error}"
        );
        for lines in [" ", "\\n"] {
            let text = identity.key_pem().replace('\n', lines);
            fs::write(identity.key_file(), &text).unwrap();
            for error in [
                fault(&ca, Some((&cert, &key))),
                fault(&ca, Some((&key, &key))),
                fault(&key, None),
            ] {
                let middle = text.len() / 2;
                let secret = &text[middle..middle + 8];
                let numbers = format!("{:?}", secret.as_bytes());
                assert!(!error.contains(secret), "{error}");
                assert!(!error.contains(numbers.trim_matches(['[', ']'])), "{error}");
            }
        }
    }

    #[test]
    fn a_revocation_list_is_read_with_the_authorities() {
        let authority = Authority::new();
        let (_, list) = authority.issue_revoked(&["127.0.0.1"]);
        let ca = authority.ca_file().display().to_string();
        fs::write(&ca, format!("{}{list}", authority.ca_pem())).unwrap();
        let given = files(&ca, None);
        let text = given.read().unwrap().root.unwrap();
        let Ok(pem) = &given.root else {
            panic!("a file is named");
        };
        assert_eq!(pem.revocation_lists("sslrootcert", &text).unwrap().len(), 1);
        assert!(used(&given).is_ok());
        let broken = list.replace("-----END X509 CRL-----", "");
        fs::write(&ca, format!("{}{broken}", authority.ca_pem())).unwrap();
        assert!(fault(&ca, None).contains("or a part of one"));
    }

    /// Makes a connection in memory to a server with this certificate.
    fn shake_hands(config: &Arc<ClientConfig>, server: &Identity) -> Result<HandshakeKind, Error> {
        let chain = CertificateDer::pem_slice_iter(server.cert_pem().as_bytes());
        let key = PrivateKeyDer::from_pem_slice(server.key_pem().as_bytes());
        let server = ServerConfig::builder_with_provider(ring_provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key.unwrap())?;
        let mut server = ServerConnection::new(server.into())?;
        let name = "127.0.0.1".try_into().unwrap();
        let mut client = ClientConnection::new(config.clone(), name)?;
        for _ in 0..4 {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            let mut bytes = &*bytes;
            while !bytes.is_empty() {
                server.read_tls(&mut bytes).unwrap();
                server.process_new_packets()?;
            }
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let mut bytes = &*bytes;
            while !bytes.is_empty() {
                client.read_tls(&mut bytes).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(client.handshake_kind().unwrap())
    }

    #[test]
    fn a_session_is_not_resumed() {
        let authority = Authority::new();
        let server = authority.issue(&["127.0.0.1"]);
        let ca = authority.ca_file().display().to_string();
        let config = Arc::new(used(&files(&ca, None)).unwrap());
        for _ in 0..2 {
            let kind = shake_hands(&config, &server).unwrap();
            assert_eq!(kind, HandshakeKind::Full);
        }
    }

    #[test]
    fn a_server_whose_certificate_was_revoked_is_refused() {
        let authority = Authority::new();
        let (server, list) = authority.issue_revoked(&["127.0.0.1"]);
        let ca = authority.ca_file().display().to_string();
        let shake_hands = || shake_hands(&Arc::new(used(&files(&ca, None)).unwrap()), &server);
        assert!(shake_hands().is_ok());
        fs::write(&ca, format!("{}{list}", authority.ca_pem())).unwrap();
        let revoked = Error::InvalidCertificate(CertificateError::Revoked);
        assert_eq!(shake_hands().unwrap_err(), revoked);
    }

    #[test]
    fn files_are_read_again_unless_one_of_them_cannot_be() {
        let authority = Authority::new();
        let file = || Some(Pem::AnyFile(authority.ca_file()));
        let text = || Some(Pem::Text(authority.ca_pem().as_bytes().into()));
        let pipe = || Some(Pem::AnyFile("/dev/null".into()));
        for (root, cert, key, expected) in [
            (file(), None, None, true),
            (text(), None, None, false),
            (text(), file(), text(), true),
            (file(), pipe(), file(), false),
        ] {
            let files = TlsFiles::new(TlsOptionNames::SSL, root, cert, key).unwrap();
            assert_eq!(files.is_read_again(), expected);
        }
        let half = TlsFiles::new(TlsOptionNames::SSL, file(), None, file());
        assert_eq!(half.err().unwrap().option, "sslkey");
    }
}
