//! The certificates of a store's connections. They are read again before each new session, and while a session has lost its
//! connection: a session lasts longer than a certificate may.

use std::sync::{Arc, Mutex, PoisonError};

use dlock_runtime::ConnectError;
use tokio::task::spawn_blocking;
use tokio_rustls::rustls::{ClientConfig, crypto::CryptoProvider};
use zookeeper_client::{Client, Connector, TlsDynamicCerts, TlsOptions};

use super::{
    Own,
    files::{Certificates, Files, name_of, provider},
};
use crate::errors::Failure;

/// The certificates that connections trust and show. Clones share them.
#[derive(Clone)]
pub(crate) struct Trust {
    files: Files,
    provider: Arc<CryptoProvider>,
    last: Arc<Mutex<Last>>,
    /// The same for the client of ZooKeeper, which takes the newest for each connection.
    certs: TlsDynamicCerts,
}

/// The last certificates that could be used.
struct Last {
    certificates: Certificates,
    /// Why they could not be used when they were read once more.
    fault: Option<String>,
}

impl Trust {
    /// Reads the files that a URL names.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if a file cannot be used, or the process has no default provider.
    pub(crate) fn open(own: Own) -> Result<Self, ConnectError> {
        Self::with(Files::new(own), provider(CryptoProvider::get_default())?)
    }

    fn with(files: Files, provider: Arc<CryptoProvider>) -> Result<Self, ConnectError> {
        let certificates = files.read(&provider)?;
        let certs = TlsDynamicCerts::new(certificates.certs.clone());
        let last = Last {
            certificates,
            fault: None,
        };
        Ok(Self {
            files,
            provider,
            last: Arc::new(Mutex::new(last)),
            certs,
        })
    }

    /// Returns `true` if a certificate can have the name of this host.
    #[expect(
        clippy::unused_self,
        reason = "without the feature, this cannot be asked"
    )]
    pub(crate) fn can_verify(&self, host: &str) -> bool {
        name_of(host).is_some()
    }

    /// Reads the files again. If one of them cannot be used, connections go on with what they contained before: whoever
    /// replaces two files writes one after the other.
    pub(crate) async fn refresh(&self) {
        let (files, provider) = (self.files.clone(), self.provider.clone());
        // Fails when the runtime ends.
        if let Ok(read) = spawn_blocking(move || files.read(&provider)).await {
            self.note(read);
        }
    }

    fn note(&self, read: Result<Certificates, ConnectError>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(certificates) => {
                last.fault = None;
                if certificates != last.certificates {
                    self.certs.update(certificates.certs.clone());
                    last.certificates = certificates;
                }
            }
            Err(error) => {
                let fault = error.to_string();
                if last.fault.as_ref() != Some(&fault) {
                    tracing::warn!(target: "dlock::store", %error, "certificates for ZooKeeper were not replaced");
                    last.fault = Some(fault);
                }
            }
        }
    }

    /// Returns the same for connections beside those of the client.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.certificates.config.clone()
    }

    /// Makes a session. The client verifies hosts by default.
    pub(crate) async fn connect(
        &self,
        connector: Connector,
        hosts: &str,
    ) -> Result<Client, Failure> {
        let options = TlsOptions::new().with_certs(self.certs.clone());
        Ok(connector.with_tls(options).secure_connect(hosts).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use dlock_testkit::Authority;
    use tokio_rustls::rustls::crypto::ring;

    use super::*;

    fn of(own: Own) -> Trust {
        Trust::with(Files::new(own), Arc::new(ring::default_provider())).unwrap()
    }

    #[tokio::test]
    async fn a_file_that_was_replaced_is_used_and_a_broken_one_is_not() {
        let authority = Authority::new();
        let (old, new) = (authority.issue(&["shop"]), authority.issue(&["shop"]));
        let file = |path: PathBuf| path.display().to_string();
        let trust = of(Own {
            root: Some(file(authority.ca_file())),
            cert: Some(file(old.cert_file())),
            key: Some(file(old.key_file())),
            ..Own::default()
        });
        let shown = || trust.last.lock().unwrap().certificates.clone();
        let first = shown();

        fs::write(old.cert_file(), new.cert_pem()).unwrap();
        trust.refresh().await;
        assert!(shown() == first, "this key is not that of the certificate");
        let fault = trust.last.lock().unwrap().fault.clone().unwrap();
        assert!(fault.contains(&file(old.key_file())), "{fault}");

        fs::write(old.key_file(), new.key_pem()).unwrap();
        trust.refresh().await;
        let second = shown();
        assert!(second != first);
        assert!(trust.last.lock().unwrap().fault.is_none());

        fs::remove_file(authority.ca_file()).unwrap();
        trust.refresh().await;
        assert!(shown() == second);
    }
}
