//! Comparisons for the user's own transactions in etcd, which hold as long as a lease does.

use dlock_runtime::{Lease, LockError, LockKey};

use crate::store::EtcdStore;

/// The key of a lease in etcd. A transaction that compares its create revision is carried out only while the lease is held.
///
/// ```
/// use dlock_etcd::LeaseKey;
///
/// /// The comparison in the JSON form of etcd's API. Keys are bytes.
/// fn comparison(key: &LeaseKey) -> (Vec<u8>, &'static str, i64) {
///     (key.name().to_vec(), "CREATE EQUAL", key.create_revision())
/// }
/// # let _: fn(&LeaseKey) -> (Vec<u8>, &'static str, i64) = comparison;
/// ```
///
/// With the crate `etcd-client`:
///
/// ```text
/// let held: Vec<_> = lease.compare()?.iter().map(|key| {
///     Compare::create_revision(key.name(), CompareOp::Equal, key.create_revision())
/// }).collect();
/// let txn = Txn::new().when(held).and_then([TxnOp::put("stock/7", "41", None)]);
/// let is_held = client.txn(txn).await?.succeeded();
/// ```
///
/// A member before etcd 3.5.7 may crash if such a transaction only reads and is given up. There, let it write or delete a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseKey {
    name: Vec<u8>,
    create_revision: i64,
}

impl LeaseKey {
    /// Returns the name of the key in etcd.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the revision at which the key was created.
    #[must_use]
    pub fn create_revision(&self) -> i64 {
        self.create_revision
    }
}

/// A lease has no comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The lease is lost as far as this process knows.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The key of the lease is gone from etcd, or its last request got no answer.
    #[error(
        "the lease of `{key}` is lost, or being acquired again; acquire the lock, and begin again"
    )]
    NotHeld {
        /// The key.
        key: LockKey,
    },
    /// The lease is not from etcd.
    #[error(
        "the lease of `{key}` is not kept in etcd, so no transaction there can check it; acquire the lock from a manager \
         with an `etcd://` URL"
    )]
    OtherStore {
        /// The key.
        key: LockKey,
    },
}

/// Checks a lease in a transaction of the etcd that keeps the lease.
pub trait Compare {
    /// Returns the keys of the lease in etcd, one for each key of the lock.
    ///
    /// Add a comparison of each [`create_revision`](LeaseKey::create_revision) to your transaction. If the transaction
    /// succeeds, the lease was held at that moment: the check is exact, whatever clocks and networks do. The transaction must
    /// go to the same ensemble.
    ///
    /// From then on the lease is not handed over to another task of this process: the transaction may last longer than the
    /// body. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`CompareError`]. The transaction is not to be sent then.
    fn compare(&self) -> Result<Vec<LeaseKey>, CompareError>;
}

impl Compare for Lease {
    fn compare(&self) -> Result<Vec<LeaseKey>, CompareError> {
        let Some(store) = self.store::<EtcdStore>() else {
            let key = self.key().clone();
            return Err(CompareError::OtherStore { key });
        };
        let records = self.records()?;
        let keys = records.iter().map(|record| {
            let place = store.place_of(record.key, record.owner);
            let (name, create_revision) = place.ok_or_else(|| CompareError::NotHeld {
                key: record.key.clone(),
            })?;
            Ok(LeaseKey {
                name,
                create_revision,
            })
        });
        keys.collect()
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::LockManager;
    use dlock_testkit::EtcdServer;

    use super::*;
    use crate::{
        Etcd,
        scene::{claim, key},
    };

    #[tokio::test]
    async fn a_lease_whose_last_request_got_no_answer_has_no_comparison() {
        let server = EtcdServer::start().await;
        let builder = LockManager::builder().scheme("etcd", Etcd);
        let manager = builder.connect(&server.url()).await.unwrap();
        let guard = manager.lock("order:42").acquire().await.unwrap();
        let keys = guard.compare().unwrap();
        let name = claim(&server, &key("order:42")).await;
        assert_eq!(keys[0].name(), name.as_bytes());
        let owner = guard.records().unwrap()[0].owner;
        let store = guard.store::<EtcdStore>().unwrap();
        let create = store.core.claims.known(guard.key(), owner).unwrap().0;
        assert_eq!(keys[0].create_revision(), create);
        store.core.claims.enter(guard.key(), owner).await.place = None;
        let error = guard.compare().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the lease of `order:42` is lost, or being acquired again; acquire the lock, and begin again"
        );
    }
}
