//! The properties of a store that its managers need, and the hooks by which managers register.

use std::{any::Any, fmt, future::Future, pin::Pin, time::Duration};

use super::{HintSink, ReleaseRequest};
use crate::{
    mode::{LockMode, LockModes},
    options::{MAX_TTL, MIN_TTL, Timing},
    owner::ClientId,
};

const NO_SHARED: &str = "this store does not support shared locks; use an exclusive lock or another store, \
                         such as Redis without raw keys";
const NO_PERMITS: &str = "this store does not support permits; use an exclusive lock or another store, such as \
                          one Redis server without raw keys";

/// The properties of a store that a manager needs to know, and the store's [hooks](StoreHooks).
///
/// [`new`](Self::new) describes a minimal store; setters describe the differences. A wrapper returns the
/// properties of the store that it wraps. Limits, drift and hooks therefore pass through a wrapper that does
/// not know them.
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
    /// `true` if a release makes the first waiter the holder; `false` if not set.
    ///
    /// If `false`, a process that has held the lock for a while pauses for some milliseconds before its next
    /// task requests it. Other processes can acquire the lock in this time.
    pub grants: bool,
    /// The time after which the store itself ends a request, with
    /// [`StoreErrorKind::TimedOut`](super::StoreErrorKind::TimedOut) or a more specific kind.
    ///
    /// A manager then sets no timer of its own for a limit that is not shorter. If not set, the store never
    /// ends a request by itself.
    pub gives_up_after: Option<Duration>,
    /// The allowed difference between the clocks of store and holder; [`Drift::USUAL`] if not set.
    pub drift: Drift,
    /// The shortest lease that the store can keep; [`MIN_TTL`] if not set.
    ///
    /// A manager refuses a lock with a shorter `ttl` before it sends a request, with
    /// [`LockError::InvalidOption`](crate::LockError::InvalidOption). A builder whose `ttl` is shorter returns
    /// an error. The rest of a `min_hold` is rounded up to this value.
    pub shortest_ttl: Duration,
    /// The longest lease that the store can keep without shortening it; [`MAX_TTL`] if not set. Managers refuse
    /// a longer `ttl` and a longer `min_hold` in the same way as a `ttl` below
    /// [`shortest_ttl`](Self::shortest_ttl).
    pub longest_ttl: Duration,
    /// The modes that the store supports; [`LockModes::EXCLUSIVE`] if not set. A manager refuses a lock in
    /// another mode before it sends a request, with
    /// [`LockError::InvalidOption`](crate::LockError::InvalidOption).
    pub modes: LockModes,
    /// The hooks by which managers register, with the last resort of a release. If not set, the store has
    /// neither.
    pub hooks: Option<&'a dyn StoreHooks>,
    /// The value by which code that knows the store's type finds it behind a manager or a lease, see
    /// [`LockManager::store`](crate::LockManager::store). If not set, the store is not found.
    pub extension: Option<&'a (dyn Any + Send + Sync)>,
}

impl<'a> StoreProperties<'a> {
    /// Creates the properties of a store that grants nothing at a release, sends no hints and never ends a
    /// request by itself.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            grants: false,
            gives_up_after: None,
            drift: Drift::USUAL,
            shortest_ttl: MIN_TTL,
            longest_ttl: MAX_TTL,
            modes: LockModes::EXCLUSIVE,
            hooks: None,
            extension: None,
        }
    }

    /// Sets whether a release makes the first waiter the holder.
    #[must_use]
    pub const fn grants(mut self, grants: bool) -> Self {
        self.grants = grants;
        self
    }

    /// Sets the time after which the store ends a request.
    #[must_use]
    pub const fn gives_up_after(mut self, limit: Duration) -> Self {
        self.gives_up_after = Some(limit);
        self
    }

    /// Declares that the store waits for an answer as long as its caller does.
    #[must_use]
    pub const fn never_gives_up(mut self) -> Self {
        self.gives_up_after = None;
        self
    }

    /// Sets the allowed difference between the clocks of store and holder.
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

    /// Sets the modes that the store supports.
    #[must_use]
    pub const fn modes(mut self, modes: LockModes) -> Self {
        self.modes = modes;
        self
    }

    /// Sets the hooks: those of the store itself, or those of a wrapper instead of the store's.
    #[must_use]
    pub const fn hooks(mut self, hooks: &'a dyn StoreHooks) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Sets the value by which code that knows the store's type finds it: usually the store itself.
    #[must_use]
    pub const fn extension(mut self, extension: &'a (dyn Any + Send + Sync)) -> Self {
        self.extension = Some(extension);
        self
    }

    /// Returns the option that the store cannot support, and the reason.
    pub(crate) fn fault(&self, timing: &Timing) -> Option<(&'static str, String)> {
        match timing.mode {
            mode if self.modes.contains(mode) => {}
            LockMode::Permits(_) => return Some(("permits", NO_PERMITS.to_owned())),
            _ => return Some(("mode", NO_SHARED.to_owned())),
        }
        let (shortest, longest) = (self.shortest_ttl, self.longest_ttl);
        if timing.ttl < shortest {
            let (ttl, lease) = (timing.ttl, "is shorter than the store's shortest lease");
            return Some(("ttl", format!("{ttl:?} {lease}; set {shortest:?} or more")));
        }
        // The store keeps a released lease for the rest of its `min_hold`.
        let times = [("ttl", Some(timing.ttl)), ("min_hold", timing.min_hold)];
        times.into_iter().find_map(|(option, time)| {
            let time = time.filter(|time| *time > longest)?;
            let lease = "is longer than the store's longest lease";
            Some((option, format!("{time:?} {lease}; set {longest:?} or less")))
        })
    }

    /// Returns the same properties without hooks, without the extension and without their lifetime. Managers then
    /// do not register, so waiters are not notified of grants and poll.
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
            extension: None,
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
            .field("has_extension", &self.extension.is_some())
            .finish()
    }
}

