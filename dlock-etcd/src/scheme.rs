//! The URLs `etcd://…`, for the table of URL schemes of a manager.

use dlock_runtime::{
    ConnectError,
    store::{StoreOptions, StoreScheme},
};

use crate::store::EtcdStore;

/// The scheme of URLs for etcd.
///
/// ```
/// use dlock_etcd::Etcd;
/// use dlock_runtime::LockManager;
///
/// let builder = LockManager::builder().scheme("etcd", Etcd);
/// # drop(builder);
/// ```
///
/// The URL names all members of the ensemble: `etcd://user:password@etcd-1:2379,etcd-2:2379,etcd-3:2379?option=value`. The
/// port is 2379 if it is missing. A manager uses the first member that answers and reaches a majority, and the next one when
/// it has lost that one. Special characters in the user and the password are percent-encoded.
///
/// | option | meaning |
/// |---|---|
/// | `sslmode=require` | TLS; the server's certificate is verified. Without it, the connection is not encrypted |
/// | `sslrootcert=ca.pem` | trust only the authorities in this file, and not those of the machine |
/// | `sslcert=…`, `sslkey=…` | the client's certificate and its key |
///
/// All keys in etcd begin with the manager's [namespace](dlock_runtime::LockManagerBuilder::namespace) and a slash. The user
/// needs the permission `readwrite` for this prefix. A slash in the namespace is written `%2F`: the prefix of `shop/eu` is
/// `shop%2Feu/`.
///
/// Connect to the members directly. Behind a proxy that spreads the requests of one connection over several members, leases
/// cannot be renewed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Etcd;

impl StoreScheme for Etcd {
    type Store = EtcdStore;

    fn open(&self, url: &str, options: &StoreOptions) -> Result<EtcdStore, ConnectError> {
        EtcdStore::open(url, options)
    }

    async fn ready(&self, store: &EtcdStore, _: &StoreOptions) -> Result<(), ConnectError> {
        store.ready().await
    }
}
