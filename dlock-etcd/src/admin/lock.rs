//! Locks as operators see them, from the claims on their keys and the rests of the holders' leases.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dlock_admin::{HolderInfo, LockInfo, WaiterInfo};
use dlock_runtime::{LockMode, store::StoreError};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{link::Link, page::Claims};
use crate::{
    holder::as_accepted,
    keys::Stage,
    proto::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse},
    queue::{Entry, Queue},
};

const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";

/// The holders and the waiters of one lock that are listed.
const MOST: usize = 4096;

/// The requests for rests of leases that are under way at a time.
const AT_A_TIME: usize = 8;

/// The processor time that a member spends on the rest of a lease, rounded up.
const FOR_A_REST: Duration = Duration::from_micros(150);

/// Describes the locks, and returns the time that the members have spent on it.
pub(super) async fn describe(
    link: &Link,
    claims: &[Claims],
) -> Result<(Vec<LockInfo>, Duration), StoreError> {
    let queues: Vec<_> = claims.iter().map(|it| Queue::read(&it.kvs)).collect();
    let holders = queues.iter().flat_map(|queue| queue.holders().take(MOST));
    let mut leases: Vec<_> = holders.map(|it| it.lease).filter(|it| *it != 0).collect();
    leases.sort_unstable();
    leases.dedup();
    let took = FOR_A_REST.saturating_mul(u32::try_from(leases.len()).unwrap_or(u32::MAX));
    let rests = rests(link, leases).await?;
    // etcd has no clock that a client can read.
    let now = SystemTime::now();
    let locks = claims
        .iter()
        .zip(&queues)
        .map(|(claims, queue)| lock(&claims.key, queue, &rests, now));
    Ok((locks.collect(), took))
}

/// Reads the rests of leases, as their leader counts them.
async fn rests(link: &Link, leases: Vec<i64>) -> Result<HashMap<i64, Duration>, StoreError> {
    let asked = leases.into_iter().map(|id| async move {
        let request = LeaseTimeToLiveRequest { id, keys: false };
        let answer: LeaseTimeToLiveResponse = link.ask(TIME_TO_LIVE, &request).await?;
        // One that has ended since has nothing left.
        let seconds = u64::try_from(answer.ttl).unwrap_or(0);
        Ok((id, Duration::from_secs(seconds)))
    });
    stream::iter(asked)
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await
}

fn lock(key: &str, queue: &Queue, rests: &HashMap<i64, Duration>, now: SystemTime) -> LockInfo {
    let mut lock = LockInfo::new(key);
    // All that hold together have one fence.
    let fence = queue.epoch(&[]).map_or(0, |epoch| epoch.fence());
    for (_, entry) in queue.named_holders().take(MOST) {
        lock.add_holder(holder(entry, fence, rests, now));
    }
    lock.holder_count = queue.named_holders().len();
    let first = queue.holders().next();
    lock.mode = first.map(|it| match it.mode() {
        LockMode::Exclusive => LockMode::Exclusive,
        _ => LockMode::Shared,
    });
    lock.last_fence = queue.holders().map(Entry::own_fence).max().unwrap_or(0);
    for (_, entry) in queue.waiters().take(MOST) {
        lock.waiters.extend(waiter(entry, now));
    }
    lock.waiter_count = queue.waiters().len();
    lock
}

fn holder(
    entry: &Entry,
    fence: u64,
    rests: &HashMap<i64, Duration>,
    now: SystemTime,
) -> HolderInfo {
    let value = entry.value.as_ref();
    // The key of another program has a name, but no owner who could release it.
    let owner = entry.owner.filter(|_| value.is_some());
    let mut holder = HolderInfo::new(owner, fence, now);
    holder.label = value.and_then(|it| it.label.clone());
    holder.function = value.and_then(|it| it.function.clone());
    // Fences count revisions, which do not run like a clock.
    holder.since = match value.map(|it| &it.stage) {
        Some(Stage::Holds { since }) => Some(moment(*since).min(now)),
        _ => None,
    };
    holder.ttl = (entry.lease != 0).then(|| {
        let rest = rests.get(&entry.lease).copied().unwrap_or_default();
        as_accepted(entry, rest)
    });
    holder
}

/// `None` for the key of another program without an owner.
fn waiter(entry: &Entry, now: SystemTime) -> Option<WaiterInfo> {
    let mut waiter = WaiterInfo::new(entry.owner?, entry.mode());
    if let Some(Stage::Waits { since, label }) = entry.value.as_ref().map(|it| &it.stage) {
        waiter.label.clone_from(label);
        waiter.waiting = now.duration_since(moment(*since)).unwrap_or_default();
    }
    Some(waiter)
}

