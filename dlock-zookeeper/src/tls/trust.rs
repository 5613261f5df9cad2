//! The certificates of a store's connections. They are read again before each new session, and from time to time: a session lasts
//! longer than a certificate may.
//!
//! # Rules
//!
//! - **Safety.** One thread reads at a time, and uses what it has read before the next one begins. Otherwise the older of two reads
//!   could be used last. (`a_read_that_hangs_is_the_only_one`)
//! - It is a thread of its own. A file may hang, and a runtime waits for its threads when it ends.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use dlock_net::{
    TlsPaths,
    tls::{ClientCertificate, TlsFiles, TlsTexts, server_name},
};
use dlock_runtime::ConnectError;
use tokio::{sync::oneshot, time::timeout};
use tokio_rustls::rustls::{ClientConfig, crypto::CryptoProvider};
use zookeeper_client::{Client, Connector, TlsDynamicCerts, TlsOptions};

use super::files::{Certificates, provider};
use crate::errors::Failure;

/// The time that reading may take. A file may be on a server that does not answer.
const LONGEST_READ: Duration = Duration::from_secs(1);

/// The certificates that connections trust and show. Clones share them.
#[derive(Clone)]
pub(crate) struct Trust {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    last: Arc<Mutex<Last>>,
    /// Held by the thread that reads the files.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The same for the client of ZooKeeper, which takes the newest for each connection.
    certs: TlsDynamicCerts,
}

/// The last certificates that could be used.
struct Last {
    texts: TlsTexts,
    certificates: Certificates,
    /// Why the files could not be used when they were read once more.
    fault: Option<String>,
    /// A thread reads them now.
    is_read: bool,
    /// The last read took too long, and the log says so.
    is_slow: bool,
}

/// The fault of a file that hangs.
const LATE: &str = "to read the files with certificates takes longer than a second";

fn log(fault: &str) {
    tracing::warn!(target: "dlock::store", error = fault, "certificates for ZooKeeper were not replaced");
}

impl Trust {
    /// Reads the files that a URL names.
    ///
    /// # Errors
    ///
    /// [`ConnectError::InvalidOption`] if a file cannot be used, or the process has no default provider.
    pub(crate) fn open(paths: &TlsPaths) -> Result<Self, ConnectError> {
        let provider = provider(CryptoProvider::get_default())?;
        Self::with(TlsFiles::of_paths(paths)?, provider)
    }

    fn with(files: TlsFiles, provider: Arc<CryptoProvider>) -> Result<Self, ConnectError> {
        let texts = files.read()?;
        let certificates = Certificates::read(&files, &texts, &provider)?;
        let certs = TlsDynamicCerts::new(certificates.certs.clone());
        let last = Last {
            texts,
            certificates,
            fault: None,
            is_read: false,
            is_slow: false,
        };
        Ok(Self {
            files,
            provider,
            last: Arc::new(Mutex::new(last)),
            turn: Arc::default(),
            certs,
        })
    }

