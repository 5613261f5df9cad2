//! The time of a server that listings of locks may use: at most 5 % of any minute.
//!
//! A listing is read in steps. The server has 25 times the cost of a step for its other clients, which is 4 %. Time in which
//! nothing is read is saved, up to the price of half a second: after a rest, so much is read without a pause. Any minute has at
//! most that half a second, the 2.4 s which are 4 %, and the excess of the step that used up the savings. The limit of 5 %, which
//! is 3 s, leaves 0.1 s for that step and for the work that no clock shows.
//!
//! A program that has just begun has saved nothing, unless it is given the savings of a rest, once: by a loop of short
//! programs, each of which has them, a server would have no time left.

use std::time::Duration;

use tokio::time::Instant;

/// A listing uses one part in this many of a server's time.
const ONE_IN: u32 = 25;

/// The time of a server that can be used at once, after a rest of 25 times as long.
const AT_ONCE: Duration = Duration::from_millis(500);

/// The time of one server that its listings may use.
#[derive(Debug)]
pub struct Budget {
    /// The time at which all that was read has been paid for. The time since then is saved.
    due: Instant,
    has_begun: bool,
}

impl Budget {
    /// Creates a budget without savings.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            due: now,
            has_begun: false,
        }
    }

    /// Grants the savings of a rest, the first time that it is called.
    pub fn begin(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.due = rested(now);
        }
    }

    /// Returns the time at which the next step may begin.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Records the cost of a step that began at `began`. Simultaneous steps of several listings add up.
    pub fn book(&mut self, began: Instant, cost: Duration) {
        let from = self.due.max(rested(began));
        // A cost that no clock can represent is none that a server has told.
        self.due = from
            .checked_add(cost.saturating_mul(ONE_IN))
            .unwrap_or(from);
    }

    /// Shortens a pause that would go on after `latest`.
    pub fn end_pause(&mut self, latest: Instant) {
        self.due = self.due.min(latest);
    }
}

/// Returns the time since which a server has had enough time for all that can be saved at `now`.
fn rested(now: Instant) -> Instant {
    // A clock that has just started cannot represent it everywhere.
    now.checked_sub(AT_ONCE * ONE_IN).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Reads as fast as it may, until `end`, in steps of these costs by turns. Returns the begin and the cost of each.
    fn read(
        budget: &mut Budget,
        from: Instant,
        end: Instant,
        costs: &[Duration],
    ) -> Vec<(Instant, Duration)> {
        let (mut now, mut steps) = (from, Vec::new());
        for cost in costs.iter().cycle() {
            now = now.max(budget.due());
            if now >= end {
                break;
            }
            steps.push((now, *cost));
            budget.book(now, *cost);
            now += *cost;
        }
        steps
    }

    fn sum(steps: &[(Instant, Duration)]) -> Duration {
        steps.iter().map(|(_, cost)| *cost).sum()
    }

    #[test]
    fn no_minute_has_more_than_a_twentieth() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut budget = Budget::new(began);
        budget.begin(began);
        let mut steps = Vec::new();
        // Rests that restore all savings, a part of them, and none.
        for (from, to) in [(0, 40), (60, 70), (75, 130), (130, 300)] {
            let costs = [2 * MS, 7 * MS, MS / 2, 30 * MS];
            steps.extend(read(&mut budget, at(from), at(to), &costs));
        }
        for (place, (from, _)) in steps.iter().enumerate() {
            let end = *from + Duration::from_secs(60);
            let minute = steps[place..].iter().take_while(|(at, _)| *at < end);
            let used: Duration = minute.map(|(_, cost)| *cost).sum();
            let passed = from.duration_since(began);
            assert!(used <= Duration::from_secs(3), "{used:?} after {passed:?}");
        }
        // It is not slower than that either.
        assert!(
            sum(&steps) >= Duration::from_secs(275) / 25,
            "{:?}",
            sum(&steps)
        );
    }

    #[test]
    fn half_a_second_is_read_at_once_after_a_rest() {
        let began = Instant::now();
        let at_once = |budget: &mut Budget, from: Instant| {
            let steps = read(budget, from, from + Duration::from_secs(1), &[2 * MS]);
            let in_a_row = steps.iter().enumerate().take_while(|(place, (at, _))| {
                *at == from + 2 * MS * u32::try_from(*place).expect("there are few")
            });
            in_a_row.count()
        };
        let mut budget = Budget::new(began);
        assert_eq!(at_once(&mut budget, began), 1, "nothing is saved");
        let mut budget = Budget::new(began);
        budget.begin(began);
        let first = at_once(&mut budget, began);
        // The savings grow by 4 % while they are used.
        assert!((250..=262).contains(&first), "{first}");
        // A part of the rest restores a part.
        let later = budget.due() + Duration::from_secs(5);
        let some = at_once(&mut budget, later);
        assert!((100..=106).contains(&some), "{some}");
        // No rest saves more.
        let later = budget.due() + Duration::from_secs(3600);
        assert_eq!(at_once(&mut budget, later), first);
    }

    #[test]
    fn a_program_begins_once() {
        let began = Instant::now();
        let mut budget = Budget::new(began);
        budget.begin(began);
        budget.book(began, AT_ONCE * 2);
        let due = budget.due();
        assert!(due > began);
        budget.begin(began);
        assert_eq!(budget.due(), due);
    }
}
