//! Ends exactly the leases that an operator has seen, and tells their holders.
//!
//! A lease is the key of a claim. It is deleted by a transaction that compares the revision at which it was created, so
//! neither another lease nor a later one of the same owner is ended. The same transaction writes a message for the holder,
//! see `notices.rs`. The next claim in the queue holds the key from then on.

use std::collections::BTreeSet;

use dlock_admin::{LockInfo, Unlocked};
use dlock_runtime::{
    LockMode,
    store::{OwnerId, StoreError, StoreErrorKind},
};

use super::{link::Link, page};
use crate::{
    keys, ops,
    proto::{Answer, TxnRequest},
    queue::{Entry, Queue},
};

/// A message lasts for so many seconds, in case its holder has no connection at the moment.
const MESSAGE: i64 = 60;

/// The leases that one transaction ends: each is a comparison and two operations, of which etcd accepts 128.
const AT_ONCE: usize = 60;

/// It gives up after so many changes of the holders by others.
const ROUNDS: usize = 16;

/// Ends the lease of `holder` in `seen`, or those of all holders.
pub(super) async fn unlock(
    link: &Link,
    seen: &LockInfo,
    holder: Option<OwnerId>,
) -> Result<Unlocked, StoreError> {
    let mut holders = seen.holders();
    let lease = match holder {
        Some(owner) => holders.find(|it| it.owner == Some(owner)),
        None => holders.next(),
    };
    let Some(lease) = lease else {
        return Ok(Unlocked::Changed);
    };
    // All that share a lock have the same fence.
    let is_all = holder.is_none() && seen.mode == Some(LockMode::Shared);
    let wanted = Wanted {
        owner: lease.owner,
        fence: lease.fence,
        is_all,
    };
    let mut outcome = Unlocked::Changed;
    for _ in 0..ROUNDS {
        let (_, kvs) = page::claims_on(link, &seen.key, 0).await?;
        let queue = Queue::read(&kvs);
        let ended = wanted.leases_in(&queue);
        if ended.is_empty() {
            return Ok(outcome);
        }
        let Some(revision) = end(link, &seen.key, &ended).await? else {
            // One of them has left since.
            continue;
        };
        let (_, kvs) = page::claims_on(link, &seen.key, revision).await?;
        outcome = compared(&queue, &Queue::read(&kvs));
        if !is_all {
            return Ok(outcome);
        }
        // There may be more of them than one transaction ends, and others may have joined.
    }
    let text = "the holders changed with every attempt; inspect the lock, and release it again";
    Err(StoreError::new(StoreErrorKind::Refused, text).with_advice())
}

/// The leases to end.
struct Wanted {
    owner: Option<OwnerId>,
    fence: u64,
    is_all: bool,
}

/// A lease to end: its name, the revision at which it was created, and its owner.
type Lease = (Vec<u8>, i64, Option<OwnerId>);

impl Wanted {
    fn leases_in(&self, queue: &Queue) -> Vec<Lease> {
        let fence = queue.epoch(&[]).map(|epoch| epoch.fence());
        if fence != Some(self.fence) {
            return Vec::new();
        }
        let holders = queue.named_holders();
        let wanted = holders.filter(|(_, it)| self.is_all || owner(it) == self.owner);
        wanted
            .map(|(name, it)| (name.to_vec(), it.create, owner(it)))
            .take(AT_ONCE)
            .collect()
    }
}

/// The owner as it was shown: keys of other programs have none.
fn owner(entry: &Entry) -> Option<OwnerId> {
    entry.owner.filter(|_| entry.value.is_some())
}

/// Deletes the keys if all of them are still there. Returns the revision after that.
async fn end(link: &Link, key: &str, leases: &[Lease]) -> Result<Option<i64>, StoreError> {
    let connected = link.connected().await?;
    let conn = &connected.conn;
    let message = link.within(&connected, conn.grant(MESSAGE)).await?;
    let compare = leases
        .iter()
        .map(|(name, create, _)| ops::is_created_at(name, *create));
    let delete = leases.iter().map(|(name, ..)| ops::delete(name));
    let owners: BTreeSet<_> = leases.iter().filter_map(|(.., owner)| *owner).collect();
    let tell = owners.into_iter().map(|owner| {
        let name = keys::notice(link.namespace(), owner);
        ops::put(&name, key.as_bytes().to_vec(), message)
    });
    let txn = TxnRequest {
        compare: compare.collect(),
        success: delete.chain(tell).collect(),
        failure: Vec::new(),
    };
    let answer = link.within(&connected, conn.txn(txn)).await?;
    Ok(answer.succeeded.then(|| answer.header().revision))
}

fn compared(before: &Queue, after: &Queue) -> Unlocked {
    let names = |queue: &Queue| -> BTreeSet<Vec<u8>> {
        queue
            .named_holders()
            .map(|(name, _)| name.to_vec())
            .collect()
    };
    let (before, after) = (names(before), names(after));
    if !after.is_subset(&before) {
        Unlocked::Granted
    } else if after.is_empty() {
        Unlocked::Freed
    } else {
        Unlocked::StillShared
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{random::SystemRandom, store::ClientId};

    use super::*;
    use crate::{
        keys::{Stage, Value},
        proto::KeyValue,
    };

    fn queue(mode: LockMode, owners: &[OwnerId]) -> Queue {
        let kvs: Vec<_> = (1..)
            .zip(owners)
            .map(|(create, owner)| {
                let value = Value {
                    mode,
                    ..Value::plain(100, Stage::holds_now())
                };
                KeyValue {
                    key: keys::claim("n", "k", *owner),
                    create_revision: create,
                    value: value.to_bytes(),
                    ..KeyValue::default()
                }
            })
            .collect();
        Queue::read(&kvs)
    }

    fn owners(count: u64) -> Vec<OwnerId> {
        let client = ClientId::new(&SystemRandom);
        (1..=count).map(|it| OwnerId::new(client, it)).collect()
    }

    #[test]
    fn an_operator_learns_what_became_of_the_lock() {
        let all = owners(3);
        let [shared, exclusive] = [LockMode::Shared, LockMode::Exclusive];
        let (both, second) = (queue(shared, &all[..2]), queue(shared, &all[1..2]));
        let outcome = |before: &Queue, after: &Queue| compared(before, after);
        assert!(matches!(outcome(&both, &second), Unlocked::StillShared));
        assert!(matches!(outcome(&both, &Queue::default()), Unlocked::Freed));
        let next = queue(shared, &all[2..]);
        assert!(matches!(outcome(&both, &next), Unlocked::Granted));
        let (before, after) = (queue(exclusive, &all), queue(exclusive, &all[1..]));
        assert!(matches!(outcome(&before, &after), Unlocked::Granted));
    }

    #[test]
    fn only_leases_with_the_fence_that_was_seen_are_ended() {
        let all = owners(70);
        let queue = queue(LockMode::Shared, &all);
        let wanted = |owner, fence, is_all| {
            let wanted = Wanted {
                owner,
                fence,
                is_all,
            };
            let ended = wanted.leases_in(&queue);
            ended
                .into_iter()
                .map(|(.., owner)| owner)
                .collect::<Vec<_>>()
        };
        assert_eq!(wanted(Some(all[1]), 101, false), [Some(all[1])]);
        assert_eq!(wanted(Some(all[1]), 102, false), []);
        assert_eq!(wanted(None, 101, false), [], "none is another program's");
        let some = wanted(None, 101, true);
        let expected: Vec<_> = all[..60].iter().copied().map(Some).collect();
        assert_eq!(some, expected, "as many as one transaction ends");
    }
}
