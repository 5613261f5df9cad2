//! The modes of a lock: exclusive, shared, or a number of permits.

use std::fmt;

/// The mode in which a caller holds a lock.
///
/// One queue serves all modes of a key, first come, first served:
///
/// | mode | is granted while |
/// |---|---|
/// | [`Exclusive`](Self::Exclusive) | no other caller holds the key |
/// | [`Shared`](Self::Shared) | no other caller holds it exclusively |
/// | [`Permits(n)`](Self::Permits) | no other caller holds it exclusively, and fewer than `n` hold it |
///
/// A store refuses a mode that it does not support with
/// [`StoreErrorKind::Unsupported`](crate::store::StoreErrorKind::Unsupported). Its
/// [properties](crate::store::StoreProperties::modes) list the supported modes, and a manager refuses the other
/// modes with [`LockError::InvalidOption`](crate::LockError::InvalidOption) before it sends a request.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::LockMode;
///
/// assert_eq!(LockMode::default(), LockMode::Exclusive);
/// assert_eq!(LockMode::Permits(3).to_string(), "permits = 3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockMode {
    /// One holder at a time.
    #[default]
    Exclusive,
    /// Any number of holders, but none beside an exclusive one.
    Shared,
    /// One of this many permits, at least 1. The lease is granted while fewer holders than this exist and none of
    /// them is exclusive.
    Permits(u32),
}

impl LockMode {
    /// Returns `true` for [`Exclusive`](Self::Exclusive).
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive)
    }

    /// Returns the name of the mode in logs and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permits(_) => "permits",
        }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("mode = exclusive"),
            Self::Shared => f.write_str("mode = shared"),
            Self::Permits(most) => write!(f, "permits = {most}"),
        }
    }
}

/// The modes that a store supports. Every store supports [`LockMode::Exclusive`].
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{LockMode, store::LockModes};
///
/// let modes = LockModes::EXCLUSIVE.with_shared();
/// assert!(modes.contains(LockMode::Shared));
/// assert!(!modes.contains(LockMode::Permits(3)));
/// assert!(LockModes::ALL.contains(LockMode::Permits(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockModes {
    shared: bool,
    permits: bool,
}

impl LockModes {
    /// Exclusive locks only.
    pub const EXCLUSIVE: Self = Self {
        shared: false,
        permits: false,
    };

    /// Exclusive and shared locks, and permits.
    pub const ALL: Self = Self {
        shared: true,
        permits: true,
    };

    /// Adds shared locks.
    #[must_use]
    pub const fn with_shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// Adds permits.
    #[must_use]
    pub const fn with_permits(mut self) -> Self {
        self.permits = true;
        self
    }

    /// Returns `true` if the store supports `mode`.
    #[must_use]
    pub const fn contains(self, mode: LockMode) -> bool {
        match mode {
            LockMode::Exclusive => true,
            LockMode::Shared => self.shared,
            LockMode::Permits(_) => self.permits,
        }
    }
}
