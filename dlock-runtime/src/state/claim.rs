//! The claim of this process at the store: one owner id, which several attempts use in turn.
//!
//! **Safety.** All requests of a claim have the same TTL, whichever attempt holds it. The last renewal, for
//! the rest of a `min_hold`, waits for the one before it. A request that is carried out late therefore never
//! leaves the lease less time than an earlier answer has confirmed.

use std::time::Duration;

use crate::{
    answer::{ALIVE, GRANT_TTL, Holder},
    clock::Moment,
    error::StoreError,
    fence::FencingToken,
    mode::LockMode,
    options::Timing,
    owner::OwnerId,
    random::{Random, jittered},
};

/// The maximum time between two requests of a waiter. The requests keep its place in the queue.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A lease that ends within this time ends before the next poll would come, or shortly after that.
pub(super) const SOON: Duration = Duration::from_millis(1200);

/// The pause after the first failed request. It doubles up to [`LOOK_AGAIN`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The validity of a lease, from the moment before the confirmed request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// For a lease that was requested.
    pub(crate) asked: Duration,
    /// For a lease that the store has granted at a release.
    pub(crate) granted: Duration,
}

impl Validity {
    /// Creates the validity from the TTL of a request and the store's `drift`: the allowed difference of two
    /// clocks over a time.
    pub(crate) fn new(ttl: Duration, drift: impl Fn(Duration) -> Duration) -> Self {
        let trusted = |ttl: Duration| ttl.saturating_sub(drift(ttl));
        Self {
            asked: trusted(ttl),
            // If our request is carried out after the grant, it sets our own TTL.
            granted: trusted(ttl.min(GRANT_TTL)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) mode: LockMode,
    pub(super) validity: Validity,
    /// The time until which the store may keep something of this owner without another request.
    pub(super) traces_until: Option<Moment>,
    /// The last answer that was not a grant, for the error at the end of a wait.
    pub(super) last_answer: LastAnswer,
    failures: u32,
    /// The last answer that was not a grant, if it contained the last fence.
    refresh: Option<Refresh>,
    last_token: Option<FencingToken>,
    /// The fence of the last lease, and when the store granted it.
    granted: Option<(u64, Moment)>,
    /// The moment since which this process has had the lock, with this claim and those before it.
    pub(super) turn: Option<Moment>,
    /// Set while other processes go first.
    pub(super) pause: Option<TurnPause>,
    /// Until when the store keeps the last lease of this process for its `min_hold`.
    pub(super) kept_until: Option<Moment>,
}

/// The time that a claim leaves to other processes before it sends a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnPause {
    /// The owner whose release notifies the other processes.
    pub(super) after: OwnerId,
    /// When the release was sent.
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

/// A request that found the key held.
#[derive(Clone, Copy, Debug)]
struct Refresh {
    sent: Moment,
    last_fence: u64,
}

impl Claim {
    pub(super) fn new(owner: OwnerId, timing: Timing, validity: Validity) -> Self {
        Self {
            owner,
            ttl: timing.ttl,
            mode: timing.mode,
            validity,
            traces_until: None,
            last_answer: LastAnswer::NotAsked,
            failures: 0,
            refresh: None,
            last_token: None,
            granted: None,
            turn: None,
            pause: None,
            kept_until: None,
        }
    }

    /// Records that a request is about to be sent. The store may carry it out even if no answer arrives.
    pub(super) fn leaves_traces(&mut self, now: Moment) {
        let until = now.plus(self.ttl.max(ALIVE + GRANT_TTL));
        self.traces_until = Some(until);
    }

    /// Records the answer to the request that was sent at `sent`: another owner holds the key.
    pub(super) fn refreshed(&mut self, sent: Moment, holder: Holder) {
        let last_fence = holder.last_fence;
        // Without this check, a store that does not report fences would confirm every wake-up message.
        self.refresh = (last_fence > 0).then_some(Refresh { sent, last_fence });
        self.failures = 0;
        self.turn = None;
        self.last_answer = LastAnswer::Busy(holder);
    }

    /// Returns the time after which the lease ends that is in the way, if that is known.
    ///
    /// The request of a task may arrive before the one by which the task before it has its lease kept. The answer then has the
    /// TTL of a lease that goes on.
    pub(super) fn ends_in(&self, holder: &Holder, now: Moment) -> Option<Duration> {
        let kept = self.kept_until.filter(|until| !until.is_reached(now));
        let kept = kept.map(|until| until.remaining(now));
        holder.ttl.into_iter().chain(kept).min()
    }

    /// Returns when the last request was sent, if a lease was granted after it that has this number according to a
    /// wake-up message.
    ///
    /// The time of the grant is not known here, only that it came after every answer with a smaller last fence. If
    /// the last answer has no smaller one, the grant came before it, and was over by then: it has expired, or the
    /// store has revoked or forgotten it. The message is late, and another client may hold the key.
    pub(super) fn refreshed_before(&self, number: u64) -> Option<Moment> {
        let last = self.refresh?;
        (last.last_fence < number).then_some(last.sent)
    }

    /// Returns the token of the next body under the lease with this fence.
    ///
    /// Those who share a key have the same token: a greater one would fence off the others.
    pub(super) fn next_token(&self, fence: u64) -> Option<FencingToken> {
        match self.last_token.filter(|_| self.mode.is_exclusive()) {
            Some(last) if last.fence() == fence => last.next(),
            _ => FencingToken::from_fence(fence),
        }
    }

    /// Returns when the store granted the lease with this fence, if that was not at `now`.
    ///
    /// A second answer may confirm the same lease. Its age still counts from the first one.
    pub(super) fn granted_at(&mut self, fence: u64, now: Moment) -> Moment {
        self.turn.get_or_insert(now);
        match self.granted {
            Some((known, came)) if known == fence => came,
            _ => self.granted.insert((fence, now)).1,
        }
    }

    /// Returns `true` if a body has held a lease of this claim.
    pub(super) fn is_spent(&self) -> bool {
        self.last_token.is_some()
    }

    /// Returns the validity that a lease must have left for a body to begin with it: enough for a renewal,
    /// and for a second one if the first gets no answer.
    pub(super) fn least(&self) -> Duration {
        self.ttl.min(GRANT_TTL) / 3
    }

    /// Records that the store may keep nothing of this claim any more: no answer so far dates a wake-up message.
    pub(super) fn forgotten(&mut self) {
        self.refresh = None;
    }

    /// Records that a body begins with `token`.
    pub(super) fn spend(&mut self, token: FencingToken) {
        self.last_token = Some(token);
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Returns the pause after one more failure in a row.
    pub(super) fn back_off(&mut self, longest: Duration, random: &dyn Random) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        jittered(doubled.min(longest), random.next_u64())
    }
}
