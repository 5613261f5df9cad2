//! Checks for the user's own transactions in ZooKeeper, which hold as long as a lease does.

use dlock_runtime::{Lease, LockError, LockKey};

use crate::store::ZooKeeperStore;

/// The node of a lease in ZooKeeper. It is there only while the lease is held, and no other lease ever has a node of this path.
///
/// With the crate `zookeeper-client`:
///
/// ```
/// use dlock_runtime::Lease;
/// use dlock_zookeeper::Check;
/// use zookeeper_client::Client;
///
/// /// Writes the stock only while the lease is held.
/// async fn write(lease: &Lease, client: &Client) -> Result<(), Box<dyn std::error::Error>> {
///     let mut transaction = client.new_multi_writer();
///     for node in lease.check()? {
///         transaction.add_check_version(node.path(), -1)?;
///     }
///     transaction.add_set_data("/stock/7", b"41", None)?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// # let _ = write;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseNode {
    path: String,
}

impl LeaseNode {
    /// Returns the path of the node, from the root of the ensemble on.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// A lease has no check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The lease is lost as far as this process knows.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The node of the lease is gone from ZooKeeper, or its last request got no answer.
    #[error(
        "the lease of `{key}` is lost, or being acquired again; acquire the lock, and begin again"
    )]
    NotHeld {
        /// The key.
        key: LockKey,
    },
    /// The lease is not from ZooKeeper.
    #[error(
        "the lease of `{key}` is not kept in ZooKeeper, so no transaction there can check it; acquire the lock from a \
         manager with a `zookeeper://` URL"
    )]
    OtherStore {
        /// The key.
        key: LockKey,
    },
}

/// Checks a lease in a transaction of the ZooKeeper that keeps the lease.
pub trait Check {
    /// Returns the nodes of the lease in ZooKeeper, one for each key of the lock.
    ///
    /// Add a check of each [`path`](LeaseNode::path) to your transaction (`multi`), with the version -1: the node has to
    /// be there, whatever its version. If the transaction succeeds, the lease was held at that moment: the check is exact,
    /// whatever clocks and networks do. The transaction must go to the same ensemble. If the manager's URL has a user, the
    /// client needs the same login.
    ///
    /// From then on the lease is not handed over to another task of this process: the transaction may last longer than the
    /// body. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`CheckError`]. The transaction is not to be sent then.
    fn check(&self) -> Result<Vec<LeaseNode>, CheckError>;
}

impl Check for Lease {
    fn check(&self) -> Result<Vec<LeaseNode>, CheckError> {
        let Some(store) = self.store::<ZooKeeperStore>() else {
            let key = self.key().clone();
            return Err(CheckError::OtherStore { key });
        };
        let records = self.records()?;
        let nodes = records.iter().map(|record| {
            let path = store.node_of(record.key, record.owner);
            let path = path.ok_or_else(|| CheckError::NotHeld {
                key: record.key.clone(),
            })?;
            Ok(LeaseNode { path })
        });
        nodes.collect()
    }
}
