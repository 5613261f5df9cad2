//! The answers of the nodes in one acquire round, and the conclusion from them.
//!
//! **Safety.** The fence of a grant is one that a majority has *while it holds the lock for this claim*: each
//! of its nodes counted exactly this fence, or was raised to it from the fence that it had counted. Any two
//! grants share a node in their majorities. On that node, one grant came after the other had ended, and counted
//! at least one more than the fence that it found. The fences of all grants therefore differ, and a grant that
//! began after another was granted has the greater one. Two kinds of answers must not count, because they break
//! both properties. The first is a raise on a node where the lock has ended or was acquired again since: a
//! third claim may have been answered with that fence before. The second is a node that counted further by
//! itself: it had a smaller fence before, but may have granted this one to another claim.

use super::node_set::{NodeSet, majority};
use crate::store::{AcquireOutcome, Holder, Raised, StoreError};

/// The answers of one round.
#[derive(Debug)]
pub(super) struct Tally {
    votes: Vec<Vote>,
    /// The fence to be confirmed, once a majority has granted the lock.
    fence: Option<u64>,
}

/// The latest answer of one node.
#[derive(Clone, Debug)]
pub(super) enum Vote {
    Pending,
    /// The node holds the lock for this claim, with this fence.
    Granted(u64),
    /// The node holds the lock for this claim, and a raise of its fence was requested.
    Raising {
        from: u64,
        to: u64,
    },
    Busy(Holder),
    /// The lock was lost before the fence was confirmed. The node may have granted it to this claim again.
    Gone,
    Failed(StoreError),
}

/// The conclusion from the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More answers are needed.
    Wait,
    /// Raise these nodes to this fence, if they still hold the lock for this claim.
    Raise(NodeSet, u64),
    /// This claim holds the lock, with this fence.
    Grant(u64),
    /// A majority is impossible.
    Refuse,
}

impl Tally {
    pub(super) fn new(count: usize) -> Self {
        Self {
            votes: vec![Vote::Pending; count],
            fence: None,
        }
    }

    pub(super) fn acquired(&mut self, node: usize, answer: Result<AcquireOutcome, StoreError>) {
        self.votes[node] = match answer {
            Ok(AcquireOutcome::Granted { fence, .. }) => Vote::Granted(fence),
            Ok(AcquireOutcome::Busy(holder)) => Vote::Busy(holder),
            Err(error) => Vote::Failed(error),
        };
    }

    pub(super) fn raised(&mut self, node: usize, answer: Result<Raised, StoreError>) {
        let Vote::Raising { to, .. } = self.votes[node] else {
            // Only a node to which a raise was sent answers it.
            return;
        };
        self.votes[node] = match answer {
            Ok(Raised::Raised) => Vote::Granted(to),
            Ok(Raised::NotOwner) => Vote::Gone,
            Err(error) => Vote::Failed(error.with_possible_effect()),
        };
    }

    pub(super) fn votes(&self) -> &[Vote] {
        &self.votes
    }

    /// Returns the nodes whose latest answer matches.
    pub(super) fn nodes(&self, is_meant: impl Fn(&Vote) -> bool) -> NodeSet {
        let votes = self.votes.iter().enumerate();
        votes
            .filter(|(_, vote)| is_meant(vote))
            .map(|(node, _)| node)
            .collect()
    }

