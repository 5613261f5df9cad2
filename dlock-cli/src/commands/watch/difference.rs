//! Computes the changes between two readings of the locks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use dlock_admin::view::{HolderView, LockView, WaiterView, moment};
use serde::Serialize;

use crate::follow::Seen;

/// One line of `dlock watch --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    pub(super) time: String,
    #[serde(rename = "event")]
    pub(super) change: Change,
    pub(super) key: Option<String>,
    /// The holder since this event, or until it.
    pub(super) holder: Option<HolderView>,
    /// The waiter that began or stopped to wait.
    pub(super) waiter: Option<WaiterView>,
    /// The mode of the lock after the event, or before it was free.
    pub(super) mode: Option<&'static str>,
    /// The number of holders after the event.
    pub(super) holders: Option<usize>,
    /// The number of waiters after the event.
    pub(super) waiters: Option<usize>,
    pub(super) message: Option<String>,
    /// The last time at which the holder of a released lock was seen with it.
    pub(super) last_seen: Option<String>,
    /// The time since then.
    #[serde(skip)]
    pub(super) unseen: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Change {
    /// The lock was held when the watch started.
    Held,
    /// A process acquired the lock.
    Acquired,
    /// The store granted the lock to a waiter.
    Granted,
    /// The lock was released, or the lease expired. A shared lock may have other holders.
    Released,
    /// A process started to wait for the lock.
    Waits,
    /// A waiter gave up.
    Left,
    /// The server does not answer.
    Outage,
    /// The server answers again.
    Back,
}

impl Change {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Acquired => "acquired",
            Self::Granted => "granted",
            Self::Released => "released",
            Self::Waits => "waits",
            Self::Left => "left",
            Self::Outage => "outage",
            Self::Back => "back",
        }
    }
}

/// Returns the events between two readings, in the order of the keys; `before` is `None` at the first one.
pub(super) fn differences(before: Option<&[Arc<Seen>]>, after: &[Arc<Seen>]) -> Vec<Event> {
    let mut pairs: BTreeMap<&str, [Option<&Seen>; 2]> = BTreeMap::new();
    for seen in before.into_iter().flatten() {
        pairs.entry(&seen.lock.key).or_default()[0] = Some(seen);
    }
    for seen in after {
        pairs.entry(&seen.lock.key).or_default()[1] = Some(seen);
    }
    let now = SystemTime::now();
    let mut events = Vec::new();
    for (key, [was, is]) in pairs {
        let found = of_one(
            was.map(|it| &it.lock),
            is.map(|it| &it.lock),
            before.is_none(),
        );
        let count = |of: fn(&LockView) -> usize| Some(is.map_or(0, |it| of(&it.lock)));
        let mode = [is, was].into_iter().flatten();
        let mode = mode.into_iter().find_map(|it| it.lock.mode);
        let unseen = was.map_or(Duration::ZERO, |it| it.at.elapsed());
        events.extend(found.into_iter().map(|(change, holder, waiter)| {
            let is_release = change == Change::Released;
            let last_seen = is_release.then(|| now.checked_sub(unseen)).flatten();
            Event {
                key: Some(key.to_owned()),
                holder,
                waiter,
                mode,
                holders: count(|lock| lock.holder_count),
                waiters: count(|lock| lock.waiter_count),
                last_seen: last_seen.map(moment),
                unseen,
                ..Event::new(change)
            }
        }));
    }
    events
}

type Found = (Change, Option<HolderView>, Option<WaiterView>);

