//! The claims on one key, in the order of their create revisions, and which of them hold it.
//!
//! # Rules
//!
//! - **Safety.** Claims hold from the front of the queue: an exclusive one if it is the first, a shared one if no
//!   exclusive one is before it, one of `n` permits if fewer than `n` are before it and none is exclusive. All before it
//!   must hold as well. New claims come behind all others, so a claim that holds does so until its own key is deleted.
//! - **Safety.** A claim that cannot be read counts as exclusive.
//! - All that hold together have one fence, the epoch. A claim that joins others writes it into its value, in a
//!   transaction that compares the claim from which it was taken. Without a written epoch in the queue, it is the fence
//!   of the first claim. (`all_that_hold_together_have_one_epoch`)

use std::collections::BTreeMap;

use dlock_runtime::{LockMode, store::OwnerId};

use crate::{
    keys::{self, Value},
    ops,
    proto::{Compare, Event, EventType, KeyValue},
};

/// One claim on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) owner: Option<OwnerId>,
    pub(crate) create: i64,
    pub(crate) modified: i64,
    pub(crate) lease: i64,
    /// `None` if another program has written it.
    pub(crate) value: Option<Value>,
}

impl Entry {
    pub(crate) fn read(kv: &KeyValue) -> Self {
        let value = Value::read(&kv.value);
        let written = value.as_ref().and_then(|value| value.owner);
        Self {
            owner: keys::owner_in(&kv.key).or(written),
            create: kv.create_revision,
            modified: kv.mod_revision,
            lease: kv.lease,
            value,
        }
    }

    pub(crate) fn mode(&self) -> LockMode {
        self.value
            .as_ref()
            .map_or(LockMode::Exclusive, |value| value.mode)
    }

    /// The fence of this claim alone. It grows along the queue, and from one grant of an exclusive lock to the next.
    pub(crate) fn own_fence(&self) -> u64 {
        let base = self.value.as_ref().map_or(0, |value| value.base);
        fence(base, self.create)
    }

    fn epoch(&self) -> Option<u64> {
        self.value.as_ref()?.epoch
    }
}

/// The fence of a claim, of the base at its creation.
pub(crate) fn fence(base: u64, create: i64) -> u64 {
    base.saturating_add(u64::try_from(create).unwrap_or(0))
}

/// All claims on a key, as they were at one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    entries: BTreeMap<(i64, Vec<u8>), Entry>,
}

/// The epoch of those that hold, for one of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    /// That of the claim itself, or the one that it has written.
    Own(u64),
    /// That of another claim, which must still be there with this modification when it is written.
    Of {
        fence: u64,
        name: Vec<u8>,
        modified: i64,
    },
}

impl Epoch {
    pub(crate) fn fence(&self) -> u64 {
        match self {
            Self::Own(fence) | Self::Of { fence, .. } => *fence,
        }
    }

    /// Holds if the claim from which it was taken is still there.
    pub(crate) fn is_unchanged(&self) -> Option<Compare> {
        match self {
            Self::Own(_) => None,
            Self::Of { name, modified, .. } => Some(ops::is_modified_at(name, *modified)),
        }
    }
}

