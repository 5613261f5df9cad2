//! The beat: the requests that keep the places of all waiters of a process. `places.rs` has the rules.

use std::{collections::HashSet, time::Duration};

use dlock_runtime::{
    LockKey,
    clock::{Clock, Moment, SystemClock},
    store::{OwnerId, StoreError},
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{
    base,
    claims::Claim,
    conn::Conn,
    core::Core,
    followed::Followed,
    keys, ops,
    places::{Beat, Gate, WAITING},
    proto::{Answer, TxnRequest, TxnResponse},
    queue::Queue,
    release::{End, recall},
};

/// The time from one beat to the next.
const PERIOD: Duration = Duration::from_millis(1500);

/// A place is deleted when its waiter has not asked for so long. The contract has 3 s.
const SILENT: Duration = Duration::from_secs(4);

/// The limit for the search for restored places after a beat. A longer search would delay the next beat.
const SEARCH: Duration = Duration::from_millis(500);

/// The pause after a beat that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Reads in one transaction. The default limit of etcd is 128.
const MOST: usize = 100;

impl Core {
    /// Sends beats while there are waiters.
    pub(crate) async fn keep_places(&self) {
        let mut last = Instant::now();
        loop {
            let is_idle = self.follow.each(|_, _| ()).is_empty();
            tokio::select! {
                () = self.places.kicked() => {}
                () = sleep_until(last + PERIOD), if !is_idle => {}
                () = self.follow.begins(), if is_idle => continue,
            }
            last = Instant::now();
            let is_kept = self.beat().await;
            self.end_silent().await;
            self.end_restored().await;
            if !is_kept {
                sleep(PAUSE).await;
            }
        }
    }

    async fn beat(&self) -> bool {
        let limit = self.config.response_limit;
        let late = |_| Err(StoreError::timed_out(limit));
        let kept = timeout(limit, self.keep_alive()).await.unwrap_or_else(late);
        let opened = if kept.is_ok() && self.places.wants_gate() {
            timeout(limit, self.open()).await.unwrap_or_else(late)
        } else {
            Ok(())
        };
        let is_kept = kept.is_ok() && opened.is_ok();
        self.places.ended(Beat { kept, opened });
        is_kept
    }

    /// Keeps the leases alive, and reads the queues.
    async fn keep_alive(&self) -> Result<(), StoreError> {
        let mut used = HashSet::new();
        let keys = self.follow.each(|key, followed| {
            used.extend(followed.leases());
            key.clone()
        });
        let leases = self.places.to_keep(used);
        if leases.is_empty() {
            return Ok(());
        }
        let conn = self.session.conn().await?;
        let asked = SystemClock.now();
        let namespace = &self.config.namespace;
        let reads = |chunk: &[LockKey]| {
            let ranges = chunk.iter().map(|key| keys::range(namespace, key.as_str()));
            ops::read(ranges.map(|all| ops::get_all(&all)).collect())
        };
        let mut chunks = keys.chunks(MOST);
        let first = chunks.next().unwrap_or_default();
        let read = if first.is_empty() {
            ops::read(vec![base::read_op(namespace)])
        } else {
            reads(first)
        };
        let (exist, answer) = conn.confirm_read(&leases, &read).await?;
        for (lease, exists) in leases.iter().zip(exist) {
            if exists {
                self.places.kept(*lease, asked);
            } else {
                self.places.close(*lease);
            }
        }
        let read = self.take_queues(first, &answer, asked);
        // Each as soon as it is there: the failure of one is nothing to the keys of another.
        let others = chunks.map(async |chunk| {
            let answer = conn.read(&reads(chunk)).await?;
            self.take_queues(chunk, &answer, asked)
        });
        let others = join_all(others).await;
        std::iter::once(read).chain(others).collect()
    }

    /// Takes the queues of these keys from the answer to a request that was sent after `asked`.
    fn take_queues(
        &self,
        keys: &[LockKey],
        answer: &TxnResponse,
        asked: Moment,
    ) -> Result<(), StoreError> {
        for (index, key) in keys.iter().enumerate() {
            let (kvs, revision) = ops::read_of(answer, index)?;
            let queue = Queue::read(kvs);
            self.follow
                .with(key, |followed| followed.read(queue, revision, asked));
            self.follow.send_hints(key);
        }
        Ok(())
    }

    /// Makes a lease for waiters to come, and its gate.
    async fn open(&self) -> Result<(), StoreError> {
        let conn = self.session.conn().await?;
        let since = SystemClock.now();
        let lease = conn.grant(WAITING).await?;
        let name = keys::gate(&self.config.namespace, lease);
        // The key is not there: no lease had this number before.
        let txn = TxnRequest {
            success: vec![ops::put(&name, Vec::new(), lease)],
            ..TxnRequest::default()
        };
        // Without an answer, the lease is not used, and ends by itself.
        let create = conn.txn(txn).await?.header().revision;
        let gate = Gate { lease, create };
        self.places.opened(gate, since, conn.number());
        Ok(())
    }

    /// Deletes the places of waiters that ask no more.
    async fn end_silent(&self) {
        let now = SystemClock.now();
        let silent = self.follow.each(|key, followed| {
            let owners: Vec<_> = followed.silent(now, SILENT).collect();
            owners
                .into_iter()
                .map(|owner| (key.clone(), owner))
                .collect::<Vec<_>>()
        });
        let silent: Vec<_> = silent.into_iter().flatten().collect();
        if silent.is_empty() {
            return;
        }
        let Ok(conn) = self.session.conn().await else {
            return;
        };
        let ended = silent
            .iter()
            .map(|(key, owner)| self.end_if_silent(&conn, key, *owner));
        timeout(self.config.response_limit, join_all(ended))
            .await
            .ok();
    }

    /// Deletes the places that a restored snapshot has brought back.
    async fn end_restored(&self) {
        let ended = async {
            let conn = self.session.conn().await?;
            for lease in self.places.to_search(conn.number()) {
                for name in conn.keys_of(lease).await? {
                    self.end_if_unknown(&conn, &name, lease).await?;
                }
            }
            self.places.searched(conn.number());
            Ok::<_, StoreError>(())
        };
        // Without an answer, or if there are many places, the search continues after the next beat.
        timeout(SEARCH, ended).await.ok();
    }

    /// Deletes the place with this name if it is that of no claim.
    async fn end_if_unknown(&self, conn: &Conn, name: &[u8], lease: i64) -> Result<(), StoreError> {
        let key = keys::key_in(&self.config.namespace, name).and_then(|key| LockKey::new(key).ok());
        // A gate has none.
        let (Some(key), Some(owner)) = (key, keys::owner_in(name)) else {
            return Ok(());
        };
        let Some(mut claim) = self.claims.try_enter(&key, owner) else {
            return Ok(());
        };
        let waits = self.follow.with(&key, |followed| followed.lease_of(owner));
        if claim.place.is_none() && waits.flatten().is_none() {
            recall(&mut claim, Some(lease));
            let (names, id) = (self.names(key.as_str(), owner), (&key, owner));
            self.end(conn, &mut claim, &names, id, End::Displaced)
                .await?;
        }
        Ok(())
    }

    async fn end_if_silent(&self, conn: &Conn, key: &LockKey, owner: OwnerId) {
        let is_silent = |followed: &Followed| {
            let mut silent = followed.silent(SystemClock.now(), SILENT);
            silent.any(|it| it == owner)
        };
        let Some(mut claim) = self.claims.try_enter(key, owner) else {
            return;
        };
        // The waiter may have asked again, or got a lease of its own, before the claim was locked.
        let looked = self.follow.with(key, |followed| {
            (
                is_silent(followed),
                followed.has_quit(owner),
                followed.lease_of(owner),
            )
        });
        let Some((is_silent, has_quit, lease)) = looked else {
            return;
        };
        let holds = |claim: &Claim| claim.place.as_ref().is_some_and(|it| it.held.is_some());
        if is_silent && !holds(&claim) {
            let (names, id) = (self.names(key.as_str(), owner), (key, owner));
            recall(&mut claim, lease);
            let end = if has_quit {
                End::Released
            } else {
                End::Displaced
            };
            // Without an answer, the next beat tries again.
            self.end(conn, &mut claim, &names, id, end).await.ok();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
