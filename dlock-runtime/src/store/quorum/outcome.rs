//! The combined meaning of several nodes' answers: the holder of a lock, or the reason why it is unknown.

use std::{cmp::Reverse, fmt::Write as _, time::Duration};

use super::{
    node_set::majority,
    tally::{Tally, Vote},
};
use crate::store::{Holder, StoreError, StoreErrorKind};

/// The reason why a round ended without a grant.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Another claim has a majority, or no node granted the lock to this claim.
    Held(Holder),
    /// This claim got some of the nodes and others got the rest. Perhaps no claim has a majority.
    Split(Holder),
    /// Too few nodes have answered.
    Failed(StoreError),
}

/// Returns the refusal of a round that granted nothing.
pub(super) fn of_round(tally: &Tally) -> Refusal {
    let votes = tally.votes();
    let majority = majority(votes.len());
    let mut holders = Vec::new();
    let mut got = 0;
    let mut failures = Vec::new();
    for (node, vote) in votes.iter().enumerate() {
        match vote {
            Vote::Busy(holder) => holders.push(holder),
            Vote::Granted(_) => got += 1,
            Vote::Raising { .. } => {
                got += 1;
                failures.push((node, late()));
            }
            Vote::Gone => failures.push((node, gone())),
            Vote::Pending => failures.push((node, late())),
            Vote::Failed(error) => failures.push((node, error.clone())),
        }
    }
    if holders.is_empty() || holders.len() + got < majority {
        let left_nothing = got == 0
            && holders.is_empty()
            && failures.iter().all(|(_, error)| error.left_nothing());
        let error = unavailable(votes.len(), &failures);
        return Refusal::Failed(if left_nothing {
            error.unsent()
        } else {
            error.with_possible_effect()
        });
    }
    let same = |one: &Holder| {
        let is_same = |other: &&&Holder| other.fence == one.fence && other.label == one.label;
        holders.iter().filter(is_same).count()
    };
    let is_held = got == 0 || holders.iter().any(|holder| same(holder) >= majority);
    let holder = together(&holders, got, votes.len());
    if is_held {
        Refusal::Held(holder)
    } else {
        Refusal::Split(holder)
    }
}

fn gone() -> StoreError {
    let message = "the lease ended before its fence was confirmed";
    StoreError::new(StoreErrorKind::Disconnected, message)
}

fn late() -> StoreError {
    StoreError::new(StoreErrorKind::TimedOut, "no answer yet")
}

/// Returns the holder that a waiter sees, from the `holders` of some of `count` nodes. This claim has `got` of the
/// nodes.
fn together(holders: &[&Holder], got: usize, count: usize) -> Holder {
    let majority = majority(count);
    let label = |holder: &&&Holder| {
        let same = holders.iter().filter(|other| other.label == holder.label);
        (holder.label.is_some(), same.count())
    };
    let common = holders.iter().max_by_key(label);
    // An unknown end comes after all known ones, and a lease without an end is the last.
    let mut ends: Vec<_> = holders.iter().map(|it| (it.ttl, it.never_ends)).collect();
    ends.sort_by_key(|(ttl, never)| (ttl.unwrap_or(Duration::MAX), *never));
    // This many leases have to end before this claim can get a majority.
    let needed = majority.saturating_sub(got).clamp(1, ends.len());
    let (ttl, never_ends) = ends[needed - 1];
    Holder {
        label: common.and_then(|holder| holder.label.clone()),
        function: common.and_then(|holder| holder.function.clone()),
        fence: common.map_or(0, |holder| holder.fence),
        ttl,
        never_ends,
        position: place(holders, count),
        last_fence: holders.iter().map(|it| it.last_fence).max().unwrap_or(0),
        is_here: false,
        others: common.map_or(0, |holder| holder.others),
    }
}

/// Returns the greatest place that this claim may have on a majority of `count` nodes. It is 0 only if no claim can
/// be ahead on a majority.
///
/// On a node that has not answered, this claim may have any place. The median of the answers would be too small:
/// another claim may be ahead on one of them and on all nodes that have not answered.
fn place(holders: &[&Holder], count: usize) -> Option<u64> {
    let mut places: Vec<_> = holders.iter().filter_map(|it| it.position).collect();
    places.sort_unstable_by_key(|place| Reverse(*place));
    let unknown = count - places.len();
    places
        .get((majority(count) - 1).saturating_sub(unknown))
        .copied()
}

