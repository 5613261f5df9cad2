//! Events between two pictures.

use std::{cmp::Ordering, collections::HashSet, sync::Arc};

use super::{End, Granted, History, Lease, What};
use crate::{
    admin::web::picture::{Carried, Holder, Lock, Picture},
    mode::LockMode,
};

/// The difference of two expiries, in milliseconds, below which a lease was not renewed. Readings of one lease take
/// unequal times.
const NOISE: u64 = 250;

/// The time between the two readings of a lock.
#[derive(Clone, Copy, Debug)]
struct Between {
    from_ms: u64,
    to_ms: u64,
    /// `true` if so much time has passed that much may have happened unseen.
    is_gap: bool,
}

impl History {
    /// Takes a picture into the history. `is_gap` says that the store was away, or that no browser has looked, since the
    /// picture before.
    pub(in crate::admin::web) fn see(
        &mut self,
        mut picture: Picture,
        is_gap: bool,
    ) -> Arc<Picture> {
        if let Some(before) = self.latest.take() {
            let carried = self.compare(&before, &picture, is_gap);
            picture.carry(&carried);
            if is_gap {
                self.add_gap(before.taken_ms, picture.taken_ms);
            }
        }
        self.began_ms.get_or_insert(picture.taken_ms);
        for (lock, granted) in std::mem::take(&mut self.granted) {
            if let Some(skipped) = granted.skipped_ms {
                self.add(lock, picture.taken_ms, What::Skipped(skipped));
            }
        }
        self.forced.clear();
        let picture = Arc::new(picture);
        self.latest = Some(picture.clone());
        picture
    }

    /// Both pictures are in the order of keys.
    fn compare(&mut self, before: &Picture, now: &Picture, is_gap: bool) -> Vec<Carried> {
        let mut carried = Vec::with_capacity(now.len());
        let mut later = now.locks().peekable();
        for lock in before.locks() {
            while later.next_if(|it| it.key() < lock.key()).is_some() {}
            let same = later.next_if(|it| it.key().cmp(lock.key()) == Ordering::Equal);
            let to_ms = same.map_or(now.taken_ms, Lock::read_ms);
            let between = Between {
                from_ms: lock.read_ms(),
                to_ms,
                is_gap,
            };
            self.compare_lock(lock, same, between, &mut carried);
        }
        carried
    }

