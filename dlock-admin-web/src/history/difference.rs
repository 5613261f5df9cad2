//! Events between two pictures.

use std::{cmp::Ordering, collections::HashSet, sync::Arc, time::Duration};

use dlock_runtime::store::LockMode;

use super::{End, History, PastGrants, What, identity::LeaseId};
use crate::{
    picture::Carried, picture::Picture, picture::ShownHolder, picture::ShownLock, picture::Waiter,
};

/// The difference of two expiries, in milliseconds, below which a lease was not renewed. Readings of one lease take
/// unequal times.
const NOISE: u64 = 250;

/// The time by which a picture may be late beyond three intervals. If it is later, this machine did not run meanwhile.
const LATE: Duration = Duration::from_secs(5);

/// The two readings of a lock. When a lock was read is known only to lie between two times.
#[derive(Clone, Copy, Debug)]
struct Between {
    /// The earliest time of the first one.
    from_ms: u64,
    /// The earliest time of the second one.
    seen_ms: u64,
    /// The latest time of the second one.
    to_ms: u64,
    /// `true` if so much time has passed that much may have happened unseen.
    is_gap: bool,
    /// `true` if there were grants of more locks than are remembered.
    is_unheard: bool,
}

impl History {
    /// Takes a picture into the history. `is_gap` says that the store was away, or that no browser has looked, since the
    /// picture before.
    pub(crate) fn see(&mut self, mut picture: Picture, is_gap: bool) -> Arc<Picture> {
        let unheard = self.unheard_ms.take();
        if let Some(before) = self.latest.take() {
            let is_gap = is_gap || self.is_late(&before, &picture);
            let between = Between {
                from_ms: 0,
                seen_ms: picture.began_ms(),
                to_ms: picture.taken_ms,
                is_gap,
                is_unheard: unheard.is_some(),
            };
            let carried = self.compare(&before, &picture, between);
            picture.carry(&carried);
            if is_gap {
                self.add_gap(before.taken_ms, picture.taken_ms);
            }
        }
        if let Some(since) = unheard {
            self.add_gap(since, picture.taken_ms);
        }
        self.began_ms.get_or_insert(picture.taken_ms);
        self.forget_what_is_shown(&picture);
        let picture = Arc::new(picture);
        self.latest = Some(picture.clone());
        picture
    }

    /// Returns `true` if the machine was suspended, or did not run for another reason, while no reading failed. A virtual
    /// machine that was paused finds only the time of day changed.
    fn is_late(&self, before: &Picture, now: &Picture) -> bool {
        let passed = before.at.elapsed(now.at);
        let by_day = now.time_of_day.duration_since(before.time_of_day);
        passed.max(by_day.unwrap_or_default()) > 3 * self.interval + before.took + LATE
    }

    /// Forgets what this picture shows. A lock may have been read before a grant that came while others were read, so
    /// that the next picture is the first one to show it.
    fn forget_what_is_shown(&mut self, picture: &Picture) {
        let began_ms = picture.began_ms();
        for (lock, mut granted) in std::mem::take(&mut self.granted) {
            if let Some(skipped) = granted.skipped_ms.take() {
                self.add(lock, picture.taken_ms, What::Skipped(skipped));
            }
            if granted.at_ms >= began_ms {
                granted.count = 0;
                self.granted.insert(lock, granted);
            }
        }
        self.forced.retain(|forced| forced.at_ms >= began_ms);
    }

    /// Both pictures are in the order of keys.
    fn compare(&mut self, before: &Picture, now: &Picture, between: Between) -> Vec<Carried> {
        let mut carried = Vec::with_capacity(now.len());
        let mut later = now.locks().peekable();
        for lock in before.locks() {
            while later.next_if(|it| it.key() < lock.key()).is_some() {}
            let same = later.next_if(|it| it.key().cmp(lock.key()) == Ordering::Equal);
            let between = Between {
                from_ms: lock.read_from_ms(),
                seen_ms: same.map_or(between.seen_ms, ShownLock::read_from_ms),
                to_ms: same.map_or(between.to_ms, ShownLock::read_ms),
                ..between
            };
            self.compare_lock(lock, same, between, &mut carried);
        }
        carried
    }

    fn compare_lock(
        &mut self,
        lock: ShownLock<'_>,
        later: Option<ShownLock<'_>>,
        between: Between,
        carried: &mut Vec<Carried>,
    ) {
        // Most locks have one holder, and thousands may share one.
        let known: HashSet<LeaseId> = match later {
            Some(later) if later.holder_count() > 1 => later.holders().map(lease).collect(),
            _ => HashSet::new(),
        };
        let find = |holder: ShownHolder<'_>| {
            let mut holders = later.into_iter().flat_map(ShownLock::holders);
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
        lock: ShownLock<'_>,
        before: ShownHolder<'_>,
        now: ShownHolder<'_>,
        between: Between,
    ) {
        let (Some(before_ms), Some(end_ms)) = (before.expires_ms(), now.expires_ms()) else {
            return;
        };
        // The lock may have been read before the time that the later expiry counts from.
        if end_ms.saturating_sub(now.early_ms()) > before_ms + NOISE {
            let longest = before.longest_ms().max(now.longest_ms());
            let at_ms = end_ms.saturating_sub(longest);
            let at_ms = at_ms.clamp(between.from_ms, between.to_ms.max(between.from_ms));
            let hash = self.hash(lock.key());
            self.renewals.add(hash, lease(now), at_ms);
        }
    }

