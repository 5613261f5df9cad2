//! Transactions of a task in ZooKeeper, which check the node of its lease.

use dlock::Lease;
use dlock_zookeeper::{Check, CheckError, LeaseNode};
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, Error, MultiWriteError};

use super::{
    Failure,
    ledger::{Ledger, changed},
    no_answer, not_held,
};
use crate::{
    books::{Account, Entry},
    zookeeper::{account, connect},
};

pub(crate) struct InZooKeeper {
    hosts: String,
    is_fenced: bool,
    /// Made again when its session has ended.
    client: Mutex<Option<Client>>,
}

impl InZooKeeper {
    pub(super) fn new(hosts: &str, is_fenced: bool) -> Self {
        Self {
            hosts: hosts.to_owned(),
            is_fenced,
            client: Mutex::new(None),
        }
    }

    async fn client(&self) -> Result<Client, Failure> {
        let mut client = self.client.lock().await;
        if client.as_ref().is_none_or(|it| it.state().is_terminated()) {
            *client = Some(connect(&self.hosts).await?);
        }
        Ok(client.clone().expect("it was made"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Explained(format!("transaction: {error}"))
    }
}

/// The failure of a transaction that begins with so many checks.
fn failure(error: MultiWriteError, checks: usize) -> Failure {
    match error {
        MultiWriteError::OperationFailed {
            index,
            source: Error::NoNode,
        } if index < checks => not_held(),
        MultiWriteError::RequestFailed { .. } => no_answer(),
        error @ MultiWriteError::OperationFailed { .. } => Error::from(error).into(),
    }
}

async fn read(client: &Client, key: &str) -> Result<Account, Failure> {
    let (data, _) = client.get_data(&account(key)).await?;
    Ok(Account::from_json(&data))
}

impl Ledger for InZooKeeper {
    type Proof = Vec<LeaseNode>;

    fn proof(&self, lease: Option<&Lease>) -> Result<Self::Proof, Failure> {
        let Some(lease) = lease.filter(|_| self.is_fenced) else {
            return Ok(Vec::new());
        };
        lease.check().map_err(|error| match error {
            CheckError::Lock(error) => error.into(),
            CheckError::NotHeld { .. } => not_held(),
            other => panic!("no fault explains this: {other}"),
        })
    }

    /// A server may be behind the others, and answers a read by itself. A transaction goes through the leader: after it,
    /// the server knows what was written before the lease began.
    async fn account(&self, proof: &Self::Proof, key: &str) -> Result<Account, Failure> {
        let client = self.client().await?;
        if proof.is_empty() {
            client.sync(&account(key)).await?;
        } else {
            self.commit(proof, &[], &[]).await?;
        }
        read(&client, key).await
    }

    async fn commit(
        &self,
        proof: &Self::Proof,
        unchanged: &[Account],
        written: &[(Account, Entry)],
    ) -> Result<(), Failure> {
        let client = self.client().await?;
        let mut found = Vec::new();
        // Before the checks: the lease is held at both.
        for before in unchanged {
            found.push((before, read(&client, &before.key).await?));
        }
        let mut transaction = client.new_multi_writer();
        for node in proof {
            transaction.add_check_version(node.path(), -1)?;
        }
        for (after, entry) in written {
            let path = account(&after.key);
            transaction.add_set_data(&path, &after.to_json(), None)?;
            let value = serde_json::to_vec(entry).expect("an entry is JSON");
            let options = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
            transaction.add_create(&format!("{path}/entry-"), &value, &options)?;
        }
        let committed = transaction.commit().await;
        committed.map_err(|error| failure(error, proof.len()))?;
        for (before, after) in found {
            if after != *before {
                return Err(changed(before, &after));
            }
        }
        Ok(())
    }
}
