//! The children of a key, in the order of their places: which of them hold it, and what a waiter waits for.
//!
//! # Rules
//!
//! - **Safety.** Claims hold from the front of the queue: an exclusive one if it is the first, a shared one if no
//!   exclusive one is before it, one of `n` permits if fewer than `n` are before it and none is exclusive. All before it
//!   must hold as well. New children come behind all others, so a claim that holds does so until its own child is deleted.
//! - **Safety.** A child with an unknown mode counts as exclusive.
//! - A waiter watches children of which at least one has to go before it holds.
//!   (`a_waiter_watches_children_of_which_one_has_to_go`)

use dlock_runtime::{LockMode, store::OwnerId};

use crate::names::Entry;

/// All children of a key, as one answer has listed them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Vec<Entry>);

impl Queue {
    pub(crate) fn read(names: &[String]) -> Self {
        let mut entries: Vec<_> = names.iter().filter_map(|name| Entry::read(name)).collect();
        entries.sort_by_key(|entry| entry.place);
        Self(entries)
    }

    /// The children that hold the key, which are the first ones.
    pub(crate) fn holders(&self) -> &[Entry] {
        &self.0[..self.holding()]
    }

    /// The children behind those that hold the key.
    #[cfg(feature = "admin")]
    pub(crate) fn waiters(&self) -> &[Entry] {
        &self.0[self.holding()..]
    }

    #[cfg(feature = "admin")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The queue with one more child, unless it is there.
    #[cfg(feature = "admin")]
    pub(crate) fn with(&self, child: Entry) -> Self {
        let mut all = self.clone();
        if self.place(&child.name).is_none() {
            all.0.push(child);
            all.0.sort_by_key(|entry| entry.place);
        }
        all
    }

    /// The queue without the children for which `is_gone` returns `true`.
    #[cfg(feature = "admin")]
    pub(crate) fn without(&self, is_gone: impl Fn(&Entry) -> bool) -> Self {
        let left = self.0.iter().filter(|it| !is_gone(it));
        Self(left.cloned().collect())
    }

    fn holding(&self) -> usize {
        let mut is_closed = false;
        let mut count = 0;
        for entry in &self.0 {
            if is_closed || !is_admitted(entry.mode, count) {
                break;
            }
            is_closed = entry.mode.is_exclusive();
            count += 1;
        }
        count
    }

    /// Returns `true` if a child of this mode that came now would hold at once.
    pub(crate) fn admits(&self, mode: LockMode) -> bool {
        let count = self.holding();
        let is_closed = self.0.iter().any(|it| it.mode.is_exclusive());
        count == self.0.len() && !is_closed && is_admitted(mode, count)
    }

    /// Returns the number of children before this one; `None` if it is not there.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|it| it.name == name)
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        self.holders().iter().any(|it| it.name == name)
    }

    /// Returns the number of waiters before a child that waits.
    pub(crate) fn position(&self, name: &str) -> Option<u64> {
        let place = self.place(name)?.checked_sub(self.holding())?;
        u64::try_from(place).ok()
    }

    /// Returns the children of an owner. There are several if it had others in earlier sessions.
    pub(crate) fn entries_of(&self, owner: OwnerId) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |it| it.owner == owner)
    }

    /// Returns the children that a waiter watches. It cannot hold before one of them is gone.
    pub(crate) fn obstacles(&self, name: &str) -> &[Entry] {
        let Some(place) = self.place(name) else {
            return &[];
        };
        let mode = self.0[place].mode;
        if mode.is_exclusive() {
            return &self.0[place.saturating_sub(1)..place];
        }
        let before = &self.0[..place];
        if let Some(last) = before.iter().rposition(|it| it.mode.is_exclusive()) {
            return &self.0[last..=last];
        }
        let crowd = |at: usize, most: usize| &self.0[at.saturating_sub(most)..at];
        if let Some(most) = most(mode).filter(|most| place >= *most) {
            return crowd(place, most);
        }
        // A waiter for a permit is before it, and that one has to leave or to hold.
        let blocked = |at: usize| most(self.0[at].mode).filter(|most| at >= *most);
        let last = (0..place).rev().find_map(|at| Some((at, blocked(at)?)));
        match last {
            Some((at, most)) => &self.0[at.saturating_sub(most)..=at],
            None => &[],
        }
    }
}

/// The number of permits, for a mode that counts them.
fn most(mode: LockMode) -> Option<usize> {
    match mode {
        LockMode::Permits(most) => Some(usize::try_from(most).unwrap_or(usize::MAX)),
        _ => None,
    }
}

/// Returns `true` if a claim may join this many holders, none of which is exclusive.
fn is_admitted(mode: LockMode, holders: usize) -> bool {
    match mode {
        LockMode::Shared => true,
        LockMode::Permits(_) => most(mode).is_some_and(|most| holders < most),
        _ => holders == 0,
    }
}

#[cfg(test)]
mod tests {
    use dlock_runtime::store::ClientId;

    use super::*;
    use crate::names;

    const EXCLUSIVE: LockMode = LockMode::Exclusive;
    const SHARED: LockMode = LockMode::Shared;
    const TWO: LockMode = LockMode::Permits(2);

