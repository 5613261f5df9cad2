//! Locks as operators see them, from the children of their keys.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_admin::{HolderInfo, LockInfo, WaiterInfo};
use dlock_runtime::{
    LockMode,
    store::{GRANT_TTL, OwnerId},
};

use super::page::{Claims, MOST};
use crate::{
    holder::{Seen, moment},
    names::Entry,
};

/// Describes a lock that was read at this time.
pub(super) fn lock(claims: &Claims, now: SystemTime) -> LockInfo {
    let mut lock = LockInfo::new(&*claims.key);
    let queue = &claims.queue;
    let seen = |entry: &Entry| claims.seen.get(&entry.name);
    let epoch = epoch(claims);
    for entry in queue.holders().iter().take(MOST) {
        if let Some(seen) = seen(entry) {
            lock.add_holder(holder(entry, seen, epoch, now));
        }
    }
    lock.holder_count = queue.holders().len();
    lock.mode = queue.holders().first().map(|it| match it.mode {
        LockMode::Shared | LockMode::Permits(_) => LockMode::Shared,
        _ => LockMode::Exclusive,
    });
    let of_holders = queue.holders().iter().filter_map(seen);
    let fences = of_holders.filter_map(|it| it.own_fence().max(it.confirmed()));
    lock.last_fence = fences.max().unwrap_or(0);
    for entry in queue.waiters().iter().take(MOST) {
        if let Some(seen) = seen(entry) {
            lock.waiters.push(waiter(entry, seen, now));
        }
    }
    lock.waiter_count = queue.waiters().len();
    let mut all = queue.holders().iter().chain(queue.waiters());
    lock.is_half_used_up = all.any(Entry::is_past_half);
    lock
}

/// Returns the fence of all that hold the key together: one that is confirmed, else that of the first child.
pub(super) fn epoch(claims: &Claims) -> u64 {
    let holders = || {
        let entries = claims.queue.holders().iter();
        entries.filter_map(|entry| claims.seen.get(&entry.name))
    };
    let confirmed = holders().find_map(Seen::confirmed);
    let own = || holders().find_map(Seen::own_fence);
    // A child of another program has no fence, but the number of its transaction, which no other has.
    let foreign = || u64::try_from(holders().next()?.stat.czxid).ok();
    confirmed.or_else(own).or_else(foreign).unwrap_or(0)
}

/// The owner as it is shown: a child of another program has a name, but no owner who could release it.
pub(super) fn owner(entry: &Entry, seen: &Seen) -> Option<OwnerId> {
    seen.value.as_ref().map(|_| entry.owner)
}

fn holder(entry: &Entry, seen: &Seen, epoch: u64, now: SystemTime) -> HolderInfo {
    let value = seen.value.as_ref();
    let mut holder = HolderInfo::new(owner(entry, seen), epoch, now);
    // A process that has not confirmed its grant yet has a name, too.
    holder.label = value.and_then(|it| it.label.clone().or_else(|| it.waiter.clone()));
    holder.function = value.and_then(|it| it.function.clone());
    // Fences count transactions, which do not run like a clock.
    let held = value.and_then(|it| it.held);
    holder.since = held.map(|held| at(Duration::from_millis(held.since)).min(now));
    holder.ttl = match value {
        // A grant that its process has not accepted ends soon.
        Some(value) if value.held.is_none() => Some(GRANT_TTL),
        Some(_) => Some(seen.rest),
        // No other program renews it. It ends with its session, whose rest nobody can read, or never.
        None => (seen.stat.ephemeral_owner != 0).then_some(Duration::ZERO),
    };
    holder
}

fn waiter(entry: &Entry, seen: &Seen, now: SystemTime) -> WaiterInfo {
    let mut waiter = WaiterInfo::new(entry.owner, entry.mode);
    waiter.label = seen.value.as_ref().and_then(|it| it.waiter.clone());
    let since = at(moment(seen.stat.ctime));
    waiter.waiting = now.duration_since(since).unwrap_or_default();
    waiter
}

