//! Ends exactly the leases that an operator has seen, and tells their holders.
//!
//! A lease is the child of a claim. It is deleted together with a message for its holder, see `notices.rs`, in one transaction that
//! compares the version that was read. A name is not used twice in a directory, and a renewal makes another version, so
//! neither another lease nor a later one of the same owner is ended. The next child in the queue holds the key from then on.

use std::collections::BTreeSet;

use dlock_admin::{LockInfo, Unlocked};
use dlock_runtime::{
    LockKey, LockMode,
    store::{OwnerId, StoreError, StoreErrorKind},
};
use zookeeper_client::{Acl, Acls, Client, CreateMode, Error, MultiWriteError, Stat};

use super::{
    link::{Link, rule},
    lock::{epoch, owner},
    page::{self, Claims},
};
use crate::{
    errors,
    holder::{moment, now},
    names,
    notices::{self, MOST_BYTES, Notice},
    queue::Queue,
};

/// The leases that one transaction ends.
const AT_ONCE: usize = 100;

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
    let (Some(lease), Ok(key)) = (lease, LockKey::new(&*seen.key)) else {
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
        link.catch_up().await?;
        let claims = page::claims_on(link, &key).await?;
        let leases = wanted.leases_in(&claims);
        if leases.is_empty() {
            return Ok(outcome);
        }
        let mut ended = Vec::new();
        for some in leases.chunks(AT_ONCE) {
            // Else one of them has been renewed or has left since.
            if end(link, &key, some).await? {
                ended.extend(some);
            }
        }
        if ended.is_empty() {
            continue;
        }
        outcome = compared(&claims.queue, &ended);
        if !is_all {
            return Ok(outcome);
        }
        // Others may have joined.
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

/// A lease to end: the name of its child, the version of its text, and its owner.
struct Lease {
    name: String,
    version: i32,
    owner: Option<OwnerId>,
}

impl Wanted {
    fn leases_in(&self, claims: &Claims) -> Vec<Lease> {
        if epoch(claims) != self.fence {
            return Vec::new();
        }
        let leases = claims.queue.holders().iter().filter_map(|entry| {
            let seen = claims.seen.get(&entry.name)?;
            let owner = owner(entry, seen);
            (self.is_all || owner == self.owner).then(|| Lease {
                name: entry.name.clone(),
                version: seen.stat.version,
                owner,
            })
        });
        leases.collect()
    }
}

/// Deletes the children, and leaves messages. `false` if one of them, or the messages, have changed since they were read.
async fn end(link: &Link, key: &LockKey, leases: &[Lease]) -> Result<bool, StoreError> {
    let client = link.client().await?;
    let messages = notices::path(link.root());
    let before = link.text(&messages).await?;
    let owners: BTreeSet<_> = leases.iter().filter_map(|it| it.owner).collect();
    let told = owners.into_iter().map(|owner| Notice {
        key: key.clone(),
        owner,
    });
    let text = with_messages(before.as_ref(), told);
    let directory = names::directory(link.root(), key);
    // The processes that lock must be able to read the messages, whoever writes them.
    let acls = match &before {
        Some(_) => Vec::new(),
        None => link.acls().await?,
    };
    let asked = async {
        let sent = send(
            &client,
            &directory,
            leases,
            &messages,
            before.as_ref(),
            &text,
            &acls,
        );
        match sent.await {
            Ok(()) => Ok(true),
            Err(MultiWriteError::OperationFailed {
                source: Error::NoNode | Error::BadVersion | Error::NodeExists,
                ..
            }) => Ok(false),
            Err(error) => Err(refused(link, &directory, &Error::from(error))),
        }
    };
    link.within(&client, asked).await
}

async fn send(
    client: &Client,
    directory: &str,
    leases: &[Lease],
    messages: &str,
    before: Option<&(Vec<u8>, Stat)>,
    text: &[u8],
    acls: &[Acl],
) -> Result<(), MultiWriteError> {
    let mut writer = client.new_multi_writer();
    for lease in leases {
        writer.add_delete(&format!("{directory}/{}", lease.name), Some(lease.version))?;
    }
    if let Some((_, stat)) = before {
        writer.add_set_data(messages, text, Some(stat.version))?;
    } else {
        let options = CreateMode::Persistent.with_acls(Acls::new(acls));
        writer.add_create(messages, text, &options)?;
    }
    writer.commit().await.map(drop)
}

/// The messages that are not old, and these.
fn with_messages(before: Option<&(Vec<u8>, Stat)>, told: impl Iterator<Item = Notice>) -> Vec<u8> {
    let is_recent = |stat: &Stat| now().saturating_sub(moment(stat.mtime)) < notices::KEPT;
    let mut text = match before {
        Some((text, stat)) if is_recent(stat) => text.clone(),
        _ => Vec::new(),
    };
    for notice in told {
        text.extend(notice.to_line().bytes());
    }
    if let Some(beyond) = text.len().checked_sub(MOST_BYTES) {
        let end = text[beyond..].iter().position(|byte| *byte == b'\n');
        text.drain(..end.map_or(text.len(), |end| beyond + end + 1));
    }
    text
}

/// An error of the transaction, which has had no effect if ZooKeeper refuses it.
fn refused(link: &Link, directory: &str, error: &Error) -> StoreError {
    let error = errors::store_error(error);
    if error.kind() != StoreErrorKind::Denied {
        return error;
    }
    let text = format!(
        "permission denied: the lease was not ended, as you may not delete nodes in `{directory}` or write `{}`; {}",
        notices::path(link.root()),
        rule(link.root(), "DELETE and WRITE")
    );
    StoreError::new(StoreErrorKind::Denied, text)
        .with_advice()
        .without_effect()
}

/// Compares the queue with the same one without these leases.
fn compared(before: &Queue, ended: &[&Lease]) -> Unlocked {
    let after = before.without(|entry| ended.iter().any(|it| it.name == entry.name));
    if after.holders().iter().any(|it| !before.holds(&it.name)) {
        Unlocked::Granted
    } else if after.is_empty() {
        Unlocked::Freed
    } else {
        Unlocked::StillShared
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use dlock_runtime::{random::SystemRandom, store::ClientId};

    use super::*;

    fn notice(number: u64) -> Notice {
        Notice {
            key: LockKey::new("a/b").unwrap(),
            owner: OwnerId::new(ClientId::new(&SystemRandom), number),
        }
    }

    fn stat(age: std::time::Duration) -> Stat {
        let time = now().saturating_sub(age).as_millis();
        let time = i64::try_from(time).unwrap();
        Stat {
            czxid: 1,
            mzxid: 1,
            pzxid: 1,
            ctime: time,
            mtime: time,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: 0,
        }
    }

    #[test]
    fn messages_are_kept_for_a_while_and_the_latest_have_room() {
        let [one, two] = [notice(1), notice(2)];
        let first = with_messages(None, [one.clone()].into_iter());
        let read = |text: &[u8]| notices::read(text).collect::<Vec<_>>();
        assert_eq!(read(&first), slice::from_ref(&one));
        let added = |before: Vec<u8>, age| {
            let before = (before, stat(age));
            with_messages(Some(&before), [two.clone()].into_iter())
        };
        assert_eq!(
            read(&added(first.clone(), notices::KEPT / 2)),
            [one, two.clone()]
        );
        let late = added(first.clone(), notices::KEPT * 2);
        assert_eq!(read(&late), slice::from_ref(&two));

        let full = first.repeat(MOST_BYTES / first.len());
        let text = added(full.clone(), notices::KEPT / 2);
        assert!(text.len() <= MOST_BYTES && text.len() > MOST_BYTES / 2);
        assert_eq!(read(&text).last(), Some(&two));
        assert_eq!(read(&text).len(), full.len() / first.len());
    }
}
