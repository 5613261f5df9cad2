//! The options of one call, and the settings that result from them and the manager's defaults.

use std::time::Duration;

use crate::{error::LockError, key::LockKey, mode::LockMode};

/// The minimum TTL. A shorter one leaves no time to repeat a renewal after a lost packet.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use std::time::Duration;
/// use dlock::{MAX_TTL, MIN_TTL};
///
/// let configured = Duration::from_secs(600);
/// let ttl = configured.clamp(MIN_TTL, MAX_TTL);
/// assert_eq!(ttl, configured);
/// ```
pub const MIN_TTL: Duration = Duration::from_millis(100);

/// The maximum TTL. The locks of a killed process stay held for that long.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockManager;
///
/// let beyond = LockManager::builder().ttl(dlock::MAX_TTL * 2).connect_lazy("memory://");
/// assert!(beyond.is_err());
/// ```
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long to wait for a lock that another holder has.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::ConnectError> {
/// use std::time::Duration;
/// use dlock::{LockManager, Wait};
///
/// let manager = LockManager::builder().wait(Wait::Never).connect("memory://").await?;
/// // Functions that take a `Wait` also accept a duration.
/// let patient = manager.lock("order:42").wait(Duration::from_secs(5));
/// # drop(patient);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Send one acquire request and do not wait.
    Never,
    /// Wait for at most this time.
    For(Duration),
    /// Wait without a limit.
    Forever,
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        Self::For(limit)
    }
}

/// The treatment of a body whose lease is lost: it is cancelled, or it runs to its end.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
/// # let manager = dlock::LockManager::memory();
/// use dlock::OnLost;
///
/// let archived = manager.lock("archive").on_lost(OnLost::Finish).try_run(async |lease| {
///     tokio::select! {
///         error = lease.lost() => Err(error), // undo the unfinished work and report the loss
///         archived = async { /* the work */ Ok(12) } => archived,
///     }
/// });
/// assert_eq!(archived.await?, 12);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body's future is dropped, and the caller gets [`LockError::Lost`].
    #[default]
    Stop,
    /// The body runs to its end and its result is returned. The loss is reported as an event.
    Finish,
}

/// The options of one call. Options that are not set come from the manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Wait>,
    pub(crate) renew: Option<bool>,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) mode: Option<LockMode>,
}

impl Options {
    /// Creates options with nothing set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ttl: None,
            wait: None,
            renew: None,
            on_lost: None,
            max_hold: None,
            min_hold: None,
            mode: None,
        }
    }

    /// Sets the TTL: how long the store keeps a lease that is not renewed.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long to wait for a lock that another holder has.
    #[must_use]
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets whether the lease is renewed while the body runs.
    #[must_use]
    pub const fn renew(mut self, renew: bool) -> Self {
        self.renew = Some(renew);
        self
    }

    /// Sets what happens to the body when its lease is lost.
    #[must_use]
    pub const fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = Some(on_lost);
        self
    }

    /// Sets the time after which the lease is released, even if the body still runs.
    #[must_use]
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Sets the minimum time between the acquisition and the release.
    #[must_use]
    pub const fn min_hold(mut self, min_hold: Duration) -> Self {
        self.min_hold = Some(min_hold);
        self
    }

    /// Sets the mode of the lock.
    #[must_use]
    pub const fn mode(mut self, mode: LockMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Returns the options for a key with this mode of its own.
    pub(crate) const fn for_key(self, mode: Option<LockMode>) -> Self {
        match mode {
            Some(mode) => self.mode(mode),
            None => self,
        }
    }

    /// Sets the mode to at most `most` holders.
    #[must_use]
    pub const fn permits(self, most: u32) -> Self {
        self.mode(LockMode::Permits(most))
    }

    /// Merges these options with the manager's defaults and checks the result.
    pub(crate) fn resolve(self, defaults: &Timing, key: &LockKey) -> Result<Timing, LockError> {
        let timing = Timing {
            ttl: self.ttl.unwrap_or(defaults.ttl),
            wait: match self.wait.unwrap_or(defaults.wait) {
                Wait::For(limit) if limit.is_zero() => Wait::Never,
                wait => wait,
            },
            renew: self.renew.unwrap_or(defaults.renew),
            on_lost: self.on_lost.unwrap_or(defaults.on_lost),
            max_hold: self.max_hold.or(defaults.max_hold),
            min_hold: self.min_hold,
            mode: self.mode.unwrap_or_default(),
            on_trial: false,
        };
        timing.fault().map_or(Ok(timing), |(option, reason)| {
            Err(LockError::InvalidOption {
                key: key.clone(),
                option,
                reason: reason.into(),
            })
        })
    }
}

/// Options without unset values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) ttl: Duration,
    pub(crate) wait: Wait,
    pub(crate) renew: bool,
    pub(crate) on_lost: OnLost,
    pub(crate) max_hold: Option<Duration>,
    /// Set per call only: one job's minimum does not apply to the manager's other locks.
    pub(crate) min_hold: Option<Duration>,
    pub(crate) mode: LockMode,
    /// The key is one of several that are acquired together, and not all are held yet. Until they are, the
    /// lease may be released before its `min_hold` has passed.
    pub(crate) on_trial: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Wait::For(Duration::from_secs(10)),
            renew: true,
            on_lost: OnLost::Stop,
            max_hold: None,
            min_hold: None,
            mode: LockMode::Exclusive,
            on_trial: false,
        }
    }
}

impl Timing {
    /// Returns `true` if the lease is renewed while it is held.
    pub(crate) fn renews(&self) -> bool {
        // The lease of the first key must not expire before all keys are held.
        self.renew || self.on_trial
    }

