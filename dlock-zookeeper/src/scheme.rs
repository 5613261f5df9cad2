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
/// scheme `digest`; then only this user, and the readers that the URL names, get to the nodes. The path is the directory of the locks; without it, it is the manager's
/// [namespace](dlock_runtime::LockManagerBuilder::namespace).
///
/// | option | meaning |
/// |---|---|
/// | `session=40s` | the session time-out, 40 s if not set. The locks of a crashed process are free after this time. The longest TTL is shorter by a tick and up to a tenth: 35 s if neither is set. The servers' `maxSessionTimeout` must not be shorter |
/// | `readers=digest:ops:<hash>` | another client that may read the nodes: a scheme and an identity of ZooKeeper. It changes no node, but must be trusted: with what it reads, it could end sessions. It may be given several times, and needs a user |
/// | `tick=2s` | the servers' `tickTime`, or more; 2 s if not set |
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
