//! The claims of this process in etcd.
//!
//! Requests of one claim follow each other: a release waits until an earlier request of the claim has been answered or
//! given up. Before a request is sent, the claim notes the lease that it names.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dlock_runtime::{LockKey, LockMode, clock::Moment, store::OwnerId};
use tokio::{sync::OwnedMutexGuard, time::Instant};

use crate::{
    keys::Value,
    leases::{Lease, Taken},
};

/// The number of claims above which those whose leases have long ended are looked for.
const MANY: usize = 1000;

/// A claim on a key.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// Its key in etcd, if there is one for certain.
    pub(crate) place: Option<Place>,
    /// The lease that names its key; `None` if its owner does. See `names.rs`.
    pub(crate) named_by: Option<i64>,
    /// A deletion of its key that compares nothing was sent, and may arrive late.
    pub(crate) is_bare: bool,
    /// Leases named by requests that got no answer: such a request may still be carried out.
    pub(crate) unsettled: Vec<Lease>,
    /// A request that deletes its key may still be carried out, and its owner may ask again, see `release.rs`.
    pub(crate) is_ending: bool,
    /// When all of it must have ended, unless a request keeps it alive.
    pub(crate) until: Option<Instant>,
}

/// The key of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) create: i64,
    pub(crate) base: u64,
    pub(crate) mode: LockMode,
    pub(crate) lease: Lease,
    /// The fence, once the claim holds the key with a lease of the requested TTL.
    pub(crate) held: Option<u64>,
    pub(crate) label: Option<String>,
    pub(crate) function: Option<String>,
    /// Before the last request that kept the lease alive.
    pub(crate) since: Moment,
}

impl Place {
    /// Notes that the key has another lease, of unknown length.
    pub(crate) fn moved_to(&mut self, lease: Lease) {
        self.lease = lease;
        self.held = None;
    }
}

impl Claim {
    pub(crate) fn is_empty(&self) -> bool {
        self.place.is_none() && self.unsettled.is_empty()
    }

    /// Notes that a request that names this lease is about to be sent.
    pub(crate) fn doubt(&mut self, lease: Lease) {
        self.unsettled.push(lease);
    }

    /// Notes that a request that names this lease was answered.
    pub(crate) fn settled(&mut self, lease: Lease) {
        if let Some(index) = self.unsettled.iter().rposition(|it| it.id == lease.id) {
            self.unsettled.remove(index);
        }
    }

    /// Notes the key that a request has written. `false` if its lease ends, and so will the key.
    pub(crate) fn placed(
        &mut self,
        &Taken { lease, since, .. }: &Taken,
        exists: bool,
        create: i64,
        value: &Value,
    ) -> bool {
        if !exists {
            self.place = None;
            self.doubt(lease);
            return false;
        }
        self.place = Some(Place {
            create,
            base: value.base,
            mode: value.mode,
            lease,
            held: None,
            label: value.label.clone(),
            function: value.function.clone(),
            since,
        });
        true
    }

    /// Returns `true` if the claim is still needed at this moment.
    fn lasts_beyond(&self, now: Instant) -> bool {
        self.is_ending || self.until.is_none_or(|until| until > now)
    }

    /// Notes that a request at `asked` may have kept a lease alive.
    pub(crate) fn lasts(&mut self, asked: Instant, seconds: i64) {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let until = asked + std::time::Duration::from_secs(seconds);
        self.until = self.until.max(Some(until));
    }
}

type Id = (LockKey, OwnerId);

struct Slot {
    claim: Arc<tokio::sync::Mutex<Claim>>,
    /// The create revision, and the lease that names the key, for readers that must not wait.
    known: Mutex<Option<(i64, Option<i64>)>>,
}

impl Slot {
    fn known(&self) -> MutexGuard<'_, Option<(i64, Option<i64>)>> {
        // Every change is complete before any code can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All claims of a store.
#[derive(Default)]
pub(crate) struct Claims(Mutex<Table>);

#[derive(Default)]
struct Table {
    slots: HashMap<Id, Arc<Slot>>,
    swept: usize,
}

impl Claims {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is complete before any code can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &Id) -> Arc<Slot> {
        let mut table = self.table();
        table.sweep();
        let slot = table.slots.entry(id.clone()).or_insert_with(|| {
            Arc::new(Slot {
                claim: Arc::default(),
                known: Mutex::default(),
            })
        });
        slot.clone()
    }