/// Returns the error for too few answers of `count` nodes, for these reasons.
pub(super) fn unavailable(count: usize, failures: &[(usize, StoreError)]) -> StoreError {
    let finals = failures
        .iter()
        .filter(|(_, error)| error.is_final())
        .count();
    // Without these nodes there is no majority, however often the request is repeated.
    let is_final = finals > count - majority(count);
    let telling = |(_, error): &&(usize, StoreError)| {
        let same = failures
            .iter()
            .filter(|(_, other)| other.kind() == error.kind());
        (
            error.is_final() == is_final,
            weight(error.kind()),
            same.count(),
        )
    };
    let enough = count - failures.len() >= majority(count);
    let Some((node, error)) = failures.iter().max_by_key(telling).filter(|_| !enough) else {
        let message = format!("the {count} stores of the quorum did not agree in time");
        return StoreError::new(StoreErrorKind::TimedOut, message);
    };
    // The most specific message comes first.
    let others = failures.iter().filter(|(other, _)| other != node);
    let mut causes = format!("store {}: {}", node + 1, error.message());
    for (other, error) in others {
        let _infallible = write!(causes, "; store {}: {}", other + 1, error.message());
    }
    let message = format!(
        "only {} of {count} stores answered correctly, and {} are needed; {causes}",
        count - failures.len(),
        majority(count),
    );
    error.reworded(|_| message)
}