/// The allowed difference between two clocks over a TTL. The holder ends its use of the lease earlier by this
/// time.
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
    /// One percent and two milliseconds: for clocks of two machines, and answers in whole milliseconds.
    pub const USUAL: Self = Self::new(10, Duration::from_millis(2));

    /// Zero: holder and store read the same clock.
    pub const NONE: Self = Self::new(0, Duration::ZERO);

    /// Creates a drift from a share of the TTL in thousandths and a fixed part.
    #[must_use]
    pub const fn new(per_mille: u32, fixed: Duration) -> Self {
        Self { per_mille, fixed }
    }

    /// Returns the drift over this TTL.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        (ttl.saturating_mul(self.per_mille) / 1000).saturating_add(self.fixed)
    }

    /// Returns a drift that covers both.
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

/// The services that a store provides to its managers besides requests.
///
/// A store returns its hooks in its [properties](StoreProperties::hooks). All methods are required, so a
/// wrapper that replaces the hooks must implement each of them. Calls of hooks bypass a wrapper: a wrapper that
/// changes keys or owners must replace the hooks.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dlock::{LockKey, store::{ClientId, LockStore, OwnerId, AcquireRequest, ReleaseRequest, memory::MemoryStore}, random::SystemRandom};
///
/// let (store, key) = (MemoryStore::new(), LockKey::new("order:42")?);
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// store.acquire(AcquireRequest::new(&key, owner, Duration::from_secs(30))).await?;
///
/// let hooks = store.properties().hooks.expect("a memory store has hooks");
/// assert!(hooks.release_at_once(ReleaseRequest::new(&key, owner)));
/// assert!(store.is_empty());
/// # Ok(()) }
/// ```
pub trait StoreHooks: Send + Sync {
    /// Registers the sink that receives hints for `client`. A manager calls it once, when it is created.
    fn attach(&self, client: ClientId, hints: HintSink);

    /// Removes the store's own data about `client`, such as the record that operators see. Its manager has shut
    /// down, and all of its locks were released. The store may leave data behind.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, data may remain for as long as after a crash.
    fn detach(&self, client: ClientId) -> Detaching<'_>;

    /// Releases without waiting and without a runtime. Returns `false` if the store cannot.
    ///
    /// The manager uses it as a last resort when the runtime ends before the guard.
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

    #[test]
    fn the_greater_of_two_drifts_is_so_in_both_parts() {
        let ms = Duration::from_millis;
        let (one, other) = (Drift::new(10, ms(5)), Drift::new(20, ms(2)));
        assert_eq!(one.max(other), Drift::new(20, ms(5)));
        assert_eq!(other.max(one), Drift::new(20, ms(5)));
    }

    #[test]
    fn a_time_that_a_store_cannot_keep_is_named_with_its_bound() {
        let ms = Duration::from_millis;
        let bounded = StoreProperties::new().ttls(ms(200), ms(9000));
        let timing = |ttl, min_hold| Timing {
            ttl: ms(ttl),
            min_hold,
            ..Timing::default()
        };
        let too_long = "10s is longer than the store's longest lease; set 9s or less";
        for (timing, fault) in [
            (timing(200, None), None),
            (timing(9000, Some(ms(9000))), None),
            (
                timing(199, None),
                Some((
                    "ttl",
                    "199ms is shorter than the store's shortest lease; set 200ms or more",
                )),
            ),
            (timing(10_000, None), Some(("ttl", too_long))),
            (timing(10_000, Some(ms(11_000))), Some(("ttl", too_long))),
            (timing(300, Some(ms(10_000))), Some(("min_hold", too_long))),
            // It may be short: the lease is that of the TTL.
            (timing(300, Some(ms(1))), None),
        ] {
            let fault = fault.map(|(option, text)| (option, text.to_owned()));
            assert_eq!(bounded.fault(&timing), fault, "{timing:?}");
        }
    }

    #[test]
    fn a_mode_that_a_store_does_not_support_is_named() {
        let exclusive = StoreProperties::new();
        let all = StoreProperties::new().modes(LockModes::ALL);
        for (mode, fault) in [
            (LockMode::Exclusive, None),
            (LockMode::Shared, Some(("mode", NO_SHARED.to_owned()))),
            (
                LockMode::Permits(2),
                Some(("permits", NO_PERMITS.to_owned())),
            ),
        ] {
            let timing = Timing {
                mode,
                ..Timing::default()
            };
            assert_eq!(exclusive.fault(&timing), fault);
            assert_eq!(all.fault(&timing), None);
        }
    }

    #[test]
    fn without_its_hooks_a_store_has_the_same_properties() {
        let store = crate::store::memory::MemoryStore::new();
        let own =
            crate::store::LockStore::properties(&store).gives_up_after(Duration::from_secs(1));
        let shown = |properties: &StoreProperties<'_>| format!("{properties:?}");
        let has = |text: String| text.replace("has_hooks: true, has_extension: true", "none");
        let none = |text: String| text.replace("has_hooks: false, has_extension: false", "none");
        assert_eq!(has(shown(&own)), none(shown(&own.without_hooks())));
        assert!(has(shown(&own)).contains("none"));
        assert_eq!(own.never_gives_up().gives_up_after, None);
    }
}