fn of_one(before: Option<&LockView>, after: Option<&LockView>, is_first: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let [held, holds] = [before, after].map(|lock| lock.map_or(&[][..], |lock| &lock.holders));
    let [waited, waits] = [before, after].map(|lock| lock.map_or(&[][..], |lock| &lock.waiters));
    let old_leases: BTreeSet<_> = held.iter().map(lease).collect();
    let new_leases: BTreeSet<_> = holds.iter().map(lease).collect();
    let has_waited: BTreeSet<_> = waited.iter().map(|waiter| &*waiter.handle).collect();
    let was_granted = |holder: &&HolderView| {
        let handle = holder.handle.as_deref();
        handle.is_some_and(|handle| has_waited.contains(handle))
    };
    let new: Vec<_> = holds
        .iter()
        .filter(|it| !old_leases.contains(&lease(it)))
        .collect();
    let is_shared = [before, after]
        .into_iter()
        .flatten()
        .any(LockView::is_shared);
    // The grant of an exclusive lock also tells that the holder before has released it.
    let grants_on = !is_shared && new.iter().any(was_granted);
    if !grants_on {
        let left = held.iter().filter(|it| !new_leases.contains(&lease(it)));
        found.extend(left.map(|old| (Change::Released, Some(old.clone()), None)));
    }
    for holder in new {
        let change = match () {
            () if was_granted(&holder) => Change::Granted,
            () if is_first => Change::Held,
            () => Change::Acquired,
        };
        found.push((change, Some(holder.clone()), None));
    }
    let is_in: [BTreeSet<_>; 2] =
        [waited, waits].map(|list| list.iter().map(|it| &*it.handle).collect());
    let has_it: BTreeSet<_> = holds.iter().filter_map(|it| it.handle.as_deref()).collect();
    for waiter in waited {
        if !is_in[1].contains(&*waiter.handle) && !has_it.contains(&*waiter.handle) {
            found.push((Change::Left, None, Some(waiter.clone())));
        }
    }
    for waiter in waits {
        if !is_in[0].contains(&*waiter.handle) {
            found.push((Change::Waits, None, Some(waiter.clone())));
        }
    }
    found
}

