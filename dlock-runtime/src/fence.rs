//! Fencing tokens: the numbers by which a protected resource refuses late writers.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Seconds from 1970 to 2024, where fences start to count.
const FENCE_EPOCH: u64 = 1_704_067_200;

/// The greatest time by which a fence is ahead of this machine's clock, in fences.
const FAR_AHEAD: u64 = 24 * 3600 * 100_000;

/// Returns a fence derived from this machine's clock: units of 10 µs since 2024.
///
/// Use it in a store that counts its own fences. Take the greater of this value and the last fence plus one.
/// That value increases however often a key changes its holder. It also increases if the last fence was lost:
/// after a restart, in a restored backup, or after the key was deleted.
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// use dlock::{FencingToken, store::fence_by_the_clock};
///
/// fn next_fence(last: u64) -> u64 {
///     (last + 1).max(fence_by_the_clock())
/// }
///
/// let fence = next_fence(0);
/// assert!(next_fence(fence) > fence);
/// assert!(FencingToken::from_fence(fence).is_some());
/// ```
#[must_use]
pub fn fence_by_the_clock() -> u64 {
    fence_at(SystemTime::now())
}

/// Returns `true` for a fence that counting does not explain, nor a clock of a server that is a little wrong. A clock of this machine
/// that was never set says nothing.
pub(crate) fn is_far_ahead(fence: u64) -> bool {
    let now = fence_by_the_clock();
    now > 0 && fence.saturating_sub(now) > FAR_AHEAD
}

/// Returns the fence for another time of day.
pub(crate) fn fence_at(time_of_day: SystemTime) -> u64 {
    let since_1970 = time_of_day.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_epoch = since_1970.saturating_sub(Duration::from_secs(FENCE_EPOCH));
    u64::try_from(since_epoch.as_micros() / 10).unwrap_or(0)
}

/// A fencing token: for an exclusive lease, strictly greater than every earlier token of the same key.
///
/// Shared leases have a token between those of the exclusive leases before and after them. Permit holders that
/// hold a key together have one token.
///
/// Pass it to the resource that the lock protects, and let the resource refuse smaller tokens, for example
/// with `UPDATE … SET fence = $1 WHERE id = $2 AND fence <= $1`. Check whether a row was changed. A holder
/// that was paused beyond its lease then cannot overwrite its successor's data.
///
/// If a body reads before it writes, it should read with such a statement as well (`… RETURNING …`). The
/// resource then refuses a late write that arrives between the two. Tokens of different keys cannot be
/// compared.
///
/// A token fits an `i64` but **not a double**: Lua inside Redis and JavaScript would treat two different
/// tokens as equal. Pass [`to_sortable_string`](Self::to_sortable_string) to those.
///
/// The technique is Martin Kleppmann's, "How to do distributed locking" (2016).
///
/// ```
/// # extern crate dlock_runtime as dlock;
/// # async fn demo() -> Result<(), dlock::LockError> {
/// let manager = dlock::LockManager::memory();
/// let first = manager.lock("order:42").acquire().await?;
/// let token = first.fencing_token();
/// first.release().await?;
/// let second = manager.lock("order:42").acquire().await?;
/// assert!(second.fencing_token() > token);
/// # second.release().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Bits below the store's number, for the hand-overs of one lease within this process.
    const SEQUENCE_BITS: u32 = 12;

    /// Creates the first token of a lease whose store counted `fence`.
    ///
    /// Returns `None` if `fence` is 0 or does not fit into 51 bits. Stores count in units of 10 µs since 2024
    /// and need 47 bits until 2068.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::FencingToken;
    ///
    /// assert_eq!(FencingToken::from_fence(7).map(FencingToken::fence), Some(7));
    /// assert_eq!(FencingToken::from_fence(0), None);
    /// ```
    #[must_use]
    pub const fn from_fence(fence: u64) -> Option<Self> {
        if fence == 0 || fence >> (63 - Self::SEQUENCE_BITS) != 0 {
            return None;
        }
        Some(Self((fence << Self::SEQUENCE_BITS).cast_signed()))
    }

    /// Returns the token of the next body under the same lease, or `None` if the sequence is exhausted.
    pub(crate) const fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        if next.trailing_zeros() >= Self::SEQUENCE_BITS {
            return None;
        }
        Some(Self(next))
    }

    /// Returns `true` if the store granted the lease to the attempt with this token. Returns `false` if the
    /// attempt took the lease over from another one.
    pub(crate) const fn is_first_of_lease(self) -> bool {
        self.0.trailing_zeros() >= Self::SEQUENCE_BITS
    }

    /// Returns the store's number from which this token was made.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock::LockError> {
    /// # let manager = dlock::LockManager::memory();
    /// let token = manager.lock("order:42").run(async |lease| lease.fencing_token()).await?;
    /// assert_eq!(token.to_i64() >> 12, i64::try_from(token.fence()).expect("below 2^51"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn fence(self) -> u64 {
        self.0.cast_unsigned() >> Self::SEQUENCE_BITS
    }

    /// Returns the token as a number, which is always positive.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::FencingToken;
    ///
    /// /// For a column `fence BIGINT NOT NULL DEFAULT 0`, or `INTEGER` in SQLite.
    /// fn parameters(id: i64, token: FencingToken) -> [i64; 2] {
    ///     [id, token.to_i64()]
    /// }
    /// # let token = FencingToken::from_fence(7).expect("it fits");
    /// # assert_eq!(parameters(42, token), [42, 7 << 12]);
    /// ```
    #[must_use]
    pub const fn to_i64(self) -> i64 {
        self.0
    }

    /// Returns the token as 19 digits. As text, tokens sort in the order of the numbers.
    ///
    /// ```
    /// # extern crate dlock_runtime as dlock;
    /// use dlock::FencingToken;
    ///
    /// let tokens = [9, 10].map(|fence| FencingToken::from_fence(fence).expect("it fits"));
    /// let [one, next] = tokens.map(FencingToken::to_sortable_string);
    /// assert!(one < next, "as texts");
    /// assert_eq!(one, "0000000000000036864");
    /// ```
    #[must_use]
    pub fn to_sortable_string(self) -> String {
        format!("{:019}", self.0)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_fences_is_the_order_of_tokens_and_of_their_texts() {
        let fences = [1, 2, 9_000_000_000_000, 9_000_000_000_001, (1 << 51) - 1];
        let tokens = fences.map(|fence| FencingToken::from_fence(fence).expect("it fits"));
        assert!(tokens.is_sorted() && tokens.iter().all(|token| token.to_i64() > 0));
        assert!(tokens.map(FencingToken::to_sortable_string).is_sorted());
        assert_eq!(tokens.map(FencingToken::fence), fences);
    }

    #[test]
    fn hand_overs_never_reach_the_next_fence() {
        let first = FencingToken::from_fence(7).expect("it fits");
        let tokens: Vec<_> = std::iter::successors(Some(first), |token| token.next()).collect();
        assert_eq!(tokens.len(), 4096, "the store's own and 4095 more");
        assert!(tokens.is_sorted_by(|one, next| one < next));
        assert!(tokens.iter().all(|token| token.fence() == 7));
        assert!(tokens.last() < FencingToken::from_fence(8).as_ref());
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        assert_eq!(FencingToken::from_fence(0), None);
        assert_eq!(FencingToken::from_fence(1 << 51), None);
        assert_eq!(FencingToken::from_fence(u64::MAX), None);
    }
}
