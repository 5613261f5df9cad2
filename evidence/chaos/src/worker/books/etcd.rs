//! Transactions of a task in etcd, which compare the key of its lease.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use dlock::Lease;
use dlock_etcd::{Compare, CompareError, LeaseKey};
use dlock_testkit::etcd_call;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Failure,
    ledger::{Ledger, changed},
    no_answer, not_held,
};
use crate::{
    books::{Account, Entry},
    etcd::{account, encoded, entries, get, nothing, put, values},
};

/// The next request goes to another member if this one does not answer by then.
const ANSWER: Duration = Duration::from_secs(3);

pub(crate) struct InEtcd {
    ports: Vec<u16>,
    /// The index of the port that is used.
    used: AtomicUsize,
    is_fenced: bool,
}

impl InEtcd {
    pub(super) fn new(hosts: &str, is_fenced: bool) -> Self {
        let ports = hosts.split(',').map(|host| {
            let (_, port) = host.rsplit_once(':').expect("each host has a port");
            port.parse().expect("a port is a number")
        });
        Self {
            ports: ports.collect(),
            used: AtomicUsize::new(0),
            is_fenced,
        }
    }

    /// Carries out a transaction while the lease is held; the answer to its operations.
    async fn txn(&self, proof: &[LeaseKey], mut operations: Vec<Value>) -> Result<Value, Failure> {
        let compare = proof.iter().map(|key| {
            json!({
                "result": "EQUAL", "target": "CREATE", "key": encoded(key.name()),
                "create_revision": key.create_revision().to_string(),
            })
        });
        operations.push(nothing());
        let txn = json!({"compare": compare.collect::<Vec<_>>(), "success": operations});
        let used = self.used.load(Ordering::Relaxed);
        let port = self.ports[used % self.ports.len()];
        let answer = timeout(ANSWER, etcd_call(port, "kv/txn", &txn)).await;
        let Some(answer) = answer.ok().flatten() else {
            self.used.store(used + 1, Ordering::Relaxed);
            return Err(no_answer());
        };
        if answer["succeeded"] == true {
            Ok(answer)
        } else {
            Err(not_held())
        }
    }
}

impl Ledger for InEtcd {
    type Proof = Vec<LeaseKey>;

    fn proof(&self, lease: Option<&Lease>) -> Result<Self::Proof, Failure> {
        let Some(lease) = lease.filter(|_| self.is_fenced) else {
            return Ok(Vec::new());
        };
        lease.compare().map_err(|error| match error {
            CompareError::Lock(error) => error.into(),
            CompareError::NotHeld { .. } => not_held(),
            other => panic!("no fault explains this: {other}"),
        })
    }

    async fn account(&self, proof: &Self::Proof, key: &str) -> Result<Account, Failure> {
        let answer = self.txn(proof, vec![get(&account(key))]).await?;
        Ok(Account::from_json(&values(&answer, 0)[0]))
    }

    async fn commit(
        &self,
        proof: &Self::Proof,
        unchanged: &[Account],
        written: &[(Account, Entry)],
    ) -> Result<(), Failure> {
        let mut operations: Vec<_> = unchanged.iter().map(|it| get(&account(&it.key))).collect();
        for (after, entry) in written {
            operations.push(put(&account(&after.key), &after.to_json()));
            // The entries of two that write at once have different keys.
            let Entry {
                number,
                token,
                process,
                task,
                ..
            } = entry;
            let name = format!("{}{number}-{token}-{process}-{task}", entries(&entry.key));
            let value = serde_json::to_vec(entry).expect("an entry is JSON");
            operations.push(put(&name, &value));
        }
        let answer = self.txn(proof, operations).await?;
        for (read, before) in unchanged.iter().enumerate() {
            let after = Account::from_json(&values(&answer, read)[0]);
            if after != *before {
                return Err(changed(before, &after));
            }
        }
        Ok(())
    }
}
