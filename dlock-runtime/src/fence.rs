//! The number that lets a protected resource refuse a late writer.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Seconds from 1970 to 2024, where fences start to count.
const FENCE_EPOCH: u64 = 1_704_067_200;

/// The fence that a store would count at this moment, by this machine's clock: units of 10 µs since 2024.
///
/// For a store that counts its fences itself. The greater of this and of one more than the last fence
/// grows however often a key changes hands, and even where the last fence was lost: at a restart, in a
/// restored backup, or with a key that was deleted.
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

/// The same at another time of day.
pub(crate) fn fence_at(time_of_day: SystemTime) -> u64 {
    let since_1970 = time_of_day.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_epoch = since_1970.saturating_sub(Duration::from_secs(FENCE_EPOCH));
    u64::try_from(since_epoch.as_micros() / 10).unwrap_or(0)
}

/// A fencing token: strictly greater than every earlier one of the same key.
///
/// Hand it to the resource the lock protects and let the resource refuse smaller ones, for example
/// `UPDATE … SET fence = $1 WHERE id = $2 AND fence <= $1`, and look whether a row was changed. Then
/// a holder that was paused beyond its lease cannot overwrite its successor. What a section reads
/// before it writes it should read by such a statement as well (`… RETURNING …`): a late write that
/// comes between the two is then refused. Tokens of different keys cannot be compared.
///
/// A token fits an `i64` but **not a double**: Lua inside Redis and JavaScript would find two
/// different tokens equal. Give those [`to_sortable_string`](Self::to_sortable_string).
///
/// The idea is Martin Kleppmann's, "How to do distributed locking" (2016).
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
    /// Room for local hand-offs of one lease below the store's number.
    const SEQUENCE_BITS: u32 = 12;

    /// The first token of a lease whose store counted `fence`.
    ///
    /// `None` when `fence` does not fit into the 51 bits left for it. Stores count in units of
    /// 10 µs since 2024 and need 47 bits until 2068.
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

    /// The token of the next section under the same lease; `None` when there is no room for more.
    pub(crate) const fn next(self) -> Option<Self> {
        let next = self.0 + 1;
        if next.trailing_zeros() >= Self::SEQUENCE_BITS {
            return None;
        }
        Some(Self(next))
    }

    /// `true` if it is the token of the attempt to which the store has granted the lease, and not
    /// of one that has taken it over.
    pub(crate) const fn is_first_of_lease(self) -> bool {
        self.0.trailing_zeros() >= Self::SEQUENCE_BITS
    }

    /// The store's number this token was made from.
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

    /// The token as a number, always positive.
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

    /// The token as 19 digits, which sort as text in the order of the numbers.
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
