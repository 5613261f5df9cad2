//! Computes the changes between two readings of the locks.

use std::{collections::BTreeMap, time::Duration};

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
    Taken,
    /// The store granted the lock to a waiter.
    HandedOn,
    /// The lock is free: it was released, or the lease expired.
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
            Self::Taken => "acquired",
            Self::HandedOn => "granted",
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
        events.extend(found.into_iter().map(|(change, holder, waiter)| Event {
            key: Some(key.to_owned()),
            holder,
            waiter,
            waiters,
            ..Event::new(change)
        }));
    }
    events
}

type Found = (Change, Option<HolderView>, Option<WaiterView>);

fn of_one(before: Option<&LockView>, after: Option<&LockView>, is_first: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let holders = [before, after].map(|lock| lock.and_then(|lock| lock.holder.as_ref()));
    let [waited, waits] = [before, after].map(|lock| lock.map_or(&[][..], |lock| &lock.waiters));
    let has_waited = |holder: &HolderView| {
        let owner = holder.owner.as_ref();
        owner.is_some_and(|owner| waited.iter().any(|waiter| waiter.owner == *owner))
    };
    match holders {
        [Some(old), Some(new)] if is_same(old, new) => {}
        [_, Some(new)] if has_waited(new) => {
            found.push((Change::HandedOn, Some(new.clone()), None));
        }
        [old, new] => {
            let released = old.map(|old| (Change::Released, Some(old.clone()), None));
            let change = if is_first {
                Change::Held
            } else {
                Change::Taken
            };
            let taken = new.map(|new| (change, Some(new.clone()), None));
            found.extend(released.into_iter().chain(taken));
        }
    }
    let is_in =
        |list: &[WaiterView], it: &WaiterView| list.iter().any(|other| other.owner == it.owner);
    let has_it = |waiter: &WaiterView| {
        holders[1].is_some_and(|holder| holder.owner.as_ref() == Some(&waiter.owner))
    };
    for waiter in waited {
        if !is_in(waits, waiter) && !has_it(waiter) {
            found.push((Change::Left, None, Some(waiter.clone())));
        }
    }
    for waiter in waits {
        if !is_in(waited, waiter) {
            found.push((Change::Waits, None, Some(waiter.clone())));
        }
    }
    found
}

/// Returns `true` if both are the same lease. Leases of third-party clients cannot be distinguished.
fn is_same(old: &HolderView, new: &HolderView) -> bool {
    (&old.owner, old.fence) == (&new.owner, new.fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(owner: Option<&str>, fence: u64) -> HolderView {
        HolderView {
            owner: owner.map(str::to_owned),
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
        let waiter = |owner: &&str| WaiterView {
            owner: (*owner).to_owned(),
            process: None,
            waiting_ms: 0,
            is_alive: true,
        };
        LockView {
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
        use Change::{HandedOn, Left, Released, Taken, Waits};
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
            (None, Some(&of_a), &[Taken][..]),
            (Some(&of_a), None, &[Released]),
            (Some(&of_a), Some(&of_a), &[]),
            (Some(&of_a), Some(&of_b), &[Released, Taken]),
            (Some(&of_a), Some(&again), &[Released, Taken]),
            (Some(&of_a), Some(&of_a_with_b), &[Waits]),
            (Some(&of_a_with_b), Some(&of_a), &[Left]),
            (Some(&of_a_with_b), Some(&of_b), &[HandedOn]),
            (Some(&of_a_with_both), Some(&of_b_with_c), &[HandedOn]),
            (Some(&of_a_with_both), None, &[Released, Left, Left]),
            (Some(&of_a_with_b), Some(&waited_for), &[Released]),
            (Some(&foreign), Some(&foreign), &[]),
            (Some(&foreign), Some(&of_a), &[Released, Taken]),
        ] {
            assert_eq!(changes(before, after), expected, "{before:?} {after:?}");
        }
        let first = of_one(None, Some(&of_a_with_b), true);
        let first: Vec<_> = first.into_iter().map(|(change, ..)| change).collect();
        assert_eq!(first, [Change::Held, Waits]);
    }
}
