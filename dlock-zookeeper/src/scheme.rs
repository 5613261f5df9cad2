//! The URLs `zookeeper://…`, for the table of URL schemes of a manager.

use dlock_runtime::{
    ConnectError,
    store::{StoreOptions, StoreScheme},
};

use crate::store::ZooKeeperStore;

/// The scheme of URLs for ZooKeeper.
///
/// ```
/// use dlock_runtime::LockManager;
/// use dlock_zookeeper::ZooKeeper;
///
/// let builder = LockManager::builder().scheme("zookeeper", ZooKeeper);
/// # drop(builder);
/// ```
///
/// The URL is `zookeeper://user:password@host:2181,host:2181/path?option=value`. The user and the password are for the
/// scheme `digest`. Then only this user, the readers that the URL names, and the subject of the client's certificate get to the
/// nodes. The path is the directory of the locks; without it, it is the manager's
/// [namespace](dlock_runtime::LockManagerBuilder::namespace).
///
/// | option | meaning |
/// |---|---|
/// | `session=40s` | the session time-out, 40 s if not set. The locks of a crashed process are free after this time. The longest TTL is shorter by a tick and up to a tenth: 35 s if neither is set. The servers' `maxSessionTimeout` must not be shorter |
/// | `readers=digest:ops:<hash>` | another client that may read the nodes: a scheme and an identity of ZooKeeper. It changes no node, but must be trusted: with what it reads, it could end sessions. It may be given several times, and needs a user |
/// | `sslmode=require` | TLS, with the feature `tls`; the server's certificate is verified. Without it, the connection is not encrypted |
/// | `sslrootcert=ca.pem` | trust only the authorities in this file, and not those of the machine |
/// | `sslcert=…`, `sslkey=…` | the client's certificate and its key |
/// | `tick=2s` | the servers' `tickTime`, or more; 2 s if not set |
///
/// With TLS, name the port that is the servers' `secureClientPort`. The client of ZooKeeper uses the default TLS provider of the
/// process. The program installs one at its start, for example with `rustls::crypto::ring::default_provider().install_default()`; without
/// one, the URL is refused. The files are read when the store is created, again for each new session, and while a session has no
/// connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZooKeeper;

impl StoreScheme for ZooKeeper {
    type Store = ZooKeeperStore;

    fn open(&self, url: &str, options: &StoreOptions) -> Result<ZooKeeperStore, ConnectError> {
        ZooKeeperStore::open(url, options)
    }

    async fn ready(&self, store: &ZooKeeperStore, _: &StoreOptions) -> Result<(), ConnectError> {
        store.ready().await
    }
}