/// A missing answer is less specific than any failure.
fn weight(kind: StoreErrorKind) -> u8 {
    match kind {
        StoreErrorKind::TimedOut => 0,
        StoreErrorKind::Disconnected => 1,
        StoreErrorKind::Unreachable => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::AcquireOutcome;

    #[expect(clippy::unnecessary_wraps, reason = "what a node answers")]
    fn busy(
        label: &str,
        fence: u64,
        seconds: Option<u64>,
        position: Option<u64>,
    ) -> Result<AcquireOutcome, StoreError> {
        Ok(AcquireOutcome::Busy(Holder {
            label: Some(label.to_owned()),
            function: None,
            ttl: seconds.map(Duration::from_secs),
            never_ends: seconds.is_none(),
            position,
            fence,
            last_fence: fence,
            others: 0,
            is_here: false,
        }))
    }

    #[expect(clippy::unnecessary_wraps, reason = "what a node answers")]
    fn granted() -> Result<AcquireOutcome, StoreError> {
        Ok(AcquireOutcome::granted(3))
    }

    fn failed(kind: StoreErrorKind) -> Result<AcquireOutcome, StoreError> {
        Err(StoreError::new(kind, format!("failed as {kind:?}")))
    }

    fn round<const N: usize>(answers: [Result<AcquireOutcome, StoreError>; N]) -> Refusal {
        let mut tally = Tally::new(N);
        for (node, answer) in answers.into_iter().enumerate() {
            tally.acquired(node, answer);
        }
        tally.step();
        of_round(&tally)
    }

    fn failure<const N: usize>(answers: [Result<AcquireOutcome, StoreError>; N]) -> StoreError {
        match round(answers) {
            Refusal::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_holder_is_told_from_a_split_vote() {
        let held = |fence| busy("a", fence, Some(9), None);
        let refusal = round([granted(), held(5), held(5), held(5), granted()]);
        assert!(matches!(refusal, Refusal::Held(_)), "{refusal:?}");
        let refusal = round([held(5), held(5), held(6), held(6), held(7)]);
        assert!(
            matches!(refusal, Refusal::Held(_)),
            "nothing to be released"
        );
        let refusal = round([granted(), held(5), held(5), held(6), held(6)]);
        assert!(matches!(refusal, Refusal::Split(_)), "{refusal:?}");
        // The nodes may have counted further for other keys.
        let busy_elsewhere = |last_fence| match held(5) {
            Ok(AcquireOutcome::Busy(holder)) => Ok(AcquireOutcome::Busy(Holder {
                last_fence,
                ..holder
            })),
            other => other,
        };
        let others = [5, 9, 7].map(busy_elsewhere);
        let [first, second, third] = others;
        let refusal = round([granted(), first, second, third, granted()]);
        assert!(matches!(refusal, Refusal::Held(_)), "{refusal:?}");
    }

    #[test]
    fn holders_of_one_fence_and_two_names_are_two() {
        let held = |label| busy(label, 5, Some(9), None);
        let refusal = round([granted(), held("a"), held("b"), held("a"), granted()]);
        assert!(matches!(refusal, Refusal::Split(_)), "{refusal:?}");
    }

    #[test]
    fn what_is_said_of_the_holder_is_when_a_majority_may_be_free() {
        let refusal = round([
            busy("a", 5, Some(30), Some(4)),
            busy("b", 8, Some(1), Some(1)),
            busy("a", 5, None, None),
            busy("a", 5, Some(20), Some(2)),
            failed(StoreErrorKind::TimedOut),
        ]);
        let Refusal::Held(holder) = refusal else {
            panic!("{refusal:?}");
        };
        assert_eq!(holder.label.as_deref(), Some("a"));
        assert_eq!(
            holder.ttl,
            Some(Duration::from_secs(30)),
            "the third to end"
        );
        assert_eq!((holder.position, holder.last_fence), (Some(4), 8));
    }

    #[test]
    fn nobody_is_told_to_be_first_whom_another_may_precede_on_a_majority() {
        let place_of = |places: [Option<Option<u64>>; 5]| {
            let answers = places.map(|told| match told {
                Some(place) => busy("a", 5, Some(9), place),
                None => failed(StoreErrorKind::TimedOut),
            });
            match round(answers) {
                Refusal::Held(holder) => holder.position,
                other => panic!("{places:?}: {other:?}"),
            }
        };
        let at = |place| Some(Some(place));
        // The other claim may be on the first node and on those that have not answered, which are a majority.
        assert_eq!(place_of([at(1), at(0), at(0), None, None]), Some(1));
        // Another claim is ahead on two nodes, and on no more.
        assert_eq!(place_of([at(0), at(0), at(0), at(1), at(1)]), Some(0));
        assert_eq!(place_of([at(0), at(0), at(0), at(1), None]), Some(0));
        assert_eq!(place_of([at(0), at(2), at(0), at(1), None]), Some(1));
        assert_eq!(place_of([at(2), at(1), at(1), at(0), at(0)]), Some(1));
        // A claim that does not wait has no place.
        assert_eq!(place_of([Some(None); 5]), None);
    }

    #[test]
    fn an_error_says_how_many_and_the_most_telling_reason() {
        use StoreErrorKind::{Denied, TimedOut, Unreachable, WrongType};
        let error = failure([
            granted(),
            granted(),
            failed(TimedOut),
            failed(Denied),
            failed(TimedOut),
        ]);
        assert!(
            error.message().contains("only 2 of 5") && error.message().contains("3 are needed")
        );
        assert_eq!(error.kind(), TimedOut, "asking again may help");
        let error = failure([
            failed(TimedOut),
            failed(Denied),
            failed(Denied),
            failed(WrongType),
            granted(),
        ]);
        assert!(error.is_final(), "{error}");
        let error = failure([failed(TimedOut), failed(TimedOut), failed(Unreachable)]);
        assert_eq!(error.kind(), Unreachable);
        let told = "store 3: failed as Unreachable; store 1: failed as TimedOut; store 2: ";
        assert!(error.message().contains(told), "{error}");
    }

    #[test]
    fn one_telling_reason_counts_more_than_two_that_tell_less() {
        use StoreErrorKind::{Disconnected, Refused, TimedOut, Unreachable};
        for pair in [TimedOut, Disconnected, Unreachable, Refused].windows(2) {
            let [less, more] = [pair[0], pair[1]];
            let error = failure([failed(less), failed(less), failed(more)]);
            assert_eq!(error.kind(), more);
            let error = failure([failed(more), failed(less), failed(less)]);
            assert_eq!(error.kind(), more);
        }
    }

    #[test]
    fn enough_answers_that_do_not_agree_in_time_are_not_called_too_few() {
        let late = [(3, late())];
        let error = unavailable(5, &late);
        assert_eq!(error.kind(), StoreErrorKind::TimedOut);
        assert!(error.message().contains("did not agree"), "{error}");
        // The majority is there, and one of them has not confirmed the greater fence.
        let grant = |fence| Ok(AcquireOutcome::granted(fence));
        let error = failure([grant(7), grant(9), failed(StoreErrorKind::Unreachable)]);
        assert!(error.message().contains("only 1 of 3"), "{error}");
        assert!(!error.left_nothing());
    }

    #[test]
    fn nothing_is_left_only_if_no_node_may_have_anything() {
        use StoreErrorKind::{TimedOut, Unreachable};
        let down = || failed(Unreachable);
        assert!(failure([down(), down(), down()]).left_nothing());
        assert!(!failure([down(), down(), granted()]).left_nothing());
        assert!(!failure([down(), down(), failed(TimedOut)]).left_nothing());
        assert!(!failure([down(), down(), busy("a", 5, None, Some(0))]).left_nothing());
    }
}