    /// Waits until no other request of the claim is under way.
    pub(crate) async fn enter(&self, key: &LockKey, owner: OwnerId) -> Entered<'_> {
        let id = (key.clone(), owner);
        let slot = self.slot(&id);
        let mut entered = Entered {
            claims: self,
            id,
            slot,
            claim: None,
        };
        // If this future is dropped here, `entered` removes a slot that nobody needs.
        entered.claim = Some(entered.slot.claim.clone().lock_owned().await);
        entered
    }

    /// Returns the claim if no request of it is under way.
    pub(crate) fn try_enter(&self, key: &LockKey, owner: OwnerId) -> Option<Entered<'_>> {
        let id = (key.clone(), owner);
        let slot = self.slot(&id);
        let claim = slot.claim.clone().try_lock_owned().ok();
        let entered = Entered {
            claims: self,
            id,
            slot,
            claim,
        };
        entered.claim.is_some().then_some(entered)
    }

    /// Returns `true` if nothing is known of the claim, so that no request of it can be under way either.
    pub(crate) fn is_unknown(&self, key: &LockKey, owner: OwnerId) -> bool {
        !self.table().slots.contains_key(&(key.clone(), owner))
    }

    /// Returns the create revision of a claim's key, and the lease that names it.
    pub(crate) fn known(&self, key: &LockKey, owner: OwnerId) -> Option<(i64, Option<i64>)> {
        // Locked until then: with one more reference to the slot, the last request of the claim would not remove it.
        let table = self.table();
        *table.slots.get(&(key.clone(), owner))?.known()
    }
}

impl Table {
    /// Removes claims that have ended without a release, as those of a manager that gave up.
    fn sweep(&mut self) {
        if self.slots.len() < MANY.max(2 * self.swept) {
            return;
        }
        let now = Instant::now();
        self.slots.retain(|_, slot| {
            // A request of the claim has a second reference.
            Arc::strong_count(slot) > 1
                || slot
                    .claim
                    .try_lock()
                    .is_ok_and(|claim| claim.lasts_beyond(now))
        });
        self.swept = self.slots.len();
    }
}

/// A claim, of which no other request is under way.
pub(crate) struct Entered<'a> {
    claims: &'a Claims,
    id: Id,
    slot: Arc<Slot>,
    claim: Option<OwnedMutexGuard<Claim>>,
}

impl std::ops::Deref for Entered<'_> {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        self.claim
            .as_deref()
            .expect("it was locked when it was entered")
    }
}

impl std::ops::DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Claim {
        self.claim
            .as_deref_mut()
            .expect("it was locked when it was entered")
    }
}