    /// Returns an invalid option and the reason, if there is one.
    pub(crate) fn fault(&self) -> Option<(&'static str, &'static str)> {
        if self.mode == LockMode::Permits(0) {
            Some(("permits", "it must be at least 1"))
        } else if self.ttl < MIN_TTL {
            Some((
                "ttl",
                "it must be at least 100ms, or there is no time to renew the lease",
            ))
        } else if self.ttl > MAX_TTL {
            Some((
                "ttl",
                "it must be at most 24h: a killed process keeps the lock that long",
            ))
        } else if self.max_hold.is_some_and(|max_hold| max_hold.is_zero()) {
            Some(("max_hold", "it must be greater than zero"))
        } else {
            let min_hold = self.min_hold?;
            self.fault_of(min_hold).map(|reason| ("min_hold", reason))
        }
    }

    fn fault_of(&self, min_hold: Duration) -> Option<&'static str> {
        if min_hold.is_zero() {
            Some("it must be greater than zero")
        } else if min_hold > MAX_TTL {
            Some("it must be at most 24h: the lock is held that long even if the body ends")
        } else if self.max_hold.is_some_and(|max_hold| min_hold > max_hold) {
            Some("it must not be longer than `max_hold`, which ends the lease")
        } else if !self.renew && min_hold > self.ttl {
            Some("it must not be longer than `ttl` if the lease is not renewed")
        } else {
            None
        }
    }
}

/// Rejects a TTL that is out of range at compile time.
///
/// # Panics
///
/// In const evaluation, if `ttl` is shorter than [`MIN_TTL`] or longer than [`MAX_TTL`].
#[must_use]
#[track_caller]
pub const fn check_ttl(ttl: Duration) -> Duration {
    assert!(
        ttl.as_nanos() >= MIN_TTL.as_nanos(),
        "lock ttl must be at least 100ms, or there is no time to renew the lease"
    );
    assert!(
        ttl.as_nanos() <= MAX_TTL.as_nanos(),
        "lock ttl must be at most 24h: a killed process keeps the lock that long"
    );
    ttl
}

/// Rejects a `max_hold` of zero at compile time.
///
/// # Panics
///
/// In const evaluation, if `max_hold` is zero.
#[must_use]
#[track_caller]
pub const fn check_max_hold(max_hold: Duration) -> Duration {
    assert!(
        !max_hold.is_zero(),
        "lock max_hold must be greater than zero"
    );
    max_hold
}

/// Rejects a `min_hold` that is out of range at compile time.
///
/// # Panics
///
/// In const evaluation, if `min_hold` is zero or longer than [`MAX_TTL`].
#[must_use]
#[track_caller]
pub const fn check_min_hold(min_hold: Duration) -> Duration {
    assert!(
        !min_hold.is_zero(),
        "lock min_hold must be greater than zero"
    );
    assert!(
        min_hold.as_nanos() <= MAX_TTL.as_nanos(),
        "lock min_hold must be at most 24h: the lock is held that long even if the body ends"
    );
    min_hold
}

/// Rejects a number of `permits` that is out of range at compile time.
///
/// # Panics
///
/// In const evaluation, if `permits` is zero.
#[must_use]
#[track_caller]
pub const fn check_permits(permits: u32) -> u32 {
    assert!(permits > 0, "lock permits must be at least 1");
    permits
}

/// Returns the reason why a time is not a valid limit for a response or a connection attempt.
pub(crate) fn fault_of_limit(limit: Duration) -> Option<&'static str> {
    /// Sums and multiples of limits are added to the current time, which must not overflow.
    const LONGEST: Duration = Duration::from_secs(60 * 60);
    if limit.is_zero() {
        return Some("it must be greater than zero");
    }
    (limit > LONGEST).then_some("it must be at most 1h")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(options: Options) -> Result<Timing, LockError> {
        options.resolve(&Timing::default(), &LockKey::new("k")?)
    }

    #[test]
    fn options_override_the_managers_defaults() {
        let timing = resolve(Options::new().wait(Wait::For(Duration::ZERO)).renew(false)).unwrap();
        assert_eq!(
            timing.wait,
            Wait::Never,
            "a wait of zero sends a single request"
        );
        assert_eq!(timing.ttl, Timing::default().ttl);
        assert!(!timing.renew);
    }

    #[test]
    fn bounds_are_checked_at_run_time_too() {
        for (options, name) in [
            (Options::new().ttl(Duration::ZERO), "ttl"),
            (
                Options::new().ttl(MIN_TTL.saturating_sub(Duration::from_nanos(1))),
                "ttl",
            ),
            (Options::new().ttl(Duration::MAX), "ttl"),
            (Options::new().max_hold(Duration::ZERO), "max_hold"),
            (Options::new().min_hold(Duration::ZERO), "min_hold"),
            (Options::new().min_hold(Duration::MAX), "min_hold"),
            (
                Options::new().min_hold(MAX_TTL).max_hold(MIN_TTL),
                "min_hold",
            ),
            (
                Options::new().min_hold(MAX_TTL).ttl(MIN_TTL).renew(false),
                "min_hold",
            ),
        ] {
            let error = resolve(options).unwrap_err();
            assert!(matches!(error, LockError::InvalidOption { option, .. } if option == name));
        }
        assert!(resolve(Options::new().ttl(MIN_TTL)).is_ok());
        assert!(resolve(Options::new().ttl(MAX_TTL)).is_ok());
        assert!(resolve(Options::new().min_hold(MAX_TTL)).is_ok());
    }
}