fn at(since: Duration) -> SystemTime {
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use dlock_runtime::{random::SystemRandom, store::ClientId};
    use zookeeper_client::Stat;

    use super::*;
    use crate::{
        data::{Held, Value},
        fence::Base,
        names,
        queue::Queue,
    };

    const NOW: Duration = Duration::from_secs(5);

    /// A child that was created by this transaction, in the second of its number.
    fn child(czxid: i32, mode: LockMode, held: Option<Held>) -> (String, Seen) {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        let value = Value {
            base: Base {
                value: 100,
                since: 0,
            },
            ttl: Duration::from_secs(9),
            held,
            label: held.map(|_| format!("holder/{czxid}")),
            function: None,
            waiter: held.is_none().then(|| format!("waiter/{czxid}")),
        };
        let time = i64::from(czxid) * 1000;
        let stat = Stat {
            czxid: i64::from(czxid),
            mzxid: 0,
            pzxid: 0,
            ctime: time,
            mtime: time,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 7,
            data_length: 0,
            num_children: 0,
        };
        let name = format!("{}{czxid:010}", names::prefix(owner, mode));
        (name, Seen::of(&value.to_bytes(), stat, NOW))
    }

    const fn held(fence: u64, since: u64) -> Held {
        let fence = Some(fence);
        Held { fence, since }
    }

    fn described(children: Vec<(String, Seen)>) -> LockInfo {
        let names: Vec<_> = children.iter().map(|(name, _)| name.clone()).collect();
        let claims = Claims {
            key: "k".to_owned(),
            queue: Queue::read(&names),
            seen: HashMap::from_iter(children),
        };
        lock(&claims, UNIX_EPOCH + NOW)
    }

    #[test]
    fn children_at_the_front_hold_and_the_others_wait() {
        let (exclusive, shared) = (LockMode::Exclusive, LockMode::Shared);
        let lock = described(vec![
            child(3, LockMode::Permits(2), None),
            child(1, exclusive, Some(held(101, 4000))),
            child(6, shared, None),
        ]);
        let counts = (lock.mode, lock.holder_count, lock.waiter_count);
        assert_eq!(counts, (Some(exclusive), 1, 2));
        let holder = lock.holder.unwrap();
        assert_eq!((holder.fence, lock.last_fence), (101, 101));
        assert_eq!(holder.label.as_deref(), Some("holder/1"));
        assert_eq!(holder.since, Some(UNIX_EPOCH + Duration::from_secs(4)));
        // It was written in the first second.
        assert_eq!(holder.ttl, Some(Duration::from_secs(5)));
        let waiters = lock.waiters.iter().map(|it| {
            let label = it.label.as_deref().unwrap();
            (label, it.mode, it.waiting.as_secs())
        });
        let expected = [
            ("waiter/3", LockMode::Permits(2), 2),
            // The clock of the server is ahead.
            ("waiter/6", shared, 0),
        ];
        assert_eq!(waiters.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_holder_that_did_not_know_its_fence_has_that_of_its_child() {
        let unknown = Held {
            fence: None,
            since: 1000,
        };
        let lock = described(vec![child(2, LockMode::Exclusive, Some(unknown))]);
        let holder = lock.holder.unwrap();
        assert_eq!((holder.fence, lock.last_fence), (102, 102));
        assert_eq!(holder.label.as_deref(), Some("holder/2"));
        assert_eq!(holder.ttl, Some(Duration::from_secs(6)));
    }

    #[test]
    fn all_that_share_have_the_fence_that_one_has_confirmed() {
        let shared = LockMode::Shared;
        let lock = described(vec![
            child(2, shared, None),
            child(3, shared, Some(held(101, 9000))),
        ]);
        assert_eq!((lock.mode, lock.holder_count), (Some(shared), 2));
        let fences: Vec<_> = lock.holders().map(|it| it.fence).collect();
        assert_eq!((fences, lock.last_fence), (vec![101, 101], 103));
        let [granted, later] = [0, 1].map(|it| lock.holders().nth(it).unwrap());
        // Its process may not know yet, however long it has waited.
        assert_eq!((granted.since, granted.ttl), (None, Some(GRANT_TTL)));
        let labels = [granted, later].map(|it| it.label.as_deref().unwrap());
        assert_eq!(labels, ["waiter/2", "holder/3"]);
        // The clock of its process is ahead.
        assert_eq!(later.since, Some(UNIX_EPOCH + NOW));

        let lock = described(vec![child(2, shared, None), child(3, shared, None)]);
        let fences: Vec<_> = lock.holders().map(|it| it.fence).collect();
        assert_eq!(fences, [102, 102]);
    }

    #[test]
    fn a_child_of_another_program_has_no_owner_and_is_known_by_its_transaction() {
        for (session, ttl) in [(0, None), (7, Some(Duration::ZERO))] {
            let (name, mut seen) = child(7, LockMode::Exclusive, None);
            seen.stat.ephemeral_owner = session;
            let foreign = Seen::of(b"mine", seen.stat, NOW);
            let lock = described(vec![(name, foreign), child(8, LockMode::Shared, None)]);
            let counts = (lock.mode, lock.waiter_count);
            assert_eq!(counts, (Some(LockMode::Exclusive), 1));
            let holder = lock.holder.unwrap();
            assert_eq!((holder.owner, holder.fence, holder.ttl), (None, 7, ttl));
            assert_eq!((holder.since, lock.last_fence), (None, 0));
        }
    }
}