impl Entered<'_> {
    /// Makes the name and the create revision of the place known to readers that do not wait.
    pub(crate) fn publish(&self) {
        let create = self.place.as_ref().map(|place| place.create);
        *self.slot.known() = create.map(|create| (create, self.named_by));
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.claim.is_some() {
            self.publish();
        }
        self.claim = None;
        let mut table = self.claims.table();
        // The table has one reference, and this is the other: no request of the claim is under way or waits.
        let is_last = Arc::strong_count(&self.slot) == 2;
        if is_last
            && self
                .slot
                .claim
                .try_lock()
                .is_ok_and(|claim| claim.is_empty())
        {
            table.slots.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlock_runtime::{
        clock::{Clock, SystemClock},
        random::SystemRandom,
        store::ClientId,
    };

    use super::*;
    use crate::keys::Stage;

    const LEASE: Lease = Lease {
        id: 7,
        seconds: 10,
        is_shared: false,
        conn: 1,
    };

    fn id() -> Id {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
        (LockKey::new("order:42").unwrap(), owner)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_as_old_as_the_last_keep_alive_of_its_lease() {
        let taken = Taken {
            lease: LEASE,
            is_new: false,
            is_fresh: true,
            since: SystemClock.now(),
        };
        tokio::time::advance(Duration::from_millis(50)).await;
        let value = Value::plain(1, Stage::holds_now());
        let mut claim = Claim::default();
        assert!(claim.placed(&taken, true, 5, &value));
        assert_eq!(claim.place.unwrap().since, taken.since);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_a_claim_follow_each_other_and_leave_nothing() {
        let (claims, (key, owner)) = (Claims::default(), id());
        assert!(claims.is_unknown(&key, owner));
        drop(claims.try_enter(&key, owner).unwrap());
        assert!(claims.is_unknown(&key, owner), "nothing is known of it");
        let mut first = claims.enter(&key, owner).await;
        assert!(
            claims.try_enter(&key, owner).is_none(),
            "a request is under way"
        );
        let second = tokio::time::timeout(Duration::from_secs(1), claims.enter(&key, owner));
        assert!(second.await.is_err());
        first.doubt(LEASE);
        drop(first);
        let mut third = claims.try_enter(&key, owner).unwrap();
        assert_eq!(third.unsettled, [LEASE]);
        third.settled(LEASE);
        drop(third);
        assert!(claims.is_unknown(&key, owner));
    }

    #[tokio::test(start_paused = true)]
    async fn claims_that_have_ended_without_a_release_are_forgotten() {
        let claims = Claims::default();
        for _ in 0..MANY {
            let (key, owner) = id();
            let mut claim = claims.enter(&key, owner).await;
            claim.doubt(LEASE);
            claim.lasts(Instant::now(), 10);
        }
        tokio::time::advance(Duration::from_secs(5)).await;
        let (key, owner) = id();
        let mut kept = claims.enter(&key, owner).await;
        kept.doubt(LEASE);
        kept.lasts(Instant::now(), 60);
        drop(kept);
        assert_eq!(claims.table().slots.len(), MANY + 1, "they last");
        claims.table().swept = 0;
        tokio::time::advance(Duration::from_secs(30)).await;
        drop(claims.enter(&key, owner).await);
        assert_eq!(claims.table().slots.len(), 1);
        // A deletion of which nothing is known is repeated when its owner asks again.
        claims.enter(&key, owner).await.is_ending = true;
        for _ in 0..MANY {
            let (key, owner) = id();
            let mut claim = claims.enter(&key, owner).await;
            claim.doubt(LEASE);
            claim.lasts(Instant::now(), 10);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        claims.table().swept = 0;
        drop(claims.enter(&key, owner).await);
        assert!(!claims.is_unknown(&key, owner));
    }

    /// Otherwise each request would look at all of them.
    #[tokio::test(start_paused = true)]
    async fn claims_that_last_are_left_alone_until_there_are_twice_as_many() {
        let claims = Claims::default();
        let fill = async |count: usize| {
            for _ in 0..count {
                let (key, owner) = id();
                let mut claim = claims.enter(&key, owner).await;
                claim.doubt(LEASE);
                claim.lasts(Instant::now(), 10);
            }
        };
        let count = || claims.table().slots.len();
        fill(MANY + 1).await;
        assert_eq!(count(), MANY + 1, "they last");
        tokio::time::advance(Duration::from_secs(30)).await;
        fill(MANY - 1).await;
        assert_eq!(count(), 2 * MANY, "half of them have ended");
        fill(1).await;
        assert_eq!(count(), MANY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_lasts_as_long_as_its_longest_request() {
        let mut claim = Claim::default();
        let now = Instant::now();
        let lasts = |claim: &Claim, seconds| claim.lasts_beyond(now + Duration::from_secs(seconds));
        assert!(lasts(&claim, 1000), "nothing was asked yet");
        claim.lasts(now, 10);
        assert!(lasts(&claim, 9) && !lasts(&claim, 10));
        claim.lasts(now, 5);
        assert!(lasts(&claim, 9), "a shorter one shortens nothing");
        claim.lasts(now, 20);
        assert!(lasts(&claim, 19) && !lasts(&claim, 20));
        claim.is_ending = true;
        assert!(lasts(&claim, 20), "its deletion may arrive late");
    }

    #[test]
    fn each_request_without_an_answer_leaves_its_lease_in_doubt() {
        let other = Lease { id: 8, ..LEASE };
        let mut claim = Claim::default();
        assert!(claim.is_empty());
        for lease in [LEASE, other, LEASE] {
            claim.doubt(lease);
        }
        assert!(!claim.is_empty());
        claim.settled(LEASE);
        assert_eq!(claim.unsettled, [LEASE, other], "one of two requests");
        claim.settled(Lease { id: 9, ..LEASE });
        assert_eq!(claim.unsettled, [LEASE, other]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_lease_has_ended_is_no_place() {
        let taken = Taken {
            lease: LEASE,
            is_new: false,
            is_fresh: false,
            since: SystemClock.now(),
        };
        let value = Value::plain(1, Stage::holds_now());
        let mut claim = Claim::default();
        assert!(claim.placed(&taken, true, 5, &value));
        assert!(!claim.placed(&taken, false, 5, &value));
        assert!(claim.place.is_none());
        assert_eq!(claim.unsettled, [LEASE], "it may last for a moment");
        assert!(!claim.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_known_to_readers_between_requests() {
        let (claims, (key, owner)) = (Claims::default(), id());
        assert_eq!(claims.known(&key, owner), None);
        let taken = Taken {
            lease: LEASE,
            is_new: true,
            is_fresh: true,
            since: SystemClock.now(),
        };
        let mut claim = claims.enter(&key, owner).await;
        claim.named_by = Some(LEASE.id);
        claim.placed(&taken, true, 5, &Value::plain(1, Stage::holds_now()));
        assert_eq!(claims.known(&key, owner), None, "the request goes on");
        claim.publish();
        assert_eq!(claims.known(&key, owner), Some((5, Some(LEASE.id))));
        drop(claim);
        assert_eq!(claims.known(&key, owner), Some((5, Some(LEASE.id))));
        let mut claim = claims.enter(&key, owner).await;
        claim.place = None;
        claim.doubt(LEASE);
        drop(claim);
        assert_eq!(claims.known(&key, owner), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_with_a_request_under_way_is_not_forgotten() {
        let claims = Claims::default();
        let mut under_way = Vec::new();
        for number in 0..MANY {
            let (key, owner) = id();
            let mut claim = claims.enter(&key, owner).await;
            claim.doubt(LEASE);
            claim.lasts(Instant::now(), 10);
            if number % 500 == 0 {
                under_way.push((key, owner, claim));
            }
        }
        tokio::time::advance(Duration::from_secs(30)).await;
        let (key, owner) = id();
        drop(claims.enter(&key, owner).await);
        assert_eq!(claims.table().slots.len(), 2);
        for (key, owner, _) in &under_way {
            assert!(!claims.is_unknown(key, *owner));
        }
    }
}
