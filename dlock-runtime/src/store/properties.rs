//! The properties of a store: what its managers have to know of it, and where they register.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use super::{HintSink, LockMode, ReleaseRequest};
use crate::{
    options::{MAX_TTL, MIN_TTL, Timing},
    owner::ClientId,
};

/// The properties of a store that a manager needs to know, and the store's [hooks](StoreHooks).
///
/// Made by [`new`](Self::new), which describes a minimal store; the setters say where a store differs. A wrapper
/// passes on the properties of the store that it wraps. So limits, drift and hooks survive a wrapper
/// that knows nothing of them.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::store::{Drift, StoreProperties};
///
/// let properties = StoreProperties::new()
///     .grants(true)
///     .gives_up_after(Duration::from_secs(1))
///     .drift(Drift::new(20, Duration::from_millis(5)));
/// assert_eq!(properties.drift.of(Duration::from_secs(10)), Duration::from_millis(205));
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct StoreProperties<'a> {
    /// `true` if a release makes the first waiter the holder. If not set, it does not.
    ///
    /// Where it does not, a process that has had the lock for a while lets some milliseconds pass
    /// before its next task asks, so that others can.
    pub grants: bool,
    /// The time after which the store itself gives up on a request, with
    /// [`StoreErrorKind::TimedOut`](super::StoreErrorKind::TimedOut) or a kind that says more.
    ///
    /// A manager then sets no timer of its own for a limit that is not shorter. If not set, the
    /// store never does.
    pub gives_up_after: Option<Duration>,
    /// By how much the clocks of store and holder may disagree. If not set, see [`Drift::USUAL`].
    pub drift: Drift,
    /// The shortest lease that the store can keep; [`MIN_TTL`] if not set.
    ///
    /// A manager refuses a lock with a shorter `ttl`, before it asks the store, with
    /// [`LockError::InvalidOption`](crate::LockError::InvalidOption); and is not made if the `ttl` of its builder
    /// is shorter. The rest of a `min_hold` is rounded up to this.
    pub shortest_ttl: Duration,
    /// The longest lease that the store can keep, and does not shorten; [`MAX_TTL`] if not set. Managers refuse a longer `ttl` and a
    /// longer `min_hold` as they refuse a `ttl` below [`shortest_ttl`](Self::shortest_ttl).
    pub longest_ttl: Duration,
    /// The modes that the store knows; [`LockMode::Exclusive`] if not set. No manager is made over a store without
    /// that one.
    pub modes: &'static [LockMode],
    /// Where managers register, and the last resort of a release. If not set, there is neither.
    pub hooks: Option<&'a dyn StoreHooks>,
}

impl<'a> StoreProperties<'a> {
    /// A store that grants nothing at a release, sends no hints and never gives up by itself.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            grants: false,
            gives_up_after: None,
            drift: Drift::USUAL,
            shortest_ttl: MIN_TTL,
            longest_ttl: MAX_TTL,
            modes: &[LockMode::Exclusive],
            hooks: None,
        }
    }

    /// Sets whether a release makes the first waiter the holder.
    #[must_use]
    pub const fn grants(mut self, grants: bool) -> Self {
        self.grants = grants;
        self
    }

    /// Sets the time after which the store gives up on a request.
    #[must_use]
    pub const fn gives_up_after(mut self, limit: Duration) -> Self {
        self.gives_up_after = Some(limit);
        self
    }

    /// Says that the store waits for an answer as long as its caller does.
    #[must_use]
    pub const fn never_gives_up(mut self) -> Self {
        self.gives_up_after = None;
        self
    }

    /// Sets by how much the clocks of store and holder may disagree.
    #[must_use]
    pub const fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// Sets the shortest and the longest lease that the store can keep.
    #[must_use]
    pub const fn ttls(mut self, shortest: Duration, longest: Duration) -> Self {
        self.shortest_ttl = shortest;
        self.longest_ttl = longest;
        self
    }

    /// Sets the modes that the store knows.
    #[must_use]
    pub const fn modes(mut self, modes: &'static [LockMode]) -> Self {
        self.modes = modes;
        self
    }

    /// Sets the hooks: those of the store itself, or those of a wrapper in place of the store's.
    #[must_use]
    pub const fn hooks(mut self, hooks: &'a dyn StoreHooks) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// The option of these that the store cannot keep to, and why.
    pub(crate) fn fault(&self, timing: &Timing) -> Option<(&'static str, String)> {
        let (shortest, longest) = (self.shortest_ttl, self.longest_ttl);
        if timing.ttl < shortest {
            let (ttl, lease) = (timing.ttl, "is shorter than the store's shortest lease");
            return Some(("ttl", format!("{ttl:?} {lease}; set {shortest:?} or more")));
        }
        // The store keeps a lease that is given back for the rest of its `min_hold`.
        let times = [("ttl", Some(timing.ttl)), ("min_hold", timing.min_hold)];
        times.into_iter().find_map(|(option, time)| {
            let time = time.filter(|time| *time > longest)?;
            let lease = "is longer than the store's longest lease";
            Some((option, format!("{time:?} {lease}; set {longest:?} or less")))
        })
    }

    /// The same properties without hooks, for as long as anybody wants them: managers do not
    /// register, so waiters are not told of grants and ask at their own pace.
    #[must_use]
    pub const fn without_hooks(self) -> StoreProperties<'static> {
        StoreProperties {
            grants: self.grants,
            gives_up_after: self.gives_up_after,
            drift: self.drift,
            shortest_ttl: self.shortest_ttl,
            longest_ttl: self.longest_ttl,
            modes: self.modes,
            hooks: None,
        }
    }
}