    fn compare_lock(
        &mut self,
        lock: Lock<'_>,
        later: Option<Lock<'_>>,
        between: Between,
        carried: &mut Vec<Carried>,
    ) {
        // Most locks have one holder, and thousands may share one.
        let known: HashSet<Lease> = match later {
            Some(later) if later.holder_count() > 1 => later.holders().map(lease).collect(),
            _ => HashSet::new(),
        };
        let find = |holder: Holder<'_>| {
            let mut holders = later.into_iter().flat_map(Lock::holders);
            let may_be = known.is_empty() || known.contains(&lease(holder));
            may_be.then(|| holders.find(|it| lease(*it) == lease(holder)))?
        };
        for holder in lock.holders() {
            match find(holder) {
                Some(same) => {
                    carried.push(holder.carried_to(same));
                    self.note_renewal(lock, holder, same, between);
                }
                None => self.note_end(lock, holder, later, between),
            }
        }
        self.note_waits(lock, later, between);
    }

    fn note_renewal(
        &mut self,
        lock: Lock<'_>,
        before: Holder<'_>,
        now: Holder<'_>,
        between: Between,
    ) {
        let (Some(expired), Some(expires)) = (before.expires_ms(), now.expires_ms()) else {
            return;
        };
        if expires > expired + NOISE {
            let longest = before.longest_ms().max(now.longest_ms());
            let at_ms = expires.saturating_sub(longest);
            let at_ms = at_ms.clamp(between.from_ms, between.to_ms.max(between.from_ms));
            let hash = self.hash(lock.key());
            self.add(hash, at_ms, What::Renewed(lease(now)));
        }
    }

    fn note_end(
        &mut self,
        lock: Lock<'_>,
        holder: Holder<'_>,
        later: Option<Lock<'_>>,
        between: Between,
    ) {
        let hash = self.hash(lock.key());
        let mut forced = self.forced.iter();
        let forced = forced.find(|(lock, it, _)| {
            // Without an owner, all holders of the fence were released.
            *lock == hash && it.1 == holder.fence() && (it.0.is_none() || it.0 == holder.owner())
        });
        let granted = self.granted.get(&hash).copied();
        let (to_ms, end) = match forced {
            Some((_, _, at_ms)) => (*at_ms, End::Forced),
            None => ended(lock, holder, later, granted, between),
        };
        let what = What::Held {
            lease: lease(holder),
            label: holder.label().map(Into::into),
            from_ms: begin(lock, holder),
            end,
        };
        self.add(hash, to_ms, what);
    }

    fn note_waits(&mut self, lock: Lock<'_>, later: Option<Lock<'_>>, between: Between) {
        if lock.waiter_count() == 0 {
            return;
        }
        let waiting: HashSet<_> = later
            .into_iter()
            .flat_map(Lock::waiters)
            .map(|it| it.owner())
            .collect();
        let holding: HashSet<_> = later
            .into_iter()
            .flat_map(Lock::holders)
            .map(|it| it.owner())
            .collect();
        let hash = self.hash(lock.key());
        // A waiter that is not listed, because it is one of thousands, has not left.
        let are_all_listed = |lock: Lock<'_>| {
            lock.waiters().count() >= usize::try_from(lock.waiter_count()).unwrap_or(0)
        };
        let may_be_behind = later.is_some_and(|later| !are_all_listed(later));
        let granted = self.granted.get(&hash).copied();
        for waiter in lock.waiters() {
            let owner = waiter.owner();
            if waiting.contains(&owner) {
                continue;
            }
            let heard = granted.filter(|it| Some(it.owner) == owner);
            let (to_ms, end) = match heard {
                Some(heard) => (heard.at_ms, End::Granted),
                None if holding.contains(&owner) => {
                    let holder = later.into_iter().flat_map(Lock::holders);
                    let holder = holder.into_iter().find(|it| it.owner() == owner);
                    let since = holder.and_then(Holder::since_ms);
                    let since = since.filter(|_| !later.is_some_and(is_shared));
                    (since.unwrap_or(between.to_ms), End::Granted)
                }
                None if between.is_gap || may_be_behind => (between.from_ms, End::Unknown),
                // It may have been granted the lock and have released it since.
                None if granted.is_some() => (between.to_ms, End::Unknown),
                None => (between.to_ms, End::Left),
            };
            let what = What::Waited {
                owner,
                label: waiter.label().map(Into::into),
                mode: waiter.mode(),
                from_ms: waiter.entered_ms(),
                end,
            };
            self.add(hash, to_ms, what);
        }
    }
}

pub(super) fn lease(holder: Holder<'_>) -> Lease {
    (holder.owner(), holder.fence())
}

pub(super) fn is_shared(lock: Lock<'_>) -> bool {
    matches!(lock.mode(), Some(LockMode::Shared | LockMode::Permits(_)))
}

/// Returns the time when a holder acquired its lease. That of a shared lock is the time of the first of its holders, so it
/// is replaced by the time when the holder was first seen.
pub(super) fn begin(lock: Lock<'_>, holder: Holder<'_>) -> u64 {
    let since = holder.since_ms().filter(|_| !is_shared(lock));
    since.unwrap_or(holder.first_ms())
}

/// Returns when and how a lease has ended that the later picture does not show.
fn ended(
    lock: Lock<'_>,
    holder: Holder<'_>,
    later: Option<Lock<'_>>,
    granted: Option<Granted>,
    between: Between,
) -> (u64, End) {
    if between.is_gap {
        return (between.from_ms, End::Unknown);
    }
    let next = later.and_then(Lock::holder);
    if next.is_some_and(|next| next.fence() == holder.fence()) {
        // Others share the lock still.
        return (between.to_ms, End::Released);
    }
    let passed = between.to_ms.saturating_sub(between.from_ms);
    let expires = holder.expires_ms().filter(|at| *at <= between.to_ms);
    if let Some(expires) = expires {
        // A holder renews after a third of its TTL. Readings that are less than that apart would have shown it.
        return if passed.saturating_mul(3) < holder.longest_ms() {
            (expires, End::Expired)
        } else {
            (between.to_ms, End::Unknown)
        };
    }
    if let Some(granted) = granted.filter(|it| it.fence > holder.fence()) {
        return (granted.at_ms, End::Granted);
    }
    let since = next.and_then(Holder::since_ms);
    let at_ms = since.map_or(between.to_ms, |since| since.max(between.from_ms));
    let has_waited = next.is_some_and(|next| lock.waiters().any(|it| it.owner() == next.owner()));
    let end = if has_waited {
        End::Granted
    } else {
        End::Released
    };
    (at_ms.min(between.to_ms), end)
}