fn moment(since: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(since))
        .unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use dlock_runtime::{
        random::SystemRandom,
        store::{ClientId, GRANT_TTL, OwnerId, StoreOptions},
    };
    use dlock_testkit::EtcdServer;

    use super::*;
    use crate::{
        config::Config,
        keys::{self, Value},
        proto::KeyValue,
        scene::LONG,
    };

    fn claim(create: i64, mode: LockMode, stage: Stage) -> KeyValue {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let label = matches!(stage, Stage::Holds { .. }).then(|| format!("holder/{create}"));
        let value = Value {
            base: 100,
            mode,
            epoch: None,
            label,
            function: None,
            stage,
            owner: Some(owner),
        };
        KeyValue {
            key: keys::claim_with(&keys::range("n", "k"), create),
            create_revision: create,
            mod_revision: create,
            value: value.to_bytes(),
            lease: create,
        }
    }

    fn waits(since: u64) -> Stage {
        let label = Some(format!("waiter/{since}"));
        Stage::Waits { since, label }
    }

    fn described(kvs: &[KeyValue]) -> LockInfo {
        let rests = HashMap::from([(1, Duration::from_secs(9))]);
        let now = UNIX_EPOCH + Duration::from_secs(5);
        lock("k", &Queue::read(kvs), &rests, now)
    }

    #[tokio::test]
    async fn each_lease_of_a_holder_is_asked_for_once() {
        let server = EtcdServer::start().await;
        let mut options = StoreOptions::default();
        options.response_timeout = LONG;
        options.connect_timeout = LONG;
        let link = Link::new(Config::parse(&server.url(), &options).unwrap());
        let holds = |key: &str, lease: i64| {
            let held = claim(1, LockMode::Exclusive, Stage::Holds { since: 1 });
            Claims {
                key: key.to_owned(),
                kvs: vec![KeyValue { lease, ..held }],
            }
        };
        let claims = [holds("a", 7), holds("b", 8), holds("c", 7), holds("d", 0)];
        let (locks, took) = describe(&link, &claims).await.unwrap();
        assert_eq!(took, 2 * FOR_A_REST);
        assert_eq!(server.messages().await["LeaseTimeToLive"], 2);
        let rests: Vec<_> = locks
            .iter()
            .map(|it| (&*it.key, it.holder.as_ref().unwrap().ttl))
            .collect();
        // There are no such leases.
        let gone = Some(Duration::ZERO);
        assert_eq!(rests, [("a", gone), ("b", gone), ("c", gone), ("d", None)]);
    }

    #[test]
    fn a_grant_that_is_not_accepted_ends_soon() {
        let lock = described(&[claim(1, LockMode::Exclusive, waits(4900))]);
        let holder = lock.holder.unwrap();
        assert_eq!((holder.since, holder.ttl), (None, Some(GRANT_TTL)));
    }

    #[test]
    fn claims_at_the_front_hold_and_the_others_wait() {
        let (exclusive, shared) = (LockMode::Exclusive, LockMode::Shared);
        let lock = described(&[
            claim(3, LockMode::Permits(2), waits(4900)),
            claim(1, exclusive, Stage::Holds { since: 4000 }),
            claim(2, shared, waits(6000)),
        ]);
        assert_eq!(
            (lock.mode, lock.holder_count, lock.waiter_count),
            (Some(exclusive), 1, 2)
        );
        let holder = lock.holder.unwrap();
        assert_eq!((holder.fence, lock.last_fence), (101, 101));
        assert_eq!(holder.label.as_deref(), Some("holder/1"));
        assert_eq!(holder.since, Some(UNIX_EPOCH + Duration::from_secs(4)));
        assert_eq!(holder.ttl, Some(Duration::from_secs(9)));
        let waiters: Vec<_> = lock
            .waiters
            .iter()
            .map(|it| {
                (
                    it.label.as_deref().unwrap(),
                    it.mode,
                    it.waiting.as_millis(),
                )
            })
            .collect();
        // The clock of the first one's process is ahead.
        assert_eq!(
            waiters,
            [
                ("waiter/6000", shared, 0),
                ("waiter/4900", LockMode::Permits(2), 100)
            ]
        );
    }

    #[test]
    fn a_holder_that_does_not_know_of_its_grant_has_no_label_and_no_time() {
        let lock = described(&[
            claim(2, LockMode::Shared, waits(1000)),
            claim(3, LockMode::Shared, Stage::Unknown),
        ]);
        assert_eq!((lock.mode, lock.holder_count), (Some(LockMode::Shared), 2));
        for holder in lock.holders() {
            assert_eq!(
                (&holder.label, holder.since, holder.fence),
                (&None, None, 102)
            );
            assert_eq!(holder.ttl, Some(Duration::ZERO), "its lease is gone");
        }
    }

    #[test]
    fn a_key_of_another_program_has_no_owner_and_is_known_by_its_revision() {
        let mut foreign = claim(7, LockMode::Shared, Stage::Unknown);
        foreign.value = b"mine".to_vec();
        foreign.lease = 0;
        let lock = described(&[foreign, claim(8, LockMode::Shared, waits(1))]);
        assert_eq!(
            (lock.mode, lock.waiter_count),
            (Some(LockMode::Exclusive), 1)
        );
        let holder = lock.holder.unwrap();
        assert_eq!((holder.owner, holder.fence, holder.ttl), (None, 7, None));
    }
}