    /// Returns `true` if a certificate can have the name of this host.
    #[expect(
        clippy::unused_self,
        reason = "without the feature, this cannot be asked"
    )]
    pub(crate) fn can_verify(&self, host: &str) -> bool {
        server_name(host).is_some()
    }

    /// Reads the files again. If one of them cannot be used, connections go on with what they contained before: whoever
    /// replaces two files writes one after the other.
    pub(crate) async fn refresh(&self) {
        let read = async {
            let turn = self.turn.clone().lock_owned().await;
            let (done, is_done) = oneshot::channel();
            let trust = self.clone();
            let reader = thread::Builder::new().name("dlock-certificates".to_owned());
            self.last().is_read = true;
            let begun = reader.spawn(move || {
                trust.ended(trust.read_again().err().map(|error| error.to_string()));
                drop(turn);
                done.send(()).ok();
            });
            match begun {
                Ok(_) => is_done.await.ok(),
                Err(error) => {
                    let fault = format!("no thread to read the files with certificates: {error}");
                    self.ended(Some(fault));
                    None
                }
            }
        };
        let is_in_time = timeout(LONGEST_READ, read).await.is_ok();
        let mut last = self.last();
        // Otherwise it has ended just now.
        if is_in_time || last.is_read {
            let is_news = !is_in_time && !last.is_slow;
            last.is_slow = !is_in_time;
            if !is_in_time {
                last.fault = Some(LATE.to_owned());
            }
            drop(last);
            if is_news {
                log(LATE);
            }
        }
    }

    /// Notes the end of a read, and why the files could not be used, if they could not.
    fn ended(&self, fault: Option<String>) {
        let mut last = self.last();
        last.is_read = false;
        let is_news = last.fault != fault;
        last.fault.clone_from(&fault);
        drop(last);
        if let Some(fault) = fault.filter(|_| is_news) {
            log(&fault);
        }
    }

    fn read_again(&self) -> Result<(), ConnectError> {
        let texts = self.files.read()?;
        let is_new = texts != self.last().texts;
        if is_new {
            let certificates = Certificates::read(&self.files, &texts, &self.provider)?;
            let mut last = self.last();
            (last.texts, last.certificates) = (texts, certificates);
        }
        // Also the same ones: the client would resume TLS sessions of the last connection, and verify no certificate.
        let certs = self.last().certificates.certs.clone();
        self.certs.update(certs);
        Ok(())
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        // Every change is complete.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why the files were not used when they were read again.
    pub(crate) fn fault(&self) -> Option<String> {
        self.last().fault.clone()
    }

    /// Returns the same for connections beside those of the client.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.last().certificates.config.clone()
    }

    /// Returns what servers know of the client.
    pub(crate) fn client(&self) -> ClientCertificate {
        ClientCertificate::of(self.files.has_identity())
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

    fn of(root: String, own: Option<(String, String)>) -> Trust {
        let root = Some(root);
        let files = TlsFiles::of_paths(&TlsPaths { root, own }).unwrap();
        Trust::with(files, Arc::new(ring::default_provider())).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_hangs_is_the_only_one() {
        let authority = Authority::new();
        let ca = authority.ca_file().display().to_string();
        let trust = of(ca.clone(), None);
        let hangs = trust.turn.clone().lock_owned().await;
        trust.last().is_read = true;
        let first = trust.last().texts.clone();
        fs::write(&ca, Authority::new().ca_pem()).unwrap();
        trust.refresh().await;
        assert!(trust.fault().unwrap().contains("longer than a second"));
        assert!(trust.last().texts == first);
        drop(hangs);
        // Under paused time, the limit may have passed before the thread has begun.
        while trust.last().texts == first {
            trust.refresh().await;
        }
        drop(trust.turn.lock().await);
        assert!(trust.fault().is_none());
    }

    #[tokio::test]
    async fn a_file_that_was_replaced_is_used_and_a_broken_one_is_not() {
        let authority = Authority::new();
        let (old, new) = (authority.issue(&["shop"]), authority.issue(&["shop"]));
        let file = |path: PathBuf| path.display().to_string();
        let own = (file(old.cert_file()), file(old.key_file()));
        let trust = of(file(authority.ca_file()), Some(own));
        let shown = || trust.last().texts.clone();
        let first = shown();

        fs::write(old.cert_file(), new.cert_pem()).unwrap();
        trust.refresh().await;
        assert!(shown() == first, "this key is not that of the certificate");
        let fault = trust.fault().unwrap();
        assert!(fault.contains(&file(old.key_file())), "{fault}");

        fs::write(old.key_file(), new.key_pem()).unwrap();
        trust.refresh().await;
        let second = shown();
        assert!(second != first);
        assert!(trust.fault().is_none());

        fs::remove_file(authority.ca_file()).unwrap();
        trust.refresh().await;
        assert!(shown() == second);
    }
}
