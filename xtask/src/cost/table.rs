//! The table of what was measured.

use std::fmt::Write as _;
use std::time::Duration;

/// One quantity of the three programs, in the order of `Program::ALL`.
pub(super) struct Row {
    shown: &'static str,
    values: [f64; 3],
    unit: &'static str,
    decimals: usize,
}

impl Row {
    pub(super) fn seconds(shown: &'static str, times: [Duration; 3]) -> Self {
        Self {
            shown,
            values: times.map(|time| time.as_secs_f64()),
            unit: "s",
            decimals: 2,
        }
    }

    pub(super) fn bytes(shown: &'static str, sizes: [u64; 3]) -> Self {
        Self {
            shown,
            #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
            values: sizes.map(|size| size as f64 / 1024.0),
            unit: "KiB",
            decimals: 0,
        }
    }
}

pub(super) fn shown(rows: &[Row]) -> String {
    let mut table = format!(
        "{:<20}{:>14}{:>14}{:>8}{:>14}\n",
        "", "attribute", "by hand", "ratio", "no lock"
    );
    for row in rows {
        let [attribute, by_hand, unlocked] = row.values;
        let cell = |value: f64| format!("{value:.*} {}", row.decimals, row.unit);
        _ = writeln!(
            table,
            "{:<20}{:>14}{:>14}{:>8.2}{:>14}",
            row.shown,
            cell(attribute),
            cell(by_hand),
            attribute / by_hand,
            cell(unlocked)
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_ratio() {
        let times = [1150, 1000, 500].map(Duration::from_millis);
        let rows = [
            Row::seconds("cargo check", times),
            Row::bytes("program", [3 << 20, 2 << 20, 1 << 20]),
        ];
        let table = shown(&rows);
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[1],
            [
                "cargo", "check", "1.15", "s", "1.00", "s", "1.15", "0.50", "s"
            ]
        );
        assert_eq!(
            lines[2],
            [
                "program", "3072", "KiB", "2048", "KiB", "1.50", "1024", "KiB"
            ]
        );
    }
}
