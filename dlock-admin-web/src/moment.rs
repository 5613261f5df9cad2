//! Times as the page's documents contain them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970; 0 before.
pub(super) fn of(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Formats milliseconds since 1970 as in RFC 3339.
pub(super) fn text(ms: u64) -> String {
    /// The last day of the year 9999, which is the last one with four digits.
    const LAST_DAY: u64 = 2_932_896;
    let (seconds, fraction) = (ms / 1000, ms % 1000);
    let (year, month, day) = date((seconds / 86_400).min(LAST_DAY));
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// Returns the date of a day since 1970, by the algorithm `civil_from_days` of Howard Hinnant: years begin in March, so
/// that a leap day is the last day of its year.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_in_rfc_3339() {
        for (ms, told) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_704_067_199_007, "2023-12-31T23:59:59.007Z"),
            (1_704_067_200_000, "2024-01-01T00:00:00.000Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(text(ms), told);
        }
        assert!(text(u64::MAX).starts_with("9999-12-31T"));
        assert_eq!(of(UNIX_EPOCH + Duration::from_millis(7)), 7);
        assert_eq!(of(UNIX_EPOCH - Duration::from_millis(7)), 0);
    }
}
