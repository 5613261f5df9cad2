//! The certificates of connections, for rustls and for the client of ZooKeeper.
//!
//! The client of ZooKeeper takes the default provider of the process, and panics without one: two are compiled in, as it enables
//! aws-lc-rs itself. This crate does not choose for the program, and refuses the URL then.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use dlock_net::tls::{ClientCertificate, TlsFiles, TlsOptionNames, TlsTexts, explained};
use dlock_runtime::{
    ConnectError,
    store::{StoreError, StoreErrorKind},
};
use tokio_rustls::rustls::{
    ClientConfig, Error, crypto::CryptoProvider, pki_types::CertificateDer,
};
use zookeeper_client::{TlsCa, TlsCerts, TlsIdentity};

/// The certificates in the files that a URL names.
pub(crate) struct Certificates {
    /// For the client of ZooKeeper.
    pub(crate) certs: TlsCerts,
    /// For connections beside those of the client.
    pub(crate) config: Arc<ClientConfig>,
}

impl Certificates {
    /// Returns the certificates in these texts.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if a text cannot be used.
    pub(crate) fn read(
        files: &TlsFiles,
        texts: &TlsTexts,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, ConnectError> {
        let config = Arc::new(files.config(texts, provider)?);
        let certs = certs(files, texts).map_err(|_| {
            refused("the client of ZooKeeper cannot use the certificates".to_owned())
        })?;
        Ok(Self { certs, config })
    }
}

fn certs(files: &TlsFiles, texts: &TlsTexts) -> Result<TlsCerts, zookeeper_client::Error> {
    // Comments between certificates may be in any encoding.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let roots = match &texts.root {
        Some(root) => text(root),
        None => files.machine().iter().map(pem).collect(),
    };
    let builder = TlsCerts::builder().with_ca(TlsCa::from_pem(&roots)?);
    let builder = match &texts.own {
        Some((cert, key)) => builder.with_identity(TlsIdentity::from_pem(&text(cert), &text(key))?),
        None => builder,
    };
    builder.build()
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
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

fn refused(reason: String) -> ConnectError {
    ConnectError::InvalidOption {
        option: "sslmode",
        reason: reason.into(),
    }
}

/// Returns the error of a handshake with this host at this address, with what to do.
pub(crate) fn advised(
    address: &str,
    host: &str,
    client: ClientCertificate,
    error: &Error,
) -> StoreError {
    let text = explained(error, host, client, TlsOptionNames::SSL)
        .unwrap_or_else(|| format!("{error}; check that its port is the `secureClientPort`"));
    let text = format!("no TLS connection to `{address}`: {text}");
    StoreError::new(StoreErrorKind::Tls, text).with_advice()
}

#[cfg(test)]
mod tests {
    use dlock_net::TlsPaths;
    use dlock_testkit::Authority;
    use tokio_rustls::rustls::{crypto::ring, pki_types::pem::PemObject};

    use super::*;

    // No test of this executable installs a provider.
    #[test]
    fn a_process_without_a_provider_gets_an_error() {
        let error = super::super::Trust::open(&TlsPaths::default()).err();
        let text = error.unwrap().to_string();
        assert!(text.contains("no default TLS provider"), "{text}");
        assert!(text.contains("ring::default_provider()"), "{text}");
        let own = Arc::new(ring::default_provider());
        assert!(provider(Some(&own)).is_ok());
    }

    #[test]
    fn certificates_of_the_machine_become_text_that_the_client_reads() {
        let authority = Authority::new();
        let certificates = |text: &str| -> Vec<_> {
            let all = CertificateDer::pem_slice_iter(text.as_bytes());
            all.map(Result::unwrap).collect()
        };
        let all = certificates(authority.ca_pem());
        let text: String = all.iter().map(pem).collect();
        assert_eq!(certificates(&text), all);
        assert!(TlsCa::from_pem(&text).is_ok());
    }
}