    fn count(&self, is_meant: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| is_meant(vote)).count()
    }

    /// Returns the nodes that hold the lock for this claim, or may hold it when they process the request.
    pub(super) fn may_hold(&self) -> NodeSet {
        self.nodes(|vote| match vote {
            Vote::Granted(_) | Vote::Raising { .. } | Vote::Gone | Vote::Pending => true,
            Vote::Failed(error) => !error.left_nothing(),
            Vote::Busy(_) => false,
        })
    }

    /// Returns `true` if the reason for the missing grant is known: a majority has answered, or a majority of answers
    /// is impossible.
    pub(super) fn has_reason(&self) -> bool {
        let majority = majority(self.votes.len());
        let pending = self.count(|vote| matches!(vote, Vote::Pending));
        let silent = self.count(|vote| matches!(vote, Vote::Gone | Vote::Failed(_)));
        let told = self.votes.len() - pending - silent;
        told >= majority || told + pending < majority
    }

    /// Returns the fence that a node has counted, or 0.
    pub(super) fn counted(&self, node: usize) -> u64 {
        match self.votes[node] {
            Vote::Granted(fence) | Vote::Raising { from: fence, .. } => fence,
            _ => 0,
        }
    }

    /// Returns the conclusion from the answers so far. Call it after each answer.
    pub(super) fn step(&mut self) -> Step {
        let majority = majority(self.votes.len());
        let pending = self.count(|vote| matches!(vote, Vote::Pending));
        let granted = self.count(|vote| matches!(vote, Vote::Granted(_)));
        let mut chosen = match self.fence {
            Some(chosen) => chosen,
            None if granted >= majority => self.choose(),
            None if granted + pending >= majority => return Step::Wait,
            None => return Step::Refuse,
        };
        let raising = self.count(|vote| matches!(vote, Vote::Raising { .. }));
        let confirmed = self.count_of(chosen);
        if confirmed >= majority {
            return Step::Grant(chosen);
        }
        let ahead = self.count(|vote| matches!(vote, Vote::Granted(it) if *it > chosen));
        if granted - ahead + raising + pending < majority {
            if granted + raising + pending < majority {
                return Step::Refuse;
            }
            // A node that has counted further confirms only its own fence.
            chosen = self.choose();
        }
        let is_behind = |vote: &Vote| matches!(vote, Vote::Granted(it) if *it < chosen);
        let behind = self.nodes(is_behind);
        if behind.is_empty() {
            return Step::Wait;
        }
        for node in behind.iter() {
            let from = self.counted(node);
            self.votes[node] = Vote::Raising { from, to: chosen };
        }
        Step::Raise(behind, chosen)
    }

    /// Returns `true` if a majority has answered and another claim has some of it. The rest may not be enough for any
    /// claim.
    pub(super) fn looks_split(&self) -> bool {
        let busy = self.count(|vote| matches!(vote, Vote::Busy(_)));
        let granted = self.count(|vote| matches!(vote, Vote::Granted(_)));
        self.fence.is_none() && busy > 0 && busy + granted >= majority(self.votes.len())
    }

    /// Fixes the greatest known fence as the one to confirm.
    fn choose(&mut self) -> u64 {
        let fences = self.votes.iter().map(|vote| match vote {
            Vote::Granted(fence) => *fence,
            _ => 0,
        });
        let fence = fences.max().unwrap_or_default();
        *self.fence.insert(fence)
    }

    fn count_of(&self, fence: u64) -> usize {
        self.count(|vote| matches!(vote, Vote::Granted(it) if *it == fence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind;

    #[expect(clippy::unnecessary_wraps, reason = "what a node answers")]
    fn granted(fence: u64) -> Result<AcquireOutcome, StoreError> {
        Ok(AcquireOutcome::granted(fence))
    }

    #[expect(clippy::unnecessary_wraps, reason = "what a node answers")]
    fn busy() -> Result<AcquireOutcome, StoreError> {
        Ok(AcquireOutcome::Busy(Holder::default()))
    }

    fn failed(kind: StoreErrorKind) -> Result<AcquireOutcome, StoreError> {
        Err(StoreError::new(kind, "x"))
    }

    fn set(nodes: impl IntoIterator<Item = usize>) -> NodeSet {
        nodes.into_iter().collect()
    }

    /// The step after each of the answers, in the order of the nodes.
    fn steps<const N: usize>(
        count: usize,
        answers: [Result<AcquireOutcome, StoreError>; N],
    ) -> (Tally, Vec<Step>) {
        let mut tally = Tally::new(count);
        let steps = answers.into_iter().enumerate().map(|(node, answer)| {
            tally.acquired(node, answer);
            tally.step()
        });
        let steps = steps.collect();
        (tally, steps)
    }

    #[test]
    fn a_majority_that_agrees_grants_at_once() {
        let (_, after) = steps(5, [granted(7), busy(), granted(7), granted(7)]);
        assert_eq!(after, [Step::Wait, Step::Wait, Step::Wait, Step::Grant(7)]);
    }

    #[test]
    fn a_refusal_may_be_certain_before_its_reason() {
        let down = || failed(StoreErrorKind::Disconnected);
        let (mut tally, after) = steps(5, [down(), down(), busy()]);
        assert_eq!(after[2], Step::Refuse);
        assert!(!tally.has_reason(), "held, or out of reach");
        tally.acquired(3, busy());
        assert!(!tally.has_reason());
        tally.acquired(4, busy());
        assert!(tally.has_reason());
        let (tally, _) = steps(5, [down(), down(), busy(), down()]);
        assert!(tally.has_reason(), "a majority is out of reach");
    }

    #[test]
    fn half_is_no_majority() {
        let (_, after) = steps(4, [granted(7), granted(7), busy(), busy()]);
        assert_eq!(after, [Step::Wait, Step::Wait, Step::Wait, Step::Refuse]);
    }

    #[test]
    fn fences_that_differ_are_raised_to_the_greatest_where_it_is_held() {
        let (mut tally, after) = steps(5, [granted(7), granted(9), granted(8)]);
        assert_eq!(after[2], Step::Raise(set([0, 2]), 9));
        assert_eq!(tally.step(), Step::Wait, "each is asked once");
        tally.raised(0, Ok(Raised::Raised));
        assert_eq!(tally.step(), Step::Wait);
        tally.raised(2, Ok(Raised::Raised));
        assert_eq!(tally.step(), Step::Grant(9));
    }

    #[test]
    fn a_node_whose_lock_has_gone_confirms_nothing() {
        let (mut tally, _) = steps(3, [granted(7), granted(9), busy()]);
        tally.raised(0, Ok(Raised::NotOwner));
        assert_eq!(tally.step(), Step::Refuse);
        // The node may have granted it to this claim again, which the answer does not show.
        assert_eq!(tally.may_hold(), set([0, 1]));
    }

    #[test]
    fn an_unanswered_raise_confirms_nothing() {
        let (mut tally, _) = steps(3, [granted(7), granted(9), busy()]);
        tally.raised(0, Err(StoreError::new(StoreErrorKind::Unreachable, "x")));
        assert_eq!(tally.step(), Step::Refuse);
        assert_eq!(tally.may_hold(), set([0, 1]), "it was granted before");
    }

    #[test]
    fn a_late_grant_confirms_exactly_what_it_has_counted_itself() {
        for (late, step) in [(9, Step::Wait), (8, Step::Raise(set([3]), 9))] {
            let (mut tally, _) = steps(5, [granted(7), granted(9), granted(7)]);
            tally.raised(0, Ok(Raised::NotOwner));
            assert_eq!(tally.step(), Step::Wait);
            tally.acquired(3, granted(late));
            assert_eq!(tally.step(), step, "{late}");
            tally.raised(2, Ok(Raised::Raised));
            if late < 9 {
                assert_eq!(tally.step(), Step::Wait);
                tally.raised(3, Ok(Raised::Raised));
            }
            assert_eq!(tally.step(), Step::Grant(9), "{late}");
        }
    }

    #[test]
    fn a_late_grant_that_is_greater_confirms_nothing_and_others_are_raised_to_it() {
        let (mut tally, _) = steps(5, [granted(7), granted(9), granted(7)]);
        tally.acquired(3, granted(10));
        assert_eq!(tally.step(), Step::Wait);
        tally.raised(0, Ok(Raised::NotOwner));
        assert_eq!(tally.step(), Step::Wait, "the last may have counted as far");
        tally.acquired(4, busy());
        assert_eq!(tally.step(), Step::Raise(set([1]), 10));
        assert_eq!(tally.counted(1), 9);
        // A raise to the previous fence that is in progress is repeated.
        tally.raised(2, Ok(Raised::Raised));
        assert_eq!(tally.step(), Step::Raise(set([2]), 10));
        assert_eq!(tally.counted(2), 9);
        tally.raised(1, Ok(Raised::Raised));
        assert_eq!(tally.step(), Step::Wait);
        tally.raised(2, Ok(Raised::Raised));
        assert_eq!(tally.step(), Step::Grant(10));
    }

    #[test]
    fn a_vote_looks_split_when_a_majority_has_answered_and_another_claim_has_some_of_it() {
        for (answers, is_split) in [
            ("gb", false),
            ("gbf", false),
            ("gbg", true),
            ("bbb", true),
            ("ggg", false),
            ("gggb", false),
        ] {
            let mut tally = Tally::new(5);
            for (node, answer) in answers.chars().enumerate() {
                let answer = match answer {
                    'g' => granted(7),
                    'b' => busy(),
                    _ => failed(StoreErrorKind::Disconnected),
                };
                tally.acquired(node, answer);
                tally.step();
            }
            assert_eq!(tally.looks_split(), is_split, "{answers}");
        }
    }

    #[test]
    fn what_may_hold_the_lock_is_known() {
        let (tally, after) = steps(
            5,
            [
                busy(),
                failed(StoreErrorKind::TimedOut),
                failed(StoreErrorKind::Unreachable),
                granted(3),
            ],
        );
        assert_eq!(after, [Step::Wait, Step::Wait, Step::Refuse, Step::Refuse]);
        assert_eq!(tally.may_hold(), set([1, 3, 4]));
    }
}
