//! Owner ids: the random id by which the store knows one claim on a key. An id is never used twice, and is a secret: people and
//! logs see its handle.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use uuid::Uuid;

use crate::random::Random;

/// The identity of one manager in one process: 122 random bits.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{store::ClientId, random::SystemRandom};
///
/// let (one, other) = (ClientId::new(&SystemRandom), ClientId::new(&SystemRandom));
/// assert_ne!(one, other);
/// assert_eq!(one.to_string().len(), 32);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Uuid);

impl ClientId {
    /// Creates a new identity from `random`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::ClientId, random::SystemRandom};
    ///
    /// let client = ClientId::new(&SystemRandom);
    /// assert!(client.to_string().bytes().all(|byte| byte.is_ascii_hexdigit()));
    /// ```
    #[must_use]
    pub fn new(random: &dyn Random) -> Self {
        let bits = (u128::from(random.next_u64()) << 64) | u128::from(random.next_u64());
        Self(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// Returns what people and logs see of it.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::ClientId, random::SystemRandom};
    ///
    /// let client = ClientId::new(&SystemRandom);
    /// assert_eq!(client.handle(), client.handle());
    /// ```
    #[must_use]
    pub fn handle(self) -> ClaimHandle {
        ClaimHandle::of(self, b"client")
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientId").field(&self.handle()).finish()
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

/// The id by which a store knows one claim on a key, written `client.number`.
///
/// It is created before the first request is sent, so that a retry can detect the effect of an earlier
/// request without an answer. It proves ownership to the store: whoever knows it and may send requests can release the
/// lease. Its text is for the store alone; people and logs see its [handle](Self::handle).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{store::{ClientId, OwnerId}, random::SystemRandom};
///
/// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
/// let text = owner.to_string();
/// assert!(text.ends_with(".1"));
/// assert_eq!(text.parse(), Ok(owner));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId {
    client: ClientId,
    number: u64,
}

impl OwnerId {
    const ROUND_SHIFT: u32 = 44;

    /// The greatest number of a round.
    pub(crate) const LAST_ROUND: u32 = (1 << (64 - Self::ROUND_SHIFT)) - 1;

    /// Creates the owner id of claim `number` of `client`.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, OwnerId}, random::SystemRandom};
    ///
    /// let client = ClientId::new(&SystemRandom);
    /// assert_ne!(OwnerId::new(client, 1), OwnerId::new(client, 2));
    /// ```
    #[must_use]
    pub fn new(client: ClientId, number: u64) -> Self {
        Self { client, number }
    }

    /// Returns the same claim in a round of a quorum, or `None` if the round number does not fit.
    ///
    /// Stores treat it as another owner. Rounds use the upper 20 bits: with one claim per microsecond, the
    /// numbers of claims reach them after half a year.
    pub(crate) fn in_round(self, round: u32) -> Option<Self> {
        let fits = self.number >> Self::ROUND_SHIFT == 0 && round <= Self::LAST_ROUND;
        let number = self.number | u64::from(round) << Self::ROUND_SHIFT;
        fits.then_some(Self { number, ..self })
    }

    /// Returns the claim without its round.
    pub(crate) fn in_any_round(self) -> Self {
        let number = self.number & ((1 << Self::ROUND_SHIFT) - 1);
        Self { number, ..self }
    }

    /// Returns the manager to which this claim belongs.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, OwnerId}, random::SystemRandom};
    ///
    /// let client = ClientId::new(&SystemRandom);
    /// assert_eq!(OwnerId::new(client, 7).client(), client);
    /// ```
    #[must_use]
    pub fn client(self) -> ClientId {
        self.client
    }

    /// Returns what people and logs see of it. `dlock inspect` shows it, and `dlock unlock --holder` takes it.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, ClaimHandle, OwnerId}, random::SystemRandom};
    ///
    /// let owner = OwnerId::new(ClientId::new(&SystemRandom), 1);
    /// let shown = owner.handle().to_string();
    /// assert_eq!(shown.len(), 16);
    /// assert_eq!(shown.parse::<ClaimHandle>(), Ok(owner.handle()));
    /// ```
    #[must_use]
    pub fn handle(self) -> ClaimHandle {
        ClaimHandle::of(self.client, &self.number.to_be_bytes())
    }

    /// Returns the number of this claim among those of its manager.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::{store::{ClientId, OwnerId}, random::SystemRandom};
    ///
    /// let client = ClientId::new(&SystemRandom);
    /// assert_eq!(OwnerId::new(client, 7).number(), 7);
    /// ```
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnerId").field(&self.handle()).finish()
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.client, self.number)
    }
}

/// The name of an owner id or a client id for people and logs: 16 hexadecimal digits, the same each time. The id cannot be computed
/// from it.
///
/// They are the beginning of a UUID of version 5 ([RFC 9562]), the SHA-1 of the client id and the number of the claim. Two
/// claims on one lock have the same handle by a chance of 2^-64.
///
/// [RFC 9562]: https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-5
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{store::{ClientId, OwnerId}, random::SystemRandom};
///
/// let client = ClientId::new(&SystemRandom);
/// assert_ne!(OwnerId::new(client, 1).handle(), OwnerId::new(client, 2).handle());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimHandle(u64);

impl ClaimHandle {
    fn of(client: ClientId, name: &[u8]) -> Self {
        Self(Uuid::new_v5(&client.0, name).as_u64_pair().0)
    }
}

impl fmt::Display for ClaimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ClaimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The text is not a [`ClaimHandle`] of 16 hexadecimal digits.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::{ClaimHandle, InvalidHandle};
///
/// assert!(matches!("web-3/71".parse::<ClaimHandle>(), Err(InvalidHandle { .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the handle of a claim: it has 16 hexadecimal digits, as `dlock inspect` shows it")]
#[non_exhaustive]
pub struct InvalidHandle;

impl FromStr for ClaimHandle {
    type Err = InvalidHandle;

