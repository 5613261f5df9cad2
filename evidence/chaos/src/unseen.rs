//! Leases of shared keys that no section tells of: the calls that may have had them.

use std::{collections::HashMap, ops::RangeInclusive, time::Duration};

use dlock::{FencingToken, store::fence_by_the_clock};
use dlock_history::Unseen;
use dlock_testkit::machine_time;

/// By which a request of a call may be carried out after the end of the call.
const LATE: Duration = Duration::from_secs(1);

/// A call for a shared key that had no section under it, or may have had a lease before that of its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) key: String,
    pub(crate) asked: Duration,
    /// When it was answered, or its process had died.
    pub(crate) left: Duration,
}

/// The calls of a process that share a key, by their tasks.
#[derive(Default)]
pub(crate) struct Sharing(HashMap<u32, Sharer>);

struct Sharer {
    call: Call,
    /// It gives a lease back while it waits for another key: its section does not tell of that lease.
    waits_for_others: bool,
}

impl Sharing {
    pub(crate) fn asks(&mut self, task: u32, (key, asked): (String, Duration), waits: bool) {
        let left = asked;
        let sharer = Sharer {
            call: Call { key, asked, left },
            waits_for_others: waits,
        };
        self.0.insert(task, sharer);
    }

    /// A section of the task has begun.
    pub(crate) fn entered(&mut self, task: u32) {
        self.0
            .retain(|it, sharer| *it != task || sharer.waits_for_others);
    }

    /// The call of the task, if it may have had a lease that no section tells of.
    pub(crate) fn answered(&mut self, task: u32, left: Duration) -> Option<Call> {
        let sharer = self.0.remove(&task)?;
        Some(Call {
            left,
            ..sharer.call
        })
    }

    /// The same for all tasks.
    pub(crate) fn died(&mut self, left: Duration) -> Vec<Call> {
        let all = self.0.drain().map(|(_, sharer)| Call {
            left,
            ..sharer.call
        });
        all.collect()
    }
}

/// The tokens of the stores at a time of the machine: all stores of the crowd are on the same machine, and count by its clock.
#[derive(Clone, Copy)]
pub(crate) struct Tokens {
    at: Duration,
    fence: u64,
}

impl Tokens {
    /// Those of now.
    pub(crate) fn now() -> Self {
        Self {
            at: machine_time(),
            fence: fence_by_the_clock(),
        }
    }

    /// The fence of a moment.
    fn fence(self, at: Duration) -> u64 {
        let units = |time: Duration| {
            u64::try_from(time.as_micros() / 10).expect("the machine runs for less than centuries")
        };
        let later = units(at.saturating_sub(self.at));
        (self.fence + later).saturating_sub(units(self.at.saturating_sub(at)))
    }

    /// The tokens of all leases that were granted between the two.
    fn between(self, from: Duration, to: Duration) -> RangeInclusive<i64> {
        let token = |fence: u64| {
            let token = FencingToken::from_fence(fence);
            token.expect("it is after 2024").to_i64()
        };
        let (first, after) = (token(self.fence(from)), token(self.fence(to) + 1));
        RangeInclusive::new(first, after - 1)
    }
}

/// Returns the leases that these calls may have had, for the judge.
pub(crate) fn unseen(calls: &[Call], tokens: Tokens) -> Vec<Unseen> {
    let unseen = calls.iter().map(|call| Unseen {
        key: call.key.clone(),
        tokens: tokens.between(call.asked, call.left + LATE),
        left: call.left,
    });
    unseen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_have_the_tokens_of_its_time() {
        let at = Duration::from_secs;
        let tokens = Tokens {
            at: at(100),
            fence: 10_000_000,
        };
        let call = |asked, left| Call {
            key: "a".to_owned(),
            asked: at(asked),
            left: at(left),
        };
        let found = unseen(&[call(90, 91), call(99, 101)], tokens);
        let range = |from: i64, to: i64| RangeInclusive::new(from << 12, (to << 12) + 4095);
        let expected = [range(9_000_000, 9_200_000), range(9_900_000, 10_200_000)];
        assert_eq!([&found[0].tokens, &found[1].tokens], expected.each_ref());
        assert_eq!((found[0].key.as_str(), found[0].left), ("a", at(91)));
    }

    #[test]
    fn a_section_tells_of_its_lease_and_not_of_one_that_was_given_back() {
        let at = Duration::from_secs;
        let mut sharing = Sharing::default();
        for task in 0..4 {
            sharing.asks(task, ("a".to_owned(), at(1)), task < 2);
        }
        sharing.entered(0);
        sharing.entered(2);
        let call = |left| Call {
            key: "a".to_owned(),
            asked: at(1),
            left: at(left),
        };
        assert_eq!(sharing.answered(0, at(3)), Some(call(3)));
        assert_eq!(sharing.answered(2, at(3)), None);
        assert_eq!(sharing.died(at(4)), [call(4), call(4)]);
        assert_eq!(sharing.died(at(5)), []);
    }

    #[test]
    fn a_token_that_is_counted_now_is_one_of_now() {
        let (before, tokens) = (machine_time(), Tokens::now());
        let token = FencingToken::from_fence(fence_by_the_clock()).unwrap();
        // The clock of tokens may be set meanwhile, but by less than this.
        let [from, to] = [before.saturating_sub(LATE), machine_time() + LATE];
        assert!(tokens.between(from, to).contains(&token.to_i64()));
    }
}
