//! Postings in a store whose transactions are one request each: what is read before is right for as long as the lease is held.

use std::future::Future;

use dlock::Lease;
use tokio::time::timeout;

use super::{Failure, LIMIT, Posting, no_answer};
use crate::books::{Account, Entry};

/// A store with accounts.
pub(super) trait Ledger {
    /// What a transaction compares, so that it is carried out only while the lease is held.
    type Proof;

    /// That of a lease, or of none.
    fn proof(&self, lease: Option<&Lease>) -> Result<Self::Proof, Failure>;

    /// Reads an account as it is while the lease is held.
    async fn account(&self, proof: &Self::Proof, key: &str) -> Result<Account, Failure>;

    /// Checks that these accounts are as they were, and writes these with their new entries, all at one moment at which
    /// the lease is held.
    async fn commit(
        &self,
        proof: &Self::Proof,
        unchanged: &[Account],
        written: &[(Account, Entry)],
    ) -> Result<(), Failure>;
}

pub(super) async fn post(
    ledger: &impl Ledger,
    posting: Posting<'_>,
    work: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let mut work = Some(work);
    let posted = timeout(LIMIT, async {
        let proof = ledger.proof(posting.lease)?;
        let mut accounts = Vec::new();
        for (key, ..) in &posting.keys {
            accounts.push(ledger.account(&proof, key).await?);
        }
        if let Some(work) = work.take() {
            work.await;
        }
        let (mut unchanged, mut written) = (Vec::new(), Vec::new());
        for ((key, mode, token), account) in posting.keys.iter().zip(accounts) {
            if mode.is_shared() {
                unchanged.push(account);
                continue;
            }
            let after = Account {
                number: account.number + 1,
                cents: account.cents + posting.cents,
                ..account
            };
            let [process, task] = posting.who.map(i64::from);
            let entry = Entry {
                key: key.clone(),
                number: after.number,
                process,
                task,
                token: *token,
                cents: posting.cents,
            };
            written.push((after, entry));
        }
        ledger.commit(&proof, &unchanged, &written).await
    });
    let posted = posted.await.unwrap_or_else(|_| Err(no_answer()));
    if let Some(work) = work {
        work.await;
    }
    posted
}

/// The failure of a reader beside which somebody writes.
pub(super) fn changed(before: &Account, after: &Account) -> Failure {
    Failure::Unbalanced(format!("a reader saw {before:?}, and then {after:?}"))
}