    fn note_end(
        &mut self,
        lock: ShownLock<'_>,
        holder: ShownHolder<'_>,
        later: Option<ShownLock<'_>>,
        between: Between,
    ) {
        let hash = self.hash(lock.key());
        let mut forced = self.forced.iter();
        let forced = forced.position(|it| {
            // Without an owner, all holders of the fence were released.
            let is_meant = it.owner.is_none() || it.owner == holder.owner();
            it.lock == hash && it.fence == holder.fence() && is_meant
        });
        let by_force = forced.and_then(|place| self.forced.get(place));
        let by_force = by_force.map(|it| (it.at_ms, it.by.clone()));
        if let Some(place) = forced
            && holder.owner().is_none()
        {
            // The next lease of a third-party client has the same fence, which is 0.
            self.forced.remove(place);
        }
        let granted = self.granted.get(&hash).copied();
        let (to_ms, end, by) = if let Some((at_ms, by)) = by_force {
            (at_ms, End::Forced, Some(by))
        } else {
            let (to_ms, end) = ended(lock, holder, later, granted, between);
            (to_ms, end, None)
        };
        let what = What::Held {
            lease: lease(holder),
            label: holder.label().map(Into::into),
            from_ms: begin(lock, holder).min(to_ms),
            end,
            by,
        };
        self.add(hash, to_ms, what);
    }

    fn note_waits(&mut self, lock: ShownLock<'_>, later: Option<ShownLock<'_>>, between: Between) {
        if lock.waiter_count() == 0 {
            return;
        }
        let waiting: HashSet<_> = later
            .into_iter()
            .flat_map(ShownLock::waiters)
            .map(Waiter::owner)
            .collect();
        let holding: HashSet<_> = later
            .into_iter()
            .flat_map(ShownLock::holders)
            .map(ShownHolder::owner)
            .collect();
        let hash = self.hash(lock.key());
        // A waiter that is not listed, because it is one of thousands, has not left.
        let are_all_listed = |lock: ShownLock<'_>| {
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
                    let holder = later.into_iter().flat_map(ShownLock::holders);
                    let holder = holder.into_iter().find(|it| it.owner() == owner);
                    let since = holder.and_then(ShownHolder::since_ms);
                    let since = since.filter(|_| !later.is_some_and(is_shared));
                    (since.unwrap_or(between.to_ms), End::Granted)
                }
                None if between.is_gap || may_be_behind => (between.from_ms, End::Unknown),
                // It may have been granted the lock and have released it since.
                None if granted.is_some() || between.is_unheard => (between.to_ms, End::Unknown),
                None => (between.to_ms, End::Left),
            };
            let what = What::Waited {
                owner,
                label: waiter.label().map(Into::into),
                mode: waiter.mode(),
                from_ms: waiter.entered_ms().min(to_ms),
                end,
            };
            self.add(hash, to_ms, what);
        }
    }
}

pub(super) fn lease(holder: ShownHolder<'_>) -> LeaseId {
    LeaseId {
        owner: holder.owner(),
        fence: holder.fence(),
        mark: holder.mark(),
    }
}

pub(super) fn is_shared(lock: ShownLock<'_>) -> bool {
    matches!(lock.mode(), Some(LockMode::Shared | LockMode::Permits(_)))
}

/// Returns the time when a holder acquired its lease. That of a shared lock is the time of the first of its holders, so it
/// is replaced by the time when the holder was first seen.
pub(super) fn begin(lock: ShownLock<'_>, holder: ShownHolder<'_>) -> u64 {
    let since = holder.since_ms().filter(|_| !is_shared(lock));
    since.unwrap_or_else(|| holder.first_ms())
}

/// Returns when and how a lease has ended that the later picture does not show.
fn ended(
    lock: ShownLock<'_>,
    holder: ShownHolder<'_>,
    later: Option<ShownLock<'_>>,
    granted: Option<PastGrants>,
    between: Between,
) -> (u64, End) {
    if between.is_gap {
        return (between.from_ms, End::Unknown);
    }
    let next = later.and_then(ShownLock::holder);
    if let (Some(later), Some(next)) = (later, next)
        && is_shared(later)
        && next.fence() == holder.fence()
    {
        // Others share the lock still, and not all of thousands are listed.
        return if later.holders().count() < usize::try_from(later.holder_count()).unwrap_or(0) {
            (between.from_ms, End::Unknown)
        } else {
            (between.to_ms, End::Released)
        };
    }
    let granted = granted.filter(|it| it.fence > holder.fence());
    let expires = holder.expires_ms();
    let earliest = expires.map(|at| at.saturating_sub(holder.early_ms()));
    let granted = granted.filter(|it| earliest.is_none_or(|earliest| it.at_ms < earliest));
    if let Some(granted) = granted {
        return (granted.at_ms, End::Granted);
    }
    if let (Some(earliest), Some(expires)) = (earliest, expires)
        && earliest <= between.to_ms
    {
        // A holder renews after a third of its TTL. Readings that are less than that apart would have shown it.
        let passed = between.to_ms.saturating_sub(between.from_ms);
        let has_expired = expires <= between.seen_ms;
        return if has_expired && passed.saturating_mul(3) < holder.longest_ms() {
            (expires, End::Expired)
        } else {
            (between.to_ms, End::Unknown)
        };
    }
    let since = next.and_then(ShownHolder::since_ms);
    let at_ms = since.map_or(between.to_ms, |since| since.max(between.from_ms));
    let has_waited = next.is_some_and(|next| lock.waiters().any(|it| it.owner() == next.owner()));
    let end = if has_waited {
        End::Granted
    } else {
        End::Released
    };
    (at_ms.min(between.to_ms), end)
}
