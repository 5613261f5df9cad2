//! No TLS: without the feature `tls`, nothing can be trusted, so no URL with `sslmode=require` gets a connection.

use dlock_net::TlsPaths;
use dlock_runtime::ConnectError;
use zookeeper_client::{Client, Connector};

use crate::errors::Failure;

/// The certificates of encrypted connections, of which there are none.
#[derive(Clone)]
pub(crate) enum Trust {}

impl Trust {
    /// # Errors
    ///
    /// Always [`ConnectError::InvalidOption`].
    pub(crate) fn open(_: &TlsPaths) -> Result<Self, ConnectError> {
        let reason = "TLS needs the feature `tls` of `dlock-zookeeper` (of the command `dlock`: `zookeeper-tls`); enable it, or \
                      use a tunnel";
        Err(ConnectError::InvalidOption {
            option: "sslmode",
            reason: reason.into(),
        })
    }

    pub(crate) fn can_verify(&self, _: &str) -> bool {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "it reads files with the feature")]
    pub(crate) async fn refresh(&self) {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "it connects with the feature")]
    pub(crate) async fn connect(&self, _: Connector, _: &str) -> Result<Client, Failure> {
        match *self {}
    }
}
