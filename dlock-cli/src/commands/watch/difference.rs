//! Computes the changes between two readings of the locks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Serialize;

use crate::view::{HolderView, LockView, WaiterView};

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
    pub(super) mode: Option<String>,
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

/// Returns the events between two readings, in the order of the keys.
pub(super) fn differences(before: &[LockView], after: &[LockView], is_first: bool) -> Vec<Event> {
    let mut pairs: BTreeMap<&str, [Option<&LockView>; 2]> = BTreeMap::new();
    for lock in before {
        pairs.entry(&lock.key).or_default()[0] = Some(lock);
    }
    for lock in after {
        pairs.entry(&lock.key).or_default()[1] = Some(lock);
    }
    let mut events = Vec::new();
    for (key, [before, after]) in pairs {
        let found = of_one(before, after, is_first);
        let waiters = Some(after.map_or(0, |lock| lock.waiter_count));
        let holders = Some(after.map_or(0, |lock| lock.holder_count));
        let mode = [after, before].into_iter().flatten();
        let mode = mode.map(|lock| &lock.mode).find_map(Clone::clone);
        events.extend(found.into_iter().map(|(change, holder, waiter)| Event {
            key: Some(key.to_owned()),
            holder,
            waiter,
            mode: mode.clone(),
            holders,
            waiters,
            ..Event::new(change)
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
fn lease(holder: &HolderView) -> (Option<&str>, u64) {
    (holder.handle.as_deref(), holder.fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(handle: Option<&str>, fence: u64) -> HolderView {
        HolderView {
            handle: handle.map(str::to_owned),
            label: None,
            function: None,
            process: None,
            fence,
            token: None,
            since: None,
            held_ms: None,
            ttl_ms: None,
        }
    }

    fn lock(holder: Option<HolderView>, waiters: &[&str]) -> LockView {
        let waiter = |handle: &&str| WaiterView {
            handle: (*handle).to_owned(),
            label: None,
            mode: "exclusive".to_owned(),
            permits: None,
            process: None,
            waiting_ms: 0,
            is_alive: true,
        };
        LockView {
            mode: holder.is_some().then(|| "exclusive".to_owned()),
            holder_count: usize::from(holder.is_some()),
            holders: holder.clone().into_iter().collect(),
            holder,
            waiters: waiters.iter().map(waiter).collect(),
            waiter_count: waiters.len(),
            ..LockView::free("k")
        }
    }

    fn changes(before: Option<&LockView>, after: Option<&LockView>) -> Vec<Change> {
        let found = of_one(before, after, false);
        found.into_iter().map(|(change, ..)| change).collect()
    }

    #[test]
    fn every_difference_has_its_events() {
        use Change::{Acquired, Granted, Left, Released, Waits};
        let [a, b] = [("a", 1), ("b", 2)].map(|(name, fence)| Some(holder(Some(name), fence)));
        let of_a = lock(a.clone(), &[]);
        let of_a_with_b = lock(a.clone(), &["b"]);
        let of_a_with_both = lock(a, &["b", "c"]);
        let of_b = lock(b.clone(), &[]);
        let of_b_with_c = lock(b, &["c"]);
        let again = lock(Some(holder(Some("a"), 3)), &[]);
        let foreign = lock(Some(holder(None, 0)), &[]);
        let waited_for = lock(None, &["b"]);
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
        let shared = |names: &[&str], waiters: &[&str]| {
            let holders: Vec<_> = names.iter().map(|name| holder(Some(name), 1)).collect();
            LockView {
                mode: Some("shared".to_owned()),
                holder_count: holders.len(),
                holders: holders.clone(),
                ..lock(holders.first().cloned(), waiters)
            }
        };
        for (before, after, expected) in [
            (
                shared(&["a"], &[]),
                Some(shared(&["a", "b"], &[])),
                &[Acquired][..],
            ),
            (
                shared(&["a", "b"], &[]),
                Some(shared(&["b"], &[])),
                &[Released],
            ),
            (
                shared(&["a", "b"], &["c"]),
                Some(shared(&["b", "c"], &[])),
                &[Released, Granted],
            ),
            (
                shared(&["a", "b"], &["c"]),
                Some(lock(Some(holder(Some("c"), 2)), &[])),
                &[Released, Released, Granted],
            ),
            (shared(&["a"], &[]), None, &[Released]),
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
