//! The claim of this process at the store: one owner, which several attempts bear in turn.
//!
//! **Safety.** All requests of a claim carry the same TTL, whichever attempt bears it; the last renewal, for the rest of a
//! `min_hold`, waits for the one before it. So a request that is carried out late never leaves the lease less time than an earlier answer has promised.

use std::time::Duration;

use crate::{
    answer::{ALIVE, GRANT_TTL, Holder},
    clock::Moment,
    error::StoreError,
    fence::FencingToken,
    owner::OwnerId,
    random::{Random, jittered},
};

/// The longest time between two questions of a waiter, which keep its place in the queue.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The pause after the first failed request; it doubles up to [`LOOK_AGAIN`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The number of answers that are kept to believe a hint with: they are about a second apart, and a
/// lease that was granted earlier than three seconds ago has ended.
const KEPT_REFRESHES: usize = 4;

/// For how long a lease may be believed in, from before the request was sent that the store has
/// confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// One that was asked for.
    pub(crate) asked: Duration,
    /// One that the store has granted at a release.
    pub(crate) granted: Duration,
}

impl Validity {
    /// Takes the TTL of a request, and the store's `drift`: the disagreement of two clocks over a
    /// time.
    pub(crate) fn new(ttl: Duration, drift: impl Fn(Duration) -> Duration) -> Self {
        let trusted = |ttl: Duration| ttl.saturating_sub(drift(ttl));
        Self {
            asked: trusted(ttl),
            // A question of ours that is carried out after the grant sets our own TTL.
            granted: trusted(ttl.min(GRANT_TTL)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) validity: Validity,
    /// The time until which the store may keep something of this owner without another request.
    pub(super) traces_until: Option<Moment>,
    /// The last answer that was no grant, for the error if a wait ends.
    pub(super) last_answer: LastAnswer,
    failures: u32,
    /// The latest is the last.
    refreshes: Vec<Refresh>,
    last_token: Option<FencingToken>,
    /// The fence of the last lease, and when it came from the store.
    granted: Option<(u64, Moment)>,
    /// The moment since when this process has had the lock, with this claim and those before it.
    pub(super) turn: Option<Moment>,
    /// Others go first.
    pub(super) pause: Option<TurnPause>,
}

/// The time that a claim leaves to others before it asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnPause {
    /// The owner whose release notifies the others.
    pub(super) after: OwnerId,
    /// When it was sent.
    pub(super) since: Moment,
    pub(super) until: Moment,
}

/// The last answer of the store.
#[derive(Clone, Debug)]
pub(super) enum LastAnswer {
    NotAsked,
    Busy(Holder),
    Failed(StoreError),
}

/// A question that found the key held.
#[derive(Clone, Copy, Debug)]
struct Refresh {
    sent: Moment,
    last_fence: u64,
}

impl Claim {
    pub(super) fn new(owner: OwnerId, ttl: Duration, validity: Validity) -> Self {
        Self {
            owner,
            ttl,
            validity,
            traces_until: None,
            last_answer: LastAnswer::NotAsked,
            failures: 0,
            refreshes: Vec::new(),
            last_token: None,
            granted: None,
            turn: None,
            pause: None,
        }
    }

    /// A request is about to be sent that the store may carry out, whatever we hear of it.
    pub(super) fn leaves_traces(&mut self, now: Moment) {
        let until = now.plus(self.ttl.max(ALIVE + GRANT_TTL));
        self.traces_until = Some(until);
    }

    /// The store has answered what was sent at `sent`: another owner holds the key.
    pub(super) fn refreshed(&mut self, sent: Moment, holder: Holder) {
        if self.refreshes.len() == KEPT_REFRESHES {
            self.refreshes.remove(0);
        }
        // A store that says nothing of fences would vouch for every hint.
        if holder.last_fence > 0 {
            self.refreshes.push(Refresh {
                sent,
                last_fence: holder.last_fence,
            });
        }
        self.failures = 0;
        self.turn = None;
        self.last_answer = LastAnswer::Busy(holder);
    }

    /// The time until which a lease may be trusted that a hint says was granted with `fence`.
    ///
    /// When that was is not known here, only that it was after every answer that knew a smaller
    /// fence. Simply the latest answer would not do: a hint of a lease that has expired meanwhile
    /// may come late, and would then be believed beside the next holder's.
    pub(super) fn granted_until(&self, fence: u64) -> Option<Moment> {
        let mut before = self.refreshes.iter().rev();
        let refresh = before.find(|refresh| refresh.last_fence < fence)?;
        Some(refresh.sent.plus(self.validity.granted))
    }

    /// The token of the next section under the lease with this fence.
    pub(super) fn next_token(&self, fence: u64) -> Option<FencingToken> {
        match self.last_token {
            Some(last) if last.fence() == fence => last.next(),
            _ => FencingToken::from_fence(fence),
        }
    }

    /// When the lease with this fence came from the store, if not just now.
    ///
    /// It may be confirmed by another answer: that makes it no younger.
    pub(super) fn granted_at(&mut self, fence: u64, now: Moment) -> Moment {
        self.turn.get_or_insert(now);
        match self.granted {
            Some((known, came)) if known == fence => came,
            _ => self.granted.insert((fence, now)).1,
        }
    }

    /// `true` if a body has held a lease of this claim.
    pub(super) fn is_spent(&self) -> bool {
        self.last_token.is_some()
    }

    /// The time that a lease must have left for a body to begin with it: enough for a renewal, and
    /// for another if the first gets no answer.
    pub(super) fn least(&self) -> Duration {
        self.ttl.min(GRANT_TTL) / 3
    }

    /// The store knows nothing of us any more.
    pub(super) fn forgotten(&mut self) {
        self.refreshes.clear();
    }

    /// A section begins with `token`.
    pub(super) fn spend(&mut self, token: FencingToken) {
        self.last_token = Some(token);
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The pause after one more failure in a row.
    pub(super) fn back_off(&mut self, longest: Duration, random: &dyn Random) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        jittered(doubled.min(longest), random.next_u64())
    }
}
