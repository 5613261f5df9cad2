//! One ZooKeeper server that speaks TLS.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{ENSEMBLES_TO_TRY, PAUSE, START_DEADLINE, ZooKeepers, spawn};
use crate::child::OwnedChild;
use crate::data;
use crate::tls::{Authority, Identity};
use crate::{port, reaper};
use dlock_waiting::within;

/// A server alone whose clients show a certificate. Its `tickTime` is that of [`ZooKeepers`].
///
/// Dropping it kills the server and removes its directory.
pub struct SecureZooKeeper {
    port: u16,
    // The process is declared, and so dropped, before the directory it works in.
    process: OwnedChild,
    directory: TempDir,
}

impl SecureZooKeeper {
    /// Starts a server that shows this certificate and accepts clients of this authority, and waits until it listens.
    pub async fn start(identity: &Identity, clients_of: &Authority) -> Self {
        for _ in 0..ENSEMBLES_TO_TRY {
            let mut started = Self::launch(identity, clients_of);
            if started.is_up().await {
                return started;
            }
        }
        panic!("the server does not start, or other processes take its port");
    }

    fn launch(identity: &Identity, clients_of: &Authority) -> Self {
        let directory = data::directory("dlock-zookeeper-");
        reaper::removes(directory.path());
        let place = directory.path();
        let write = |name: &str, text: String| {
            fs::write(place.join(name), text).expect("the directory can be written to");
        };
        // The server takes the key and the certificate from one file.
        write(
            "own.pem",
            [identity.key_pem(), identity.cert_pem()].join("\n"),
        );
        write("clients.pem", clients_of.ca_pem().to_owned());
        let port = port::free();
        let at = place.display();
        let settings = format!(
            "tickTime={}\nmaxSessionTimeout=120000\ndataDir={at}\nsecureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
             serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.clientAuth=need\n\
             ssl.keyStore.location={at}/own.pem\nssl.keyStore.type=PEM\nssl.trustStore.location={at}/clients.pem\n\
             ssl.trustStore.type=PEM\nforceSync=no\nadmin.enableServer=false\n",
            ZooKeepers::TICK.as_millis(),
        );
        write("zoo.cfg", settings);
        Self {
            port,
            process: spawn(&place.join("zoo.cfg"), &[]),
            directory,
        }
    }

    /// Waits until the server listens; `false` if it has ended.
    async fn is_up(&mut self) -> bool {
        let port = self.port;
        let up = within(START_DEADLINE, async {
            loop {
                let listens = TcpStream::connect(("127.0.0.1", port)).await.is_ok();
                // After its end, another server may listen on the port.
                if self.process.exited().is_some() {
                    return false;
                }
                if listens {
                    return true;
                }
                sleep(PAUSE).await;
            }
        });
        up.await
            .unwrap_or_else(|| panic!("the server does not listen:\n{}", self.log()))
    }

    /// The URL of the server under this name, for sessions of this length, without the options of TLS.
    #[must_use]
    pub fn url(&self, host: &str, session: Duration) -> String {
        ZooKeepers::url_of(&format!("{host}:{}", self.port), session)
    }

    /// The port for connections with TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections the server has refused because of the client's certificate.
    #[must_use]
    pub fn refusals(&self) -> usize {
        let refusal = "DecoderException: javax.net.ssl.SSLHandshakeException: PKIX path";
        self.log().matches(refusal).count()
    }

    /// The log of the server.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}