impl Queue {
    pub(crate) fn read<'a>(kvs: impl IntoIterator<Item = &'a KeyValue>) -> Self {
        let entries = kvs
            .into_iter()
            .map(|kv| ((kv.create_revision, kv.key.clone()), Entry::read(kv)));
        Self {
            entries: entries.collect(),
        }
    }

    /// Follows a change in etcd.
    pub(crate) fn apply(&mut self, event: &Event) {
        let Some(kv) = &event.kv else {
            return;
        };
        // A deletion does not say when the key was created.
        self.entries.retain(|(_, name), _| *name != kv.key);
        if event.kind == EventType::Put as i32 {
            let key = (kv.create_revision, kv.key.clone());
            self.entries.insert(key, Entry::read(kv));
        }
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Entry> {
        let mut all = self.entries.iter();
        all.find(|((_, other), _)| other == name).map(|(_, it)| it)
    }

    /// The claims that hold, which are the first ones.
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().take(self.holding())
    }

    /// The claims behind those that hold, each with its name.
    #[cfg(feature = "admin")]
    pub(crate) fn waiters(&self) -> impl ExactSizeIterator<Item = (&[u8], &Entry)> {
        let all = self.entries.iter().map(|((_, name), it)| (&**name, it));
        all.skip(self.holding())
    }

    #[cfg(feature = "admin")]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The claims that hold, each with its name.
    #[cfg(feature = "admin")]
    pub(crate) fn named_holders(&self) -> impl ExactSizeIterator<Item = (&[u8], &Entry)> {
        let all = self.entries.iter().map(|((_, name), it)| (&**name, it));
        all.take(self.holding())
    }

    fn holding(&self) -> usize {
        let mut count = 0;
        let mut is_closed = false;
        for entry in self.entries.values() {
            if is_closed || !is_admitted(entry.mode(), count) {
                break;
            }
            is_closed = entry.mode().is_exclusive();
            count += 1;
        }
        count
    }

    /// Returns `true` if a claim of this mode that came now would hold at once.
    pub(crate) fn admits(&self, mode: LockMode) -> bool {
        let count = self.holding();
        let is_closed = self.entries.values().any(|it| it.mode().is_exclusive());
        count == self.entries.len() && !is_closed && is_admitted(mode, count)
    }

    pub(crate) fn holds(&self, name: &[u8]) -> bool {
        self.place(name).is_some_and(|place| place < self.holding())
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        self.entries.keys().position(|(_, other)| other == name)
    }

    /// The number of waiters before a claim that waits.
    pub(crate) fn position(&self, name: &[u8]) -> Option<u64> {
        let place = self.place(name)?.checked_sub(self.holding())?;
        u64::try_from(place).ok()
    }

    /// The epoch of a claim, which holds or would hold if it were in the queue; `None` if it would be alone.
    pub(crate) fn epoch(&self, name: &[u8]) -> Option<Epoch> {
        let own = self.get(name);
        if let Some(written) = own.and_then(Entry::epoch) {
            return Some(Epoch::Own(written));
        }
        let holders = || self.entries.iter().take(self.holding());
        // The last to join is usually the last to leave, and one that leaves makes the transaction fail.
        let has_written = holders().rfind(|(_, it)| it.epoch().is_some());
        let ((_, source), entry) = has_written.or_else(|| holders().next())?;
        let fence = entry.epoch().unwrap_or_else(|| entry.own_fence());
        if source == name {
            return Some(Epoch::Own(fence));
        }
        Some(Epoch::Of {
            fence,
            name: source.clone(),
            modified: entry.modified,
        })
    }
}