    fn from_str(text: &str) -> Result<Self, InvalidHandle> {
        let handle = u64::from_str_radix(text, 16).map(Self);
        // `+1` or upper case would be read as well.
        handle
            .ok()
            .filter(|it| it.to_string() == text)
            .ok_or(InvalidHandle)
    }
}

/// The text is not `client.number`: a value of a third-party client.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::store::{ForeignOwner, OwnerId};
///
/// let owner = "set by another client".parse::<OwnerId>();
/// assert!(matches!(owner, Err(ForeignOwner { .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an owner id of dlock")]
#[non_exhaustive]
pub struct ForeignOwner;

impl FromStr for ClientId {
    type Err = ForeignOwner;

    fn from_str(text: &str) -> Result<Self, ForeignOwner> {
        let client = Uuid::try_parse(text).map_err(|_| ForeignOwner)?;
        // dlock writes only the canonical spelling.
        let client = Self(client);
        if client.to_string() == text {
            Ok(client)
        } else {
            Err(ForeignOwner)
        }
    }
}

impl FromStr for OwnerId {
    type Err = ForeignOwner;

    fn from_str(text: &str) -> Result<Self, ForeignOwner> {
        let (client, number) = text.split_once('.').ok_or(ForeignOwner)?;
        let number = number.parse().map_err(|_| ForeignOwner)?;
        let owner = Self::new(client.parse()?, number);
        // dlock writes only the canonical spelling; `+1` or upper case would parse as well.
        if owner.to_string() == text {
            Ok(owner)
        } else {
            Err(ForeignOwner)
        }
    }
}

/// Creates the owner ids of one manager, each only once.
#[derive(Debug)]
pub(crate) struct Owners {
    client: ClientId,
    next: AtomicU64,
}

impl Owners {
    pub(crate) fn new(client: ClientId) -> Self {
        Self {
            client,
            next: AtomicU64::new(1),
        }
    }

    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    pub(crate) fn next(&self) -> OwnerId {
        OwnerId::new(self.client, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn owners_read_back_and_never_repeat() {
        let owners = Owners::new(ClientId::new(&SystemRandom));
        let (first, second) = (owners.next(), owners.next());
        assert_ne!(first, second);
        assert_eq!(first.to_string().parse(), Ok(first));
        assert_eq!(first.client(), second.client());
    }

    #[test]
    fn a_round_makes_another_owner_of_the_same_claim() {
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 7);
        let rounds = [1, 2, OwnerId::LAST_ROUND].map(|round| owner.in_round(round).unwrap());
        assert!(rounds.is_sorted_by(|one, two| one != two) && !rounds.contains(&owner));
        assert!(rounds.iter().all(|it| it.in_any_round() == owner));
        assert_eq!(owner.in_any_round(), owner);
        assert_eq!(owner.in_round(OwnerId::LAST_ROUND + 1), None);
        assert_eq!(rounds[0].in_round(1), None, "it has one already");
    }

    #[test]
    fn foreign_values_are_told_apart() {
        for text in ["", "x", "1700000000.5", "0b7c.1", "+1"] {
            assert_eq!(text.parse::<OwnerId>(), Err(ForeignOwner), "{text}");
        }
        let owner = OwnerId::new(ClientId::new(&SystemRandom), 7).to_string();
        assert!(owner.to_uppercase().parse::<OwnerId>().is_err());
        assert!(owner.replace(".7", ".+7").parse::<OwnerId>().is_err());
    }
}
