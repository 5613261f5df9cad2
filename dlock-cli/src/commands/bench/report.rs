//! Prints measurements as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::measure::Measured;
use crate::text::printable;

pub(super) struct Report {
    pub(super) servers: Vec<String>,
    /// The others are compared with the first one.
    pub(super) measured: Vec<Measured>,
}

impl Report {
    pub(super) fn json(&self) -> Value {
        let base = self.base();
        let measured = self.measured.iter().map(|it| {
            json!({
                "name": it.id,
                "count": it.times.len(),
                "per_second": it.per_second,
                "p50_us": us(it.times.value_at_quantile(0.5)),
                "p95_us": us(it.times.value_at_quantile(0.95)),
                "p99_us": us(it.times.value_at_quantile(0.99)),
                "max_us": us(it.times.max()),
                "p50_to_ping": ratio(it, base),
            })
        });
        json!({ "servers": self.servers, "measurements": measured.collect::<Vec<_>>() })
    }

    pub(super) fn text(&self) -> String {
        let base = self.base();
        let mut out = String::new();
        let servers = self.servers.join(", ");
        let mut line = |name: &str, cells: [&str; 6]| {
            let [rate, p50, p95, p99, max, ratio] = cells;
            let line =
                format!("{name:<36} {rate:>10} {p50:>9} {p95:>9} {p99:>9} {max:>9} {ratio:>9}");
            writeln!(out, "{}", line.trim_end()).expect("writing to a string cannot fail");
        };
        line(
            &printable(&servers),
            ["per second", "p50", "p95", "p99", "max", "p50/PING"],
        );
        for it in &self.measured {
            let at = |quantile| shown(it.times.value_at_quantile(quantile));
            let rate = it
                .per_second
                .map_or_else(String::new, |it| format!("{it:.0}"));
            let ratio = ratio(it, base).map_or_else(String::new, |it| format!("{it:.1}"));
            let max = shown(it.times.max());
            line(
                &it.what,
                [&rate, &at(0.5), &at(0.95), &at(0.99), &max, &ratio],
            );
        }
        out
    }

    /// Returns the median of a PING, in nanoseconds.
    fn base(&self) -> u64 {
        self.measured
            .first()
            .map_or(0, |it| it.times.value_at_quantile(0.5))
    }
}

#[allow(clippy::cast_precision_loss, reason = "it is shown with two digits")]
fn ratio(measured: &Measured, base: u64) -> Option<f64> {
    let is_comparable = base > 0 && !measured.times.is_empty();
    is_comparable.then(|| measured.times.value_at_quantile(0.5) as f64 / base as f64)
}

#[allow(clippy::cast_precision_loss, reason = "these are well below 2^53")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Formats nanoseconds with three significant digits.
fn shown(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (us(ns), "µs"),
        1_000_000..1_000_000_000 => (us(ns) / 1e3, "ms"),
        _ => (us(ns) / 1e6, "s"),
    };
    let decimals = match value {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use hdrhistogram::Histogram;

    use super::*;

    fn measured(id: &'static str, what: &str, times: &[u64], per_second: Option<f64>) -> Measured {
        let mut histogram = Histogram::new(3).unwrap();
        for &time in times {
            histogram.record(time).unwrap();
        }
        Measured {
            id,
            what: what.to_owned(),
            times: histogram,
            per_second,
        }
    }

    fn report() -> Report {
        Report {
            servers: vec!["127.0.0.1:6379".to_owned()],
            measured: vec![
                measured("ping", "PING", &[50_000, 50_000, 900_000], None),
                measured(
                    "one_task",
                    "acquire and release, 1 task",
                    &[125_000],
                    Some(7_900.4),
                ),
                measured("hand_over", "hand-over", &[2_500_000_000], Some(0.4)),
                measured("none", "nothing happened", &[], Some(0.0)),
            ],
        }
    }

    #[test]
    fn people_get_a_table() {
        expect![[r"
            127.0.0.1:6379                       per second       p50       p95       p99       max  p50/PING
            PING                                              50.0 µs    900 µs    900 µs    900 µs       1.0
            acquire and release, 1 task                7900    125 µs    125 µs    125 µs    125 µs       2.5
            hand-over                                     0    2.50 s    2.50 s    2.50 s    2.50 s   50023.0
            nothing happened                              0   0.00 µs   0.00 µs   0.00 µs   0.00 µs
        "]]
        .assert_eq(&report().text());
    }

    #[test]
    fn programs_get_microseconds() {
        let told = report().json();
        let one = &told["measurements"][1];
        assert_eq!(one["name"], "one_task");
        assert_eq!(one["count"], 1);
        assert!(
            (one["p50_us"].as_f64().unwrap() - 125.0).abs() < 0.2,
            "{one}"
        );
        assert!(
            (one["p50_to_ping"].as_f64().unwrap() - 2.5).abs() < 0.01,
            "{one}"
        );
        assert_eq!(told["measurements"][3]["p50_to_ping"], Value::Null);
    }
}
