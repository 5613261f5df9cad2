//! Times as the page's documents contain them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) use dlock_admin::view::milliseconds;

/// Returns the milliseconds since 1970; 0 before.
pub(super) fn since_1970(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Formats milliseconds since 1970 as in RFC 3339.
pub(super) fn text(ms: u64) -> String {
    dlock_admin::view::moment(time(ms))
}

/// Returns the time so many milliseconds after 1970, but none after the year 9999.
pub(super) fn time(ms: u64) -> SystemTime {
    const LAST: u64 = 253_402_300_799_999;
    UNIX_EPOCH + Duration::from_millis(ms.min(LAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_counted_from_1970() {
        assert_eq!(text(1_704_067_199_007), "2023-12-31T23:59:59.007Z");
        assert_eq!(text(u64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(since_1970(UNIX_EPOCH + Duration::from_millis(7)), 7);
        assert_eq!(since_1970(UNIX_EPOCH - Duration::from_millis(7)), 0);
    }
}