/// Returns the identity of a lease. Leases of third-party clients cannot be distinguished.
fn lease(holder: &HolderView) -> (Option<&str>, Option<&str>) {
    (holder.handle.as_deref(), holder.token.as_deref())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use dlock::{
        LockMode,
        random::Random,
        store::{ClientId, OwnerId},
    };
    use dlock_admin::{HolderInfo, LockInfo, WaiterInfo};
    use tokio::time::Instant;

    use super::*;

    /// The holder whose handle has this number; `None` is a third-party client.
    fn holder(number: Option<u64>, fence: u64) -> HolderInfo {
        HolderInfo::new(number.map(owner), fence, UNIX_EPOCH)
    }

    fn owner(number: u64) -> OwnerId {
        /// All owners are of one client.
        struct Same;

        impl Random for Same {
            fn next_u64(&self) -> u64 {
                7
            }
        }

        OwnerId::new(ClientId::new(&Same), number)
    }

    fn lock(mode: LockMode, holders: &[HolderInfo], waiters: &[u64]) -> LockView {
        let mut lock = LockInfo::new("k");
        lock.mode = (!holders.is_empty()).then_some(mode);
        for holder in holders {
            lock.add_holder(holder.clone());
        }
        for number in waiters {
            lock.add_waiter(WaiterInfo::new(owner(*number), LockMode::Exclusive));
        }
        LockView::of(&lock, UNIX_EPOCH)
    }

    fn changes(before: Option<&LockView>, after: Option<&LockView>) -> Vec<Change> {
        let found = of_one(before, after, false);
        found.into_iter().map(|(change, ..)| change).collect()
    }

    #[test]
    fn an_event_tells_of_the_lock_after_it_or_before_it_was_free() {
        use Change::{Acquired, Held, Left, Released, Waits};
        let lock = lock(LockMode::Exclusive, &[holder(Some(1), 1)], &[2]);
        let at = Instant::now();
        let there = [Arc::new(Seen { lock, at })];
        for (before, after, changes, count) in [
            (None, &there[..], &[Held, Waits][..], 1),
            (Some(&[][..]), &there[..], &[Acquired, Waits], 1),
            (Some(&there[..]), &[], &[Released, Left], 0),
            (Some(&there[..]), &there[..], &[], 1),
        ] {
            let told = differences(before, after);
            let of_all: Vec<_> = told.iter().map(|it| it.change).collect();
            assert_eq!(of_all, changes);
            for event in &told {
                let is_of_waiter = matches!(event.change, Waits | Left);
                assert_eq!(event.key.as_deref(), Some("k"));
                assert_eq!(event.mode, Some("exclusive"));
                assert_eq!((event.holders, event.waiters), (Some(count), Some(count)));
                assert_eq!(event.waiter.is_some(), is_of_waiter);
                assert_eq!(event.holder.is_some(), !is_of_waiter);
                assert_eq!(event.last_seen.is_some(), event.change == Released);
                assert_eq!(event.message, None);
            }
        }
    }

    #[test]
    fn every_difference_has_its_events() {
        use Change::{Acquired, Granted, Left, Released, Waits};
        let exclusive =
            |holders: &[HolderInfo], waiters: &[u64]| lock(LockMode::Exclusive, holders, waiters);
        let [a, b, c] = [1, 2, 3];
        let [holds_a, holds_b] = [a, b].map(|it| [holder(Some(it), it)]);
        let of_a = exclusive(&holds_a, &[]);
        let of_a_with_b = exclusive(&holds_a, &[b]);
        let of_a_with_both = exclusive(&holds_a, &[b, c]);
        let of_b = exclusive(&holds_b, &[]);
        let of_b_with_c = exclusive(&holds_b, &[c]);
        let again = exclusive(&[holder(Some(a), 3)], &[]);
        let foreign = exclusive(&[holder(None, 0)], &[]);
        let waited_for = exclusive(&[], &[b]);
        for (before, after, expected) in [
            (None, Some(&of_a), &[Acquired][..]),
            (Some(&of_a), None, &[Released]),
            (Some(&of_a), Some(&of_a), &[]),
            (Some(&of_a), Some(&of_b), &[Released, Acquired]),
            (Some(&of_a), Some(&again), &[Released, Acquired]),
            (Some(&of_a), Some(&of_a_with_b), &[Waits]),
            (Some(&of_a_with_b), Some(&of_a), &[Left]),
            (Some(&of_a_with_b), Some(&of_b), &[Granted]),
            (Some(&of_a_with_both), Some(&of_b_with_c), &[Granted]),
            (Some(&of_a_with_both), None, &[Released, Left, Left]),
            (Some(&of_a_with_b), Some(&waited_for), &[Released]),
            (Some(&foreign), Some(&foreign), &[]),
            (Some(&foreign), Some(&of_a), &[Released, Acquired]),
        ] {
            assert_eq!(changes(before, after), expected, "{before:?} {after:?}");
        }
        let shared = |numbers: &[u64], waiters: &[u64]| {
            let holders: Vec<_> = numbers.iter().map(|it| holder(Some(*it), 1)).collect();
            lock(LockMode::Shared, &holders, waiters)
        };
        for (before, after, expected) in [
            (
                shared(&[a], &[]),
                Some(shared(&[a, b], &[])),
                &[Acquired][..],
            ),
            (shared(&[a, b], &[]), Some(shared(&[b], &[])), &[Released]),
            (
                shared(&[a, b], &[c]),
                Some(shared(&[b, c], &[])),
                &[Released, Granted],
            ),
            (
                shared(&[a, b], &[c]),
                Some(exclusive(&[holder(Some(c), 2)], &[])),
                &[Released, Released, Granted],
            ),
            (shared(&[a], &[]), None, &[Released]),
        ] {
            assert_eq!(
                changes(Some(&before), after.as_ref()),
                expected,
                "{before:?} {after:?}"
            );
        }
        let first = of_one(None, Some(&of_a_with_b), true);
        let first: Vec<_> = first.into_iter().map(|(change, ..)| change).collect();
        assert_eq!(first, [Change::Held, Waits]);
    }
}