impl Default for StoreProperties<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for StoreProperties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreProperties")
            .field("grants", &self.grants)
            .field("gives_up_after", &self.gives_up_after)
            .field("drift", &self.drift)
            .field("shortest_ttl", &self.shortest_ttl)
            .field("longest_ttl", &self.longest_ttl)
            .field("modes", &self.modes)
            .field("has_hooks", &self.hooks.is_some())
            .finish()
    }
}

/// By how much two clocks may disagree over a TTL; the holder stops trusting its lease that much
/// earlier.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::store::Drift;
///
/// let ttl = Duration::from_secs(30);
/// assert_eq!(Drift::USUAL.of(ttl), Duration::from_millis(302));
/// assert_eq!(Drift::NONE.of(ttl), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    per_mille: u32,
    fixed: Duration,
}

impl Drift {
    /// One percent and two milliseconds: two machines, and answers in whole milliseconds.
    pub const USUAL: Self = Self::new(10, Duration::from_millis(2));

    /// None: holder and store read the same clock.
    pub const NONE: Self = Self::new(0, Duration::ZERO);

    /// A share of the TTL in thousandths, and a fixed part.
    #[must_use]
    pub const fn new(per_mille: u32, fixed: Duration) -> Self {
        Self { per_mille, fixed }
    }

    /// The drift over this TTL.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        (ttl.saturating_mul(self.per_mille) / 1000).saturating_add(self.fixed)
    }

    /// The drift that covers both.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use std::time::Duration;
    /// use dlock::store::Drift;
    ///
    /// let slow_network = Drift::new(0, Duration::from_millis(50));
    /// let both = Drift::USUAL.max(slow_network);
    /// assert_eq!(both, Drift::new(10, Duration::from_millis(50)));
    /// ```
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            per_mille: self.per_mille.max(other.per_mille),
            fixed: self.fixed.max(other.fixed),
        }
    }
}

/// The future of [`StoreHooks::detach`].
pub type Detaching<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The services of a store to its managers beside requests.
///
/// A store names its hooks in its [properties](StoreProperties::hooks). All methods are required, so
/// that a wrapper which replaces the hooks decides about each of them. Hooks go past a wrapper:
/// one that changes keys or owners has to replace them.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, ReleaseRequest, memory::MemoryStore}, testing::SystemRandom};
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// store.acquire(AcquireRequest::new(&key, owner, Duration::from_secs(30))).await?;
///
/// let hooks = store.properties().hooks.expect("it has some");
/// assert!(hooks.release_at_once(ReleaseRequest::new(&key, owner)));
/// assert!(store.is_empty());
/// # Ok(()) }
/// ```
pub trait StoreHooks: Send + Sync {
    /// Takes the sink to which hints for `client` go, once for each client: a manager begins.
    fn attach(&self, client: ClientId, hints: HintSink);

    /// Removes what the store keeps of `client` itself, such as what operators see of it: its
    /// manager has shut down, and every lock of it was released. That nothing is left of it is not
    /// promised.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, something may stay for as long as it would after a crash.
    fn detach(&self, client: ClientId) -> Detaching<'_>;

    /// Releases without waiting and without a runtime; `false` if the store cannot.
    ///
    /// The last resort when the runtime ends before the guard.
    fn release_at_once(&self, request: ReleaseRequest<'_>) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_drift_is_a_hundredth_and_two_milliseconds_of_any_ttl() {
        let odd = Duration::new(7, 123_456_789);
        for ttl in [MIN_TTL, odd, MAX_TTL] {
            let expected = ttl / 100 + Duration::from_millis(2);
            assert_eq!(Drift::USUAL.of(ttl), expected, "{ttl:?}");
        }
    }
}
