//! Times of ways that take turns in rounds.

use serde::Serialize;

/// The quarters of a list of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Quartiles {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Quartiles {
    /// Those of `values`, of which there is one at least.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: usize| values[(values.len() - 1) * part / 4];
        Self {
            low: at(1),
            median: at(2),
            high: at(3),
        }
    }
}

/// The median time of each round of one way, in µs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn add(&mut self, times: Vec<f64>) {
        self.0.push(Quartiles::of(times).median);
    }

    pub(crate) fn quartiles(&self) -> Quartiles {
        Quartiles::of(self.0.clone())
    }

    /// This way by another one, round by round.
    pub(crate) fn ratio(&self, other: &Self) -> Quartiles {
        let ratios = self.0.iter().zip(&other.0).map(|(own, other)| own / other);
        Quartiles::of(ratios.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_a_round() {
        let (mut own, mut other) = (Rounds::default(), Rounds::default());
        for (slow, round) in [1.0, 10.0, 2.0].into_iter().zip([1.0, 3.0, 5.0]) {
            own.add(vec![3.0 * slow, 99.0 * slow, 2.0 * slow]);
            other.add(vec![round, slow, 0.0]);
        }
        assert_eq!(format!("{:?}", own.0), "[3.0, 30.0, 6.0]");
        assert_eq!(format!("{:?}", other.0), "[1.0, 3.0, 2.0]");
        assert_eq!(own.ratio(&other).median.to_string(), "3");
        assert_eq!(Quartiles::of(vec![7.0]).high.to_string(), "7");
    }
}
