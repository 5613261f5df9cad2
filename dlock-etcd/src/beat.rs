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
            self.follow.tell(key);
        }
        Ok(())
    }

    /// Makes a lease for waiters to come, and its gate.
    async fn open(&self) -> Result<(), StoreError> {
        let conn = self.session.conn().await?;
        let since = SystemClock.now();
        let lease = conn.grant(WAITING).await?;
        let name = keys::gate(&self.config.namespace, lease);
        let txn = TxnRequest {
            compare: vec![ops::is_created_at(&name, 0)],
            success: vec![ops::put(&name, Vec::new(), lease)],
            failure: Vec::new(),
        };
        // Without an answer, the lease is not used, and ends by itself.
        let answer = conn.txn(txn).await?;
        if answer.succeeded {
            let create = answer.header().revision;
            let gate = Gate { lease, create };
            self.places.opened(gate, since, conn.number());
        }
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
pub(crate) mod tests {
    use std::sync::Arc;

    use dlock_runtime::{
        random::SystemRandom,
        store::{
            ALIVE, AcquireOutcome, AcquireRequest, ClientId, Hint, HintReceiver, HintSink,
            LockStore, Queue as Queueing, ReleaseRequest, RenewBatch, RenewRequest, Renewal,
            StoreOptions,
        },
    };
    use dlock_testkit::{EtcdServer, eventually, within};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{EtcdStore, places::shared};

    pub(crate) const LONG: Duration = Duration::from_secs(60);
    pub(crate) const TTL: Duration = Duration::from_secs(120);

    pub(crate) struct Heard(pub(crate) mpsc::UnboundedSender<u64>);

    impl HintReceiver for Heard {
        fn hint(&self, hint: &Hint<'_>) -> bool {
            self.0.send(hint.fence).is_ok()
        }

        fn look_again(&self) -> bool {
            true
        }
    }

    pub(crate) fn open(server: &EtcdServer) -> EtcdStore {
        let mut options = StoreOptions::default();
        options.response_timeout = LONG;
        EtcdStore::open(&server.url(), &options).unwrap()
    }

    /// The watch has ended without a word, as one whose events the server has lost.
    #[tokio::test]
    async fn a_grant_that_no_watch_reports_is_found_by_the_next_beat() {
        let server = EtcdServer::start().await;
        eventually(LONG, "a grant that lasts", async || is_found(&server).await).await;
    }

    /// Returns `false` if the machine was so slow that the waiter was silent for too long.
    async fn is_found(server: &EtcdServer) -> bool {
        let (holder, waiter) = (open(server), open(server));
        let client = ClientId::new(&SystemRandom);
        let (send, mut heard) = mpsc::unbounded_channel();
        let hooks = waiter.properties().hooks.unwrap();
        hooks.attach(client, HintSink::new(Arc::new(Heard(send))));
        let (held, waits) = (
            OwnerId::new(ClientId::new(&SystemRandom), 1),
            OwnerId::new(client, 1),
        );
        let key = LockKey::new(format!("order:{waits}")).unwrap();
        let granted = holder.acquire(AcquireRequest::new(&key, held, TTL)).await;
        assert!(matches!(granted, Ok(AcquireOutcome::Granted { .. })));
        let request = AcquireRequest::new(&key, waits, TTL).queue(Queueing::ForLease);
        let asked = Instant::now();
        let answer = waiter.acquire(request).await;
        assert!(
            matches!(answer, Ok(AcquireOutcome::Busy(_))),
            "broken promise: two hold the key: {answer:?}"
        );
        let stopped = waiter.core.follow.with(&key, |followed| {
            followed.task.as_ref().map(|task| task.handle.abort())
        });
        assert_eq!(stopped, Some(Some(())));
        holder
            .release(ReleaseRequest::new(&key, held))
            .await
            .unwrap();
        let fence = within(LONG / 4, heard.recv()).await.flatten();
        let answer = waiter.acquire(request).await;
        let is_found = fence.is_some_and(|it| it > 0 && answer == Ok(AcquireOutcome::granted(it)));
        let is_late = asked.elapsed() > ALIVE;
        assert!(is_found || is_late, "{fence:?}, {answer:?}");
        waiter
            .release(ReleaseRequest::new(&key, waits))
            .await
            .unwrap();
        is_found
    }

    #[tokio::test]
    async fn a_beat_reads_all_queues_at_once_where_that_crashes_no_member() {
        let server = EtcdServer::start().await;
        let (holder, waiter) = (open(&server), open(&server));
        let client = ClientId::new(&SystemRandom);
        let keys = [1, 2, 3].map(|it| LockKey::new(format!("order:{it}")).unwrap());
        let owner = |number| OwnerId::new(client, number);
        for (number, key) in (1..).zip(&keys) {
            let ask = async |store: &EtcdStore, number| {
                let request = AcquireRequest::new(key, owner(number), TTL);
                store.acquire(request.queue(Queueing::ForLease)).await
            };
            let held = ask(&holder, number).await;
            assert!(matches!(held, Ok(AcquireOutcome::Granted { .. })));
            let waits = ask(&waiter, 10 + number).await;
            assert!(
                matches!(waits, Ok(AcquireOutcome::Busy(_))),
                "broken promise: two hold the key"
            );
        }
        waiter.core.session.conn().await.unwrap().met("3.5.7");
        let transactions = async || server.messages().await.get("Txn").copied();
        // Beside the beats of the store, which send as much.
        let before = transactions().await;
        waiter.core.keep_alive().await.unwrap();
        assert!(transactions().await > before);

        // Renewals are read in the same way.
        holder.core.session.conn().await.unwrap().met("3.5.7");
        let gone = server.keys("dlock/order:2/").await.remove(0);
        server.delete(&gone).await;
        let requests: Vec<_> = (1..)
            .zip(&keys)
            .map(|(number, key)| RenewRequest::new(key, owner(number), TTL))
            .collect();
        let before = transactions().await;
        let renewed = holder.renew(RenewBatch::new(&requests)).await;
        assert!(transactions().await > before);
        let [held, lost] = [Ok(Renewal::Renewed), Ok(Renewal::NotOwner)];
        assert_eq!(renewed, [held.clone(), lost, held]);
    }

    /// A process with very many claims forgets those that have not been asked for in a while.
    async fn forget(store: &EtcdStore, key: &LockKey, owners: &[OwnerId]) {
        let claims = &store.core.claims;
        for owner in owners {
            claims.enter(key, *owner).await.until = Some(Instant::now());
        }
        let client = ClientId::new(&SystemRandom);
        for number in 1.. {
            let other = OwnerId::new(client, number);
            claims.enter(key, other).await.doubt(shared(1));
            if owners.iter().all(|owner| claims.is_unknown(key, *owner)) {
                return;
            }
        }
    }

    #[tokio::test]
    async fn the_place_of_a_forgotten_claim_ends_with_its_waiter() {
        let server = EtcdServer::start().await;
        let (holder, waiter) = (open(&server), open(&server));
        let key = LockKey::new("order:42").unwrap();
        let client = ClientId::new(&SystemRandom);
        let [held, living, released, silent] = [1, 2, 3, 4].map(|it| OwnerId::new(client, it));
        let request = |owner| AcquireRequest::new(&key, owner, TTL).queue(Queueing::ForLease);
        holder.acquire(request(held)).await.unwrap();
        for owner in [living, released, silent] {
            let answer = waiter.acquire(request(owner)).await;
            assert!(
                matches!(answer, Ok(AcquireOutcome::Busy(_))),
                "broken promise: two hold the key: {answer:?}"
            );
        }
        forget(&waiter, &key, &[released, silent]).await;
        waiter
            .release(ReleaseRequest::new(&key, released))
            .await
            .unwrap();
        let left = async |owner: OwnerId| {
            let keys = server.keys("dlock/order:42/").await;
            keys.iter().any(|key| key.ends_with(&owner.to_string()))
        };
        assert!(!left(released).await, "the release has deleted it");
        assert!(left(silent).await);
        eventually(LONG, "a place of no waiter is deleted", async || {
            // The lease of both goes on.
            waiter.acquire(request(living)).await.unwrap();
            !left(silent).await
        })
        .await;
        assert!(left(living).await);
    }
}