    /// The name of the child with this place.
    fn name(place: usize, mode: LockMode) -> String {
        let client = "7d4448409dc011d1b2455ffdce74fad2.1".parse::<OwnerId>();
        let client: ClientId = client.unwrap().client();
        let owner = OwnerId::new(client, u64::try_from(place).unwrap());
        format!("{}{place:010}", names::prefix(owner, mode))
    }

    fn names(modes: &[LockMode]) -> Vec<String> {
        let all = modes.iter().enumerate();
        all.map(|(place, mode)| name(place, *mode)).collect()
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
            let queue = Queue::read(&names(modes));
            assert_eq!(queue.holders().len(), holding, "{modes:?}");
        }
    }

    #[test]
    fn a_newcomer_is_admitted_only_if_all_hold_and_none_is_exclusive() {
        for (modes, mode, is_admitted) in [
            (&[] as &[_], EXCLUSIVE, true),
            (&[SHARED], EXCLUSIVE, false),
            (&[SHARED], SHARED, true),
            (&[EXCLUSIVE], SHARED, false),
            (&[SHARED, EXCLUSIVE], SHARED, false),
            (&[TWO], TWO, true),
            (&[TWO, TWO], TWO, false),
            (&[TWO, TWO], LockMode::Permits(3), true),
            (&[TWO, TWO, TWO], SHARED, false),
        ] {
            let queue = Queue::read(&names(modes));
            assert_eq!(queue.admits(mode), is_admitted, "{modes:?} {mode:?}");
        }
    }

    #[test]
    fn a_child_with_an_unknown_mode_lets_nothing_in() {
        let own = name(2, SHARED);
        let strange = name(1, SHARED).replace("shared", "of-a-later-version");
        let queue = Queue::read(&[strange, own.clone()]);
        assert_eq!(queue.holders().len(), 1);
        assert!(!queue.admits(SHARED) && !queue.holds(&own));
    }

    #[cfg(feature = "admin")]
    #[test]
    fn a_child_that_is_missing_in_a_queue_is_added_once_at_its_place() {
        let all = names(&[SHARED, EXCLUSIVE, SHARED]);
        let listed = |queue: &Queue| -> Vec<_> { queue.0.iter().map(|it| it.place).collect() };
        let whole = Queue::read(&all);
        let missing = Queue::read(&[all[2].clone(), all[0].clone()]);
        assert_eq!(listed(&missing), [0, 2]);
        for queue in [&missing, &whole] {
            let queue = queue.with(whole.0[1].clone());
            assert_eq!(listed(&queue), [0, 1, 2]);
            assert_eq!(queue.holders().len(), 1);
        }
        assert_eq!(listed(&whole.without(|it| it.place == 1)), [0, 2]);
    }

    #[test]
    fn waiters_have_places() {
        let names = names(&[SHARED, EXCLUSIVE, SHARED]);
        let queue = Queue::read(&names);
        let places: Vec<_> = names.iter().map(|it| queue.position(it)).collect();
        assert_eq!(places, [None, Some(0), Some(1)]);
    }

    #[test]
    fn a_waiter_watches_as_few_children_as_it_can() {
        let places = |modes: &[LockMode], own: usize| -> Vec<_> {
            let names = names(modes);
            let queue = Queue::read(&names);
            queue
                .obstacles(&names[own])
                .iter()
                .map(|it| it.place)
                .collect()
        };
        assert_eq!(places(&[EXCLUSIVE, EXCLUSIVE, EXCLUSIVE], 2), [1]);
        assert_eq!(places(&[EXCLUSIVE, SHARED, SHARED], 2), [0]);
        assert_eq!(places(&[SHARED, SHARED, EXCLUSIVE], 2), [1]);
        assert_eq!(places(&[TWO, TWO, TWO, TWO], 3), [1, 2]);
        assert_eq!(places(&[TWO, TWO, TWO, SHARED], 3), [0, 1, 2]);
        assert_eq!(places(&[SHARED, SHARED], 1), [0_i64; 0]);
    }

    #[test]
    fn a_waiter_watches_children_of_which_one_has_to_go() {
        let modes = [
            EXCLUSIVE,
            SHARED,
            TWO,
            LockMode::Permits(3),
            LockMode::Permits(1),
        ];
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..20_000 {
            let length = 2 + random(6);
            let chosen: Vec<_> = (0..length).map(|_| modes[random(modes.len())]).collect();
            let all = names(&chosen);
            let queue = Queue::read(&all);
            let own = random(length);
            let gone = random(1 << length);
            let left: Vec<_> = (0..length)
                .filter(|place| *place == own || gone >> place & 1 == 0)
                .map(|place| all[place].clone())
                .collect();
            let after = Queue::read(&left);
            // What holds goes on to hold.
            assert!(
                !queue.holds(&all[own]) || after.holds(&all[own]),
                "{chosen:?} {left:?}"
            );
            if queue.holds(&all[own]) {
                assert!(queue.obstacles(&all[own]).is_empty(), "{chosen:?} {own}");
            } else if after.holds(&all[own]) {
                let mut watched = queue.obstacles(&all[own]).iter();
                assert!(
                    watched.any(|it| !left.contains(&it.name)),
                    "{chosen:?} {own} {left:?}"
                );
            }
        }
    }
}