/// Returns `true` if a claim may join this many holders, none of which is exclusive.
fn is_admitted(mode: LockMode, holders: usize) -> bool {
    match mode {
        LockMode::Shared => true,
        LockMode::Permits(most) => u32::try_from(holders).is_ok_and(|holders| holders < most),
        _ => holders == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCLUSIVE: LockMode = LockMode::Exclusive;
    const SHARED: LockMode = LockMode::Shared;
    const TWO: LockMode = LockMode::Permits(2);

    fn claim(create: i64, mode: LockMode, epoch: Option<u64>) -> KeyValue {
        let value = Value {
            base: 100,
            mode,
            epoch,
            label: None,
            function: None,
            stage: keys::Stage::Unknown,
            owner: None,
        };
        KeyValue {
            key: format!("n/k/{create}").into_bytes(),
            create_revision: create,
            mod_revision: create,
            value: value.to_bytes(),
            lease: create,
        }
    }

    fn queue(modes: &[LockMode]) -> Queue {
        let kvs: Vec<_> = (1..)
            .zip(modes)
            .map(|(create, mode)| claim(create, *mode, None))
            .collect();
        Queue::read(&kvs)
    }

    #[test]
    fn an_epoch_is_taken_from_the_last_holder_that_has_written_it() {
        let written = Some(101);
        let kvs = [
            claim(1, SHARED, None),
            claim(2, SHARED, written),
            claim(3, SHARED, written),
            claim(4, SHARED, None),
        ];
        let expected = Epoch::Of {
            fence: 101,
            name: b"n/k/3".to_vec(),
            modified: 3,
        };
        assert_eq!(Queue::read(&kvs).epoch(b"n/k/4"), Some(expected));
    }

    #[test]
    fn claims_hold_from_the_front() {
        for (modes, holding) in [
            (&[] as &[_], 0),
            (&[EXCLUSIVE, EXCLUSIVE], 1),
            (&[EXCLUSIVE, SHARED], 1),
            (&[SHARED, SHARED, EXCLUSIVE, SHARED], 2),
            (&[TWO, TWO, TWO], 2),
            (&[TWO, SHARED, TWO, SHARED], 2),
            (&[TWO, LockMode::Permits(1), LockMode::Permits(9)], 1),
            (&[TWO, TWO, LockMode::Permits(3), EXCLUSIVE], 3),
        ] {
            assert_eq!(queue(modes).holders().count(), holding, "{modes:?}");
        }
    }

    #[test]
    fn a_claim_that_holds_goes_on_to_hold_when_others_leave() {
        let modes = [EXCLUSIVE, SHARED, TWO, LockMode::Permits(3)];
        let mut state = 1_u64;
        for _ in 0..2000 {
            let mut chosen = Vec::new();
            for _ in 0..6 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                chosen.push(modes[usize::try_from(state >> 60).unwrap() % 4]);
            }
            let before = queue(&chosen);
            let name = |create: i64| format!("n/k/{create}").into_bytes();
            let leaver = i64::try_from(state >> 40).unwrap() % 6 + 1;
            let mut after = before.clone();
            let gone = KeyValue {
                key: name(leaver),
                ..KeyValue::default()
            };
            after.apply(&Event {
                kind: EventType::Delete as i32,
                kv: Some(gone),
            });
            for create in (1..=6).filter(|it| *it != leaver) {
                assert!(
                    !before.holds(&name(create)) || after.holds(&name(create)),
                    "{chosen:?} {leaver}"
                );
            }
        }
    }

    #[test]
    fn a_claim_that_cannot_be_read_lets_nothing_in() {
        let foreign = KeyValue {
            key: b"n/k/x".to_vec(),
            create_revision: 1,
            ..KeyValue::default()
        };
        let queue = Queue::read(&[foreign, claim(2, SHARED, None)]);
        assert_eq!(queue.holders().count(), 1);
        assert!(!queue.admits(SHARED) && !queue.holds(b"n/k/2"));
    }

    #[test]
    fn all_that_hold_together_have_one_epoch() {
        let two = queue(&[SHARED, SHARED]);
        assert_eq!(two.epoch(b"n/k/1"), Some(Epoch::Own(101)));
        let joined = Epoch::Of {
            fence: 101,
            name: b"n/k/1".to_vec(),
            modified: 1,
        };
        assert_eq!(two.epoch(b"n/k/2"), Some(joined));
        // The first has left, and the second had not written its epoch: it begins a new one.
        let alone = Queue::read(&[claim(2, SHARED, None)]);
        assert_eq!(alone.epoch(b"n/k/2"), Some(Epoch::Own(102)));
        // A claim behind it has written the epoch of those before.
        let behind = Queue::read(&[claim(2, SHARED, None), claim(3, SHARED, Some(101))]);
        let joined = Epoch::Of {
            fence: 101,
            name: b"n/k/3".to_vec(),
            modified: 3,
        };
        assert_eq!(behind.epoch(b"n/k/2"), Some(joined));
        assert_eq!(behind.epoch(b"n/k/3"), Some(Epoch::Own(101)));
        assert_eq!(Queue::default().epoch(b"n/k/9"), None);
    }

    #[test]
    fn waiters_have_places() {
        let queue = queue(&[SHARED, EXCLUSIVE, SHARED]);
        let places = [1, 2, 3].map(|it| queue.position(format!("n/k/{it}").as_bytes()));
        assert_eq!(places, [None, Some(0), Some(1)]);
    }

    #[test]
    fn a_claim_that_comes_holds_at_once_if_it_would_hold_behind_all_others() {
        let permits = LockMode::Permits;
        for (modes, comes, holds) in [
            (&[] as &[_], EXCLUSIVE, true),
            (&[], TWO, true),
            (&[SHARED], SHARED, true),
            (&[SHARED, SHARED], EXCLUSIVE, false),
            (&[EXCLUSIVE], SHARED, false),
            (&[EXCLUSIVE], EXCLUSIVE, false),
            // A waiter is before it.
            (&[SHARED, EXCLUSIVE], SHARED, false),
            (&[TWO, TWO, TWO], SHARED, false),
            (&[TWO], TWO, true),
            (&[TWO, TWO], TWO, false),
            (&[TWO, TWO], permits(3), true),
            (&[TWO], permits(1), false),
        ] {
            assert_eq!(queue(modes).admits(comes), holds, "{modes:?} {comes:?}");
        }
    }

    #[test]
    fn a_claim_has_the_owner_in_its_name_or_in_its_value() {
        let client = dlock_runtime::store::ClientId::new(&dlock_runtime::random::SystemRandom);
        let [named, written] = [1, 2].map(|it| OwnerId::new(client, it));
        let value = Value {
            owner: Some(written),
            ..Value::plain(1, keys::Stage::Unknown)
        };
        let by_lease = KeyValue {
            value: value.to_bytes(),
            ..claim(7, EXCLUSIVE, None)
        };
        assert_eq!(Entry::read(&by_lease).owner, Some(written));
        let by_owner = KeyValue {
            key: keys::claim("n", "k", named),
            ..by_lease
        };
        assert_eq!(Entry::read(&by_owner).owner, Some(named));
        assert_eq!(Entry::read(&claim(7, EXCLUSIVE, None)).owner, None);
    }

    #[test]
    fn a_claim_that_is_written_again_keeps_its_place() {
        let mut queue = queue(&[SHARED, SHARED, EXCLUSIVE]);
        let again = KeyValue {
            mod_revision: 9,
            ..claim(1, SHARED, Some(7))
        };
        queue.apply(&Event {
            kind: EventType::Put as i32,
            kv: Some(again),
        });
        queue.apply(&Event {
            kind: EventType::Delete as i32,
            kv: None,
        });
        assert_eq!(queue.holders().count(), 2);
        let first = queue.get(b"n/k/1").unwrap();
        assert_eq!((first.create, first.modified), (1, 9));
        assert_eq!(queue.position(b"n/k/3"), Some(0));
        assert!(queue.holds(b"n/k/1") && !queue.holds(b"n/k/3"));
        assert!(!queue.holds(b"n/k/9") && queue.position(b"n/k/9").is_none());
    }

    #[test]
    fn an_epoch_is_written_only_while_the_claim_that_has_it_is_unchanged() {
        let two = queue(&[SHARED, SHARED]);
        let own = two.epoch(b"n/k/1").unwrap();
        assert_eq!((own.fence(), own.is_unchanged()), (101, None));
        let joined = two.epoch(b"n/k/2").unwrap();
        let unchanged = ops::is_modified_at(b"n/k/1", 1);
        assert_eq!(
            (joined.fence(), joined.is_unchanged()),
            (101, Some(unchanged))
        );
    }
}
